"""A collector of OTLP over HTTP and gRPC that decodes spans with the official definitions. `GET /spans` returns them.
Arguments: PORT, GRPC_PORT."""

import json
import sys
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

spans = []


def value(any_value):
    kind = any_value.WhichOneof("value")
    return getattr(any_value, kind) if kind in ("string_value", "int_value", "bool_value", "double_value") else str(any_value)


def attributes(pairs):
    return {pair.key: value(pair.value) for pair in pairs}


def keep(request, protocol):
    for resource_spans in request.resource_spans:
        resource = attributes(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                spans.append({
                    "protocol": protocol,
                    "resource": resource,
                    "scope": scope_spans.scope.name,
                    "trace": span.trace_id.hex(),
                    "span": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "state": span.trace_state,
                    "name": span.name,
                    "kind": span.SpanKind.Name(span.kind),
                    "start": span.start_time_unix_nano,
                    "end": span.end_time_unix_nano,
                    "attributes": attributes(span.attributes),
                    "events": [event.name for event in span.events],
                    "is_error": span.status.code == span.status.STATUS_CODE_ERROR,
                })


class OverHttp(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.respond(200, json.dumps(spans).encode(), "application/json")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path != "/v1/traces" or self.headers["content-type"] != "application/x-protobuf":
            return self.respond(400, b"", "text/plain")
        # `ParseFromString` refuses malformed messages.
        request = trace_service_pb2.ExportTraceServiceRequest()
        request.ParseFromString(body)
        keep(request, "http")
        response = trace_service_pb2.ExportTraceServiceResponse()
        self.respond(200, response.SerializeToString(), "application/x-protobuf")

    def respond(self, status, body, media_type):
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class OverGrpc(trace_service_pb2_grpc.TraceServiceServicer):
    def Export(self, request, context):
        keep(request, "grpc")
        return trace_service_pb2.ExportTraceServiceResponse()


port, grpc_port = sys.argv[1:]
over_grpc = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
trace_service_pb2_grpc.add_TraceServiceServicer_to_server(OverGrpc(), over_grpc)
over_grpc.add_insecure_port(f"127.0.0.1:{grpc_port}")
over_grpc.start()
ThreadingHTTPServer(("127.0.0.1", int(port)), OverHttp).serve_forever()
