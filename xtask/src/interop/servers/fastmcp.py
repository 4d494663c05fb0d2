"""A server of FastMCP, on stdio."""

from fastmcp import FastMCP

server = FastMCP("fastmcp")


@server.tool
def add(a: int, b: int) -> int:
    return a + b


server.run(show_banner=False)
