"""http.client: one connection, all kinds of bodies. The last argument is the URL. `--gateway` before the URL means
a gateway, which keeps client connections open if the upstream server closes its connections."""

import http.client
import sys
import urllib.parse

ADDRESS = urllib.parse.urlsplit(sys.argv[-1])
IS_DIRECT = "--gateway" not in sys.argv
CONTENT = b"".join(b"line %06d\n" % n for n in range(20_000))


def request(connection, method, target, expected, body=None, chunked=False):
    """Sends a request, checks the status and the body, and returns the response."""
    connection.request(method, target, body=body, encode_chunked=chunked,
                       headers={"Transfer-Encoding": "chunked"} if chunked else {})
    response = connection.getresponse()
    content = response.read()
    assert response.status == 200, response.status
    assert content == expected, (method, target, len(content), len(expected))
    return response


def pieces():
    for start in range(0, len(CONTENT), 10_000):
        yield CONTENT[start:start + 10_000]


def main():
    connection = http.client.HTTPConnection(ADDRESS.hostname, ADDRESS.port, timeout=10)
    connection.connect()
    socket = connection.sock
    request(connection, "GET", "/plaintext", b"Hello, World!")
    head = request(connection, "HEAD", "/plaintext", b"")
    assert head.getheader("Content-Length") == "13", head.getheaders()
    request(connection, "POST", "/echo", CONTENT, body=CONTENT)
    request(connection, "POST", "/echo", CONTENT, body=pieces(), chunked=True)
    request(connection, "GET", "/download?bytes=1000000&chunked=1", b"x" * 1_000_000)
    for _ in range(100):
        request(connection, "GET", "/plaintext", b"Hello, World!")
    assert connection.sock is socket, "the connection was not reused"
    last = request(connection, "GET", "/download?bytes=5&close=1", b"xxxxx")
    assert last.will_close == IS_DIRECT, f"unexpected Connection header: {last.getheaders()}"
    assert (connection.sock is None) == IS_DIRECT, "the connection is unexpectedly open or closed"
    print("106 requests, one connection")


main()
