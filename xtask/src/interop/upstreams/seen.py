"""http.server: describes each request in the response and in a log. The only argument is the path of the log."""

import http.server
import json
import sys

LOG = open(sys.argv[1], "a", encoding="ascii")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Sends each response with one write.
    wbufsize = -1

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.describe
        raise AttributeError(name)

    def chunks(self):
        """Reads a chunked body, because the standard library does not."""
        content = b""
        while True:
            line = self.rfile.readline()
            size = int(line.strip(), 16)
            if size == 0:
                while (trailer := self.rfile.readline()) != b"\r\n":
                    if not trailer:
                        raise ConnectionError
                return content
            piece = self.rfile.read(size + 2)
            if len(piece) != size + 2 or not piece.endswith(b"\r\n"):
                raise ConnectionError
            content += piece[:-2]

    def content(self):
        if "Transfer-Encoding" in self.headers:
            return self.chunks()
        length = int(self.headers.get("Content-Length", 0))
        content = self.rfile.read(length)
        if len(content) != length:
            raise ConnectionError
        return content

    def describe(self):
        try:
            content = self.content()
        except (ConnectionError, ValueError):
            self.close_connection = True
            return
        # `self.path` would have only one slash at the start instead of several.
        target = self.requestline.split()[1]
        line = json.dumps({"method": self.command, "target": target, "host": self.headers["Host"],
                           "content": content.decode("latin-1")}).encode()
        LOG.write(line.decode() + "\n")
        LOG.flush()
        self.send_response(200)
        self.send_header("Content-Length", str(len(line)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(line)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
