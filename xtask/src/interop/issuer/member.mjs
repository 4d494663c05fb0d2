// An MCP server with sessions (revision 2025-06-18). Accepts only tokens of its issuer for its own URL. The tool `whoami`
// returns the subject of the token. Arguments: the port, and the URL of the issuer. `/seen` returns all requests.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createRemoteJWKSet, jwtVerify } from 'jose';

const [port, issuer] = process.argv.slice(2);
const keys = createRemoteJWKSet(new URL(`${issuer}/jwks`));
const audience = `http://127.0.0.1:${port}/mcp`;
const sessions = new Map();
const seen = { requests: [], refused: 0, mixed: 0 };

const results = {
  'tools/list': () => ({ tools: [{ name: 'whoami', inputSchema: { type: 'object' } }] }),
  'tools/call': (subject) => ({ content: [{ type: 'text', text: subject }] }),
  ping: () => ({}),
  initialize: () => ({
    protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'member', version: '1' },
  }),
};

createServer(async (request, response) => {
  const end = (status, headers = {}, body = '') => response.writeHead(status, headers).end(body);
  if (request.url === '/seen') return end(200, {}, JSON.stringify(seen));
  let body = '';
  for await (const chunk of request) body += chunk;
  seen.requests.push(`${request.method} ${request.url} ${JSON.stringify(request.rawHeaders)} ${body}`);
  let subject;
  try {
    const token = (request.headers.authorization ?? '').replace(/^Bearer /, '');
    subject = (await jwtVerify(token, keys, { issuer, audience })).payload.sub;
  } catch {
    seen.refused += 1;
    return end(401);
  }
  if (request.method !== 'POST') return end(request.method === 'GET' ? 405 : 200);
  const session = request.headers['mcp-session-id'];
  if (session && sessions.get(session) !== subject) {
    seen.mixed += 1;
    return end(404);
  }
  const { id, method } = JSON.parse(body);
  if (id === undefined) return end(202);
  const headers = { 'Content-Type': 'application/json' };
  if (method === 'initialize') {
    headers['Mcp-Session-Id'] = randomUUID();
    sessions.set(headers['Mcp-Session-Id'], subject);
  } else if (!session) {
    return end(400);
  }
  const outcome = results[method] ? { result: results[method](subject) } : { error: { code: -32601, message: method } };
  end(200, headers, JSON.stringify({ jsonrpc: '2.0', id, ...outcome }));
}).listen(Number(port), '127.0.0.1');
