"""FastMCP's client calls a tool of each member. Arguments: URL, file with the calls."""

import asyncio
import json
import sys

from fastmcp import Client


async def elicit(message, response_type, params, context):
    return {"name": "Grace"}


async def main():
    url, file = sys.argv[1:]
    with open(file) as opened:
        calls = json.load(opened)
    async with Client(url, elicitation_handler=elicit) as client:
        tools = {tool.name for tool in await client.list_tools()}
        for call in calls:
            assert call["tool"] in tools, (call, tools)
            result = await client.call_tool(call["tool"], call["arguments"])
            assert call["expected"] in result.content[0].text, (call, result)
    print(f"{len(calls)} calls")


asyncio.run(main())
