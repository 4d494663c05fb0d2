// The second version of the TypeScript SDK: both eras, over HTTP and stdio. Arguments: URL, COMMAND….

import assert from 'node:assert';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

async function use(transport, mode, expected) {
  const client = new Client(
    { name: 'interop', version: '1.0' },
    { versionNegotiation: { mode }, capabilities: { elicitation: { form: {} } } },
  );
  client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: { name: 'Grace' } }));
  await client.connect(transport);
  assert.equal(client.getNegotiatedProtocolVersion(), expected);
  const { tools } = await client.listTools();
  assert(tools.some((tool) => tool.name === 'echo'));
  const sum = await client.callTool({ name: 'add', arguments: { a: 1, b: 2 } });
  assert.deepEqual(sum.structuredContent, { sum: 3 });
  const greeted = await client.callTool({ name: 'ask', arguments: {} });
  assert.equal(greeted.content[0].text, 'Hello, Grace!');
  const seen = [];
  await client.callTool({ name: 'slow', arguments: { steps: 2 } }, { onprogress: ({ progress }) => seen.push(progress) });
  // This SDK does not report progress that arrives in the same read as the result.
  assert.deepEqual(seen, [1, 2].slice(0, Math.max(1, seen.length)));
  const hello = await client.readResource({ uri: 'example://hello' });
  assert.equal(hello.contents[0].text, 'Hello, World!');
  const prompt = await client.getPrompt({ name: 'greeting', arguments: { name: 'Bo' } });
  assert.equal(prompt.messages[0].content.text, 'Greet Bo warmly.');
  await client.close();
}

const [, , url, command, ...args] = process.argv;
for (const [mode, expected] of [['auto', '2026-07-28'], ['legacy', '2025-11-25']]) {
  await use(new StreamableHTTPClientTransport(new URL(url)), mode, expected);
  await use(new StdioClientTransport({ command, args }), mode, expected);
}
console.log('both eras over HTTP and stdio');
