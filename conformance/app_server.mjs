// A server of the npm SDK and of the Apps SDK on stdio, of the modern era, with one app. It shows the page only to clients that say
// they can show it, as the extension asks of servers, and declares the extension.

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const { values: options } = parseArgs({ options: { peers: { type: 'string' } } });
const modules = join(options.peers, 'node_modules');
const load = (file) => import(pathToFileURL(join(modules, file)).href);
const { McpServer } = await load('@modelcontextprotocol/server/dist/index.mjs');
const { serveStdio } = await load('@modelcontextprotocol/server/dist/stdio.mjs');
const { registerAppResource, registerAppTool, getUiCapability, EXTENSION_ID, RESOURCE_MIME_TYPE } = await load(
  '@modelcontextprotocol/ext-apps/dist/src/server/index.js',
);
const { z } = await load('zod/index.js');

const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
const PAGE = 'ui://clock/page.html';
const text = (words) => ({ content: [{ type: 'text', text: words }] });

serveStdio(
  () => {
    const settings = { mimeTypes: [RESOURCE_MIME_TYPE] };
    const server = new McpServer(
      { name: 'clock', version: '1.0.0' },
      { capabilities: { extensions: { [EXTENSION_ID]: settings } } },
    );
    const shown = { description: 'Shows the time.', inputSchema: z.object({}), _meta: { ui: { resourceUri: PAGE } } };
    registerAppTool(server, 'show', shown, (_, context) => {
      const host = getUiCapability(context.mcpReq.envelope?.[CAPABILITIES]);
      return text(host?.mimeTypes?.includes(RESOURCE_MIME_TYPE) ? 'noon' : 'this client shows no pages');
    });
    const tick = { ...shown, _meta: { ui: { resourceUri: PAGE, visibility: ['app'] } } };
    registerAppTool(server, 'tick', tick, () => text('tock'));
    registerAppResource(server, 'clock', PAGE, {}, () => ({
      contents: [{ uri: PAGE, mimeType: RESOURCE_MIME_TYPE, text: `<p>${PAGE}</p>` }],
    }));
    return server;
  },
  { legacy: 'reject' },
);
