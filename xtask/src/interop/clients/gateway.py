"""requests and websockets through a gateway. The only argument is the URL of the gateway."""

import asyncio
import sys

import requests
import websockets

ADDRESS = sys.argv[1]
CONTENT = b"".join(b"line %06d\n" % n for n in range(20_000))


def pieces():
    for start in range(0, len(CONTENT), 10_000):
        yield CONTENT[start:start + 10_000]


def uploads():
    with requests.Session() as session:
        session.trust_env = False
        for content in (CONTENT, pieces()):
            response = session.post(f"{ADDRESS}/echo", data=content, timeout=10)
            assert response.status_code == 200, response.status_code
            assert response.content == CONTENT, len(response.content)
        head = session.head(f"{ADDRESS}/plaintext", timeout=10)
        assert head.headers["Content-Length"] == "13", head.headers
        with session.get(f"{ADDRESS}/events?count=3&every=20", stream=True, timeout=10) as response:
            lines = [line for line in response.iter_lines() if line.startswith(b"data:")]
        assert [line.split(b":")[1].strip() for line in lines] == [b"1", b"2", b"3"], lines


async def tunnel():
    async with websockets.connect(ADDRESS.replace("http", "ws") + "/websocket", proxy=None) as socket:
        for message in ("a", "b" * 200, "c" * 100_000, b"\0\1\2"):
            await socket.send(message)
            assert await socket.recv() == message, message[:20]
        pong = await socket.ping()
        await asyncio.wait_for(pong, 10)


uploads()
asyncio.run(tunnel())
print("two uploads, three events, four messages and a ping")
