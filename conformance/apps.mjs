// MCP Apps of several servers behind one gateway, in the hands of the reference host: npm SDK clients of both eras, over HTTP and
// stdio, with the bridge of the Apps SDK. Two servers of npm with apps, one of the modern era, and one that has none. Prints PASS or
// FAIL for each check, and the totals last.

import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { MODERN, assert, check, finish, freePort, load, modules, options } from './npm_story.mjs';

const CHECK_SECONDS = 30;

const { Client, InMemoryTransport, StreamableHTTPClientTransport } = await load('client/dist/index.mjs');
const { StdioClientTransport } = await load('client/dist/stdio.mjs');
const { App } = await load('ext-apps/dist/src/app.js');
const { AppBridge, RESOURCE_MIME_TYPE, getToolUiResourceUri, isToolVisibilityAppOnly } = await load(
  'ext-apps/dist/src/app-bridge.js',
);
const { EXTENSION_ID } = await load('ext-apps/dist/src/server/index.js');

const page = (name) => readFileSync(join(modules, `server-${name}/dist/mcp-app.html`), 'utf8');
const APPS = {
  budget: {
    uri: 'ui://budget/budget-allocator/mcp-app.html',
    html: page('budget-allocator'),
    shows: ['get-budget-data'],
    called: (result) => result.structuredContent.config.currency === 'USD',
  },
  debug: {
    uri: 'ui://debug/debug-tool/mcp-app.html',
    html: page('debug'),
    shows: ['debug-log', 'debug-refresh', 'debug-tool'],
    hidden: ['debug-log', 'debug-refresh'],
    called: (result) => result.structuredContent.counter > 0,
    main: 'debug-tool',
    own: 'debug-refresh',
  },
  clock: {
    uri: 'ui://clock/clock/page.html',
    html: '<p>ui://clock/page.html</p>',
    shows: ['show', 'tick'],
    hidden: ['tick'],
    called: (result) => result.content[0].text === 'noon',
    main: 'show',
    own: 'tick',
  },
};
APPS.budget.main = APPS.budget.own = 'get-budget-data';

const node = (file, ...args) =>
  `command = ${JSON.stringify(process.execPath)}\nargs = ${JSON.stringify([file, ...args])}\n`;
const clock = join(dirname(fileURLToPath(import.meta.url)), 'app_server.mjs');
const log = JSON.stringify(join(options.directory, 'debug.log'));
const memory = JSON.stringify(join(options.directory, 'memory.jsonl'));
mkdirSync(options.directory, { recursive: true });
const config = join(options.directory, 'tidings.toml');
writeFileSync(
  config,
  `[gateway]\nstart_wait = "60s"\n
[servers.budget]\n${node(join(modules, 'server-budget-allocator/dist/index.js'), '--stdio')}
[servers.debug]\n${node(join(modules, 'server-debug/dist/index.js'), '--stdio')}env = { DEBUG_LOG_FILE = ${log} }
[servers.clock]\n${node(clock, '--peers', options.peers)}
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

async function connect(era, road, path = '/mcp') {
  const mode = era === 'modern' ? { pin: MODERN } : 'legacy';
  const capabilities = { extensions: { [EXTENSION_ID]: { mimeTypes: [RESOURCE_MIME_TYPE] } } };
  const client = new Client({ name: 'host', version: '1.0.0' }, { versionNegotiation: { mode }, capabilities });
  const stdio = ['stdio', '--config', config, '--data', join(options.directory, `${era}-stdio`)];
  const transport =
    road === 'http'
      ? new StreamableHTTPClientTransport(new URL(`${base}${path}`))
      : new StdioClientTransport({ command: options.tidings, args: stdio, stderr: 'ignore' });
  await client.connect(transport);
  return client;
}

async function isFound(client, name, app) {
  const declared = client.getServerCapabilities().extensions?.[EXTENSION_ID];
  assert(declared?.mimeTypes?.includes(RESOURCE_MIME_TYPE), `apps are not declared: ${JSON.stringify(declared)}`);
  const tools = (await client.listTools()).tools.filter((tool) => tool.name.startsWith(`${name}__`));
  const shows = tools.filter((tool) => getToolUiResourceUri(tool) === app.uri).map((tool) => tool.name);
  const expected = app.shows.map((tool) => `${name}__${tool}`);
  assert(String(shows.sort()) === String(expected), `${shows} name ${app.uri}`);
  const hidden = tools.filter(isToolVisibilityAppOnly).map((tool) => tool.name);
  assert(String(hidden.sort()) === String((app.hidden ?? []).map((tool) => `${name}__${tool}`)), `${hidden} are hidden`);
  const { resources } = await client.listResources();
  assert(resources.some((resource) => resource.uri === app.uri), `${app.uri} is not listed`);
}

async function isRead(client, _name, app) {
  const { contents } = await client.readResource({ uri: app.uri });
  assert(contents[0].uri === app.uri && contents[0].mimeType === RESOURCE_MIME_TYPE, JSON.stringify(contents[0]));
  assert(contents[0].text === app.html, 'the page is another');
}

async function isCalled(client, name, app) {
  const result = await client.callTool({ name: `${name}__${app.main}`, arguments: {} });
  assert(!result.isError && app.called(result), JSON.stringify(result));
}

/** Alone, a server has its own identity, names and URIs, and nothing else is there. */
async function isAlone(client, name, app) {
  assert(client.getServerVersion().name !== 'tidings', JSON.stringify(client.getServerVersion()));
  const { tools } = await client.listTools();
  const uri = app.uri.replace(`ui://${name}/`, 'ui://');
  const shows = tools.filter((tool) => getToolUiResourceUri(tool) === uri).map((tool) => tool.name);
  assert(String(shows.sort()) === String(app.shows), `${shows} name ${uri}`);
  assert(tools.every((tool) => !tool.name.includes('__') && tool.name !== 'call_tool'), JSON.stringify(tools));
  const { contents } = await client.readResource({ uri });
  assert(contents[0].uri === uri && contents[0].text === app.html, 'the page is another');
  const result = await client.callTool({ name: app.main, arguments: {} });
  assert(!result.isError && app.called(result), JSON.stringify(result));
}

/** The page calls tools by the names that its server gave them: it knows nothing of a gateway. */
async function works(client, name, app, prefix = `${name}__`) {
  const [inside, outside] = InMemoryTransport.createLinkedPair();
  const bridge = new AppBridge(client, { name: 'host', version: '1.0.0' }, { serverTools: {}, serverResources: {} });
  const view = new App({ name, version: '1.0.0' }, {}, { autoResize: false });
  const results = [];
  view.ontoolresult = (result) => results.push(result);
  const initialized = new Promise((resolve) => {
    bridge.oninitialized = resolve;
  });
  await bridge.connect(outside);
  await view.connect(inside);
  await initialized;
  await bridge.sendToolInput({ arguments: {} });
  await bridge.sendToolResult(await client.callTool({ name: `${prefix}${app.main}`, arguments: {} }));
  await sleep(0);
  assert(results.length === 1 && app.called(results[0]), `the page was shown ${JSON.stringify(results)}`);
  for (const tool of [`${prefix}${app.own}`, app.own]) {
    const answer = await view.callServerTool({ name: tool, arguments: {} });
    assert(!answer.isError && answer.content.length > 0, `${tool}: ${JSON.stringify(answer)}`);
  }
  await bridge.close();
}

async function isUnaffected(client) {
  const tools = (await client.listTools()).tools.filter((tool) => tool.name.startsWith('memory__'));
  assert(tools.length > 0 && tools.every((tool) => getToolUiResourceUri(tool) === undefined), 'memory has a page');
  const result = await client.callTool({ name: 'memory__read_graph', arguments: {} });
  assert(!result.isError, JSON.stringify(result));
}

try {
  await ready();
  for (const road of ['http', 'stdio']) {
    for (const era of ['legacy', 'modern']) {
      const client = await connect(era, road);
      for (const [name, app] of Object.entries(APPS)) {
        const what = `app of ${name}, npm ${era} client over ${road}`;
        await check(`${what}: found`, () => isFound(client, name, app), CHECK_SECONDS);
        await check(`${what}: read`, () => isRead(client, name, app), CHECK_SECONDS);
        await check(`${what}: called`, () => isCalled(client, name, app), CHECK_SECONDS);
        await check(`${what}: works in its page`, () => works(client, name, app), CHECK_SECONDS);
      }
      await check(`server without apps, npm ${era} client over ${road}`, () => isUnaffected(client), CHECK_SECONDS);
      await client.close();
    }
  }
  for (const era of ['legacy', 'modern']) {
    for (const [name, app] of Object.entries(APPS)) {
      const client = await connect(era, 'http', `/mcp/s/${name}`);
      const what = `app of ${name}, npm ${era} client of that server alone`;
      await check(`${what}: found, read, called`, () => isAlone(client, name, app), CHECK_SECONDS);
      await check(`${what}: works in its page`, () => works(client, name, app, ''), CHECK_SECONDS);
      await client.close();
    }
  }
} finally {
  gateway.kill();
}
finish();
