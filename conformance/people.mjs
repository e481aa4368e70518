// Two people behind one gateway, each with a login of their own at a real provider (oidc-provider) to one server on npm
// (`[servers.crm.auth] for = "principal"`): what each is shown and told, over a restart, to a login of one of them that was taken back.
// Prints PASS or FAIL for each check, and the totals last.

import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { browse, forget, provide } from './login_provider.mjs';
import { MODERN, assert, check, finish, load, options } from './npm_story.mjs';
import { findings, written } from './secret_search.mjs';
import { CHECK_SECONDS, storyGateway, until } from './story_gateway.mjs';

const { Client } = await load('sdk/dist/esm/client/index.js');
const { StreamableHTTPClientTransport } = await load('sdk/dist/esm/client/streamableHttp.js');
const { Client: LaterClient, StreamableHTTPClientTransport: LaterHttp } = await load('client/dist/index.mjs');

const { issuer, provider, server, secrets } = await provide();
const people = { ada: 'token-of-ada-5d1f', dan: 'token-of-dan-77c0', eve: 'token-of-eve-1b2a' };
const tokens = Object.entries(people).map(([name, token]) => {
  const sha256 = createHash('sha256').update(token).digest('hex');
  return `{ name = "${name}", sha256 = "${sha256}" },`;
});
const config = join(options.directory, 'tidings.toml');
writeFileSync(config, `[auth]\ntokens = [\n${tokens.join('\n')}\n]\n[servers.crm]\nurl = "${server}"\n[servers.crm.auth]\nfor = "principal"\n`);

const gateway = await storyGateway({ config });
const { base, serve, stop } = gateway;

/** The server, as the API describes it. */
const state = async () => (await gateway.api('/servers/crm')).json();

const asPerson = (who) => ({ requestInit: { headers: { authorization: `Bearer ${people[who]}` } } });

/** A legacy client of a person, who hears what it is told. */
async function legacy(who) {
  const client = new Client({ name: `legacy of ${who}`, version: '1.0.0' });
  const notices = [];
  client.fallbackNotificationHandler = async (notice) => void notices.push(notice.method);
  await client.connect(new StreamableHTTPClientTransport(new URL(`${base}/mcp`), asPerson(who)));
  await client.listTools();
  return { client, notices };
}

/** A modern client of a person that shows pages with `show`. */
async function modern(who, show) {
  const capabilities = show ? { elicitation: { url: {} } } : {};
  const client = new LaterClient({ name: `modern of ${who}`, version: '1.0.0' }, { versionNegotiation: { mode: { pin: MODERN } }, capabilities });
  if (show) {
    client.setRequestHandler('elicitation/create', async ({ params }) => {
      await show(params.url);
      return { action: 'accept' };
    });
  }
  await client.connect(new LaterHttp(new URL(`${base}/mcp`), asPerson(who)));
  return client;
}

const names = async (client) => {
  const all = (await client.listTools()).tools.map((tool) => tool.name);
  return all.filter((name) => !name.startsWith('mcp_registry_')).sort();
};
const text = (answer) => answer.content[0].text;
const changes = (notices) => notices.filter((method) => method === 'notifications/tools/list_changed').length;

/** A person opens the page of a login with their own browser, and shows a token. */
async function visit(url, who, token = people[who]) {
  const jar = new Map([[new URL(issuer).host, new Map([['person', who]])]]);
  const asked = await browse(url, jar);
  assert(asked.status === 200 && asked.text.includes('Tidings token'), `${asked.status}: ${asked.text.slice(0, 300)}`);
  return browse(url, jar, { token });
}

await serve();
const ada = await legacy('ada');
const dan = await legacy('dan');

const checks = {
  async 'before they log in, each sees the tool to do so, and nothing of the server'() {
    for (const { client } of [ada, dan]) {
      const seen = await until('the tool does not appear', async () => (await names(client)).includes('log_in') && names(client));
      assert(JSON.stringify(seen) === '["log_in"]', `${seen}`);
    }
    const found = await state();
    assert(found.state === 'needs login' && found.people.logged_in === 0 && found.people.need_login === 2, JSON.stringify(found));
  },
  async 'the page of one person is of no use to another, and opens for who asked'() {
    const said = await ada.client.callTool({ name: 'log_in', arguments: {} });
    const page = text(said).match(/http:\S+\/connect\/\S+/)?.[0];
    assert(said.isError && page, JSON.stringify(said));
    const refused = await visit(page, 'dan');
    assert(refused.status === 403, `${refused.status}: ${refused.text}`);
    await sleep(600);
    ada.notices.length = dan.notices.length = 0;
    const done = await visit(page, 'ada');
    assert(done.status === 200 && done.text.includes('for you, and nobody else'), `${done.status}: ${done.text}`);
  },
  async 'after the login the tools are there for that person alone, with one notice'() {
    await until('no notice came', () => changes(ada.notices));
    assert(JSON.stringify(await names(ada.client)) === '["whoami"]', `${await names(ada.client)}`);
    await sleep(600);
    assert(changes(ada.notices) === 1, `${ada.notices}`);
    assert(changes(dan.notices) === 0, `${dan.notices}`);
    assert(JSON.stringify(await names(dan.client)) === '["log_in"]', `${await names(dan.client)}`);
    assert(text(await ada.client.callTool({ name: 'whoami', arguments: {} })) === 'ada', 'who she is');
    const found = await state();
    assert(found.state === 'ready' && found.people.logged_in === 1 && found.people.need_login === 1, JSON.stringify(found));
  },
  async 'a modern client that can show pages is asked for the login, and the call goes on'() {
    let shown = 0;
    const later = await modern('dan', async (url) => {
      shown++;
      const page = await visit(url, 'dan');
      assert(page.status === 200, page.text);
    });
    const said = await later.callTool({ name: 'log_in', arguments: { server: 'crm' } });
    assert(shown === 1 && !said.isError && text(said).includes('You are logged in'), `${shown}: ${JSON.stringify(said)}`);
    // What the server lists for him is more than what it lists for her.
    assert(JSON.stringify(await names(later)) === '["audit","whoami"]', `${await names(later)}`);
    assert(JSON.stringify(await names(dan.client)) === '["audit","whoami"]', `${await names(dan.client)}`);
    assert(JSON.stringify(await names(ada.client)) === '["whoami"]', `${await names(ada.client)}`);
    assert((await state()).people.logged_in === 2, 'both are logged in');
    await later.close();
  },
  async 'each calls as who they are, at the same time, from clients of both eras'() {
    const both = { ada: [ada.client, await modern('ada')], dan: [dan.client, await modern('dan')] };
    const calls = Array.from({ length: 200 }, async (_, at) => {
      const who = at % 2 ? 'ada' : 'dan';
      const said = await both[who][(at >> 1) % 2].callTool({ name: 'whoami', arguments: {} });
      assert(text(said) === who, `${who} is taken for ${JSON.stringify(said)}`);
    });
    await Promise.all(calls);
    await both.ada[1].close();
    await both.dan[1].close();
  },
  async 'after a restart nobody logs in again'() {
    await stop();
    await serve();
    assert((await state()).people.logged_in === 2, JSON.stringify(await state()));
    for (const who of ['ada', 'dan']) {
      const { client } = await legacy(who);
      assert(text(await client.callTool({ name: 'whoami', arguments: {} })) === who, who);
      assert(!(await names(client)).includes('log_in'), 'no login is missing');
      await client.close();
    }
  },
  async 'a login that was taken back is missing to that person within one call, and to nobody else'() {
    const [hers, his] = [await legacy('ada'), await legacy('dan')];
    await sleep(600);
    hers.notices.length = his.notices.length = 0;
    await forget(provider, secrets, 'dan');
    const said = await his.client.callTool({ name: 'whoami', arguments: {} });
    assert(said.isError && /\/connect\//.test(text(said)), JSON.stringify(said));
    assert(text(await hers.client.callTool({ name: 'whoami', arguments: {} })) === 'ada', 'she is still let in');
    await until('the tool to log in does not appear', async () => (await names(his.client)).includes('log_in'));
    await sleep(600);
    assert(changes(his.notices) === 1 && changes(hers.notices) === 0, `${his.notices} | ${hers.notices}`);
    const found = await state();
    assert(found.state === 'ready' && found.people.logged_in === 1 && found.people.need_login === 1, JSON.stringify(found));
    const page = text(said).match(/http:\S+\/connect\/\S+/)[0];
    assert((await visit(page, 'dan')).status === 200, 'he logs in again');
    assert(text(await his.client.callTool({ name: 'whoami', arguments: {} })) === 'dan', 'and is let in');
    await until('the tool to log in does not go', async () => !(await names(his.client)).includes('log_in'));
    await hers.client.close();
    await his.client.close();
  },
  async 'no token, code or secret stands in a file or a log'() {
    assert(secrets.size > 6, `${secrets.size} secrets`);
    await stop();
    const found = findings(written(gateway), [...secrets, ...Object.values(people)]);
    assert(!found.length, `in clear: ${found}`);
  },
};

for (const [what, story] of Object.entries(checks)) await check(what, story, CHECK_SECONDS);
finish();
