// A tool that has to be a task, of the reference server on npm behind a gateway with several servers, in the hands of the official SDKs:
// the one that knows tasks of 2025-11-25, the task sessions of ext-tasks, a client of the extension, and clients of both eras that know none. The tool asks its
// user something in the middle. Prints PASS or FAIL for each check, and the totals last.

import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { MODERN, assert, check, finish, freePort, load, modules, options } from './npm_story.mjs';

const CHECK_SECONDS = 60;
const TOOL = 'everything__simulate-research-query';
const ARGUMENTS = { topic: 'python', ambiguous: true };

const { Client, StreamableHTTPClientTransport } = await load('client/dist/index.mjs');
const { StdioClientTransport } = await load('client/dist/stdio.mjs');
const { Client: FirstClient } = await load('sdk/dist/esm/client/index.js');
const { StreamableHTTPClientTransport: FirstHttp } = await load('sdk/dist/esm/client/streamableHttp.js');
const { CreateTaskResultSchema, ElicitRequestSchema } = await load('sdk/dist/esm/types.js');
const { createTaskSessionFromClient, resultFromTaskOutcome } = await load('ext-tasks/dist/client/index.js');

const node = (file, ...args) =>
  `command = ${JSON.stringify(process.execPath)}\nargs = ${JSON.stringify([file, ...args])}\n`;
const memory = JSON.stringify(join(options.directory, 'memory.jsonl'));
mkdirSync(options.directory, { recursive: true });
const config = join(options.directory, 'tidings.toml');
writeFileSync(
  config,
  `[servers.everything]\n${node(join(modules, 'server-everything/dist/index.js'), 'stdio')}
[servers.memory]\n${node(join(modules, 'server-memory/dist/index.js'))}env = { MEMORY_FILE_PATH = ${memory} }\n`,
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

const snake = () => ({ action: 'accept', content: { interpretation: 'snake' } });

/** Whether the tool heard the answer of this client. */
function heard(result) {
  const text = result.content[0].text;
  assert(text.includes('Research Report: python (snake)'), text.slice(0, 200));
}

async function first() {
  const client = new FirstClient({ name: 'first', version: '1.0.0' }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, snake);
  await client.connect(new FirstHttp(new URL(`${base}/mcp`)));
  return client;
}

async function second(era, road) {
  const mode = era === 'modern' ? { pin: MODERN } : 'legacy';
  const capabilities = { elicitation: { form: {} } };
  const client = new Client({ name: 'second', version: '1.0.0' }, { versionNegotiation: { mode }, capabilities });
  client.setRequestHandler('elicitation/create', snake);
  const stdio = ['stdio', '--config', config, '--data', join(options.directory, `${era}-stdio`)];
  const transport =
    road === 'http'
      ? new StreamableHTTPClientTransport(new URL(`${base}/mcp`))
      : new StdioClientTransport({ command: options.tidings, args: stdio, stderr: 'ignore' });
  await client.connect(transport);
  return client;
}

const checks = {
  async 'the SDK that knows tasks makes one, follows it and gets its outcome'() {
    const client = await first();
    await client.listTools();
    const seen = [];
    for await (const message of client.experimental.tasks.callToolStream({ name: TOOL, arguments: ARGUMENTS })) {
      if (message.type === 'error') throw message.error;
      seen.push(message);
    }
    assert(seen[0].type === 'taskCreated' && seen[0].task.taskId.startsWith('t1.'), JSON.stringify(seen[0]));
    heard(seen.at(-1).result);
    const { tasks } = await client.experimental.tasks.listTasks();
    const mine = tasks.find((task) => task.taskId === seen[0].task.taskId);
    assert(mine?.status === 'completed', JSON.stringify(tasks));
    await client.close();
  },
  async 'a task that is cancelled stays so'() {
    const client = await first();
    const params = { name: TOOL, arguments: { topic: 'x' }, task: {} };
    const { task } = await client.request({ method: 'tools/call', params }, CreateTaskResultSchema);
    const cancelled = await client.experimental.tasks.cancelTask(task.taskId);
    assert(cancelled.status === 'cancelled', JSON.stringify(cancelled));
    assert((await client.experimental.tasks.getTask(task.taskId)).status === 'cancelled', 'it goes on');
    await client.close();
  },
  async 'a task session of ext-tasks settles'() {
    const client = await second('legacy', 'http');
    const session = createTaskSessionFromClient(client, { endpointId: 'gateway' });
    // Without a question: the session does not ask for the outcome before the task is over, and the server asks nowhere else.
    const execution = await session.callTool(TOOL, { topic: 'python' });
    const { outcome } = await execution.settle();
    const text = resultFromTaskOutcome(outcome).content[0].text;
    assert(text.includes('Research Report: python'), text.slice(0, 200));
    await session.close();
    await client.close();
  },
};
/** A modern request as it stands on the wire: the SDK has no words for the extension yet. */
async function modern(method, params) {
  const capabilities = { elicitation: { form: {} }, extensions: { 'io.modelcontextprotocol/tasks': {} } };
  const meta = {
    'io.modelcontextprotocol/protocolVersion': MODERN,
    'io.modelcontextprotocol/clientCapabilities': capabilities,
    'io.modelcontextprotocol/clientInfo': { name: 'wire', version: '1.0.0' },
  };
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': MODERN,
    'mcp-method': method,
    'mcp-name': params.name ?? params.taskId,
  };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } });
  const text = await (await fetch(`${base}/mcp`, { method: 'POST', headers, body })).text();
  const data = text.startsWith('{') ? text : text.split('\n').filter((line) => line.startsWith('data: ')).at(-1).slice(6);
  const { result, error } = JSON.parse(data);
  assert(result, JSON.stringify(error));
  return result;
}

checks['who knows the extension has a task of a 2025-11-25 server in its own words'] = async () => {
  const created = await modern('tools/call', { name: TOOL, arguments: ARGUMENTS });
  assert(created.resultType === 'task' && created.taskId.startsWith('t1.'), JSON.stringify(created));
  const { taskId } = created;
  let asked = 0;
  for (;;) {
    const told = await modern('tasks/get', { taskId });
    if (told.status === 'input_required') {
      const inputResponses = Object.fromEntries(Object.keys(told.inputRequests).map((key) => [key, snake()]));
      asked += Object.keys(inputResponses).length;
      await modern('tasks/update', { taskId, inputResponses });
    }
    if (told.status === 'completed') {
      heard(told.result);
      break;
    }
    assert(told.status !== 'failed' && told.status !== 'cancelled', JSON.stringify(told));
    await sleep(100);
  }
  assert(asked === 1, `asked ${asked} times`);
  const second = await modern('tools/call', { name: TOOL, arguments: { topic: 'x' } });
  await modern('tasks/cancel', { taskId: second.taskId });
  assert((await modern('tasks/get', { taskId: second.taskId })).status === 'cancelled', 'it goes on');
};

for (const era of ['legacy', 'modern']) {
  for (const road of ['http', 'stdio']) {
    checks[`a ${era} client on ${road} that knows no tasks gets the outcome, with progress`] = async () => {
      const client = await second(era, road);
      const words = [];
      const onprogress = ({ message }) => words.push(message);
      const call = { name: TOOL, arguments: ARGUMENTS };
      heard(await client.callTool(call, { onprogress, resetTimeoutOnProgress: true }));
      assert(words.some((text) => text?.startsWith('Gathering')), `progress: ${words}`);
      await client.close();
    };
  }
}

await ready();
for (const [what, story] of Object.entries(checks)) await check(what, story, CHECK_SECONDS);
gateway.kill('SIGTERM');
finish();
