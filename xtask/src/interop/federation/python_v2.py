"""The second version of the Python SDK calls a tool of each member, in both eras. Arguments: URL, file with the calls."""

import asyncio
import json
import sys

from mcp.client import Client
from mcp_types import ElicitResult


async def elicit(context, params):
    return ElicitResult(action="accept", content={"name": "Grace"})


async def main():
    url, file = sys.argv[1:]
    with open(file) as opened:
        calls = json.load(opened)
    for mode, expected in (("auto", "2026-07-28"), ("legacy", "2025-11-25")):
        async with Client(url, mode=mode, elicitation_callback=elicit) as client:
            assert client.protocol_version == expected, client.protocol_version
            tools = {tool.name for tool in (await client.list_tools()).tools}
            for call in calls:
                assert call["tool"] in tools, (call, tools)
                result = await client.call_tool(call["tool"], call["arguments"])
                assert not result.is_error and call["expected"] in result.content[0].text, (call, result)
    print(f"{len(calls)} calls in both eras")


asyncio.run(main())
