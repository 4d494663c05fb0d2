// fetch with all kinds of bodies, and WebSocket if this Node has it. The only argument is the URL of the gateway.

import assert from "node:assert";

const address = process.argv[2];
const CONTENT = Buffer.from(Array.from({ length: 20_000 }, (_, n) => `line ${n}\n`).join(""));

async function* pieces() {
  for (let start = 0; start < CONTENT.length; start += 10_000) yield CONTENT.subarray(start, start + 10_000);
}

async function post(body, options = {}) {
  const response = await fetch(`${address}/echo`, { method: "POST", body, ...options });
  assert.equal(response.status, 200);
  assert(Buffer.from(await response.arrayBuffer()).equals(CONTENT), "the echoed body differs");
}

async function events() {
  const response = await fetch(`${address}/events?count=5&every=20`);
  assert.match(response.headers.get("content-type"), /^text\/event-stream/);
  let [text, reads] = ["", 0];
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    text += piece;
    reads += 1;
  }
  assert.deepEqual([...text.matchAll(/^data: ?(\d+)$/gm)].map((match) => match[1]), ["1", "2", "3", "4", "5"]);
  assert(reads > 1, "all events came in one read");
}

function webSocket() {
  const messages = ["a", "b".repeat(200), "c".repeat(100_000)];
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`${address.replace("http", "ws")}/websocket`);
    const received = [];
    socket.onerror = () => reject(new Error("the tunnel failed"));
    socket.onopen = () => messages.forEach((message) => socket.send(message));
    socket.onmessage = ({ data }) => {
      received.push(data);
      if (received.length === messages.length) socket.close(1000);
    };
    socket.onclose = ({ code }) => {
      assert.equal(code, 1000);
      assert.deepEqual(received, messages);
      resolve();
    };
  });
}

await post(CONTENT);
await post(pieces(), { duplex: "half" });
await Promise.all(Array.from({ length: 20 }, () => post(CONTENT)));
await events();
if (globalThis.WebSocket) await webSocket();
console.log(`22 uploads, five events without buffering, ${globalThis.WebSocket ? "a WebSocket" : "no WebSocket in this Node"}`);
process.exit(0);
