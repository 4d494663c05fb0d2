// The second version of the TypeScript SDK calls a tool of each member, in both eras. Arguments: URL, file with the calls.

import assert from 'node:assert';
import fs from 'node:fs';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [, , url, file] = process.argv;
const calls = JSON.parse(fs.readFileSync(file));
for (const [mode, revision] of [['auto', '2026-07-28'], ['legacy', '2025-11-25']]) {
  const client = new Client(
    { name: 'interop', version: '1.0' },
    { versionNegotiation: { mode }, capabilities: { elicitation: { form: {} } } },
  );
  client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: { name: 'Grace' } }));
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  assert.equal(client.getNegotiatedProtocolVersion(), revision);
  const { tools } = await client.listTools();
  for (const { tool: name, arguments: args, expected } of calls) {
    assert(tools.some((tool) => tool.name === name), name);
    const result = await client.callTool({ name, arguments: args });
    assert(!result.isError && result.content[0].text.includes(expected), `${name}: ${JSON.stringify(result)}`);
  }
  await client.close();
}
console.log(`${calls.length} calls in both eras`);
