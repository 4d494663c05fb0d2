"""The client and the MCP servers of the trace. All of them use the OpenTelemetry SDK for Python.
Arguments: `client` URL COLLECTOR SERVICE, `server` PORT COLLECTOR SERVICE, or `stdio` COLLECTOR SERVICE. `http://HOST:PORT` is a
collector over HTTP, `grpc://HOST:PORT` a collector over gRPC."""

import asyncio
import sys

from opentelemetry import propagate, trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor


def export(collector, service):
    if collector.startswith("grpc://"):
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter(endpoint=collector.removeprefix("grpc://"), insecure=True)
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter(endpoint=f"{collector}/v1/traces")
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    # Each span is exported at its end, so no span is lost if the program is killed.
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def server():
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("traced")

    @server.tool()
    def add(a: int, b: int) -> int:
        with trace.get_tracer("tool").start_as_current_span("adding"):
            return a + b

    @server.tool()
    def fail() -> str:
        raise ValueError("no file")

    return server


async def serve(port):
    import uvicorn
    from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware

    app = OpenTelemetryMiddleware(server().streamable_http_app(), exclude_spans=["receive", "send"])
    await uvicorn.Server(uvicorn.Config(app, port=int(port), log_level="warning")).serve()


def traced_client():
    import httpx2

    class Traced(httpx2.AsyncHTTPTransport):
        """Creates a span for each HTTP request, and sends it in the headers."""

        async def handle_async_request(self, request):
            attributes = {"http.request.method": request.method, "url.full": str(request.url)}
            tracer = trace.get_tracer("client")
            with tracer.start_as_current_span(request.method, kind=trace.SpanKind.CLIENT, attributes=attributes) as span:
                propagate.inject(request.headers)
                response = await super().handle_async_request(request)
                span.set_attribute("http.response.status_code", response.status_code)
                return response

    return httpx2.AsyncClient(transport=Traced(), timeout=20)


async def call(url):
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client

    traces = []
    for mode, revision in (("auto", "2026-07-28"), ("legacy", "2025-11-25")):
        with trace.get_tracer("client").start_as_current_span(f"client {mode}") as span:
            async with traced_client() as http, Client(streamable_http_client(url, http_client=http), mode=mode) as client:
                assert client.protocol_version == revision, client.protocol_version
                for prefix in ("http", "stdio"):
                    # The first call waits until the gateway is connected to the server.
                    result = await client.call_tool(f"{prefix}__add", {"a": 1, "b": 2})
                    assert result.structured_content == {"result": 3}, result
                    failed = await client.call_tool(f"{prefix}__fail", {})
                    assert failed.is_error, failed
            traces.append(f"{trace.format_trace_id(span.get_span_context().trace_id)}")
    print(*traces)


if __name__ == "__main__":
    role, *rest, collector, service = sys.argv[1:]
    export(collector, service)
    if role == "client":
        asyncio.run(call(rest[0]))
    elif role == "server":
        asyncio.run(serve(rest[0]))
    else:
        server().run()
