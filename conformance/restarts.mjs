// npm SDK clients, over HTTP and on `tidings stdio --attach`, whose gateway is killed and started again: their sessions go on, and
// they hear what changes. Prints PASS or FAIL for each check, and the totals last.

import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { MODERN, check, finish, freePort, load, modules, options } from './npm_story.mjs';

const URI = 'watch://notes/a.txt';

const { Client, StreamableHTTPClientTransport } = await load('client/dist/index.mjs');
const { StdioClientTransport } = await load('client/dist/stdio.mjs');

const notes = join(options.directory, 'notes');
const data = join(options.directory, 'data');
const config = join(options.directory, 'tidings.toml');
mkdirSync(notes, { recursive: true });
mkdirSync(data, { recursive: true });
let content = 0;
const write = () => writeFileSync(join(notes, 'a.txt'), `content ${content++}\n`);
write();
const everything = JSON.stringify(join(modules, 'server-everything/dist/index.js'));
writeFileSync(
  config,
  `[servers.everything]\ncommand = ${JSON.stringify(process.execPath)}\nargs = [${everything}]\n\n[watch.notes]\nfile = ${JSON.stringify(notes)}\n`,
);

const port = await freePort();
const base = `http://127.0.0.1:${port}`;

async function until(what, holds, seconds = 20) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const value = await Promise.resolve(holds()).catch(() => undefined);
    if (value) return value;
    if (Date.now() > end) throw new Error(`gave up waiting for ${what}`);
    await sleep(50);
  }
}

async function serve() {
  const args = ['serve', '--config', config, '--data', data, '--listen', `127.0.0.1:${port}`];
  const gateway = spawn(options.tidings, args, { stdio: 'ignore' });
  await until('the gateway', async () => (await fetch(`${base}/readyz`)).ok);
  return gateway;
}

async function connect(era, road) {
  const mode = era === 'modern' ? { pin: MODERN } : 'legacy';
  const client = new Client({ name: 'restarts', version: '1.0.0' }, { versionNegotiation: { mode } });
  const attach = { command: options.tidings, args: ['stdio', '--attach', '--data', data], stderr: 'ignore' };
  const transport =
    road === 'http' ? new StreamableHTTPClientTransport(new URL(`${base}/mcp`)) : new StdioClientTransport(attach);
  const updates = [];
  client.setNotificationHandler('notifications/resources/updated', (notice) => updates.push(notice.params.uri));
  await client.connect(transport);
  return { name: `${era} ${road}`, client, transport, updates };
}

const echo = async ({ client }, message) => {
  const { tools } = await client.listTools();
  const name = tools.map((tool) => tool.name).find((name) => name.endsWith('echo'));
  const result = await client.callTool({ name, arguments: { message } });
  return JSON.stringify(result.content).includes(message);
};

let gateway = await serve();
const visitors = [await connect('legacy', 'http'), await connect('legacy', 'attach'), await connect('modern', 'attach')];
for (const visitor of visitors) {
  await check(`${visitor.name}: calls`, () => until('an echo', () => echo(visitor, 'before'), 5));
}
const followers = visitors.slice(0, 2);
for (const { client } of followers) {
  await client.subscribeResource({ uri: URI });
  await client.readResource({ uri: URI });
}
const sessions = visitors.map(({ transport }) => transport.sessionId);
await sleep(3000); // sessions are written a few times a second, contents read by others every two
gateway.kill('SIGKILL');
await sleep(300);
gateway = await serve();
for (const [number, visitor] of visitors.entries()) {
  await check(`${visitor.name}: goes on after the gateway was killed`, async () => {
    await until('an echo', () => echo(visitor, 'after'), 15);
    if (visitor.transport.sessionId !== sessions[number]) throw new Error('it has another session');
  });
}
for (const { name, updates } of followers) {
  await check(`${name}: is not told of a resource that did not change`, async () => {
    await sleep(1000);
    if (updates.length) throw new Error(`it was told ${updates.length} times`);
  });
}
for (const { name, updates } of followers) {
  await check(`${name}: hears of a change after the restart`, async () => {
    updates.length = 0;
    write();
    await until('an update', () => updates.includes(URI), 15);
  });
}
for (const { name, client } of visitors) {
  await check(`${name}: says goodbye`, () => client.close());
}
gateway.kill('SIGTERM');
finish();
