// A real provider (oidc-provider, which rotates refresh tokens) and a server on npm that lets nobody in without a token of it. Started as a
// program, it prints where the server is, and stays.

import { createServer } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { freePort, load, options } from './npm_story.mjs';

/** Starts both; gives the provider and where it is, where the server is, everything secret that was given away, every refresh, and how clients
 * showed who they are. `reads`: the provider registers nobody, and reads the documents of clients instead, by this function. */
export async function provide({ reads } = {}) {
  const { Provider } = await import(pathToFileURL(join(options.peers, 'node_modules/oidc-provider/lib/index.js')).href);
  const { McpServer } = await load('sdk/dist/esm/server/mcp.js');
  const { StreamableHTTPServerTransport } = await load('sdk/dist/esm/server/streamableHttp.js');
  const [providerPort, serverPort] = [await freePort(), await freePort()];
  const issuer = `http://127.0.0.1:${providerPort}`;
  const server = `http://127.0.0.1:${serverPort}/mcp`;

  /** Everything that it gave away, which nobody else may show. */
  const secrets = new Set();
  const refreshes = [];
  const proofs = [];
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'robot',
        client_secret: 'robot-secret-7f1c',
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
      },
    ],
    pkce: { required: () => true },
    rotateRefreshToken: true,
    scopes: ['openid', 'offline_access', 'read'],
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    cookies: { keys: ['a-key-of-this-story'] },
    ttl: { AccessToken: 3600, RefreshToken: 3600, Grant: 3600, Session: 3600, Interaction: 600, ClientCredentials: 3600, DeviceCode: 600 },
    // The one of Node's own that it takes by itself refuses the addresses of this machine.
    ...(reads && { fetch: reads }),
    features: {
      devInteractions: { enabled: false },
      registration: { enabled: !reads },
      ...(reads && { clientIdMetadataDocument: { enabled: true, ack: 'draft-02' } }),
      revocation: { enabled: true },
      clientCredentials: { enabled: true },
      deviceFlow: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => server,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({ scope: 'read', audience: server, accessTokenTTL: 3600, accessTokenFormat: 'opaque' }),
      },
    },
  });
  provider.on('grant.success', (ctx) => {
    for (const name of ['access_token', 'refresh_token']) if (ctx.body[name]) secrets.add(ctx.body[name]);
    for (const name of ['code', 'device_code']) if (ctx.oidc.params[name]) secrets.add(ctx.oidc.params[name]);
    const { client, body, params } = ctx.oidc;
    proofs.push({ client: client.clientId, header: ctx.headers.authorization, secret: body.client_secret, verifier: params.code_verifier });
    if (ctx.oidc.params.grant_type === 'refresh_token') refreshes.push(ctx.oidc.params.refresh_token);
  });
  provider.on('registration_create.success', (ctx) => ctx.body.client_secret && secrets.add(ctx.body.client_secret));
  const answer = provider.callback();

  /** The person at the provider says yes to everything. */
  async function agree(req, res) {
    const { prompt, params, session } = await provider.interactionDetails(req, res);
    if (prompt.name === 'login') {
      // Who sits before the browser: ada, unless it says otherwise.
      const accountId = /\bperson=(\w+)/.exec(req.headers.cookie ?? '')?.[1] ?? 'ada';
      return provider.interactionFinished(req, res, { login: { accountId } }, { mergeWithLastSubmission: false });
    }
    const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    grant.addOIDCScope('openid offline_access read');
    grant.addResourceScope(server, 'read');
    const consent = { grantId: await grant.save() };
    return provider.interactionFinished(req, res, { consent }, { mergeWithLastSubmission: true });
  }
  createServer((req, res) =>
    req.url.startsWith('/interaction/') ? agree(req, res).catch((error) => res.writeHead(500).end(String(error))) : answer(req, res),
  ).listen(providerPort, '127.0.0.1');

  const known = async (token) =>
    (await provider.AccessToken.find(token)) ?? (await provider.ClientCredentials.find(token)) ?? undefined;

  createServer(async (req, res) => {
    const path = '/.well-known/oauth-protected-resource/mcp';
    if (req.url === path) {
      res.writeHead(200, { 'content-type': 'application/json' });
      return res.end(JSON.stringify({ resource: server, authorization_servers: [issuer], scopes_supported: ['read'] }));
    }
    const token = req.headers.authorization?.replace(/^Bearer /, '');
    const found = token && (await known(token));
    if (!found || ![found.aud].flat().includes(server)) {
      const where = `http://127.0.0.1:${serverPort}${path}`;
      res.writeHead(401, { 'www-authenticate': `Bearer resource_metadata="${where}"${token ? ', error="invalid_token"' : ''}` });
      return res.end();
    }
    if (req.method !== 'POST') return res.writeHead(405).end();
    const mcp = new McpServer({ name: 'crm', version: '1.0.0' });
    mcp.registerTool('whoami', { description: 'Who is asking' }, () => ({
      content: [{ type: 'text', text: found.accountId ?? found.clientId }],
    }));
    if (found.accountId === 'dan') {
      mcp.registerTool('audit', { description: 'What others did' }, () => ({ content: [{ type: 'text', text: 'nothing' }] }));
    }
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    res.on('close', () => transport.close());
    await mcp.connect(transport);
    await transport.handleRequest(req, res);
  }).listen(serverPort, '127.0.0.1');

  return { issuer, provider, server, secrets, refreshes, proofs };
}

/** Follows redirects as a browser does, with the cookies of each place; not to an address that begins with `until`, which it gives. */
export async function browse(url, jar = new Map(), form = undefined, headers = {}, until = undefined) {
  for (let hops = 0; hops < 20; hops++) {
    if (until && url.startsWith(until)) return { url };
    const { host } = new URL(url);
    const cookies = [...(jar.get(host) ?? new Map())].map(([name, value]) => `${name}=${value}`).join('; ');
    const sent = form ? { method: 'POST', body: new URLSearchParams(form) } : {};
    form = undefined;
    const page = await fetch(url, { redirect: 'manual', headers: cookies ? { ...headers, cookie: cookies } : headers, ...sent });
    if (!jar.has(host)) jar.set(host, new Map());
    for (const line of page.headers.getSetCookie()) {
      const [pair] = line.split(';');
      const at = pair.indexOf('=');
      jar.get(host).set(pair.slice(0, at), pair.slice(at + 1));
    }
    const to = page.headers.get('location');
    if (!to) return { url, status: page.status, text: await page.text() };
    url = new URL(to, url).href;
  }
  throw new Error('it leads in circles');
}

/** The provider takes back what it gave for one account. */
export async function forget(provider, secrets, account) {
  for (const token of secrets) {
    for (const kind of [provider.RefreshToken, provider.AccessToken]) {
      const found = await kind.find(token);
      if (found?.accountId === account) await found.destroy();
    }
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { server } = await provide();
  console.log(JSON.stringify({ server }));
}
