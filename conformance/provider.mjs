// A gateway that lets in whoever has a token of a real identity provider (oidc-provider): clients of npm find the provider by what the
// gateway says, register, log in and call, in both eras, with signed tokens and with opaque ones. Prints PASS or FAIL for each check, and the
// totals last.

import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { MODERN, assert, check, finish, freePort, load, options } from './npm_story.mjs';

const CHECK_SECONDS = 60;
const { Provider } = await import(pathToFileURL(join(options.peers, 'node_modules/oidc-provider/lib/index.js')).href);
const { Client } = await load('sdk/dist/esm/client/index.js');
const { StreamableHTTPClientTransport } = await load('sdk/dist/esm/client/streamableHttp.js');
const { Client: LaterClient, StreamableHTTPClientTransport: LaterHttp } = await load('client/dist/index.mjs');

const [providerPort, gatewayPort] = [await freePort(), await freePort()];
const issuer = `http://127.0.0.1:${providerPort}`;
const base = `http://127.0.0.1:${gatewayPort}`;
const resource = `${base}/mcp`;
const data = join(options.directory, 'data');
mkdirSync(data, { recursive: true });

// ---- the provider

let format = 'jwt';
const provider = new Provider(issuer, {
  clients: [{ client_id: 'gateway', client_secret: 'gateway-secret-3d', grant_types: [], redirect_uris: [], response_types: [] }],
  pkce: { required: () => true },
  scopes: ['openid', 'offline_access', 'mcp'],
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  cookies: { keys: ['a-key-of-this-story'] },
  ttl: { AccessToken: 3600, RefreshToken: 3600, Grant: 3600, Session: 3600, Interaction: 600 },
  extraTokenClaims: () => ({ groups: ['support'] }),
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    introspection: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope: 'mcp', audience: resource, accessTokenTTL: 3600, accessTokenFormat: format, jwt: { sign: { alg: 'RS256' } } }),
    },
  },
});
const answer = provider.callback();

/** The person at the provider says yes to everything. */
async function agree(req, res) {
  const { prompt, params, session } = await provider.interactionDetails(req, res);
  if (prompt.name === 'login') {
    return provider.interactionFinished(req, res, { login: { accountId: 'ada' } }, { mergeWithLastSubmission: false });
  }
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope('openid offline_access mcp');
  grant.addResourceScope(resource, 'mcp');
  return provider.interactionFinished(req, res, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
}
createServer((req, res) =>
  req.url.startsWith('/interaction/') ? agree(req, res).catch((error) => res.writeHead(500).end(String(error))) : answer(req, res),
).listen(providerPort, '127.0.0.1');

// ---- the gateway, clients with a browser

const config = join(options.directory, 'tidings.toml');
const ways = {
  jwt: `jwt = { issuer = "${issuer}", scopes = ["mcp"] }`,
  opaque: `introspection = { url = "${issuer}/token/introspection", issuer = "${issuer}", client_id = "gateway", client_secret = "gateway-secret-3d", scopes = ["mcp"] }`,
};
const configure = (way) => writeFileSync(config, `[auth]\n${ways[way]}\n`);
configure('jwt');
let output = '';
const gateway = spawn(options.tidings, ['-v', 'serve', '--config', config, '--data', data, '--listen', `127.0.0.1:${gatewayPort}`], {
  stdio: ['ignore', 'pipe', 'pipe'],
  cwd: options.directory,
  env: { ...process.env, HOME: options.directory, XDG_CONFIG_HOME: options.directory },
});
for (const stream of [gateway.stdout, gateway.stderr]) stream.on('data', (text) => (output += text));

async function until(what, holds) {
  const end = performance.now() + 1000 * CHECK_SECONDS;
  for (;;) {
    const value = await holds();
    if (value) return value;
    assert(performance.now() < end, `${what}\n${output.slice(-2000)}`);
    await sleep(20);
  }
}

/** Follows redirects as a browser does until it would come back to the client, and gives the code. */
async function codeOf(url) {
  const jar = new Map();
  for (let hops = 0; hops < 20; hops++) {
    const cookies = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
    const page = await fetch(url, { redirect: 'manual', headers: cookies ? { cookie: cookies } : {} });
    for (const line of page.headers.getSetCookie()) {
      const [pair] = line.split(';');
      jar.set(pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1));
    }
    const to = page.headers.get('location');
    assert(to, `${page.status}: ${(await page.text()).slice(0, 500)}`);
    url = new URL(to, url).href;
    if (url.startsWith('http://127.0.0.1:1/')) return new URL(url).searchParams;
  }
  throw new Error('it leads in circles');
}

/** What the SDKs want of a client that can log in. */
class Person {
  kept = {};
  get redirectUrl() {
    return 'http://127.0.0.1:1/callback';
  }
  get clientMetadata() {
    return { client_name: 'story', redirect_uris: [this.redirectUrl], grant_types: ['authorization_code'], response_types: ['code'], token_endpoint_auth_method: 'none' };
  }
  clientInformation = () => this.kept.client;
  saveClientInformation = (client) => void (this.kept.client = client);
  tokens = () => this.kept.tokens;
  saveTokens = (tokens) => void (this.kept.tokens = tokens);
  saveCodeVerifier = (verifier) => void (this.kept.verifier = verifier);
  codeVerifier = () => this.kept.verifier;
  redirectToAuthorization = (url) => void (this.kept.page = url);
}

/** A client that is told to log in, does, and is connected. */
async function connected(Kind, Http, settings) {
  const person = new Person();
  const make = () => [new Kind({ name: 'story', version: '1.0.0' }, settings), new Http(new URL(resource), { authProvider: person })];
  const [first, way] = make();
  const refused = await first.connect(way).then(() => undefined, (error) => error);
  assert(refused && person.kept.page, `it was not led to the provider: ${refused}`);
  assert(person.kept.page.origin === issuer, person.kept.page.href);
  assert(person.kept.page.searchParams.get('resource') === resource, person.kept.page.href);
  assert(person.kept.page.searchParams.get('scope')?.includes('mcp'), person.kept.page.href);
  const back = await codeOf(person.kept.page.href);
  assert(back.get('code'), String(back));
  await (way.finishAuth.length > 1 || Http === LaterHttp ? way.finishAuth(back) : way.finishAuth(back.get('code')));
  const [client, again] = make();
  await client.connect(again);
  return { client, person };
}

const tools = async (client) => (await client.listTools()).tools.map((tool) => tool.name);
await until('the gateway is not ready', () => fetch(`${base}/readyz`).then((answer) => answer.ok, () => false));

const eras = { legacy: [Client, StreamableHTTPClientTransport, {}], modern: [LaterClient, LaterHttp, { versionNegotiation: { mode: { pin: MODERN } } }] };
let signed;
for (const way of ['jwt', 'opaque']) {
  for (const [era, parts] of Object.entries(eras)) {
    await check(
      `a ${era} client finds the provider, logs in and calls, with a token that is ${way}`,
      async () => {
        if (format !== way) {
          format = way;
          configure(way);
          // Applied without a restart.
          await until('the file is not read again', async () => output.split('configuration read again').length > 1);
        }
        const { client, person } = await connected(...parts);
        const [first] = await tools(client);
        assert(first, 'there are no tools');
        const said = await client.callTool({ name: first, arguments: {} });
        assert(said.content?.length, JSON.stringify(said));
        const parted = person.kept.tokens.access_token.split('.').length === 3;
        assert(parted === (way === 'jwt'), 'the token is of the other kind');
        if (way === 'jwt') signed ??= person.kept.tokens.access_token;
        await client.close();
      },
      CHECK_SECONDS,
    );
  }
}
for (const mode of ['auto', 'legacy']) {
  await check(
    `a client of PyPI (${mode}) finds the provider, logs in and calls`,
    async () => {
      const script = fileURLToPath(new URL('provider_client.py', import.meta.url));
      const child = spawn(join(options.peers, 'venv/bin/python'), [script, resource, mode], { stdio: ['ignore', 'pipe', 'pipe'] });
      const said = { out: '', err: '' };
      child.stdout.on('data', (text) => (said.out += text));
      child.stderr.on('data', (text) => (said.err += text));
      const code = await new Promise((resolve) => child.once('close', resolve));
      assert(code === 0 && said.out.trim(), `${code}: ${said.err.trim().split('\n').slice(-3).join(' | ')}`);
    },
    CHECK_SECONDS,
  );
}
await check('a token of the provider that is taken out of the configuration opens nothing', async () => {
  const headers = { authorization: `Bearer ${signed}`, 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const ping = { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } } };
  const said = await fetch(resource, { method: 'POST', headers, body: JSON.stringify(ping) });
  assert(said.status === 401 && said.headers.get('www-authenticate').includes('error="invalid_token"'), `${said.status}`);
});
await check('no token is in what the gateway wrote', async () => assert(!output.includes(signed) && !output.includes('gateway-secret'), 'it is'));
const ended = new Promise((resolve) => gateway.once('exit', resolve));
gateway.kill('SIGTERM');
await ended;
finish();
