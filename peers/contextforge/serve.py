"""ContextForge with three members at the same address. Arguments: --listen ADDR --backend ADDR --directory DIR.

ContextForge stores its members in a database. This script adds the members through the API of ContextForge when the
start is complete, and before the server accepts connections.
"""

import argparse
import os
import secrets

import httpx
import uvicorn

MEMBERS = ["one", "two", "three"]


def main():
    parser = argparse.ArgumentParser()
    for name in ["listen", "backend", "directory"]:
        parser.add_argument(f"--{name}", required=True)
    arguments = parser.parse_args()
    os.environ.update(settings(arguments.directory))
    host, port = arguments.listen.rsplit(":", 1)
    uvicorn.run(with_members(arguments.backend), host=host, port=int(port), log_level="error", access_log=False)


def settings(directory):
    """Returns the environment: no authentication, members on loopback, no request limits, no metrics in the database."""
    return {
        "DATABASE_URL": f"sqlite:///{directory}/contextforge.db",
        "JWT_SECRET_KEY": secrets.token_hex(32),
        "AUTH_ENCRYPTION_SECRET": secrets.token_hex(32),
        "AUTH_REQUIRED": "false",
        "MCP_REQUIRE_AUTH": "false",
        "ALLOW_UNAUTHENTICATED_ADMIN": "true",
        "SSRF_ALLOW_LOCALHOST": "true",
        "RATE_LIMITING_ENABLED": "false",
        "DB_METRICS_RECORDING_ENABLED": "false",
        "LOG_LEVEL": "ERROR",
        "HOME": directory,
    }


def with_members(backend):
    # The settings must be in the environment before this import.
    from mcpgateway.main import app

    async def wrapped(scope, receive, send):
        if scope["type"] != "lifespan":
            return await app(scope, receive, send)

        async def add_members(message):
            if message["type"] == "lifespan.startup.complete":
                await add_all(app, backend)
            await send(message)

        return await app(scope, receive, add_members)

    return wrapped


async def add_all(app, backend):
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
        for name in MEMBERS:
            # The addresses of members must differ, so each has a query.
            url = f"http://{backend}/mcp?member={name}"
            added = await client.post("/gateways", json={"name": name, "url": url, "transport": "STREAMABLEHTTP"})
            added.raise_for_status()


main()
