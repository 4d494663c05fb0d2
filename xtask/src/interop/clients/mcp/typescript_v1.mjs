// The first version of the TypeScript SDK, which supports only the legacy era, over HTTP and stdio. Arguments: URL, COMMAND….

import assert from 'node:assert';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

async function use(transport) {
  const client = new Client({ name: 'interop', version: '1.0' }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept', content: { name: 'Grace' } }));
  await client.connect(transport);
  await client.ping();
  const { tools } = await client.listTools();
  assert(tools.some((tool) => tool.name === 'echo'));
  const sum = await client.callTool({ name: 'add', arguments: { a: 1, b: 2 } });
  assert.deepEqual(sum.structuredContent, { sum: 3 });
  const greeted = await client.callTool({ name: 'ask', arguments: {} });
  assert.equal(greeted.content[0].text, 'Hello, Grace!');
  const hello = await client.readResource({ uri: 'example://hello' });
  assert.equal(hello.contents[0].text, 'Hello, World!');
  const { completion } = await client.complete({
    ref: { type: 'ref/prompt', name: 'greeting' },
    argument: { name: 'name', value: 'a' },
  });
  assert.deepEqual(completion.values, ['Ada', 'Alan']);
  await client.close();
}

const [, , url, command, ...args] = process.argv;
await use(new StreamableHTTPClientTransport(new URL(url)));
await use(new StdioClientTransport({ command, args }));
console.log('sessions over HTTP and stdio');
