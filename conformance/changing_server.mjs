// A server of the npm SDK on stdio that describes its tool anew while it runs, and says so.

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const { values: options } = parseArgs({ options: { peers: { type: 'string' } } });
const modules = join(options.peers, 'node_modules');
const load = (file) => import(pathToFileURL(join(modules, file)).href);
const { McpServer } = await load('@modelcontextprotocol/server/dist/index.mjs');
const { StdioServerTransport } = await load('@modelcontextprotocol/server/dist/stdio.mjs');
const { z } = await load('zod/index.js');

const server = new McpServer({ name: 'changing', version: '1.0.0' });
const text = (words) => ({ content: [{ type: 'text', text: words }] });
const tools = {
  greet: server.registerTool('greet', { description: 'Says hello.', inputSchema: z.object({}) }, () => text('hello')),
};
server.registerTool(
  'describe',
  { description: 'Describes a tool anew.', inputSchema: z.object({ name: z.string(), text: z.string() }) },
  ({ name, text: description }) => {
    tools[name].update({ description });
    return text(`described ${name}`);
  },
);
server.registerPrompt('hello', { description: 'Says hello.' }, () => ({
  messages: [{ role: 'user', content: { type: 'text', text: 'hello' } }],
}));
await server.connect(new StdioServerTransport());
