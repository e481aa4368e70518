// People who come from a company's identity provider (`[auth] jwt` with `client_id`), each with a login of their own to a server that has
// another provider; both are real (oidc-provider). The browser that opens `/connect/TICKET` is known by the first, and no token is shown in
// it. Prints PASS or FAIL for each check, and the totals last.

import { createHash, randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { browse, provide } from './login_provider.mjs';
import { MODERN, assert, check, finish, freePort, load, options } from './npm_story.mjs';
import { findings, written } from './secret_search.mjs';
import { CHECK_SECONDS, storyGateway, until } from './story_gateway.mjs';

const { Provider } = await import(pathToFileURL(join(options.peers, 'node_modules/oidc-provider/lib/index.js')).href);
const { Client } = await load('sdk/dist/esm/client/index.js');
const { StreamableHTTPClientTransport } = await load('sdk/dist/esm/client/streamableHttp.js');
const { Client: LaterClient, StreamableHTTPClientTransport: LaterHttp } = await load('client/dist/index.mjs');

const { issuer: serverIssuer, server, secrets } = await provide();
const config = join(options.directory, 'tidings.toml');
const gateway = await storyGateway({ config });
const { base, serve, stop } = gateway;
const resource = `${base}/mcp`;

// ---- the company's provider

const peoplePort = await freePort();
const issuer = `http://127.0.0.1:${peoplePort}`;
const AWAY = 'http://127.0.0.1:1/callback';
const company = new Provider(issuer, {
  clients: [
    // The gateway, which asks whose a browser is.
    { client_id: 'tidings', client_secret: 'tidings-secret-41c9', redirect_uris: [`${base}/oauth/whoami`], grant_types: ['authorization_code'], response_types: ['code'] },
    // The same without a secret: it shows who it is by PKCE alone.
    { client_id: 'tidings-public', token_endpoint_auth_method: 'none', redirect_uris: [`${base}/oauth/whoami`], grant_types: ['authorization_code'], response_types: ['code'] },
    // What people use the gateway with.
    { client_id: 'desk', token_endpoint_auth_method: 'none', application_type: 'native', redirect_uris: [AWAY], grant_types: ['authorization_code'], response_types: ['code'] },
  ],
  pkce: { required: () => true },
  scopes: ['openid', 'mcp'],
  claims: { openid: ['sub', 'groups'] },
  conformIdTokenClaims: false,
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, groups: id === 'olga' ? ['ops'] : ['dev'] }) }),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  cookies: { keys: ['a-key-of-this-story'] },
  ttl: { AccessToken: 3600, Grant: 3600, Session: 3600, Interaction: 600, IdToken: 600 },
  extraTokenClaims: (_, token) => ({ groups: token.accountId === 'olga' ? ['ops'] : ['dev'] }),
  features: {
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      // Only what people use the gateway with asks for it; the gateway itself asks for an ID token alone.
      defaultResource: (_, client) => (client.clientId === 'desk' ? resource : undefined),
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope: 'mcp', audience: resource, accessTokenTTL: 3600, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } }),
    },
  },
});
const given = new Set();
/** How each client showed at the token endpoint who it is. */
const shown = new Map();
company.on('grant.success', (ctx) => {
  const { client, params } = ctx.oidc;
  shown.set(client.clientId, { header: ctx.headers.authorization, secret: ctx.oidc.body.client_secret, verifier: params.code_verifier });
  for (const name of ['access_token', 'id_token']) if (ctx.body[name]) given.add(ctx.body[name]);
  given.add(ctx.oidc.params.code);
});
let isAway = false;
const answer = company.callback();
async function agree(req, res) {
  const { prompt, params, session } = await company.interactionDetails(req, res);
  if (prompt.name === 'login') {
    const accountId = /\bperson=(\w+)/.exec(req.headers.cookie ?? '')?.[1];
    return company.interactionFinished(req, res, { login: { accountId } }, { mergeWithLastSubmission: false });
  }
  const grant = new company.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope('openid mcp');
  grant.addResourceScope(resource, 'mcp');
  return company.interactionFinished(req, res, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
}
createServer((req, res) => {
  if (isAway) return res.writeHead(503).end();
  if (req.url.startsWith('/interaction/')) return agree(req, res).catch((error) => res.writeHead(500).end(String(error)));
  return answer(req, res);
}).listen(peoplePort, '127.0.0.1');

/** A browser of somebody: who they are at both providers. */
const browserOf = (who) => new Map([issuer, serverIssuer].map((place) => [new URL(place).host, new Map([['person', who]])]));

/** A token by which somebody uses the gateway, as their client gets one. */
async function tokenOf(who) {
  const verifier = randomBytes(32).toString('base64url');
  const asked = new URLSearchParams({
    client_id: 'desk',
    response_type: 'code',
    redirect_uri: AWAY,
    scope: 'openid mcp',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    state: 's',
    resource,
  });
  const back = await browse(`${issuer}/auth?${asked}`, browserOf(who), undefined, {}, AWAY);
  const code = new URL(back.url).searchParams.get('code');
  assert(code, back.url);
  const form = new URLSearchParams({ grant_type: 'authorization_code', client_id: 'desk', code, redirect_uri: AWAY, code_verifier: verifier, resource });
  const said = await (await fetch(`${issuer}/token`, { method: 'POST', body: form })).json();
  assert(said.access_token?.split('.').length === 3, JSON.stringify(Object.keys(said)));
  return said.access_token;
}

const jwt = (client) => `jwt = { issuer = "${issuer}", scopes = ["mcp"], groups = "groups", admin = ["group:ops"]${client} }`;
const CLIENT = ', client_id = "tidings", client_secret = "tidings-secret-41c9"';
const PUBLIC = ', client_id = "tidings-public"';
const configure = (client, personal) =>
  writeFileSync(config, `[auth]\n${jwt(client)}\n[servers.crm]\nurl = "${server}"\n${personal ? '[servers.crm.auth]\nfor = "principal"\n' : ''}`);

const tokens = {};
const asPerson = (who) => ({ requestInit: { headers: { authorization: `Bearer ${tokens[who]}` } } });
async function legacy(who) {
  const client = new Client({ name: `legacy of ${who}`, version: '1.0.0' });
  await client.connect(new StreamableHTTPClientTransport(new URL(resource), asPerson(who)));
  return client;
}
async function modern(who, show) {
  const settings = { versionNegotiation: { mode: { pin: MODERN } }, capabilities: { elicitation: { url: {} } } };
  const client = new LaterClient({ name: `modern of ${who}`, version: '1.0.0' }, settings);
  client.setRequestHandler('elicitation/create', async ({ params }) => {
    await show(params.url);
    return { action: 'accept' };
  });
  await client.connect(new LaterHttp(new URL(resource), asPerson(who)));
  return client;
}
const text = (said) => said.content[0].text;
const pageOf = async (client) => text(await client.callTool({ name: 'log_in', arguments: {} })).match(/http:\S+\/connect\/\S+/)[0];
const people = async () => (await (await gateway.api('/servers/crm')).json()).people;

configure(CLIENT, true);
await serve();
for (const who of ['ada', 'dan', 'eve', 'olga']) tokens[who] = await tokenOf(who);
const ada = await legacy('ada');

await check('the page of one person leads another to a clear page, and grants nothing', async () => {
  const refused = await browse(await pageOf(ada), browserOf('dan'));
  assert(refused.status === 403 && refused.text.includes('somebody else than who you are'), `${refused.status}: ${refused.text}`);
  assert(new URL(refused.url).pathname === '/oauth/whoami', refused.url);
  assert((await people()).logged_in === 0, JSON.stringify(await people()));
}, CHECK_SECONDS);
await check('a provider that is away is said, and takes nothing from who asked', async () => {
  isAway = true;
  const away = await browse(await pageOf(ada), browserOf('ada'));
  isAway = false;
  assert(away.status === 502 && away.text.includes('could not be found out'), `${away.status}: ${away.text}`);
}, CHECK_SECONDS);
await check('who asked is known by the provider, and logs in without a token of the gateway in the browser', async () => {
  const page = await pageOf(ada);
  const done = await browse(page, browserOf('ada'));
  assert(done.status === 200 && done.text.includes('for you, and nobody else'), `${done.status}: ${done.text}`);
  assert(text(await ada.callTool({ name: 'whoami', arguments: {} })) === 'ada', 'who she is at the server');
  const again = await browse(page, browserOf('ada'));
  assert(again.status === 404, `${again.status}`);
}, CHECK_SECONDS);
await check('a modern client that can show pages comes through in one call', async () => {
  let shown = 0;
  const dan = await modern('dan', async (url) => {
    shown++;
    const page = await browse(url, browserOf('dan'));
    assert(page.status === 200, `${page.status}: ${page.text}`);
  });
  const said = await dan.callTool({ name: 'log_in', arguments: { server: 'crm' } });
  assert(shown === 1 && !said.isError, `${shown}: ${JSON.stringify(said)}`);
  assert(text(await dan.callTool({ name: 'whoami', arguments: {} })) === 'dan', 'who he is at the server');
  assert((await people()).logged_in === 2, JSON.stringify(await people()));
  await dan.close();
}, CHECK_SECONDS);
await check('what a browser came back with is of no use a second time, or to another browser', async () => {
  const olga = await legacy('olga');
  const page = await pageOf(olga);
  const [hers, theirs] = [browserOf('olga'), browserOf('olga')];
  const back = await browse(page, hers, undefined, {}, `${base}/oauth/whoami`);
  const stolen = await browse(back.url, theirs);
  assert(stolen.status === 404, `${stolen.status}`);
  const done = await browse(back.url, hers);
  assert(done.status === 200, `${done.status}: ${done.text}`);
  const replayed = await browse(back.url, hers);
  assert(replayed.status === 404, `${replayed.status}`);
  await olga.close();
}, CHECK_SECONDS);
const readAgain = async (change) => {
  const read = gateway.output().split('configuration read again').length;
  change();
  await until('the file is not read again', () => gateway.output().split('configuration read again').length > read);
};
await check('a gateway without a secret knows a browser by the code and PKCE alone', async () => {
  assert(shown.get('tidings').header?.startsWith('Basic '), 'so far it showed its secret');
  await readAgain(() => configure(PUBLIC, true));
  const eve = await legacy('eve');
  const page = await pageOf(eve);
  // To the provider, as far as the browser sees it.
  const led = await browse(page, browserOf('eve'), undefined, {}, `${issuer}/auth`);
  const asked = new URL(led.url).searchParams;
  assert(asked.get('client_id') === 'tidings-public' && asked.get('code_challenge_method') === 'S256' && asked.get('code_challenge'), led.url);
  assert(asked.get('nonce') && asked.get('state'), led.url);
  const another = await browse(await pageOf(eve), browserOf('dan'));
  assert(another.status === 403, `${another.status}: ${another.text}`);
  const done = await browse(await pageOf(eve), browserOf('eve'));
  assert(done.status === 200 && done.text.includes('for you, and nobody else'), `${done.status}: ${done.text}`);
  const proof = shown.get('tidings-public');
  assert(!proof.header && !proof.secret && proof.verifier?.length >= 43, JSON.stringify({ ...proof, verifier: proof.verifier?.length }));
  assert(text(await eve.callTool({ name: 'whoami', arguments: {} })) === 'eve', 'who she is at the server');
  await eve.close();
}, CHECK_SECONDS);
await check('a login for all takes an admin, by the groups in the ID token', async () => {
  await readAgain(() => configure(PUBLIC, false));
  const begin = async (who) => {
    const headers = { authorization: `Bearer ${tokens[who]}` };
    return fetch(`${base}/api/v1/servers/crm/login`, { method: 'POST', headers });
  };
  assert((await begin('ada')).status === 403, 'she is no admin');
  const begun = await until('the server does not need a login', async () => {
    const said = await (await begin('olga')).json();
    return said.url && said;
  });
  const refused = await browse(begun.url, browserOf('ada'));
  assert(refused.status === 403, `${refused.status}`);
  const done = await browse(begun.url, browserOf('olga'));
  assert(done.status === 200 && done.text.includes('for all its clients'), `${done.status}: ${done.text}`);
}, CHECK_SECONDS);
await check('no token, code or secret stands in a file or a log', async () => {
  assert(given.size >= 12, `${given.size} secrets`);
  await stop();
  const found = findings(written(gateway), [...secrets, ...given, ...Object.values(tokens)]);
  assert(!found.length, `in clear: ${found}`);
}, CHECK_SECONDS);
finish();
