// Both races of a subscription, with npm SDK clients of both eras, over HTTP and stdio, before slow servers of both eras.
// The story is that of races.py. Prints PASS or FAIL for each check, and the totals last.

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const CHECK_SECONDS = 120;
const NOTICE_SECONDS = 20;
// How long a subscription that nobody wants lingers at the server, and then takes to end there.
const LINGER_SECONDS = 2;
const TRIES = 6;
const MODERN = '2026-07-28';

const { values: options, positionals: command } = parseArgs({
  allowPositionals: true,
  options: {
    peers: { type: 'string' }, // a folder with node_modules
    gateway: { type: 'string' }, // the MCP URL of a gateway with servers slowold and slownew
    delay: { type: 'string' }, // of the servers, in seconds
    quiet: { type: 'string' }, // of the gateway, in seconds
  },
});
const [delay, quiet] = [Number(options.delay), Number(options.quiet)];

const sdk = (file) =>
  import(pathToFileURL(join(options.peers, 'node_modules/@modelcontextprotocol/client/dist', file)).href);
const { Client, StreamableHTTPClientTransport } = await sdk('index.mjs');
const { StdioClientTransport } = await sdk('stdio.mjs');

const now = () => performance.now() / 1000;

function assert(holds, what) {
  if (!holds) throw new Error(what);
}

/** A client that writes down when which resource was said to have changed. */
class Listener {
  told = [];

  static async connect(era, road) {
    const mode = era === 'modern' ? { pin: MODERN } : 'legacy';
    const listener = new Listener();
    listener.era = era;
    listener.client = new Client({ name: 'races', version: '1.0.0' }, { versionNegotiation: { mode } });
    listener.client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
      listener.told.push({ at: now(), uri: params.uri });
    });
    const transport =
      road === 'http'
        ? new StreamableHTTPClientTransport(new URL(options.gateway))
        : new StdioClientTransport({ command: command[0], args: command.slice(1), stderr: 'ignore' });
    await listener.client.connect(transport);
    return listener;
  }

  async follow(uri) {
    if (this.era === 'legacy') return this.client.subscribeResource({ uri });
    this.listen = await this.client.listen({ resourceSubscriptions: [uri] });
    const honoured = this.listen.honoredFilter.resourceSubscriptions;
    assert(honoured?.length === 1 && honoured[0] === uri, `honoured ${honoured}`);
  }

  async leave(uri) {
    if (this.era === 'legacy') return this.client.unsubscribeResource({ uri });
    await this.listen.close();
  }

  async wait(count) {
    const until = now() + NOTICE_SECONDS;
    while (this.told.length < count) {
      assert(now() < until, `told ${JSON.stringify(this.told)} instead of ${count} times`);
      await sleep(10);
    }
  }
}

async function bothRaces(era, road, server, open) {
  const own = `note://npm-${era}-${road}`;
  const uri = `${server}+${own}`;
  const listener = await Listener.connect(era, road);
  open.push(listener.client);
  // The server says that it changed at once, and agrees when its delay is over.
  const asked = now();
  await listener.follow(uri);
  await listener.wait(1);
  const { at, uri: what } = listener.told[0];
  assert(what === uri, what);
  assert(at - asked >= delay, `told after ${at - asked} s, before the server agreed`);
  await sleep(2000 * quiet);
  assert(listener.told.length === 1, `one change, told ${JSON.stringify(listener.told)}`);
  await listener.leave(uri);
  // Long enough for what the server says when it is left.
  await sleep(1000 * (LINGER_SECONDS + delay + 2 * quiet));
  assert(listener.told.length === 1, `told after it left: ${JSON.stringify(listener.told)}`);

  let took;
  for (let attempt = 0; attempt < TRIES; attempt++) {
    // Whoever follows the same from the same gateway goes on to hear.
    const witness = await Listener.connect('legacy', road);
    open.push(witness.client);
    await witness.follow(uri);
    const had = listener.told.length;
    await listener.follow(uri);
    if (road === 'stdio') await listener.wait(had + 1);
    await sleep(2000 * quiet);
    const [before, also] = [listener.told.length, witness.told.length];
    const touched = now();
    await listener.client.callTool({ name: `${server}__touch`, arguments: { uri: own } });
    await listener.leave(uri);
    took = now() - touched;
    if (road === 'http') await witness.wait(also + 1);
    await sleep(2000 * quiet);
    await witness.client.close();
    // A machine that is too busy to leave in time shows nothing.
    if (took < quiet) {
      assert(listener.told.length === before, `told after it left: ${JSON.stringify(listener.told)}`);
      return;
    }
  }
  assert(false, `took ${took} s to leave, ${TRIES} times: too slow to show anything`);
}

async function check(era, road, server) {
  const name = `npm client, ${era}, ${road}, ${server}: both races`;
  const open = [];
  const late = sleep(1000 * CHECK_SECONDS, undefined, { ref: false }).then(() => assert(false, 'took too long'));
  try {
    await Promise.race([bothRaces(era, road, server, open), late]);
    console.log(`PASS ${name}`);
    return true;
  } catch (error) {
    console.log(`FAIL ${name}\n${error.stack}`);
    return false;
  } finally {
    await Promise.allSettled(open.map((client) => client.close()));
  }
}

const checks = [];
for (const era of ['legacy', 'modern']) {
  for (const road of ['http', 'stdio']) {
    for (const server of ['slowold', 'slownew']) checks.push(check(era, road, server));
  }
}
const outcomes = await Promise.all(checks);
const passed = outcomes.filter(Boolean).length;
console.log(`${passed} passed, ${outcomes.length - passed} failed`);
process.exit(passed === outcomes.length ? 0 : 1);
