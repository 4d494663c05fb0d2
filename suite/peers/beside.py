"""A program beside a gateway: a collector of spans, or a client of the dashboard.

`accept ADDRESS` responds to each export with 200, `slow` after two seconds, and `fail` with 503. `stall` accepts
connections and never reads. `dashboard` connects to the admin listener at the address, and reads its events.
"""

import asyncio
import re
import sys

BUFFER_BYTES = 4 << 20
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
RESPONSES = {
    "accept": b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n",
    "fail": b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
}


async def collect(mode, reader, writer):
    if mode == "stall":
        await asyncio.Event().wait()
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(LENGTH.search(head)[1]))
            if mode == "slow":
                await asyncio.sleep(2)
            writer.write(RESPONSES.get(mode, RESPONSES["accept"]))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        # The gateway has closed the connection.
        writer.close()


async def listen(mode, host, port):
    def answer(reader, writer):
        return collect(mode, reader, writer)

    # A reader with the limit of one byte stops after the first bytes, so the kernel's buffers fill up.
    limit = 1 if mode == "stall" else BUFFER_BYTES
    server = await asyncio.start_server(answer, host, port, limit=limit)
    await server.serve_forever()


async def read_events(host, port):
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port)
        except ConnectionError:
            # The gateway starts after this program.
            await asyncio.sleep(0.05)
            continue
        writer.write(b"GET /events HTTP/1.1\r\nHost: %s:%d\r\nAccept: text/event-stream\r\n\r\n" % (host.encode(), port))
        while await reader.read(BUFFER_BYTES):
            pass
        writer.close()
        await asyncio.sleep(0.05)


def main():
    mode, address = sys.argv[1:]
    host, port = address.rsplit(":", 1)
    asyncio.run(read_events(host, int(port)) if mode == "dashboard" else listen(mode, host, int(port)))


main()
