// node:http: describes each request in the response and in a log. The only argument is the path of the log.

import { appendFileSync } from "node:fs";
import { createServer } from "node:http";

const log = process.argv[2];

const server = createServer((request, response) => {
  const pieces = [];
  request.on("data", (piece) => pieces.push(piece));
  request.on("end", () => {
    const content = Buffer.concat(pieces).toString("latin1");
    const { method, url: target, headers } = request;
    const line = Buffer.from(JSON.stringify({ method, target, host: headers.host, content }), "latin1");
    appendFileSync(log, Buffer.concat([line, Buffer.from("\n")]));
    response.setHeader("Content-Length", line.length);
    response.end(method === "HEAD" ? undefined : line);
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
