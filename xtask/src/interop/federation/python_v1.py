"""The first version of the Python SDK calls a tool of each member. Arguments: URL, file with the calls."""

import asyncio
import json
import sys

import mcp.types as types
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client


async def elicit(context, params):
    return types.ElicitResult(action="accept", content={"name": "Grace"})


async def main():
    url, file = sys.argv[1:]
    with open(file) as opened:
        calls = json.load(opened)
    async with streamablehttp_client(url) as (read, write, _):
        async with ClientSession(read, write, elicitation_callback=elicit) as session:
            await session.initialize()
            tools = {tool.name for tool in (await session.list_tools()).tools}
            for call in calls:
                assert call["tool"] in tools, (call, tools)
                result = await session.call_tool(call["tool"], call["arguments"])
                assert not result.isError and call["expected"] in result.content[0].text, (call, result)
    print(f"{len(calls)} calls")


asyncio.run(main())
