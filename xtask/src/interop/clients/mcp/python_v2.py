"""The second version of the Python SDK: both eras, over HTTP and stdio. Arguments: URL, COMMAND…"""

import asyncio
import sys

from mcp import StdioServerParameters
from mcp.client import Client
from mcp_types import ElicitResult, PromptReference


async def elicit(context, params):
    assert params.message == "What is your name?", params
    return ElicitResult(action="accept", content={"name": "Grace"})


async def use(target, mode, expected):
    async with Client(target, mode=mode, elicitation_callback=elicit) as client:
        assert client.protocol_version == expected, client.protocol_version
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert tools >= {"echo", "add", "slow", "ask", "count"}, tools
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert result.structured_content == {"sum": 3}, result
        refused = await client.call_tool("echo", {"message": 5})
        assert refused.is_error, refused
        seen = []

        async def progress(done, total, message):
            seen.append((done, total))

        await client.call_tool("slow", {"steps": 3}, progress_callback=progress)
        assert seen == [(1, 3), (2, 3), (3, 3)], seen
        greeted = await client.call_tool("ask", {})
        assert greeted.content[0].text == "Hello, Grace!", greeted
        resources = {str(resource.uri) for resource in (await client.list_resources()).resources}
        assert "example://hello" in resources, resources
        hello = await client.read_resource("example://greeting/Ada")
        assert hello.contents[0].text == "Hello, Ada!", hello
        prompt = await client.get_prompt("greeting", {"name": "Bo"})
        assert prompt.messages[0].content.text == "Greet Bo warmly.", prompt
        completed = await client.complete(PromptReference(type="ref/prompt", name="greeting"), {"name": "name", "value": "a"})
        assert completed.completion.values == ["Ada", "Alan"], completed


async def main():
    url, command, *args = sys.argv[1:]
    stdio = StdioServerParameters(command=command, args=args)
    for target in (url, stdio):
        await use(target, "auto", "2026-07-28")
        await use(target, "legacy", "2025-11-25")
    print("both eras over HTTP and stdio")


asyncio.run(main())
