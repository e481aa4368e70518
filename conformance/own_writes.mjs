// Read your writes, with npm SDK clients of both eras, over HTTP and stdio, before servers of the PyPI SDK that change.
// The story is that of own_writes.py. Prints PASS or FAIL for each check, and the totals last.

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const SERVERS = ['oldpipe', 'newpipe', 'oldweb', 'web'];
const TIMES = 5;
const CHECK_SECONDS = 60;
const MODERN = '2026-07-28';

const { values: options, positionals: command } = parseArgs({
  allowPositionals: true,
  options: {
    peers: { type: 'string' }, // a folder with node_modules
    gateway: { type: 'string' }, // the MCP URL of a gateway with the changing servers
    quiet: { type: 'string' }, // how long that gathers changes, in seconds
  },
});
const sdk = (file) =>
  import(pathToFileURL(join(options.peers, 'node_modules/@modelcontextprotocol/client/dist', file)).href);
const { Client, StreamableHTTPClientTransport } = await sdk('index.mjs');
const { StdioClientTransport } = await sdk('stdio.mjs');

function assert(holds, what) {
  if (!holds) throw new Error(what);
}

async function connect(era, road) {
  const mode = era === 'modern' ? { pin: MODERN } : 'legacy';
  const client = new Client({ name: 'own-writes', version: '1.0.0' }, { versionNegotiation: { mode } });
  const transport =
    road === 'http'
      ? new StreamableHTTPClientTransport(new URL(options.gateway))
      : new StdioClientTransport({ command: command[0], args: command.slice(1), stderr: 'ignore' });
  await client.connect(transport);
  return client;
}

/** Waits for servers that take their time to start: that is another story. */
async function allThere(client) {
  const until = performance.now() + 1000 * CHECK_SECONDS;
  for (;;) {
    const names = (await client.listTools()).tools.map((tool) => tool.name);
    if (SERVERS.every((server) => names.includes(`${server}__add`))) return;
    assert(performance.now() < until, `there are only ${names}`);
    await sleep(100);
  }
}

async function seesWhatItDid(client, server, era, road) {
  for (let number = 0; number < TIMES; number++) {
    const name = `npm_${era}_${road}_${number}`;
    const shown = `${server}__${name}`;
    for (const [verb, args] of [
      ['add', { name, text: 'new' }],
      ['remove', { name }],
    ]) {
      const result = await client.callTool({ name: `${server}__${verb}`, arguments: args });
      assert(!result.isError, JSON.stringify(result));
      const { tools } = await client.listTools();
      assert(tools.some((tool) => tool.name === shown) === (verb === 'add'), `${shown} after ${verb}`);
    }
  }
}

let [passed, failed] = [0, 0];
for (const road of ['http', 'stdio']) {
  for (const era of ['legacy', 'modern']) {
    const client = await connect(era, road);
    await allThere(client);
    for (const server of SERVERS) {
      const what = `npm ${era} client over ${road}, server ${server}`;
      const begun = performance.now();
      try {
        await seesWhatItDid(client, server, era, road);
        const took = (performance.now() - begun) / 1000;
        assert(took < 2 * TIMES * Number(options.quiet), `it waited for the window: ${took} s`);
        passed++;
        console.log(`PASS ${what}`);
      } catch (error) {
        failed++;
        console.log(`FAIL ${what}\n${error.stack}`);
      }
    }
    await client.close();
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
