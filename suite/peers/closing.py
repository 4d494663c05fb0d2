"""A backend for W6 that closes the connection after each response: `/ok` (two bytes) and `/download?bytes=N`.

The listen backlog is large. With more than 100 connections, the default of 100 overflows, and SYN retransmissions delay
some clients by seconds.

The C library keeps freed memory. By default, it returns the memory of a large body to the kernel in some runs of this
program and keeps it in others. A body of 1 MB then takes 1,200 or 280 microseconds of CPU time.
"""

import argparse
import asyncio
import ctypes
import re

BACKLOG = 4096
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
KEPT_BYTES = 256 << 20
DOWNLOAD = re.compile(rb"/download\?bytes=(\d+)$")


def content_of(target):
    if target == b"/ok":
        return b"ok"
    found = DOWNLOAD.match(target)
    return b"x" * int(found[1]) if found else None


async def answer(reader, writer):
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        content = content_of(head.split(b" ", 2)[1])
        status = b"404 Not Found" if content is None else b"200 OK"
        content = content or b""
        writer.write(b"HTTP/1.1 %s\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n"
                     b"Connection: close\r\n\r\n%s" % (status, len(content), content))
        await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        # The client only probed the port, or it has closed the connection.
        pass
    finally:
        writer.close()


def keep_freed_memory():
    c_library = ctypes.CDLL(None)
    c_library.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
    c_library.mallopt(M_MMAP_THRESHOLD, KEPT_BYTES)


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", required=True)
    host, port = parser.parse_args().listen.rsplit(":", 1)
    server = await asyncio.start_server(answer, host, int(port), backlog=BACKLOG)
    await server.serve_forever()


keep_freed_memory()
asyncio.run(main())
