//! Tests of the fast path of MCP endpoints: tool calls that the endpoint relays to an upstream.

use std::io::{Read, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use serde_json::{Value, json};
use thruway_daemon::Daemon;
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{HandlerError, McpEndpoint, McpServer};
use thruway_server::{
    Answer, BoxError, Content, ContentStream, FieldLinesBuf, Handler, Piece, Request, Response,
    RunningServer, Server, StatusCode,
};

use crate::client::{address_of, connect, end};

/// An MCP server over HTTP that records the headers of its requests.
struct Recorder {
    endpoint: McpEndpoint,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Handler for Recorder {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let lines = request.field_lines().iter().map(|line| format!("{}: {}\n", line.name, line.value));
        self.heads.lock().unwrap().push(format!("{}\n{}", request.path(), lines.collect::<String>()));
        match request.field("Mcp-Name").map(|tool| tool.as_bytes()) {
            Some(b"redirect") => Answer::Now(redirect()),
            Some(b"truncated") => Answer::Now(truncated()),
            _ => self.endpoint.handle(request).map(|response| response.with_field("X-Other", "x-other")),
        }
    }
}

/// Returns a JSON-RPC response that tries to redirect the client.
fn redirect() -> Response {
    let response = Response::json(&json!({"jsonrpc": "2.0", "id": 7, "result": {"content": []}}));
    response.with_status(StatusCode::TEMPORARY_REDIRECT).with_field("Location", "http://other.example/")
}

/// Returns a response that ends in the middle of its body.
fn truncated() -> Response {
    let lines = FieldLinesBuf::from_static("Content-Type: application/json\r\n");
    Response::ok(lines, Content::from_content_stream(Truncated(false)))
}

/// A body that fails after its first bytes. Contains `true` after the first bytes.
struct Truncated(bool);

impl ContentStream for Truncated {
    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        let has_begun = std::mem::replace(&mut self.0, true);
        Poll::Ready(Some(if has_begun { Err("broken".into()) } else { Ok(Piece::Data("{\"id\":7,".into())) }))
    }
}

/// A daemon with an endpoint, and the MCP server behind the endpoint.
struct Scene {
    daemon: Daemon,
    server: RunningServer,
    heads: Arc<Mutex<Vec<String>>>,
    /// Contains the config and the audit log.
    directory: tempfile::TempDir,
}

/// The parts of a request that tests change.
struct Post<'a> {
    /// The value of `Mcp-Name`.
    name: &'a str,
    params: Value,
    /// The HTTP method.
    method: &'a str,
    /// `false` sends the body after the head, in a separate write.
    is_whole: bool,
}

impl Post<'_> {
    fn new(params: Value) -> Self {
        Self { name: "web__hello", params, method: "POST", is_whole: true }
    }
}

impl Scene {
    fn start(rest: &str) -> Self {
        let mcp = McpServer::new("tools", "1.0")
            .tool(Tool::new("hello"), || "hello")
            .tool(Tool::new("large"), || "x".repeat(300_000))
            .tool(Tool::new("fail"), || Err::<&str, _>(HandlerError::failed("no file")))
            .tool(Tool::new("redirect"), || "")
            .tool(Tool::new("truncated"), || "")
            .tool(Tool::new("secret"), || "hidden");
        let heads = Arc::<Mutex<Vec<_>>>::default();
        let recorder = Recorder { endpoint: mcp.endpoint(), heads: heads.clone() };
        let server = Server::new(recorder).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let config = format!(
            "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
             [upstreams.web]\nservers = [\"{}\"]\n\
             [mcp.servers.web]\nupstream = \"web\"\npath = \"/tools\"\nheaders = {{ X-Key = \"of the gateway\" }}\n\
             tools = {{ deny = [\"secret\"] }}\n\
             [[routes]]\npath = \"/dev\"\nmcp = \"dev\"\n\
             [mcp.endpoints.dev]\nservers = [\"web\"]\nlist_wait = \"1m\"\n{rest}",
            server.addresses()[0]
        );
        let file = directory.path().join("thruway.toml");
        std::fs::write(&file, config).unwrap();
        let daemon = Daemon::from_file(&file).unwrap();
        let scene = Self { daemon, server, heads, directory };
        // The first call uses the slow path, and waits for the connection to the server.
        scene.call("web__fail", &slow("web__fail"));
        scene
    }

    /// Returns the status and the JSON-RPC response.
    fn post(&self, post: &Post<'_>) -> (String, Value) {
        let response = self.response(post);
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(!head.to_ascii_lowercase().contains("set-cookie"), "{head}");
        (head.split(' ').nth(1).unwrap().to_owned(), serde_json::from_str(body).unwrap())
    }

    /// Returns the whole response.
    fn response(&self, post: &Post<'_>) -> String {
        let content =
            json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": post.params}).to_string();
        let mut stream = connect(&address_of(&self.daemon));
        let head = format!(
            "{} /dev HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nUser-Agent: client-7\r\n\
             Authorization: Bearer sesame\r\nCookie: sesame=1\r\nX-Other: sesame\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: tools/call\r\nMcp-Name: {}\r\nContent-Length: {}\r\n\r\n",
            post.method,
            post.name,
            content.len()
        );
        if post.is_whole {
            stream.write_all(format!("{head}{content}").as_bytes()).unwrap();
        } else {
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(content.as_bytes()).unwrap();
        }
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    fn call(&self, name: &str, params: &Value) -> (String, Value) {
        self.post(&Post { name, ..Post::new(params.clone()) })
    }

    /// Returns the headers that the server got with calls on the fast path. Only these calls have the
    /// `User-Agent` of the client.
    fn relayed(&self) -> Vec<String> {
        let heads = self.heads.lock().unwrap();
        heads.iter().filter(|head| head.contains("client-7")).cloned().collect()
    }

    fn end(self) {
        end(self.daemon);
        drop(self.directory);
        self.server.drain();
        self.server.join();
    }
}

/// Returns the parameters of a call that the endpoint relays.
fn fast(name: &str) -> Value {
    json!({"name": name, "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }})
}

/// Returns the parameters of a call that the endpoint parses, because the client accepts questions.
fn slow(name: &str) -> Value {
    let mut params = fast(name);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    params
}

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

#[test]
fn body_that_arrives_later_or_is_long_is_not_relayed() {
    let scene = Scene::start("");
    let later = Post { is_whole: false, ..Post::new(fast("web__hello")) };
    assert_eq!(scene.post(&later).1["result"]["content"][0]["text"], "hello");
    let mut long = fast("web__hello");
    long["arguments"] = json!({"text": "x".repeat(20_000)});
    let (_, response) = scene.call("web__hello", &long);
    assert_eq!(response["id"], 7, "{response}");
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

/// Regression test: the client got the redirects and all headers of the server.
#[test]
fn server_cannot_redirect_clients() {
    let scene = Scene::start("");
    let post = Post { name: "web__redirect", ..Post::new(fast("web__redirect")) };
    let response = scene.response(&post);
    assert!(response.starts_with("HTTP/1.1 502 ") && !response.contains("other.example"), "{response}");
    assert_eq!(scene.relayed().len(), 1);
    let response = scene.response(&Post::new(fast("web__hello")));
    assert!(response.starts_with("HTTP/1.1 200 ") && !response.contains("x-other"), "{response}");
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

#[test]
fn relayed_call_of_a_missing_server_names_the_server() {
    let scene = Scene::start("");
    let Scene { daemon, server, heads, directory } = scene;
    server.drain();
    server.join();
    // Takes the place of the ended server in the scene.
    let server = Server::new(|_: &Request| "").workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let scene = Scene { daemon, server, heads, directory };
    let (status, response) = scene.call("web__hello", &fast("web__hello"));
    assert!(["502", "503"].contains(&status.as_str()), "{status} {response}");
    assert_eq!((&response["error"]["code"], &response["id"]), (&json!(-32603), &json!(7)));
    assert_eq!(response["error"]["data"]["server"], "web");
    assert!(response["error"]["data"]["retryAfterMs"].is_u64(), "{response}");
    scene.end();
}
