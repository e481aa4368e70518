// A server of the npm SDK on stdio with the skills of a folder, one on a page. `--era` says in which era alone it speaks.

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const { values: options } = parseArgs({
  options: { peers: { type: 'string' }, folder: { type: 'string' }, era: { type: 'string' } },
});
const load = (file) =>
  import(pathToFileURL(join(options.peers, 'node_modules/@modelcontextprotocol/server/dist', file)).href);
const { McpServer } = await load('index.mjs');
const { StdioServerTransport, serveStdio } = await load('stdio.mjs');
const { loadSkills } = await load('ext/skills/node.mjs');

const skills = await loadSkills(options.folder, { pageSize: 1, strict: true, cacheHint: { ttlMs: 60_000, cacheScope: 'public' } });

function server() {
  const made = new McpServer({ name: options.era, version: '1.0.0' });
  skills.attach(made);
  return made;
}

if (options.era === 'modern') serveStdio(server, { legacy: 'reject' });
else await server().connect(new StdioServerTransport());
