"""FastMCP's proxy with three members at the same address. Arguments: --listen ADDR --backend ADDR."""

import argparse

from fastmcp.server import create_proxy

MEMBERS = ["one", "two", "three"]


def main():
    parser = argparse.ArgumentParser()
    for name in ["listen", "backend"]:
        parser.add_argument(f"--{name}", required=True)
    arguments = parser.parse_args()
    host, port = arguments.listen.rsplit(":", 1)
    url = f"http://{arguments.backend}/mcp"
    config = {"mcpServers": {member: {"url": url, "transport": "http"} for member in MEMBERS}}
    proxy = create_proxy(config, name="bench")
    options = {"log_level": "error", "access_log": False}
    proxy.run(
        transport="http",
        host=host,
        port=int(port),
        path="/mcp",
        show_banner=False,
        json_response=True,
        stateless_http=True,
        uvicorn_config=options,
    )


main()
