// node:http: a keep-alive agent that sends and receives all kinds of bodies. The only argument is the URL.

import assert from "node:assert/strict";
import http from "node:http";

const address = process.argv[2];
const content = Buffer.from(Array.from({ length: 20_000 }, (_, n) => `line ${n}\n`).join(""));

/** Sends a request and checks the body. Returns true if the connection had been used before. */
function request(agent, method, path, expected, { body, chunked } = {}) {
  return new Promise((resolve, reject) => {
    const headers = body && !chunked ? { "Content-Length": body.length } : {};
    const request = http.request(address + path, { method, agent, headers, timeout: 10_000 }, (response) => {
      const pieces = [];
      response.on("data", (piece) => pieces.push(piece));
      response.on("error", reject);
      response.on("end", () => {
        try {
          assert.equal(response.statusCode, 200);
          assert.ok(response.complete);
          assert.ok(Buffer.concat(pieces).equals(Buffer.from(expected)), `${method} ${path}`);
          // Continues when the agent has the socket again.
          setImmediate(resolve, request.reusedSocket);
        } catch (error) {
          reject(error);
        }
      });
    });
    request.on("error", reject);
    request.on("timeout", () => request.destroy(new Error("timeout")));
    if (chunked) {
      for (let start = 0; start < body.length; start += 10_000) request.write(body.subarray(start, start + 10_000));
      request.end();
    } else {
      request.end(body);
    }
  });
}

const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
assert.equal(await request(agent, "GET", "/plaintext", "Hello, World!"), false);
assert.equal(await request(agent, "HEAD", "/plaintext", ""), true);
assert.equal(await request(agent, "POST", "/echo", content, { body: content }), true);
assert.equal(await request(agent, "POST", "/echo", content, { body: content, chunked: true }), true);
assert.equal(await request(agent, "GET", "/download?bytes=1000000&chunked=1", "x".repeat(1_000_000)), true);
for (let n = 0; n < 100; n += 1) assert.equal(await request(agent, "GET", "/plaintext", "Hello, World!"), true);
agent.destroy();

const many = new http.Agent({ keepAlive: true, maxSockets: 10 });
await Promise.all(Array.from({ length: 500 }, () => request(many, "GET", "/plaintext", "Hello, World!")));
many.destroy();
console.log("105 requests on one connection, 500 on ten");
