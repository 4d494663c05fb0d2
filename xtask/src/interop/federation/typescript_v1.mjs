// The first version of the TypeScript SDK calls a tool of each member. Arguments: URL, file with the calls.

import assert from 'node:assert';
import fs from 'node:fs';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const [, , url, file] = process.argv;
const calls = JSON.parse(fs.readFileSync(file));
const client = new Client({ name: 'interop', version: '1.0' }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept', content: { name: 'Grace' } }));
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const { tools } = await client.listTools();
for (const { tool: name, arguments: args, expected } of calls) {
  assert(tools.some((tool) => tool.name === name), name);
  const result = await client.callTool({ name, arguments: args });
  assert(!result.isError && result.content[0].text.includes(expected), `${name}: ${JSON.stringify(result)}`);
}
await client.close();
console.log(`${calls.length} calls`);
