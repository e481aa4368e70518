// A server on npm that lets nobody in without a token of a real provider (oidc-provider), behind a gateway: from `tidings add` over the
// login to the first call, over a restart, over tokens that end while two clients call, to a login that was taken back. The provider
// rotates refresh tokens. Prints PASS or FAIL for each check, and the totals last.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { browse, provide } from './login_provider.mjs';
import { MODERN, assert, check, finish, load, options } from './npm_story.mjs';
import { findings, shown, written } from './secret_search.mjs';
import { CHECK_SECONDS, storyGateway, until } from './story_gateway.mjs';

const { Client } = await load('sdk/dist/esm/client/index.js');
const { StreamableHTTPClientTransport } = await load('sdk/dist/esm/client/streamableHttp.js');
const { Client: LaterClient, StreamableHTTPClientTransport: LaterHttp } = await load('client/dist/index.mjs');

const { issuer, provider, server, secrets, refreshes } = await provide();

// What seals the logins comes from systemd, as far as the gateway can tell.
const credentials = join(options.directory, 'credentials');
const vaultKey = '5a'.repeat(32);
mkdirSync(credentials, { recursive: true });
writeFileSync(join(credentials, 'tidings-vault-key'), vaultKey);

// ---- the gateway, its clients, and a browser

const gateway = await storyGateway({ env: { CREDENTIALS_DIRECTORY: credentials } });
const { base, data, serve, stop, run } = gateway;

const state = async (name = 'crm') => JSON.parse((await run('servers', name, '--json')).text);

/** Begins a login by the command, and gives what it said first. */
async function begin(name = 'crm', ...more) {
  const said = gateway.command('login', name, '--json', ...more);
  const first = await until('the login does not begin', () => said.text.split('\n')[0].startsWith('{') && said.text.includes('\n') && said.text);
  return { said, begun: JSON.parse(first.split('\n')[0]) };
}

async function login(name = 'crm') {
  const { said, begun } = await begin(name);
  const page = await browse(begun.url);
  assert(page.status === 200, `${page.status}: ${page.text.slice(0, 300)}`);
  assert((await said.ended) === 0, said.text);
  return page;
}

async function client() {
  const client = new Client({ name: 'story', version: '1.0.0' });
  const notices = [];
  client.fallbackNotificationHandler = async (notice) => void notices.push(notice.method);
  await client.connect(new StreamableHTTPClientTransport(new URL(`${base}/mcp`)));
  return { client, notices };
}

const tool = async (client) => (await client.listTools()).tools.find((tool) => tool.name.endsWith('whoami'))?.name;
const endTokens = async () => {
  for (const token of secrets) await (await provider.AccessToken.find(token))?.destroy();
};

await serve();
const { client: watcher, notices } = await client();
await watcher.listTools();
let who;

const checks = {
  async 'a server that wants a login is added, and says so'() {
    const added = await run('add', 'crm', '--url', server);
    assert(added.code === 0 && added.text.includes('tidings login crm'), added.text);
    const found = await state();
    assert(found.state === 'needs login', JSON.stringify(found));
    assert(!(await tool(watcher)), 'there is no tool before the login');
  },
  async 'after the login its tools are there for a connected client, with one notice'() {
    await sleep(600);
    notices.length = 0;
    await login();
    who = await until('the tool does not appear', () => tool(watcher));
    await until('no notice came', () => notices.length > 0);
    await sleep(600);
    const lists = notices.filter((method) => method === 'notifications/tools/list_changed');
    assert(lists.length === 1, `notices: ${notices}`);
    const said = await watcher.callTool({ name: who, arguments: {} });
    assert(said.content[0].text === 'ada', JSON.stringify(said));
    assert((await state()).state === 'ready', 'it is ready');
  },
  async 'a browser that did not begin the login can not end it'() {
    const { said, begun } = await begin();
    const stranger = await browse(begun.authorize);
    assert(stranger.status === 404, `${stranger.status}: ${stranger.text}`);
    const first = await fetch(begun.url, { redirect: 'manual' });
    assert(first.status === 303, `${first.status}`);
    const second = await fetch(begun.url, { redirect: 'manual' });
    assert(second.status === 404, 'a ticket is for one browser');
    void said;
  },
  async 'after a restart nobody logs in again'() {
    await stop();
    await serve();
    const { client: again } = await client();
    who = await until('the tool does not appear', () => tool(again));
    const said = await again.callTool({ name: who, arguments: {} });
    assert(said.content[0].text === 'ada', JSON.stringify(said));
    await again.close();
  },
  async 'two clients whose token ends at once cause one refresh, and lose nothing'() {
    const [{ client: one }, { client: two }] = [await client(), await client()];
    await one.callTool({ name: who, arguments: {} });
    await sleep(0);
    const before = refreshes.length;
    await endTokens();
    const calls = Array.from({ length: 60 }, (_, at) => (at % 2 ? one : two).callTool({ name: who, arguments: {} }));
    const said = await Promise.all(calls);
    assert(said.every((answer) => !answer.isError && answer.content[0].text === 'ada'), JSON.stringify(said.find((answer) => answer.isError)));
    assert(refreshes.length - before === 1, `${refreshes.length - before} refreshes`);
    await one.close();
    await two.close();
  },
  async 'a login that was taken back is a state within one call, and a new login mends it'() {
    const { client: one } = await client();
    for (const token of secrets) await (await provider.RefreshToken.find(token))?.destroy();
    await endTokens();
    const said = await one.callTool({ name: who, arguments: {} }).catch((error) => ({ isError: true, content: [{ text: error.message }] }));
    assert(said.isError && said.content[0].text.includes('login'), JSON.stringify(said));
    const found = await state();
    assert(found.state === 'needs login' && found.error.includes('tidings login crm'), JSON.stringify(found));
    assert(found.tools === 1, 'the last list stays');
    await login();
    const again = await one.callTool({ name: who, arguments: {} });
    assert(again.content[0].text === 'ada', JSON.stringify(again));
    await one.close();
  },
  async 'a login by a code that is typed in elsewhere waits for it, and is there then'() {
    assert((await run('logout', 'crm')).code === 0, 'logged out');
    const { said, begun } = await begin('crm', '--device');
    const { url, code, url_with_code: whole } = begun.device;
    assert(url === `${issuer}/device` && code && whole.startsWith(url), JSON.stringify(begun));
    assert((await state()).state === 'needs login', 'nobody has typed the code in');
    const jar = new Map();
    const page = await browse(whole, jar);
    const xsrf = page.text.match(/name="xsrf" value="([^"]+)"/)?.[1];
    const end = await browse(url, jar, { xsrf, user_code: code, confirm: 'yes' });
    assert(end.status === 200, `${end.status}: ${end.text.slice(0, 300)}`);
    assert((await said.ended) === 0, said.text);
    const { client: one } = await client();
    const answered = await one.callTool({ name: who, arguments: {} });
    assert(answered.content[0].text === 'ada', JSON.stringify(answered));
    await one.close();
  },
  async 'logging out ends it here and at the provider'() {
    const said = await run('logout', 'crm');
    assert(said.code === 0, said.text);
    assert((await state()).state === 'needs login', 'it needs a login again');
    for (const token of secrets) {
      assert(!(await provider.RefreshToken.find(token)) && !(await provider.AccessToken.find(token)), 'a token is still good');
    }
  },
  async 'a modern client that can show pages is asked for the login, and its call goes on'() {
    const capabilities = { elicitation: { url: {} } };
    const later = new LaterClient({ name: 'modern', version: '1.0.0' }, { versionNegotiation: { mode: { pin: MODERN } }, capabilities });
    let asked = 0;
    later.setRequestHandler('elicitation/create', async ({ params }) => {
      asked++;
      assert(params.mode === 'url' && params.url.startsWith(`${base}/connect/`), JSON.stringify(params));
      const page = await browse(params.url);
      assert(page.status === 200, page.text);
      return { action: 'accept' };
    });
    await later.connect(new LaterHttp(new URL(`${base}/mcp`)));
    const said = await later.callTool({ name: who, arguments: {} });
    assert(asked === 1 && said.content[0].text === 'ada', `${asked}: ${JSON.stringify(said)}`);
    await later.close();
  },
  async 'an older client is given the page: as an error if it can show it, else in words'() {
    assert((await run('logout', 'crm')).code === 0, 'logged out');
    const { client: plain } = await client();
    const words = await plain.callTool({ name: who, arguments: {} });
    const page = words.content[0].text.match(/http:\S+\/connect\/\S+/)?.[0];
    assert(words.isError && page, JSON.stringify(words));
    const again = await plain.callTool({ name: who, arguments: {} });
    assert(again.content[0].text.includes(page), 'one page for one person');
    await plain.close();
    const shows = new Client({ name: 'older', version: '1.0.0' }, { capabilities: { elicitation: { url: {} } } });
    await shows.connect(new StreamableHTTPClientTransport(new URL(`${base}/mcp`)));
    const refused = await shows.callTool({ name: who, arguments: {} }).catch((error) => error);
    assert(refused.code === -32042, `${refused.code} ${refused.message}`);
    const [elicitation] = refused.data.elicitations;
    assert((await browse(elicitation.url)).status === 200, 'the login');
    const said = await shows.callTool({ name: who, arguments: {} });
    assert(said.content[0].text === 'ada', JSON.stringify(said));
    await shows.close();
  },
  async 'a server that a machine logs in to is there without a person'() {
    const body = JSON.stringify({ url: server, auth: { grant: 'client_credentials', client_id: 'robot', client_secret: 'robot-secret-7f1c', scopes: ['read'] } });
    secrets.add('robot-secret-7f1c');
    const put = await gateway.api('/servers/robot', { method: 'PUT', body });
    const text = await put.text();
    assert(put.status === 201 && JSON.parse(text).state === 'ready', text);
    const { client: one } = await client();
    const said = await one.callTool({ name: 'robot__whoami', arguments: {} });
    assert(said.content[0].text === 'robot', JSON.stringify(said));
    await one.close();
  },
  async 'no token, code or secret stands in an answer of the API or on a screen'() {
    assert(secrets.size > 8, `${secrets.size} secrets`);
    const { begun } = await begin();
    const places = await shown(gateway, begun.ticket);
    const own = [readFileSync(join(data, 'admin.token'), 'utf8').trim(), vaultKey];
    assert(!findings(places, [...secrets, ...own]).length, `in clear: ${findings(places, [...secrets, ...own])}`);
    // The search looks where something would stand: the tool, and what it says of itself, are there.
    const everywhere = {
      'Who is asking': ['GET /tools', 'GET /definitions/tools/crm/whoami', 'screen /servers/crm', 'screen /tools/crm/whoami'],
      whoami: ['GET /changes', 'GET /changes/stream?since=0', 'GET /calls', 'GET /audit', 'GET /calls/1', 'screen /', 'screen /tries/1', 'screen /calls'],
      crm: ['GET /servers/crm', 'GET /servers/crm/log', 'GET /metrics', 'screen /servers'],
      waiting: [`GET /servers/crm/login/${begun.ticket}`],
    };
    for (const [text, expected] of Object.entries(everywhere)) {
      const missed = expected.filter((place) => !findings(places, [text]).includes(place));
      assert(!missed.length, `${text} is not in ${missed}`);
    }
  },
  async 'no token, code or secret stands in a file or a log'() {
    await stop();
    // What an admin configures stands where it was configured; what a provider gave stands nowhere.
    secrets.delete('robot-secret-7f1c');
    const places = written(gateway);
    assert(!findings(places, secrets).length, `in clear: ${findings(places, secrets)}`);
    const seen = findings(places, ['Who is asking', '/readyz', 'tidings login crm']);
    assert(seen.some((place) => place.startsWith('file ')) && seen.length > 1, `the search sees only ${seen}`);
  },
};

for (const [what, story] of Object.entries(checks)) await check(what, story, CHECK_SECONDS);
finish();
