//! The legacy revisions over HTTP: the handshake, methods, and requests to the client.

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{Resource, Tool};

use crate::fixtures::{Nothing, answer, server, text, tool};
use crate::http::{Message, Session, Site};

const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

#[tokio::test(start_paused = true)]
async fn server_accepts_each_legacy_revision_and_falls_back_to_latest() {
    let site = Site::new(&server());
    for (requested, expected) in REVISIONS.map(|revision| (revision, revision)).into_iter().chain([
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("", "2025-11-25"),
    ]) {
        let response = site.send(&Session::initialize(requested, &json!({}))).await;
        let result = &response.message()["result"];
        assert_eq!(result["protocolVersion"], expected, "{requested}");
        assert_eq!(result["serverInfo"]["name"], "fixtures");
        assert!(result["capabilities"]["tools"]["listChanged"] == true && result.get("resultType").is_none());
        let id = response.field("mcp-session-id").unwrap();
        assert!(id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_graphic()));
    }
}

#[tokio::test(start_paused = true)]
async fn malformed_initialize_creates_no_session() {
    let site = Site::new(&server());
    for params in [json!({}), json!({"protocolVersion": 5, "capabilities": {}, "clientInfo": {}})] {
        let response = site.send(&Message::post(&crate::http::request(1, "initialize", &params))).await;
        assert_eq!(response.error_code(), -32602);
        assert_eq!(response.field("mcp-session-id"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn every_method_works_in_every_legacy_revision() {
    let site = Site::new(&server());
    let reference = json!({"type": "ref/prompt", "name": "greeting"});
    for revision in REVISIONS {
        let session = site.initialize(revision).await;
        for (method, params) in [
            ("ping", json!({})),
            ("tools/list", json!({})),
            ("tools/call", json!({"name": "echo", "arguments": {"message": "m"}})),
            ("tools/call", tool("progress")),
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("resources/read", json!({"uri": "test://text"})),
            ("resources/subscribe", json!({"uri": "test://text"})),
            ("resources/unsubscribe", json!({"uri": "test://text"})),
            ("prompts/list", json!({})),
            ("prompts/get", json!({"name": "greeting", "arguments": {"message": "m"}})),
            ("logging/setLevel", json!({"level": "error"})),
            ("completion/complete", json!({"ref": reference, "argument": {"name": "message", "value": ""}})),
        ] {
            let result = session.call(&site, method, params).await;
            assert!(
                result.get("resultType").is_none() && result.get("ttlMs").is_none(),
                "{method}: {result}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn legacy_errors_get_status_200_with_json_rpc_code() {
    let site = Site::new(&server());
    let session = site.initialize("2025-06-18").await;
    for (method, params, code) in [
        ("nothing", json!({}), -32601),
        ("server/nothing", json!({}), -32601),
        ("tools/call", json!({"name": "nothing"}), -32602),
        ("resources/read", json!({"uri": "test://nothing"}), -32002),
        ("resources/subscribe", json!({"uri": "test://nothing"}), -32002),
        ("logging/setLevel", json!({"level": "loud"}), -32602),
        ("tools/list", json!({"cursor": "x"}), -32602),
        ("tools/call", tool("panic"), -32603),
        ("tools/call", tool("panic_later"), -32603),
    ] {
        let refused = site.refused(&session.request(1, method, &params)).await;
        assert_eq!(refused, (200, code), "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn content_unsupported_by_revision_becomes_text() {
    let site = Site::new(&server());
    for (revision, expected) in [
        ("2024-11-05", ["text", "text", "text"]),
        ("2025-03-26", ["text", "audio", "text"]),
        ("2025-06-18", ["text", "audio", "resource_link"]),
        ("2025-11-25", ["text", "audio", "resource_link"]),
    ] {
        let session = site.initialize(revision).await;
        let result = session.call(&site, "tools/call", tool("media")).await;
        let kinds = [0, 1, 2].map(|place| result["content"][place]["type"].as_str().unwrap().to_owned());
        assert_eq!(kinds, expected, "{revision}");
        let echo = json!({"name": "echo", "arguments": {"message": "m"}});
        let result = session.call(&site, "tools/call", echo).await;
        assert_eq!(result.get("structuredContent").is_some(), revision >= "2025-06-18", "{revision}");
        assert_eq!(text(&result), r#"{"message":"m"}"#);
    }
}

/// Calls a tool and answers its requests to the client. Returns the messages of the stream.
async fn converse(site: &Site, session: &Session, params: &Value) -> Vec<Value> {
    let mut exchange = site.open(&session.request("call", "tools/call", params));
    let mut messages = Vec::new();
    loop {
        let message = exchange.next_message().await;
        if let Some(method) = message["method"].as_str().filter(|_| message.get("id").is_some()) {
            let response = session.respond(&message["id"], &answer(method, &message["params"]));
            assert_eq!(site.send(&response).await.status, 202);
        }
        messages.push(message);
        if messages.last().unwrap()["id"] == "call" {
            assert_eq!(exchange.next_event().await, None, "the stream should end after the response");
            return messages;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn client_posts_responses_to_requests_from_stream() {
    let site = Site::new(&server());
    for revision in ["2025-06-18", "2025-11-25"] {
        let session = site.initialize(revision).await;
        let messages = converse(&site, &session, &tool("ask")).await;
        assert_eq!(messages[0]["method"], "elicitation/create");
        assert_eq!(text(&messages[1]["result"]), "Ada");
        let messages = converse(&site, &session, &tool("ask_all")).await;
        assert_eq!(messages.len(), 4);
        assert_eq!(text(&messages[3]["result"]), "Ada 42 file:///home");
        let twice = json!({"name": "ask_twice", "arguments": {"message": "m"}});
        let messages = converse(&site, &session, &twice).await;
        assert_eq!(text(&messages[2]["result"]), "Ada and Ada");
    }
}

#[tokio::test(start_paused = true)]
async fn elicitation_error_from_client_fails_tool_call() {
    let site = Site::new(&server());
    let session = site.initialize("2025-06-18").await;
    for (outcome, code) in [
        (json!({"error": {"code": -1, "message": "not now"}}), -1),
        (json!({"result": {"action": "perhaps"}}), -32603),
    ] {
        let mut exchange = site.open(&session.request(1, "tools/call", &tool("ask")));
        let mut response = outcome;
        response["jsonrpc"] = "2.0".into();
        response["id"] = exchange.next_message().await["id"].clone();
        assert_eq!(site.send(&session.post(&response)).await.status, 202);
        assert_eq!(exchange.next_message().await["error"]["code"], code);
    }
}

#[tokio::test(start_paused = true)]
async fn elicitation_fails_if_client_lacks_capability() {
    let site = Site::new(&server());
    let session = site.initialize_with("2025-06-18", &json!({})).await;
    assert_eq!(site.refused(&session.request(1, "tools/call", &tool("ask"))).await, (200, -32600));
}

#[tokio::test(start_paused = true)]
async fn log_messages_respect_level_set_by_client() {
    let site = Site::new(&server());
    let session = site.initialize("2025-06-18").await;
    for (level, count) in [("debug", 8), ("error", 4), ("emergency", 1)] {
        session.call(&site, "logging/setLevel", json!({"level": level})).await;
        let response = site.send(&session.request(2, "tools/call", &tool("log"))).await;
        let messages = response.messages();
        assert_eq!(messages.len(), count + 1, "{level}");
        assert_eq!(messages[0]["params"]["level"], level);
    }
}

#[tokio::test(start_paused = true)]
async fn session_stream_receives_change_notifications() {
    let server = server();
    let site = Site::new(&server);
    let session = site.initialize("2025-06-18").await;
    session.call(&site, "resources/subscribe", json!({"uri": "test://text"})).await;
    session.call(&site, "resources/subscribe", json!({"uri": "test://item/5"})).await;
    let mut stream = site.open(&session.get());
    assert!(stream.head().await.starts_with("HTTP/1.1 200 "));
    server.resource_updated("test://text");
    let message = stream.next_message().await;
    assert_eq!(message["method"], "notifications/resources/updated");
    assert_eq!(message["params"], json!({"uri": "test://text"}));
    server.resource_updated("test://item/5");
    assert_eq!(stream.next_message().await["params"], json!({"uri": "test://item/5"}));
    session.call(&site, "resources/unsubscribe", json!({"uri": "test://text"})).await;
    server.resource_updated("test://text");
    server.add_tool(Tool::new("new"), |_: Nothing| "").unwrap();
    assert_eq!(stream.next_message().await["method"], "notifications/tools/list_changed");
    server.add_resource(Resource::new("test://new", "new"), || "new");
    assert_eq!(stream.next_message().await["method"], "notifications/resources/list_changed");
    assert!(server.remove_prompt("greeting"));
    assert_eq!(stream.next_message().await["method"], "notifications/prompts/list_changed");
}

#[tokio::test(start_paused = true)]
async fn change_notification_goes_to_only_one_stream_of_session() {
    let server = server();
    let site = Site::new(&server);
    let session = site.initialize("2025-06-18").await;
    let mut streams = [site.open(&session.get()), site.open(&session.get())];
    for stream in &mut streams {
        stream.head().await;
    }
    for round in 0..10 {
        assert!(if round % 2 == 0 { server.remove_tool("echo") } else { add_echo(&server) });
        Site::settle().await;
        let mut received = 0;
        for stream in &mut streams {
            stream.advance();
            received += usize::from(stream.take_event().is_some());
        }
        assert_eq!(received, 1, "round {round}");
    }
    // The remaining stream receives all messages.
    let [mut left, gone] = streams;
    gone.leave();
    assert!(server.remove_tool("echo"));
    assert_eq!(left.next_message().await["method"], "notifications/tools/list_changed");
}

fn add_echo(server: &thruway_mcp_sdk::McpServer) -> bool {
    server.add_tool(Tool::new("echo"), |_: Nothing| "").is_ok()
}
