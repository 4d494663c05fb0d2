// The official TypeScript SDK of MCP on Hono's adapter for Node: no sessions, JSON responses. It uses the low-level
// server, because the SDK creates a server for each request, and the low-level one can share the list of tools.
//
// Arguments: --listen HOST:PORT or --stdio, and --tools N.

import { createServer } from 'node:http';
import { parseArgs } from 'node:util';
import { getRequestListener } from '@hono/node-server';
import {
  PROTOCOL_VERSION_META_KEY,
  Server,
  WebStandardStreamableHTTPServerTransport,
  createMcpHandler,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const { values: options } = parseArgs({
  options: {
    listen: { type: 'string', default: '127.0.0.1:8080' },
    stdio: { type: 'boolean', default: false },
    tools: { type: 'string', default: '2' },
  },
});

const schema = (type, ...names) => ({
  type: 'object',
  properties: Object.fromEntries(names.map((name) => [name, { type }])),
  required: names,
});

const tools = [
  { name: 'echo', description: 'Sends a message back', inputSchema: schema('string', 'message') },
  { name: 'add', description: 'Adds two numbers', inputSchema: schema('number', 'a', 'b') },
];
while (tools.length < Number(options.tools)) {
  const name = `tool_${String(tools.length).padStart(3, '0')}`;
  tools.push({ name, description: 'Does nothing', inputSchema: schema('string', 'message') });
}

const structured = (result) => ({
  content: [{ type: 'text', text: JSON.stringify(result) }],
  structuredContent: result,
});

function call({ params: { name, arguments: given } }) {
  switch (name) {
    case 'echo':
      return structured({ echo: given.message, length: Buffer.byteLength(given.message) });
    case 'add':
      return structured({ sum: given.a + given.b });
    default:
      return { content: [{ type: 'text', text: 'nothing' }] };
  }
}

function newServer() {
  const server = new Server({ name: 'bench', version: '1.0' }, { capabilities: { tools: {} } });
  server.setRequestHandler('tools/list', () => ({ tools }));
  server.setRequestHandler('tools/call', call);
  return server;
}

// Does the same as `createMcpHandler` for this era, but with JSON responses instead of event streams.
async function answerLegacy(request, parsedBody) {
  const transport = new WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: undefined,
    enableJsonResponse: true,
  });
  await newServer().connect(transport);
  return transport.handleRequest(request, { parsedBody });
}

function serveHttp() {
  const modern = createMcpHandler(newServer, { legacy: 'reject' });
  const answer = async (request) => {
    const parsedBody = await request.json();
    // `isLegacyRequest` checks more, but the handler repeats those checks.
    const isModern = parsedBody.params?._meta?.[PROTOCOL_VERSION_META_KEY] !== undefined;
    return isModern ? modern.fetch(request, { parsedBody }) : answerLegacy(request, parsedBody);
  };
  const [host, port] = options.listen.split(':');
  createServer(getRequestListener(answer)).listen(Number(port), host);
}

if (options.stdio) {
  serveStdio(newServer);
} else {
  serveHttp();
}
