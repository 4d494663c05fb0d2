// Two callers use the servers of an endpoint. Checks the tokens at the servers. Arguments: the URLs of the endpoint, of
// the identity provider and of the three servers, and the log of Thruway.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

const [endpoint, provider, exchange, enterprise, own, log] = process.argv.slice(2);
const EXPECTED = { exchange: (caller) => caller, enterprise: (caller) => caller, own: () => 'thruway' };
const ROUNDS = 20;

async function tokenOf(caller) {
  const secret = Buffer.from(`${caller}:${caller}+secret`).toString('base64');
  const body = new URLSearchParams({
    grant_type: 'client_credentials', scope: 'read', resource: 'https://mcp.example/dev',
  });
  const response = await fetch(`${provider}/token`, { method: 'POST', headers: { Authorization: `Basic ${secret}` }, body });
  const answer = await response.json();
  assert.ok(answer.access_token, JSON.stringify(answer));
  return answer.access_token;
}

async function send(token, method, params) {
  const prefix = 'io.modelcontextprotocol/';
  const version = '2026-07-28';
  const _meta = {
    [`${prefix}protocolVersion`]: version, [`${prefix}clientCapabilities`]: {},
    [`${prefix}clientInfo`]: { name: 'callers', version: '1' },
  };
  const headers = {
    Authorization: `Bearer ${token}`, Cookie: `token=${token}`, 'X-Access-Token': token,
    'Content-Type': 'application/json', Accept: 'application/json, text/event-stream',
    'MCP-Protocol-Version': version, 'Mcp-Method': method, ...(params.name ? { 'Mcp-Name': params.name } : {}),
  };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } });
  return (await fetch(`${endpoint}/dev`, { method: 'POST', headers, body })).json();
}

const tokens = { ada: await tokenOf('ada'), bob: await tokenOf('bob') };
const list = await send(tokens.ada, 'tools/list', {});
assert.equal(list.result?.tools?.length, 3, JSON.stringify(list));
for (let round = 0; round < ROUNDS; round += 1) {
  await Promise.all(Object.keys(tokens).flatMap((caller) => Object.entries(EXPECTED).map(async ([server, expected]) => {
    const answer = await send(tokens[caller], 'tools/call', { name: `${server}__whoami`, arguments: {} });
    assert.equal(answer.result?.content?.[0]?.text, expected(caller), `${caller} at ${server}: ${JSON.stringify(answer)}`);
  })));
}
assert.equal(await (await fetch(`${provider}/exchanges`)).text(), '4', 'one exchange for each caller and server');

// The header of a token and some claims also occur in other tokens. The signature occurs in no other token.
const PART = 12;
const signatures = Object.values(tokens).map((token) => token.split('.')[2]);
const parts = signatures.flatMap((text) => Array.from({ length: text.length - PART + 1 }, (_, at) => text.slice(at, at + PART)));
for (const url of [exchange, enterprise, own]) {
  const { requests, refused, mixed } = await (await fetch(`${url}/seen`)).json();
  assert.deepEqual({ refused, mixed }, { refused: 0, mixed: 0 }, url);
  assert.ok(requests.length > ROUNDS);
  const leak = requests.find((request) => parts.some((part) => request.includes(part)));
  assert.equal(leak, undefined, 'a server received a part of the token of a caller');
}
assert.ok(!parts.some((part) => readFileSync(log, 'utf8').includes(part)), 'the log contains a part of a token');
console.log(`each server received its own tokens in ${ROUNDS} rounds of calls, and no part of the tokens of the callers`);
