"""Checks the spans of the collector. Arguments: COLLECTOR, `direct` or `relayed`, then the trace of the modern era and the trace of the
legacy era."""

import importlib
import json
import pkgutil
import sys
import urllib.request

from opentelemetry.semconv import attributes as stable
from opentelemetry.semconv._incubating import attributes as incubating

SERVICES = {"client", "edge", "federation", "server-http", "server-stdio"}
OURS = {"edge", "federation"}
SECOND = 1_000_000_000


def convention_names():
    names = set()
    for package in (stable, incubating):
        for module in pkgutil.iter_modules(package.__path__):
            constants = vars(importlib.import_module(f"{package.__name__}.{module.name}"))
            names.update(value for name, value in constants.items() if name.isupper() and isinstance(value, str))
    return names


def service(span):
    return span["resource"]["service.name"]


def described(span):
    return f'{service(span)}: {span["kind"].removeprefix("SPAN_KIND_").lower()} {span["name"]}'


def path_of(span, by_id):
    """Returns the descriptions of the spans from the root to this span."""
    path = [described(span)]
    while span["parent"]:
        span = by_id[span["parent"]]
        path.insert(0, described(span))
        assert len(path) < 50, f"the parents of the spans are a cycle: {path}"
    return path


def check_tree(spans):
    by_id = {span["span"]: span for span in spans}
    assert len(by_id) == len(spans), "two spans have the same id"
    assert {service(span) for span in spans} == SERVICES, {service(span) for span in spans}
    assert sum(not span["parent"] for span in spans) == 1, "the trace has several roots"
    for span in spans:
        assert not span["parent"] or span["parent"] in by_id, ("no parent", span)
        assert 0 <= span["end"] - span["start"] < 30 * SECOND, span
        if span["parent"]:
            # The clocks of the programs differ by less than this time, because they run on one machine.
            assert span["start"] >= by_id[span["parent"]]["start"] - SECOND // 50, (span, by_id[span["parent"]])
    return [path_of(span, by_id) for span in spans]


def has_path(paths, *steps):
    """Returns `True` if a path ends with these steps."""
    return any(path[-len(steps):] == list(steps) for path in paths)


def check_paths(paths, is_modern):
    def check(*steps):
        assert has_path(paths, *steps), f"no path ends with {steps}:\n" + "\n".join(" / ".join(path) for path in paths)

    relayed = 0
    for server, tool in (("http", "add"), ("http", "fail"), ("stdio", "add"), ("stdio", "fail")):
        prefixed = f"{server}__{tool}"
        to_endpoint = (
            f"client: client MCP send tools/call {prefixed}", "client: client POST", "edge: server POST / and below",
            "edge: client POST", "federation: server POST /mcp and below", f"federation: server tools/call {prefixed}",
        )
        # The endpoint relays modern calls when it knows the tools of the server. The headers of a relayed call contain the
        # trace of the attempt, and `_meta` stays unchanged.
        if is_modern and has_path(paths, *to_endpoint, "federation: client POST", "server-http: server POST /mcp"):
            relayed += 1
        else:
            check(*to_endpoint, f"federation: client tools/call {tool}", f"server-{server}: server tools/call {tool}")
            if server == "http":
                check(*to_endpoint, f"federation: client tools/call {tool}", "server-http: server POST /mcp")
        if tool == "add":
            check(f"server-{server}: server tools/call add", f"server-{server}: internal adding")
    assert not is_modern or relayed, "no call was relayed"


def check_attributes(span, revision, names):
    attributes, kind = span["attributes"], span["kind"].removeprefix("SPAN_KIND_")
    unknown = [name for name in attributes if name not in names and not name.startswith("thruway.")]
    assert not unknown, (unknown, span)
    assert {"service.name", "service.version", "service.instance.id", "telemetry.sdk.name"} <= set(span["resource"]), span
    if "mcp.method.name" in attributes:
        method, tool = attributes["mcp.method.name"], attributes.get("gen_ai.tool.name")
        assert span["name"] == (f"{method} {tool}" if tool else method) and kind in ("SERVER", "CLIENT"), span
        assert attributes.get("mcp.protocol.version", revision) in (revision, "2026-07-28"), span
        if method == "tools/call":
            assert tool and attributes["gen_ai.operation.name"] == "execute_tool", span
            failed = tool.endswith("fail")
            assert span["is_error"] == failed and attributes.get("error.type") == ("tool_error" if failed else None), span
    elif kind in ("SERVER", "CLIENT"):
        required = {"http.request.method", "http.response.status_code", "server.address", "server.port"}
        required |= {"url.path", "url.scheme", "http.route", "client.address"} if kind == "SERVER" else {"url.full"}
        assert required <= set(attributes), (required - set(attributes), span)
        assert isinstance(attributes["http.response.status_code"], int), span
        assert not span["is_error"], span
        assert kind == "SERVER" or span["events"] == ["first byte"], span
    else:
        assert span["name"] in ("routing and policies", "queue", "connect", "tls"), span


collector, transport, *traces = sys.argv[1:]
with urllib.request.urlopen(f"{collector}/spans", timeout=10) as response:
    spans = json.load(response)
names, count = convention_names(), 0
for trace, revision in zip(traces, ("2026-07-28", "2025-11-25"), strict=True):
    of_trace = [span for span in spans if span["trace"] == trace]
    check_paths(check_tree(of_trace), revision == "2026-07-28")
    for span in of_trace:
        if service(span) in OURS:
            check_attributes(span, revision, names)
    count += len(of_trace)
protocols = {(service(span), span["protocol"]) for span in spans if service(span) in OURS}
expected = {("edge", "http"), ("federation", "grpc" if transport == "direct" else "http")}
assert protocols == expected, protocols
print(f"{count} spans of {len(SERVICES)} programs in {len(traces)} traces")
