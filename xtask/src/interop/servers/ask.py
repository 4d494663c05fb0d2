"""A client with version 2 of the Python SDK that answers an elicitation. Arguments: TOOL, then URL or COMMAND…"""

import asyncio
import sys

from mcp import StdioServerParameters
from mcp.client import Client
from mcp_types import ElicitResult


async def elicit(context, params):
    return ElicitResult(action="accept", content={"name": "Grace", "check": True})


async def main():
    tool, address, *args = sys.argv[1:]
    target = address if "://" in address else StdioServerParameters(command=address, args=args)
    for mode, expected in (("auto", "2026-07-28"), ("legacy", "2025-11-25")):
        async with Client(target, mode=mode, elicitation_callback=elicit) as client:
            assert client.protocol_version == expected, client.protocol_version
            answered = await client.call_tool(tool, {})
            assert "Grace" in str(answered.content), answered
    print("elicitation in both eras")


asyncio.run(main())
