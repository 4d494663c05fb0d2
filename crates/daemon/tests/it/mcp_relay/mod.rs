//! Tests of the fast path of MCP endpoints: tool calls that the endpoint relays to an upstream.

mod bodies;
mod failures;
mod member;
mod scene;
mod states;
mod tasks;
mod tokens;
mod tools;
mod traces;

use serde_json::{Value, json};

use crate::client::end;
use scene::{Post, Scene, fast, slow};

#[test]
fn relayed_call_gets_the_same_response_as_a_parsed_call() {
    let scene = Scene::start("");
    for name in ["web__hello", "web__large", "web__fail", "web__secret", "web__missing", "hello"] {
        let relayed = scene.relayed().len();
        let parsed = scene.call(name, &slow(name));
        assert_eq!(scene.relayed().len(), relayed, "{name}");
        assert_eq!(scene.call(name, &fast(name)), parsed, "{name}");
        let is_relayed = !matches!(name, "web__secret" | "web__missing" | "hello");
        assert_eq!(scene.relayed().len(), relayed + usize::from(is_relayed), "{name}");
    }
    scene.end();
}

#[test]
fn relayed_call_has_the_headers_of_the_config_and_no_credentials_of_the_client() {
    let scene = Scene::start("");
    let (status, response) = scene.call("web__hello", &fast("web__hello"));
    assert_eq!((status.as_str(), &response["id"]), ("200", &json!(7)));
    assert_eq!(response["result"]["content"][0]["text"], "hello");
    let [head] = &scene.relayed()[..] else { panic!("the call was not relayed") };
    let head = head.to_ascii_lowercase();
    for line in ["/tools\n", "mcp-name: hello\n", "x-key: of the gateway\n", "mcp-method: tools/call\n"] {
        assert!(head.contains(line), "{line}\n{head}");
    }
    assert!(!head.contains("sesame"), "{head}");
    scene.end();
}

#[test]
fn relayed_and_parsed_calls_are_counted() {
    let scene = Scene::start("");
    let (_, hello) = scene.call("web__hello", &fast("web__hello"));
    assert_eq!(hello["result"]["content"][0]["text"], "hello");
    let (_, failed) = scene.call("web__fail", &fast("web__fail"));
    assert_eq!(failed["result"]["isError"], true, "{failed}");
    assert_eq!(scene.relayed().len(), 2);
    // The endpoint itself answers calls of unknown tools, and does not count them.
    let (_, missing) = scene.call("web__missing", &fast("web__missing"));
    assert_eq!(missing["error"]["code"], -32602);
    assert_eq!(scene.relayed().len(), 2);
    // The start of the scene has called the tool `fail` on the slow path.
    let calls = &scene.daemon.handle().status()["mcp_endpoints"][0]["servers"][0];
    assert_eq!((&calls["calls"]["total"], &calls["calls"]["errors"]), (&json!(3), &json!(2)), "{calls}");
    assert_eq!(calls["tool_calls"][0]["tool"], "web__fail", "{calls}");
    assert_eq!(calls["tool_calls"][0]["total"], 2, "{calls}");
    let [p50, p99] = ["p50_ms", "p99_ms"].map(|name| calls["tool_calls"][0][name].as_f64().unwrap());
    assert!(0.0 < p50 && p50 <= p99, "{calls}");
    let metrics = scene.daemon.handle().metrics();
    for line in [
        "thruway_mcp_call_duration_seconds_count{endpoint=\"dev\",server=\"web\"} 3",
        "thruway_mcp_call_errors_total{endpoint=\"dev\",server=\"web\"} 2",
        "thruway_mcp_tool_calls_total{endpoint=\"dev\",server=\"web\",tool=\"web__fail\"} 2",
        "thruway_mcp_tool_errors_total{endpoint=\"dev\",server=\"web\",tool=\"web__fail\"} 2",
    ] {
        assert!(metrics.lines().any(|other| other == line), "{line}\n{metrics}");
    }
    scene.end();
}

#[test]
fn headers_that_contradict_the_body_are_refused() {
    let scene = Scene::start("");
    let (status, response) = scene.call("web__large", &fast("web__hello"));
    assert_eq!((status.as_str(), &response["error"]["code"]), ("400", &json!(-32020)));
    let mut other_revision = fast("web__hello");
    other_revision["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-01-01");
    let (status, response) = scene.call("web__hello", &other_revision);
    assert_eq!(status, "400", "{response}");
    assert_eq!(scene.relayed(), [""; 0]);
    scene.end();
}

/// Regression test: the endpoint relayed requests of all methods as POST requests.
#[test]
fn only_post_requests_are_relayed() {
    let scene = Scene::start("");
    for method in ["GET", "PUT", "DELETE", "OPTIONS", "HEAD"] {
        let response = scene.response(&Post { method, ..Post::new(fast("web__hello")) });
        assert!(response.starts_with("HTTP/1.1 4"), "{method} {response}");
        assert_eq!(scene.relayed(), [""; 0], "{method}");
    }
    scene.end();
}

#[test]
fn rules_apply_to_relayed_calls() {
    let rule = "[[mcp.endpoints.dev.rules]]\ntools = [\"web__large\", \"web__f*\"]\n";
    let scene = Scene::start(rule);
    let (_, refused) = scene.call("web__hello", &fast("web__hello"));
    assert_eq!(refused["error"]["message"], "Unknown tool: web__hello");
    let (_, allowed) = scene.call("web__fail", &fast("web__fail"));
    assert_eq!(allowed["result"]["isError"], true, "{allowed}");
    assert_eq!(scene.relayed().len(), 1);
    scene.end();
}

#[test]
fn audit_log_has_the_same_lines_for_relayed_and_parsed_calls() {
    let scene = Scene::start("audit = \"audit.log\"\n");
    let tools = ["web__hello", "web__large", "web__fail"];
    for tool in tools {
        scene.call(tool, &slow(tool));
        scene.call(tool, &fast(tool));
    }
    assert_eq!(scene.relayed().len(), tools.len());
    let Scene { daemon, server, directory, .. } = scene;
    end(daemon);
    let log = std::fs::read_to_string(directory.path().join("audit.log")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The start of the scene writes the first line.
    let [_, calls @ ..] = &*lines else { panic!("{log}") };
    assert_eq!(calls.len(), 2 * tools.len(), "{log}");
    for (pair, tool) in calls.chunks(2).zip(tools) {
        for key in ["server", "name", "method", "revision", "outcome", "response_bytes"] {
            assert_eq!(pair[0][key], pair[1][key], "{key} {pair:?}");
        }
        assert_eq!((&pair[1]["server"], &pair[1]["name"]), (&json!("web"), &json!(tool)), "{pair:?}");
        assert_eq!(pair[1]["request_bytes"], fast(tool).to_string().len(), "{pair:?}");
    }
    server.drain();
    server.join();
}

/// Regression test: the call counted as canceled by the client.
#[test]
fn call_with_a_truncated_response_counts_as_failed() {
    let scene = Scene::start("audit = \"audit.log\"\n");
    scene.response(&Post { name: "web__truncated", ..Post::new(fast("web__truncated")) });
    assert_eq!(scene.relayed().len(), 1);
    let Scene { daemon, server, directory, .. } = scene;
    end(daemon);
    let log = std::fs::read_to_string(directory.path().join("audit.log")).unwrap();
    let line: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!((&line["name"], &line["outcome"]), (&json!("web__truncated"), &json!("error")), "{log}");
    server.drain();
    server.join();
}

#[test]
fn limits_apply_to_relayed_calls() {
    // The start of the scene makes the first call.
    let scene = Scene::start("[[mcp.endpoints.dev.limits]]\nrate = { requests = 3, per = \"1h\" }\n");
    for _ in 0..2 {
        let (_, allowed) = scene.call("web__hello", &fast("web__hello"));
        assert_eq!(allowed["result"]["content"][0]["text"], "hello", "{allowed}");
    }
    let (status, refused) = scene.call("web__hello", &fast("web__hello"));
    assert_eq!((status.as_str(), &refused["error"]["code"]), ("429", &json!(-32603)), "{refused}");
    assert_eq!(scene.relayed().len(), 2);
    scene.end();
}

#[test]
fn reload_applies_new_settings_for_requests_to_the_upstream() {
    let scene = Scene::start("");
    scene.call("web__hello", &fast("web__hello"));
    let file = scene.directory.path().join("thruway.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let config = config.replace("[upstreams.web]\n", "[upstreams.web]\nforwarded = \"none\"\n");
    std::fs::write(&file, config).unwrap();
    scene.daemon.reload().unwrap();
    // The new endpoint connects to the server during a call on the slow path.
    scene.call("web__hello", &slow("web__hello"));
    scene.call("web__hello", &fast("web__hello"));
    let has_address: Vec<_> =
        scene.relayed().iter().map(|head| head.to_ascii_lowercase().contains("x-forwarded-for")).collect();
    assert_eq!(has_address, [true, false]);
    scene.end();
}
