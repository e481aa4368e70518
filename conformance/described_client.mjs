// A gateway that a provider knows by the document that it serves about itself (CIMD): the provider (oidc-provider) registers nobody, reads the
// document over TLS, and the login, its renewals and a restart go by it, without a secret. Prints PASS or FAIL for each check, and the
// totals last.

import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import tls from 'node:tls';

import { browse, provide } from './login_provider.mjs';
import { assert, check, finish, load, options } from './npm_story.mjs';
import { findings, written } from './secret_search.mjs';
import { CHECK_SECONDS, storyGateway, until } from './story_gateway.mjs';

const { Client } = await load('sdk/dist/esm/client/index.js');
const { StreamableHTTPClientTransport } = await load('sdk/dist/esm/client/streamableHttp.js');

// ---- a certificate that this process trusts

const [cert, key] = ['cert.pem', 'key.pem'].map((file) => join(options.directory, file));
const made = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=gateway'];
execFileSync('openssl', [...made, '-addext', 'subjectAltName=DNS:localhost', '-keyout', key, '-out', cert], { stdio: 'ignore' });
tls.setDefaultCACertificates([...tls.getCACertificates('default'), readFileSync(cert, 'utf8')]);

// ---- the provider, which reads documents, and the gateway

const documents = [];
const { provider, server, secrets, refreshes, proofs, issuer } = await provide({
  reads: async (url, { dispatcher: _, ...how }) => {
    const read = await fetch(url, how);
    documents.push({ url: String(url), status: read.status });
    return read;
  },
});
const config = join(options.directory, 'tidings.toml');
const gateway = await storyGateway({ config, place: 'https://localhost' });
const { base, serve, stop, run } = gateway;
writeFileSync(config, `[gateway]\npublic_url = "${base}"\ntls = { cert = "${cert}", key = "${key}" }\n`);
const document = `${base}/oauth/client.json`;

async function client() {
  const client = new Client({ name: 'story', version: '1.0.0' });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${base}/mcp`)));
  return client;
}

const state = async () => JSON.parse((await run('servers', 'crm', '--json')).text).state;
/** Its name has a prefix while the demo is there, too. */
const tool = async (client) => (await client.listTools()).tools.find((tool) => tool.name.endsWith('whoami'))?.name;
async function whoami(client) {
  const name = await until('the tool does not appear', () => tool(client));
  return (await client.callTool({ name, arguments: {} })).content[0].text;
}

async function begin() {
  const said = gateway.command('login', 'crm', '--json');
  const first = await until('the login does not begin', () => said.text.startsWith('{') && said.text.includes('\n') && said.text);
  return { said, begun: JSON.parse(first.split('\n')[0]) };
}

await serve();
const checks = {
  async 'the document says what the gateway is, where it stands'() {
    const read = await fetch(document);
    const said = await read.json();
    assert(read.status === 200 && read.headers.get('content-type').startsWith('application/json'), `${read.status}`);
    assert(said.client_id === document && said.token_endpoint_auth_method === 'none', JSON.stringify(said));
    assert(said.redirect_uris.length === 1 && said.redirect_uris[0] === `${base}/oauth/callback`, JSON.stringify(said));
  },
  async 'a provider that registers nobody reads it, and the login goes through'() {
    const about = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json();
    assert(about.client_id_metadata_document_supported && !about.registration_endpoint, JSON.stringify(about));
    const added = await run('add', 'crm', '--url', server);
    assert(added.code === 0 && (await state()) === 'needs login', added.text);
    const { said, begun } = await begin();
    const asked = new URL(begun.authorize).searchParams;
    assert(asked.get('client_id') === document && asked.get('code_challenge_method') === 'S256', begun.authorize);
    const page = await browse(begun.url);
    assert(page.status === 200, `${page.status}: ${page.text.slice(0, 500)}`);
    assert((await said.ended) === 0, said.text);
    assert(documents.length >= 1 && documents.every(({ url, status }) => url === document && status === 200), JSON.stringify(documents));
    const one = await client();
    assert((await whoami(one)) === 'ada', 'who is asking');
    await one.close();
  },
  async 'a renewal is made by the same client'() {
    const one = await client();
    const before = refreshes.length;
    for (const token of secrets) await (await provider.AccessToken.find(token))?.destroy();
    assert((await whoami(one)) === 'ada', 'the call goes on');
    assert(refreshes.length === before + 1, `${refreshes.length - before} renewals`);
    await one.close();
  },
  async 'after a restart nobody logs in again'() {
    await stop();
    await serve();
    const one = await client();
    for (const token of secrets) await (await provider.AccessToken.find(token))?.destroy();
    assert((await whoami(one)) === 'ada', 'renewed by what was kept');
    await one.close();
  },
  async 'it never showed a secret, and proved each code by PKCE'() {
    assert(proofs.length >= 3, `${proofs.length} exchanges`);
    assert(proofs.every(({ client, header, secret }) => client === document && !header && !secret), JSON.stringify(proofs.map(({ client }) => client)));
    assert(proofs[0].verifier?.length >= 43, 'the code has its verifier');
  },
  async 'no token or code stands in a file or a log'() {
    await stop();
    const found = findings(written(gateway), secrets);
    assert(secrets.size >= 5 && !found.length, `${secrets.size} secrets, in clear: ${found}`);
  },
};
for (const [what, story] of Object.entries(checks)) await check(what, story, CHECK_SECONDS);
finish();
