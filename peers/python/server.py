"""The official Python SDK of MCP on uvicorn with uvloop and httptools, or on pipes: no sessions, JSON responses, no log,
and the low-level server without the middleware that traces every message.

Arguments: --listen HOST:PORT or --stdio, and --tools N.
"""

import argparse
import json

import uvicorn
import uvloop
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool


def schema(kind, *names):
    return {"type": "object", "properties": {name: {"type": kind} for name in names}, "required": list(names)}


def tools(n):
    yield Tool(name="echo", description="Sends a message back", input_schema=schema("string", "message"))
    yield Tool(name="add", description="Adds two numbers", input_schema=schema("number", "a", "b"))
    for number in range(2, n):
        name = f"tool_{number:03}"
        yield Tool(name=name, description="Does nothing", input_schema=schema("string", "message"))


def structured(result):
    text = TextContent(type="text", text=json.dumps(result, separators=(",", ":")))
    return CallToolResult(content=[text], structured_content=result)


async def call_tool(context, params):
    arguments = params.arguments or {}
    if params.name == "echo":
        message = arguments["message"]
        return structured({"echo": message, "length": len(message.encode())})
    if params.name == "add":
        return structured({"sum": arguments["a"] + arguments["b"]})
    return CallToolResult(content=[TextContent(type="text", text="nothing")])


def new_server(n):
    listed = ListToolsResult(tools=list(tools(n)))
    schemas = {tool.name: tool.input_schema for tool in listed.tools}

    async def list_tools(context, params):
        return listed

    server = Server(
        "bench",
        version="1.0",
        # Otherwise the SDK builds the list for each call, to find arguments that are mirrored in headers.
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    server.middleware.clear()
    return server


async def serve_stdio(server):
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


def serve_http(server, address):
    host, port = address.rsplit(":", 1)
    # The default does not allow a host without a port.
    hosts = TransportSecuritySettings(allowed_hosts=[host, f"{host}:*"])
    app = server.streamable_http_app(json_response=True, stateless_http=True, transport_security=hosts)
    uvicorn.run(
        app,
        host=host,
        port=int(port),
        loop="uvloop",
        http="httptools",
        ws="none",
        access_log=False,
        log_level="warning",
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", default="127.0.0.1:8080")
    parser.add_argument("--stdio", action="store_true")
    parser.add_argument("--tools", type=int, default=2)
    arguments = parser.parse_args()
    server = new_server(arguments.tools)
    if arguments.stdio:
        uvloop.run(serve_stdio(server))
    else:
        serve_http(server, arguments.listen)


main()
