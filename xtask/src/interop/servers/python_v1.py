"""A server of the first version of the Python SDK, on stdio."""

from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

server = FastMCP("python-1", log_level="ERROR")


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
