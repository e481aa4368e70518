// Servers that ask, and npm SDK clients of both eras over HTTP and stdio: a published server of the legacy era, and one of the SDK
// that speaks only the modern era. Prints PASS or FAIL for each check, and the totals last.

import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { MODERN, assert, check, finish, freePort, load, modules, options } from './npm_story.mjs';

const CHECK_SECONDS = 60;

const { Client, StreamableHTTPClientTransport } = await load('client/dist/index.mjs');
const { StdioClientTransport } = await load('client/dist/stdio.mjs');

const node = (file, ...args) =>
  `command = ${JSON.stringify(process.execPath)}\nargs = ${JSON.stringify([file, ...args])}\n`;
const asking = join(dirname(fileURLToPath(import.meta.url)), 'asking_server.mjs');
mkdirSync(options.directory, { recursive: true });
const config = join(options.directory, 'tidings.toml');
writeFileSync(
  config,
  `[gateway]\nstart_wait = "60s"\n
[servers.old]\nera = "legacy"\n${node(join(modules, 'server-everything/dist/index.js'), 'stdio')}
[servers.new]\nera = "modern"\n${node(asking, '--peers', options.peers)}`,
);

const port = await freePort();
const base = `http://127.0.0.1:${port}`;
const serve = ['serve', '--config', config, '--data', join(options.directory, 'data'), '--listen', `127.0.0.1:${port}`];
const gateway = spawn(options.tidings, serve, { stdio: 'ignore' });

async function ready() {
  const until = performance.now() + 1000 * CHECK_SECONDS;
  for (;;) {
    if (await fetch(`${base}/readyz`).then((answer) => answer.ok, () => false)) return;
    assert(performance.now() < until && gateway.exitCode === null, 'the gateway is not ready');
    await sleep(50);
  }
}

/** A client that answers everything, and writes down what it was asked. */
async function connect(era, road) {
  const mode = era === 'modern' ? { pin: MODERN } : 'legacy';
  const capabilities = { elicitation: { form: {} }, sampling: {}, roots: { listChanged: true } };
  const client = new Client({ name: 'asked', version: '1.0.0' }, { versionNegotiation: { mode }, capabilities });
  const asked = [];
  const answers = (method, answer) =>
    client.setRequestHandler(method, ({ params }) => {
      asked.push({ method, params });
      return answer(params);
    });
  answers('elicitation/create', () => ({ action: 'accept', content: { name: 'Ferris' } }));
  answers('sampling/createMessage', () => ({
    role: 'assistant',
    model: 'small',
    content: { type: 'text', text: 'Paris' },
  }));
  answers('roots/list', () => ({ roots: [{ uri: 'file:///home/ferris', name: 'home' }] }));
  const stdio = ['stdio', '--config', config, '--data', join(options.directory, `${era}-stdio`)];
  const transport =
    road === 'http'
      ? new StreamableHTTPClientTransport(new URL(`${base}/mcp`))
      : new StdioClientTransport({ command: options.tidings, args: stdio, stderr: 'ignore' });
  await client.connect(transport);
  return { client, asked };
}

const words = (result) => result.content.map((item) => item.text ?? '').join(' ');

async function oldServerAsks({ client, asked }) {
  const form = await client.callTool({ name: 'old__trigger-elicitation-request', arguments: {} });
  assert(words(form).includes('Ferris'), `a form: ${words(form)}`);
  const sample = await client.callTool({ name: 'old__trigger-sampling-request', arguments: { prompt: 'Capital?' } });
  assert(words(sample).includes('Paris'), `a sample: ${words(sample)}`);
  const methods = asked.map(({ method }) => method).filter((method) => method !== 'roots/list');
  assert(String(methods) === 'elicitation/create,sampling/createMessage', `asked ${methods}`);
  assert(asked.some(({ params }) => params?.message?.startsWith('[old] ')), 'the form says who asks');
}

async function newServerAsks({ client, asked }) {
  const result = await client.callTool({ name: 'new__ask', arguments: {} });
  assert(words(result) === 'first Ferris Paris file:///home/ferris', `a result in three rounds: ${words(result)}`);
  const methods = asked.map(({ method }) => method).sort();
  assert(String(methods) === 'elicitation/create,roots/list,sampling/createMessage', `asked ${methods}`);
}

await check('the gateway is ready', ready);
for (const era of ['legacy', 'modern']) {
  for (const road of ['http', 'stdio']) {
    for (const [what, story] of [['a legacy server asks', oldServerAsks], ['a modern server asks', newServerAsks]]) {
      await check(
        `${what} a ${era} client over ${road}`,
        async () => {
          const visitor = await connect(era, road);
          await story(visitor).finally(() => visitor.client.close());
        },
        CHECK_SECONDS,
      );
    }
  }
}
gateway.kill();
finish();
