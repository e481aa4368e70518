// A server of the npm SDK on stdio that asks its client by results of the modern era: a form, a sample and the roots, in two rounds.

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const { values: options } = parseArgs({ options: { peers: { type: 'string' } } });
const modules = join(options.peers, 'node_modules');
const load = (file) => import(pathToFileURL(join(modules, file)).href);
const { McpServer } = await load('@modelcontextprotocol/server/dist/index.mjs');
const { serveStdio } = await load('@modelcontextprotocol/server/dist/stdio.mjs');
const { z } = await load('zod/index.js');

const form = {
  method: 'elicitation/create',
  params: { message: 'Name?', requestedSchema: { type: 'object', properties: { name: { type: 'string' } } } },
};
const sample = {
  method: 'sampling/createMessage',
  params: { messages: [{ role: 'user', content: { type: 'text', text: 'Capital?' } }], maxTokens: 10 },
};

function asking() {
  const server = new McpServer({ name: 'asking', version: '1.0.0' });
  server.registerTool('ask', { description: 'Asks.', inputSchema: z.object({}) }, (_input, context) => {
    const { inputResponses: heard, requestState: state } = context.mcpReq;
    if (!heard) return { resultType: 'input_required', inputRequests: { form }, requestState: 'first' };
    if (heard.form) {
      const requestState = `${state()} ${heard.form.content.name}`;
      return { resultType: 'input_required', inputRequests: { sample, roots: { method: 'roots/list' } }, requestState };
    }
    const said = [state(), heard.sample.content.text ?? heard.sample.content[0].text, heard.roots.roots[0].uri];
    return { content: [{ type: 'text', text: said.join(' ') }] };
  });
  return server;
}

serveStdio(asking);
