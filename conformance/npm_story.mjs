// What a story of npm SDK clients before a gateway of its own begins and ends with: its options, the packages of others, a free
// port, and the tally of its checks.

import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

export const MODERN = '2026-07-28';

export const { values: options } = parseArgs({
  options: {
    peers: { type: 'string' }, // a folder with node_modules
    tidings: { type: 'string' }, // the program
    directory: { type: 'string' }, // an empty folder
  },
});

export const modules = join(options.peers, 'node_modules/@modelcontextprotocol');
export const load = (file) => import(pathToFileURL(join(modules, file)).href);

export const freePort = () =>
  new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });

export function assert(holds, what) {
  if (!holds) throw new Error(what);
}

let [passed, failed] = [0, 0];

/** Prints whether a story holds; one with `seconds` has that long. */
export async function check(what, story, seconds) {
  const late = () => sleep(1000 * seconds, undefined, { ref: false }).then(() => assert(false, 'it takes too long'));
  try {
    await (seconds ? Promise.race([story(), late()]) : story());
    passed++;
    console.log(`PASS ${what}`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${what}: ${error?.message ?? error}`);
  }
}

/** Prints the totals and ends the process. */
export function finish() {
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}
