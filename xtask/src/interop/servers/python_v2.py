"""A server of the second version of the Python SDK, on stdio."""

from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

server = MCPServer("python-2")


class Name(BaseModel):
    name: str


@server.tool()
def add(a: int, b: int) -> int:
    return a + b


@server.tool()
async def ask(context: Context) -> str:
    answer = await context.elicit("What is your name?", Name)
    return f"Hello, {answer.data.name}!"


server.run()
