"""The first version of the Python SDK, which supports only the legacy era, over HTTP and stdio. Arguments: URL, COMMAND…"""

import asyncio
import sys

import mcp.types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


async def elicit(context, params):
    return types.ElicitResult(action="accept", content={"name": "Grace"})


async def use(read, write):
    updated = asyncio.Event()

    async def hear(message):
        root = getattr(message, "root", None)
        if isinstance(root, types.ResourceUpdatedNotification):
            assert str(root.params.uri) == "example://counter", root
            updated.set()

    async with ClientSession(read, write, elicitation_callback=elicit, message_handler=hear) as session:
        begun = await session.initialize()
        assert begun.protocolVersion == "2025-11-25", begun
        await session.send_ping()
        tools = {tool.name for tool in (await session.list_tools()).tools}
        assert tools >= {"echo", "add", "slow", "ask", "count"}, tools
        echoed = await session.call_tool("echo", {"message": "grün"})
        assert echoed.structuredContent == {"echo": "grün", "length": 5}, echoed
        greeted = await session.call_tool("ask", {})
        assert greeted.content[0].text == "Hello, Grace!", greeted
        await session.set_logging_level("debug")
        await session.subscribe_resource("example://counter")
        await session.call_tool("count", {})
        await asyncio.wait_for(updated.wait(), 5)
        hello = await session.read_resource("example://hello")
        assert hello.contents[0].text == "Hello, World!", hello
        templates = (await session.list_resource_templates()).resourceTemplates
        assert any(template.uriTemplate == "example://greeting/{name}" for template in templates), templates
        prompts = (await session.list_prompts()).prompts
        greeting = next(prompt for prompt in prompts if prompt.name == "greeting")
        assert greeting.arguments[0].name == "name", prompts


async def main():
    url, command, *args = sys.argv[1:]
    async with streamablehttp_client(url) as (read, write, _):
        await use(read, write)
    async with stdio_client(StdioServerParameters(command=command, args=args)) as (read, write):
        await use(read, write)
    print("sessions over HTTP and stdio")


asyncio.run(main())
