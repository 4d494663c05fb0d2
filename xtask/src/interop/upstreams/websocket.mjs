// A WebSocket server that echoes messages. For `Upgrade: echo`, it echoes bytes. No arguments.

import { createHash } from "node:crypto";
import { createServer } from "node:http";

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

// Returns the complete frames in `bytes`, with opcode and unmasked content, and the remaining bytes. All frames are final.
function frames(bytes) {
  const found = [];
  for (;;) {
    if (bytes.length < 6) return [found, bytes];
    let length = bytes[1] & 127;
    let at = 2;
    if (length === 126) {
      if (bytes.length < 8) return [found, bytes];
      [length, at] = [bytes.readUInt16BE(2), 4];
    } else if (length === 127) {
      if (bytes.length < 14) return [found, bytes];
      [length, at] = [Number(bytes.readBigUInt64BE(2)), 10];
    }
    if (bytes.length < at + 4 + length) return [found, bytes];
    const mask = bytes.subarray(at, at + 4);
    const content = Buffer.from(bytes.subarray(at + 4, at + 4 + length));
    content.forEach((byte, n) => (content[n] = byte ^ mask[n % 4]));
    found.push([bytes[0] & 15, content]);
    bytes = bytes.subarray(at + 4 + length);
  }
}

function frame(opcode, content) {
  const head = Buffer.alloc(content.length < 126 ? 2 : content.length < 65536 ? 4 : 10);
  head[0] = 128 | opcode;
  if (head.length === 2) head[1] = content.length;
  else if (head.length === 4) [head[1]] = [126, head.writeUInt16BE(content.length, 2)];
  else [head[1]] = [127, head.writeBigUInt64BE(BigInt(content.length), 2)];
  return Buffer.concat([head, content]);
}

const CLOSE = 8, PING = 9, PONG = 10;

function speakWebSocket(socket, first) {
  let rest = Buffer.alloc(0);
  const take = (bytes) => {
    let found;
    [found, rest] = frames(Buffer.concat([rest, bytes]));
    for (const [opcode, content] of found) {
      if (opcode === PONG) continue;
      socket.write(frame(opcode === PING ? PONG : opcode, content));
      if (opcode === CLOSE) socket.end();
    }
  };
  take(first);
  socket.on("data", take);
}

const server = createServer((_, response) => response.writeHead(426, { "Content-Length": 0 }).end());
server.on("upgrade", (request, socket, first) => {
  socket.on("error", () => socket.destroy());
  const protocol = request.headers.upgrade;
  const lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", `Upgrade: ${protocol}`];
  if (protocol === "websocket") {
    const key = request.headers["sec-websocket-key"] + GUID;
    lines.push(`Sec-WebSocket-Accept: ${createHash("sha1").update(key).digest("base64")}`);
  }
  socket.write(lines.join("\r\n") + "\r\n\r\n");
  if (protocol === "websocket") return speakWebSocket(socket, first);
  socket.write(first);
  socket.pipe(socket);
});
server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
