// The second version of the TypeScript SDK: both eras, over HTTP. Arguments: URL.

import assert from 'node:assert';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

async function use(mode, expected) {
  const client = new Client(
    { name: 'interop', version: '1.0' },
    { versionNegotiation: { mode }, capabilities: { elicitation: { form: {} } } },
  );
  client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: { name: 'Grace' } }));
  await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
  assert.equal(client.getNegotiatedProtocolVersion(), expected);
  const { tools } = await client.listTools();
  assert(tools.some((tool) => tool.name === 'echo'));
  const sum = await client.callTool({ name: 'add', arguments: { a: 1, b: 2 } });
  assert.deepEqual(sum.structuredContent, { sum: 3 });
  const greeted = await client.callTool({ name: 'ask', arguments: {} });
  assert.equal(greeted.content[0].text, 'Hello, Grace!');
  const seen = [];
  await client.callTool({ name: 'slow', arguments: { steps: 2 } }, { onprogress: ({ progress }) => seen.push(progress) });
  assert.deepEqual(seen, [1, 2]);
  const hello = await client.readResource({ uri: 'example://hello' });
  assert.equal(hello.contents[0].text, 'Hello, World!');
  const prompt = await client.getPrompt({ name: 'greeting', arguments: { name: 'Bo' } });
  assert.equal(prompt.messages[0].content.text, 'Greet Bo warmly.');
  await client.close();
}

await use('auto', '2026-07-28');
await use('legacy', '2025-11-25');
console.log('both eras over HTTP');
