// Where a text stands among all that a gateway shows and writes: every answer of its API, every screen of its page, its files, and what it
// logged. A search that does not look everywhere fails, and so does one that would not find what is there.

import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

import { browse } from './login_provider.mjs';
import { assert } from './npm_story.mjs';

/** What a browser says of a link that it follows within the page. */
const WITHIN = { 'sec-fetch-site': 'same-origin' };
/** How long a stream is listened to. */
const MOMENT = 400;

/** What a stream says first, or a whole answer. */
async function read(answer, stop) {
  if (!answer.headers.get('content-type')?.startsWith('text/event-stream')) return answer.text();
  let text = '';
  const timer = setTimeout(() => stop.abort(), MOMENT);
  try {
    for await (const part of answer.body) text += Buffer.from(part).toString('latin1');
  } catch {
    // Cut off, because it would go on.
  }
  clearTimeout(timer);
  return text;
}

/** The answer of every route that can be asked for, by path. `ticket`: a login that was begun. Each route has to answer once. */
async function answers(gateway, ticket) {
  const places = new Map();
  const get = async (path) => {
    const stop = new AbortController();
    const answer = await gateway.api(path, { signal: stop.signal });
    const text = await read(answer, stop);
    // What it says when it refuses is an answer, too.
    places.set(`GET ${path}`, text);
    return { ok: answer.ok, text };
  };
  const json = async (path) => JSON.parse((await get(path)).text);
  const tried = await gateway.api('/calls', { method: 'POST', body: JSON.stringify({ name: 'crm__whoami', arguments: {} }) });
  places.set('POST /calls', await tried.text());
  const tool = { kind: 'tools', server: 'crm' };
  const { digest } = await json('/definitions/tools/crm/whoami');
  const known = {
    server: (await json('/servers')).servers.map((server) => server.name),
    seq: (await json('/changes')).changes.map((change) => change.seq),
    client: (await json('/clients')).clients.map((client) => client.id),
    entry: (await json('/entries')).entries.map((entry) => entry.id).slice(0, 3),
  };
  const document = await json('/openapi.json');
  for (const [path, methods] of Object.entries(document.paths)) {
    if (!methods.get) continue;
    const ways = [];
    const fill = (fields) => ways.push(path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(fields[name])));
    if (path.startsWith('/servers/{name}')) known.server.forEach((name) => fill({ name, ticket }));
    else if (path.startsWith('/changes/{seq}')) known.seq.forEach((seq) => fill({ seq }));
    else if (path.startsWith('/clients/{id}')) known.client.forEach((id) => fill({ id }));
    else if (path.startsWith('/entries/{id}')) known.entry.forEach((id) => fill({ id }));
    else if (path === '/calls/{id}') fill({ id: 1 });
    else if (path.startsWith('/definitions')) fill({ ...tool, name: 'whoami', digest });
    else if (path === '/explain') ways.push('/explain?as=group:any&item=crm/whoami');
    else if (path === '/search') ways.push('/search?q=who');
    else if (path === '/changes/stream') ways.push('/changes/stream?since=0');
    else ways.push(path);
    let answered = false;
    for (const way of ways) {
      assert(!way.includes('undefined'), `${way}: the search knows no value for it`);
      answered = (await get(way)).ok || answered;
    }
    assert(answered, `${path}: not one answer of ${ways}`);
  }
  for (const path of ['/metrics', '/healthz', '/readyz']) places.set(`GET ${path}`, await (await fetch(gateway.base + path)).text());
  return places;
}

/** Every screen of the page that a link leads to, and the stream that keeps them current. */
async function screens(gateway) {
  const made = await gateway.api('/links', { method: 'POST', body: JSON.stringify({ plain_host: true }) });
  const { url } = await made.json();
  const jar = new Map();
  const first = await browse(url, jar, undefined, WITHIN);
  assert(first.status === 200, `${first.status}: ${first.text.slice(0, 300)}`);
  const places = new Map([[new URL(first.url).pathname, first.text]]);
  const left = ['/', '/clients', '/follows', '/servers', '/add', '/tools', '/calls', '/approvals', '/connect', '/tries/1'];
  const links = (text) => [...text.matchAll(/\shref="(\/[^"]*)"/g)].map(([, to]) => to.replaceAll('&amp;', '&').split('#')[0]);
  left.push(...links(first.text));
  while (left.length && places.size < 300) {
    const path = left.shift();
    if (places.has(`screen ${path}`)) continue;
    const page = await browse(new URL(path, first.url).href, jar, undefined, WITHIN);
    places.set(`screen ${path}`, page.text);
    if (page.status === 200) left.push(...links(page.text));
  }
  for (const path of ['/', '/clients', '/servers', '/servers/crm', '/tools', '/tools/crm/whoami', '/tries/1', '/calls', '/connect']) {
    assert(places.get(`screen ${path}`)?.includes('<main'), `${path}: no screen: ${places.get(`screen ${path}`)?.slice(0, 200)}`);
  }
  const { host } = new URL(first.url);
  const cookie = [...jar.get(host)].map(([name, value]) => `${name}=${value}`).join('; ');
  const stop = new AbortController();
  places.set('screen /live', await read(await fetch(new URL('/live', first.url), { headers: { ...WITHIN, cookie }, signal: stop.signal }), stop));
  return places;
}

/** Everything that the gateway wrote into its files; sockets hold nothing and can not be opened. */
function files(folder) {
  const entries = readdirSync(folder, { withFileTypes: true, recursive: true }).filter((entry) => entry.isFile());
  return new Map(entries.map((entry) => [`file ${entry.name}`, readFileSync(join(entry.parentPath, entry.name), 'latin1')]));
}

/** All that a running gateway shows, by where. */
export async function shown(gateway, ticket) {
  return new Map([...(await answers(gateway, ticket)), ...(await screens(gateway))]);
}

/** All that it wrote, after its end. */
export const written = (gateway) => new Map([...files(gateway.data), ['what it and its commands said', gateway.output()]]);

/** Where one of these stands. */
export function findings(places, texts) {
  return [...places].filter(([, said]) => [...texts].some((text) => said.includes(text))).map(([place]) => place);
}
