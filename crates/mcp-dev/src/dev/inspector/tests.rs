//! Tests of the inspector and of the endpoint in front of the server, without ports.

use thruway_mcp_sdk::schema::{Prompt, Resource, Tool};
use thruway_mcp_sdk::{Bridge, BridgeOptions, McpServer};
use thruway_server::testing::{TestClient, TestRequest};

use super::*;
use crate::dev::journal::EntryKind;
use crate::dev::router;
use crate::dev::served::{ServerState, Version};

const TOKEN: &str = "secret-token";

struct World {
    client: TestClient,
    served: Served,
    journal: Journal,
    restarts: mpsc::Receiver<()>,
}

fn world() -> World {
    let (served, journal) = (Served::new(), Journal::new());
    let (restart, restarts) = mpsc::channel(1);
    let inspector = Inspector::new(served.clone(), journal.clone(), TOKEN, restart);
    let client = TestClient::new(router(&served, inspector));
    World { client, served, journal, restarts }
}

async fn version() -> Arc<Version> {
    let server = McpServer::new("demo", "1")
        .tool(Tool::new("greet"), |arguments: Value| format!("Hello, {}!", arguments["name"]))
        .prompt(Prompt::new("ask"), |_: Value| "Ask me.".to_owned())
        .resource(Resource::new("a://b", "b"), || "content");
    let bridge = Bridge::connect(BridgeOptions::default(), move |builder| Ok(builder.server(&server)));
    Arc::new(Version::new(bridge.await.unwrap()).await.unwrap())
}

fn as_page(request: TestRequest<'_>) -> TestRequest<'_> {
    request.header("Host", "127.0.0.1:6280").header("Authorization", format!("Bearer {TOKEN}"))
}

impl World {
    async fn call(&self, call: &Value) -> Value {
        let response = as_page(self.client.post("/inspector/call")).json(call).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response.json().await.unwrap()
    }

    async fn describe(&self) -> Value {
        as_page(self.client.get("/inspector/server")).send().await.unwrap().json().await.unwrap()
    }
}

#[tokio::test]
async fn pages_of_other_origins_are_refused() {
    let world = world();
    let own = [("Host", "localhost:6280"), ("Authorization", "Bearer secret-token")];
    for (changed, value, status) in [
        ("Host", "[::1]:6280", 200),
        ("Host", "127.0.0.2:6280", 200),
        ("Host", "127.255.255.254", 200),
        ("Host", "[::ffff:127.0.0.1]:6280", 200),
        ("Host", "LocalHost", 200),
        ("Host", "128.0.0.1:6280", 403),
        ("Host", "0.0.0.0:6280", 403),
        ("Host", "[::]:6280", 403),
        ("Host", "127.1:6280", 403),
        ("Origin", "http://localhost:6280", 200),
        ("Sec-Fetch-Site", "same-origin", 200),
        ("Host", "evil.example", 403),
        ("Host", "127.0.0.1.evil.example", 403),
        ("Origin", "http://evil.example", 403),
        ("Origin", "http://localhost:3000", 403),
        ("Origin", "https://localhost:6280", 403),
        ("Origin", "null", 403),
        ("Sec-Fetch-Site", "cross-site", 403),
        ("Sec-Fetch-Site", "same-site", 403),
        ("Authorization", "Bearer wrong", 401),
        ("Authorization", "Bearer", 401),
        ("Authorization", "Basic secret-token", 401),
    ] {
        let kept = own.iter().filter(|(name, _)| *name != changed);
        let fields = kept.copied().chain([(changed, value)]);
        let request = fields.fold(world.client.get("/inspector/server"), |request, (name, value)| {
            request.header(name, value)
        });
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{changed}: {value}");
        assert_eq!(response.header("Cross-Origin-Resource-Policy"), Some("same-origin"));
    }
    for (name, value) in [("Origin", "http://localhost:3000"), ("Sec-Fetch-Site", "cross-site")] {
        let request = world.client.post("/mcp").header("Host", "localhost:6280").header(name, value);
        assert_eq!(request.send().await.unwrap().status(), StatusCode::FORBIDDEN, "{name}: {value}");
    }
    let response = world.client.get("/inspector/log").header("Host", "localhost").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "the token is missing");
}

#[tokio::test]
async fn page_needs_no_token_and_contains_none() {
    let world = world();
    let response = world.client.get("/").header("Host", "127.0.0.1:1").send().await.unwrap();
    assert!(response.header("Content-Security-Policy").unwrap().starts_with("default-src 'none';"));
    let page = response.text().await.unwrap();
    assert!(page.contains("<title>MCP inspector</title>") && !page.contains(TOKEN));
    for (host, method, status) in [("evil.example", "GET", 403), ("localhost", "POST", 405)] {
        let request = if method == "GET" { world.client.get("/") } else { world.client.post("/") };
        assert_eq!(request.header("Host", host).send().await.unwrap().status().as_u16(), status);
    }
    let response = as_page(world.client.get("/inspector/unknown")).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn page_calls_tools_prompts_and_resources() {
    let world = world();
    world.served.serve(version().await);
    let answer = world.call(&json!({"kind": "tool", "name": "greet", "arguments": {"name": "Ada"}})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "Hello, \"Ada\"!");
    let answer = world.call(&json!({"kind": "prompt", "name": "ask", "arguments": {}})).await;
    assert_eq!(answer["result"]["messages"][0]["content"]["text"], "Ask me.");
    let answer = world.call(&json!({"kind": "resource", "uri": "a://b"})).await;
    assert_eq!(answer["result"]["contents"][0]["text"], "content");
    let answer = world.call(&json!({"kind": "tool", "name": "missing", "arguments": {}})).await;
    assert!(answer["error"].as_str().unwrap().contains("no such tool"), "{answer}");
    for invalid in ["", "{}", "{\"kind\":\"tool\",\"name\":\"greet\"}", "{\"kind\":\"shell\"}", "[]"] {
        let response = as_page(world.client.post("/inspector/call")).body(invalid).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{invalid}");
        assert!(response.text().await.unwrap().starts_with("invalid call: "));
    }
    let described = world.describe().await;
    assert_eq!(described["status"], json!({"state": "running"}));
    assert_eq!(described["inspection"]["tools"][0]["name"], "greet");
}

#[tokio::test]
async fn state_of_the_server_is_visible() {
    let world = world();
    assert_eq!(world.describe().await["status"], json!({"state": "starting"}));
    world.served.set(ServerState::Failed("exit status: 1".into()));
    let described = world.describe().await;
    assert_eq!(described["status"], json!({"state": "failed", "reason": "exit status: 1"}));
    assert_eq!(described["error"], "the server does not start: exit status: 1");
    let answer = world.call(&json!({"kind": "resource", "uri": "a://b"})).await;
    assert_eq!(answer["error"], "the server does not start: exit status: 1");
    world.served.serve(version().await);
    // A failed build leaves the previous version running.
    world.served.set(ServerState::Unbuilt("exit status: 101".into()));
    let described = world.describe().await;
    assert_eq!((&described["status"]["state"], &described["error"]), (&json!("unbuilt"), &Value::Null));
    world.served.serve(version().await);
    assert_eq!(world.describe().await["restarts"], 1);
}

#[tokio::test]
async fn log_contains_earlier_and_later_entries() {
    let world = world();
    world.journal.add(EntryKind::Output, "line\n\nbreak");
    let mut response = as_page(world.client.get("/inspector/log")).send().await.unwrap();
    let mut next = async || {
        let event = response.event().await.unwrap().unwrap();
        serde_json::from_str::<Value>(&event.data).unwrap()
    };
    assert_eq!(next().await, json!({"number": 1, "kind": "output", "text": "line\n\nbreak"}));
    world.journal.add(EntryKind::Sent, "{}");
    assert_eq!(next().await, json!({"number": 2, "kind": "sent", "text": "{}"}));
}

#[tokio::test]
async fn page_can_request_a_restart() {
    let mut world = world();
    for _ in 0..2 {
        let response = as_page(world.client.post("/inspector/restart")).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::ACCEPTED);
    }
    assert!(world.restarts.try_recv().is_ok() && world.restarts.try_recv().is_err());
}

#[tokio::test]
async fn mcp_endpoint_answers_with_an_error_until_the_server_runs() {
    let world = world();
    world.served.set(ServerState::Failed("exit status: 1".into()));
    let ping = || {
        let request = world.client.post("/mcp").header("Host", "localhost");
        let request = request.header("Accept", "application/json, text/event-stream");
        request.json(&json!({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}}))
    };
    let response = ping().send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.header("Retry-After")), (503, Some("1")));
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["id"], 7);
    assert_eq!(answer["error"]["message"], "the server does not start: exit status: 1");
    world.served.serve(version().await);
    let response = ping().send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert!(response.text().await.unwrap().contains("\"demo\""));
}
