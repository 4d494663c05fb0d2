//! Traces of tool calls through an endpoint, on the fast path and on the slow path.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{Context, EraChoice, HandlerError, McpClient, McpServer};
use thruway_server::Server;
use thruway_testkit::otlp::DecodedSpan;

use super::member::Recorder;
use super::scene::{Post, Scene, fast, slow};
use crate::collector::{ACCEPTED, metric, receive_metrics, receive_spans, serve, total_count};
use crate::tracing::{PARENT, telemetry};

/// Returns a server with a tool that returns the trace context of its calls.
fn server() -> McpServer {
    McpServer::new("tools", "1.0")
        .tool(Tool::new("fail"), || "first")
        .tool(Tool::new("trace"), trace)
        .tool(Tool::new("wrong"), || Err::<&str, _>(HandlerError::failed("no file")))
}

async fn trace(context: Context) -> String {
    json!([context.meta("traceparent"), context.meta("tracestate")]).to_string()
}

fn context_of(response: &Value) -> Vec<Value> {
    serde_json::from_str(response["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
}

fn of_name<'s>(spans: &'s [DecodedSpan], name: &str) -> &'s DecodedSpan {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name} in {spans:?}"))
}

#[test]
fn parsed_call_gets_the_span_of_the_gateway_in_meta_and_headers() {
    let (collector, exports) = serve(&[ACCEPTED]);
    let scene = Scene::start_with_server(&server(), &telemetry(collector));
    receive_spans(&exports, 3);
    let lines = format!("traceparent: {PARENT}\r\ntracestate: a=1\r\n");
    let (_, response) =
        scene.post(&Post { name: "web__trace", lines: &lines, ..Post::new(slow("web__trace")) });
    let (_, spans) = receive_spans(&exports, 3);

    let (request, call) = (of_name(&spans, "POST /dev and below"), of_name(&spans, "tools/call web__trace"));
    assert_eq!((&*request.parent, &*call.parent), ("b7ad6b7169203331", &*request.span_id));
    let of_member = of_name(&spans, "tools/call trace");
    assert_eq!((call.kind, of_member.kind, &of_member.parent), (2, 3, &call.span_id));
    assert_eq!(of_member.attributes["thruway.mcp.server"], "web");
    assert_eq!(of_member.attributes["network.transport"], "tcp");
    assert!(call.nanos.0 <= of_member.nanos.0 && of_member.nanos.1 <= call.nanos.1, "{spans:?}");
    let attributes = ["mcp.method.name", "gen_ai.tool.name", "gen_ai.operation.name", "mcp.protocol.version"];
    let expected = ["tools/call", "web__trace", "execute_tool", "2026-07-28"];
    assert_eq!(attributes.map(|name| &*call.attributes[name]), expected);
    let sent = format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", of_member.span_id);
    assert_eq!(context_of(&response), [json!(sent), json!("a=1")]);
    let heads = scene.heads.lock().unwrap().clone();
    let head = heads.last().unwrap();
    assert!(head.contains(&format!("traceparent: {sent}\n")) && head.contains("tracestate: a=1\n"), "{head}");
    scene.end();
}

#[test]
fn trace_in_meta_continues_if_the_headers_have_none() {
    let (collector, exports) = serve(&[ACCEPTED]);
    let scene = Scene::start_with_server(&server(), &telemetry(collector));
    receive_spans(&exports, 3);
    for (parent, is_continued) in [(PARENT, true), ("00-malformed", false)] {
        let mut params = slow("web__trace");
        params["_meta"]["traceparent"] = json!(parent);
        params["_meta"]["tracestate"] = json!("a=1");
        let (_, response) = scene.call("web__trace", &params);
        let (_, spans) = receive_spans(&exports, 3);
        let call = of_name(&spans, "tools/call web__trace");
        let request = of_name(&spans, "POST /dev and below");
        assert_eq!(call.trace_id == "0af7651916cd43dd8448eb211c80319c", is_continued);
        assert_eq!(&*request.parent, if is_continued { "b7ad6b7169203331" } else { "" });
        let state = if is_continued { json!("a=1") } else { Value::Null };
        let of_member = of_name(&spans, "tools/call trace");
        assert_eq!(of_member.parent, call.span_id);
        let sent = format!("00-{}-{}-01", call.trace_id, of_member.span_id);
        assert_eq!(context_of(&response), [json!(sent), state]);
    }
    scene.end();
}

#[test]
fn relayed_call_has_an_attempt_below_its_mcp_span() {
    let (collector, exports) = serve(&[ACCEPTED]);
    let scene = Scene::start_with_server(&server(), &telemetry(collector));
    receive_spans(&exports, 3);
    let lines = format!("traceparent: {PARENT}\r\n");
    scene.post(&Post { name: "web__trace", lines: &lines, ..Post::new(fast("web__trace")) });
    let (_, spans) = receive_spans(&exports, 4);
    let call = of_name(&spans, "tools/call web__trace");
    assert_eq!(call.parent, of_name(&spans, "POST /dev and below").span_id);
    assert_eq!(call.attributes["thruway.mcp.server"], "web");
    let attempt = of_name(&spans, "POST");
    assert_eq!((&attempt.parent, attempt.kind), (&call.span_id, 3));
    let [head] = &scene.relayed()[..] else { panic!("the call was not relayed") };
    let sent = format!("traceparent: 00-0af7651916cd43dd8448eb211c80319c-{}-01\n", attempt.span_id);
    assert!(head.contains(&sent), "{head}");
    scene.end();
}

#[test]
fn sampled_calls_leave_exemplars_with_their_mcp_spans() {
    let (collector, exports) = serve(&[ACCEPTED]);
    let export = "sample_ratio = 0\nmetrics = true\nmetrics_interval = \"1s\"";
    let scene = Scene::start_with_server(&server(), &format!("{}\n{export}", telemetry(collector)));
    let calls = "thruway.mcp_call_duration";
    let mut spans = Vec::new();
    for (params, count) in [(fast("web__trace"), 2), (slow("web__trace"), 3)] {
        let lines = format!("traceparent: {PARENT}\r\n");
        scene.post(&Post { name: "web__trace", lines: &lines, ..Post::new(params) });
        let (_, metrics) = receive_metrics(&exports, |metrics| total_count(metrics, calls) == count);
        let [point] = &metric(&metrics, calls).unwrap().points[..] else { panic!("one server") };
        assert_eq!(point.attributes["thruway.mcp.server"], "web");
        let newest = point.exemplars.iter().max_by_key(|exemplar| exemplar.nanos).unwrap();
        assert_eq!(newest.trace_id, "0af7651916cd43dd8448eb211c80319c");
        spans.push(newest.span_id.clone());
    }
    assert_ne!(spans[0], spans[1]);
    scene.end();
}

#[test]
fn trace_context_of_the_client_passes_unchanged_without_tracing() {
    let scene = Scene::start_with_server(&server(), "");
    let mut params = slow("web__trace");
    params["_meta"]["traceparent"] = json!(PARENT);
    params["_meta"]["tracestate"] = json!("a=1");
    let (_, response) = scene.call("web__trace", &params);
    assert_eq!(context_of(&response), [json!(PARENT), json!("a=1")]);
    scene.end();
}

#[test]
fn trace_headers_of_the_client_reach_the_server_without_tracing() {
    let scene = Scene::start_with_server(&server(), "");
    let lines = format!("traceparent: {PARENT}\r\ntracestate: a=1\r\n");
    let call = |params| scene.post(&Post { name: "web__trace", lines: &lines, ..Post::new(params) }).1;
    assert_eq!(context_of(&call(slow("web__trace"))), [json!(PARENT), json!("a=1")]);
    let head = scene.heads.lock().unwrap().last().unwrap().clone();
    assert!(
        head.contains(&format!("traceparent: {PARENT}\n")) && head.contains("tracestate: a=1\n"),
        "{head}"
    );

    // The context in `_meta` belongs to the MCP client. It stays.
    let other = PARENT.replace("b7ad6b7169203331", "00f067aa0ba902b7");
    let mut params = slow("web__trace");
    params["_meta"]["traceparent"] = json!(other);
    assert_eq!(context_of(&call(params)), [json!(other), Value::Null]);
    let head = scene.heads.lock().unwrap().last().unwrap().clone();
    assert!(head.contains(&format!("traceparent: {PARENT}\n")), "{head}");
    scene.end();
}

#[test]
fn client_sends_its_trace_context_in_meta_and_in_headers() {
    let heads = Arc::<Mutex<Vec<String>>>::default();
    let recorder =
        Recorder { endpoint: server().endpoint(), heads: heads.clone(), refused_token: Arc::default() };
    let running = Server::new(recorder).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let url = format!("http://{}/mcp", running.addresses()[0]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for era in [EraChoice::Modern, EraChoice::Legacy] {
        let call = async {
            let client = McpClient::builder().era(era).http(&url).with_trace(PARENT, "a=1");
            client.call_tool("trace", json!({})).await.unwrap()
        };
        let result = json!({"result": serde_json::to_value(runtime.block_on(call)).unwrap()});
        assert_eq!(context_of(&result), [json!(PARENT), json!("a=1")]);
        let heads = heads.lock().unwrap();
        let head = heads.iter().rev().find(|head| head.contains("traceparent")).unwrap();
        assert!(head.contains(&format!("traceparent: {PARENT}\n")) && head.contains("tracestate: a=1\n"));
    }
    running.drain();
    running.join();
}

#[test]
fn failures_of_calls_are_errors_of_their_spans() {
    let (collector, exports) = serve(&[ACCEPTED]);
    let scene = Scene::start_with_server(&server(), &telemetry(collector));
    receive_spans(&exports, 3);
    let failure = |span: &DecodedSpan| {
        let code = span.attributes.get("rpc.response.status_code").cloned();
        (span.is_error, span.attributes["error.type"].clone(), code)
    };
    let tool_error = (true, "tool_error".to_owned(), None);
    scene.call("web__wrong", &slow("web__wrong"));
    let (_, spans) = receive_spans(&exports, 3);
    assert_eq!(failure(of_name(&spans, "tools/call web__wrong")), tool_error);
    assert_eq!(failure(of_name(&spans, "tools/call wrong")), tool_error);
    assert!(!of_name(&spans, "POST /dev and below").is_error);

    scene.post(&Post { name: "web__wrong", ..Post::new(fast("web__wrong")) });
    let (_, spans) = receive_spans(&exports, 4);
    assert_eq!(failure(of_name(&spans, "tools/call web__wrong")), tool_error);

    scene.call("web__absent", &slow("web__absent"));
    let (_, spans) = receive_spans(&exports, 2);
    let invalid = (true, "-32602".to_owned(), Some("-32602".to_owned()));
    assert_eq!(failure(of_name(&spans, "tools/call web__absent")), invalid);
    scene.end();
}
