"""uvicorn, with h11 or httptools: describes requests as `seen.py` does. The arguments are the path of the log and the parser."""

import asyncio
import json
import sys

import uvicorn

LOG = open(sys.argv[1], "a", encoding="ascii")


async def application(scope, receive, send):
    if scope["type"] != "http":
        return
    content, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        content += message.get("body", b"")
        more = message.get("more_body", False)
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    host = dict(scope["headers"])[b"host"]
    line = json.dumps({"method": scope["method"], "target": target.decode("latin-1"), "host": host.decode("latin-1"),
                       "content": content.decode("latin-1")}).encode()
    LOG.write(line.decode() + "\n")
    LOG.flush()
    fields = [(b"content-length", str(len(line)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else line})


class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"listening on http://127.0.0.1:{port}", flush=True)


config = uvicorn.Config(application, host="127.0.0.1", port=0, http=sys.argv[2], lifespan="off", log_level="critical",
                        timeout_keep_alive=60)
asyncio.run(Server(config).serve())
