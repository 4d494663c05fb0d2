//! One caller cannot use up the limits that all callers of a bridge share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use thruway_mcp_sdk::{Authorization, Bridge, BridgeOptions, EraChoice, McpClientBuilder, McpServer};

use super::sites::{in_memory, options};
use super::task_server::TaskServer;
use crate::authorization::Plain;
use crate::fixtures::{server, tool};
use crate::http::{Message, Response, Session, Site};

fn site_of(bridge: &McpServer) -> Site {
    let authorization = Authorization::new("https://mcp.example/mcp", ["https://login.example"], Plain);
    Site::of(bridge.endpoint().authorize(authorization))
}

fn by(caller: &str, message: Message) -> Message {
    message.with_field("Authorization", &format!("Bearer {caller}/use"))
}

/// Starts a session of `caller` with these capabilities of its client.
async fn begin(site: &Site, caller: &str, capabilities: &Value) -> Session {
    let response = site.send(&by(caller, Session::initialize("2025-11-25", capabilities))).await;
    let id = response.field("mcp-session-id").unwrap_or_else(|| panic!("no session: {}", response.text()));
    Session { id: Some(id.to_owned()), revision: "2025-11-25".to_owned() }
}

async fn send(site: &Site, caller: &str, session: &Session, method: &str, params: &Value) -> Value {
    let response = site.send(&by(caller, session.request(7, method, params))).await;
    let is_stream = response.head.contains("text/event-stream");
    if is_stream { response.messages().pop().unwrap() } else { response.message() }
}

async fn call(site: &Site, caller: &str, params: &Value) -> Response {
    let message = Message::modern_with("tools/call", params.clone(), &json!({"elicitation": {}}));
    site.send(&by(caller, message)).await
}

/// Regression test: the sessions of one caller could occupy all servers that serve only one client.
#[tokio::test]
async fn one_caller_cannot_occupy_all_dedicated_servers() {
    let options = BridgeOptions { servers_max: 5, ..options(EraChoice::Legacy) };
    let bridge = in_memory(&server(), options).await;
    let site = site_of(&bridge);
    let capabilities = json!({"elicitation": {}});
    let mut sessions = Vec::new();
    for n in 0..3 {
        let session = begin(&site, "ada", &capabilities).await;
        let answer = send(&site, "ada", &session, "tools/call", &tool("progress")).await;
        assert_eq!(answer["result"].is_object(), n < 2, "{n}: {answer}");
        if n == 2 {
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(message.contains("this caller has reached its share"), "{answer}");
        }
        sessions.push(session);
    }
    // A modern call is refused at once, because no ending call could free a server.
    let refused = call(&site, "ada", &tool("progress")).await;
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("10")), "{}", refused.text());
    let session = begin(&site, "bob", &capabilities).await;
    let answer = send(&site, "bob", &session, "tools/call", &tool("progress")).await;
    assert!(answer["result"].is_object(), "{answer}");
    // The caller at its limit loses nothing, and can use a server again after it has freed one.
    let answer = send(&site, "ada", &sessions[0], "tools/call", &tool("progress")).await;
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(site.send(&by("ada", sessions[0].delete())).await.status, 204);
    Site::settle().await;
    let answer = send(&site, "ada", &sessions[2], "tools/call", &tool("progress")).await;
    assert!(answer["result"].is_object(), "{answer}");
    bridge.close().await;
}

/// Regression test: an idle server makes space for other callers, but a caller that had reached its share
/// ended such a server without any benefit.
#[tokio::test]
async fn idle_server_is_not_stopped_for_caller_at_its_share() {
    let connected = Arc::new(AtomicUsize::new(0));
    let (counter, behind) = (connected.clone(), server());
    let connect = move |builder: McpClientBuilder| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(builder.server(&behind))
    };
    let options = BridgeOptions { servers_max: 3, ..options(EraChoice::Legacy) };
    let bridge = Bridge::connect(options, connect).await.unwrap();
    let site = site_of(&bridge);
    let connected = || connected.load(Ordering::Relaxed);
    let shared = connected();
    let is_answered = async |caller: &str| call(&site, caller, &tool("progress")).await.status == 200;
    assert!(is_answered("bob").await && is_answered("eve").await);
    let mut answers = Vec::new();
    for _ in 0..2 {
        let session = begin(&site, "ada", &json!({"elicitation": {}})).await;
        let answer = send(&site, "ada", &session, "tools/call", &tool("progress")).await;
        answers.push(answer["result"].is_object());
    }
    assert_eq!((answers, connected() - shared), (vec![true, false], 3));
    assert!(is_answered("bob").await && is_answered("eve").await);
    assert_eq!(connected() - shared, 3, "their servers were still there");
    // A caller without servers replaces the server that was idle for the longest time.
    assert!(is_answered("new").await && is_answered("eve").await);
    assert_eq!(connected() - shared, 4);
    bridge.close().await;
}

/// Regression test: the calls of one caller could occupy all places for calls that wait for answers.
#[tokio::test]
async fn one_caller_cannot_use_up_questions_max() {
    let options = BridgeOptions { questions_max: 5, ..options(EraChoice::Legacy) };
    let bridge = in_memory(&server(), options).await;
    let site = site_of(&bridge);
    let mut waiting = Vec::new();
    for caller in ["ada", "ada", "bob"] {
        let answer = call(&site, caller, &tool("ask")).await.message();
        assert_eq!(answer["result"]["resultType"], "input_required", "{caller}: {answer}");
        waiting.push(answer["result"].clone());
        if waiting.len() == 2 {
            let refused = call(&site, "ada", &tool("ask")).await.message();
            let message = refused["error"]["message"].as_str().unwrap();
            assert!(message.contains("calls of this caller wait for answers"), "{refused}");
        }
    }
    let mut again = tool("ask");
    let (name, _) = waiting[0]["inputRequests"].as_object().unwrap().iter().next().unwrap();
    again["requestState"] = waiting[0]["requestState"].clone();
    again["inputResponses"] = json!({name: {"action": "accept", "content": {"name": "Ada"}}});
    let answered = call(&site, "ada", &again).await.message();
    assert_eq!(answered["result"]["content"][0]["text"], "Ada", "{answered}");
    let answer = call(&site, "ada", &tool("ask")).await.message();
    assert_eq!(
        answer["result"]["resultType"], "input_required",
        "the finished call has freed its place: {answer}"
    );
    bridge.close().await;
}

/// Regression test: the tasks of one caller were limited only for each session.
#[tokio::test]
async fn one_caller_cannot_use_up_tasks_max() {
    let options = BridgeOptions { tasks_max: 5, ..options(EraChoice::Legacy) };
    let bridge = TaskServer::new().bridge_with(options).await;
    let site = site_of(&bridge);
    let task = json!({"name": "slow", "arguments": {}, "task": {}});
    let mut greedy = Vec::new();
    for n in 0..3 {
        let session = begin(&site, "ada", &json!({})).await;
        let answer = send(&site, "ada", &session, "tools/call", &task).await;
        assert_eq!(answer["result"]["task"].is_object(), n < 2, "{n}: {answer}");
        if n == 2 {
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(message.contains("this client has too many tasks"), "{answer}");
        }
        greedy.push(session);
    }
    let session = begin(&site, "bob", &json!({})).await;
    let answer = send(&site, "bob", &session, "tools/call", &task).await;
    assert!(answer["result"]["task"].is_object(), "{answer}");
    // The end of a session frees its tasks.
    assert_eq!(site.send(&by("ada", greedy[0].delete())).await.status, 204);
    let answer = send(&site, "ada", &greedy[2], "tools/call", &task).await;
    assert!(answer["result"]["task"].is_object(), "{answer}");
    bridge.close().await;
}

/// Regression test: calls that wait for answers keep their arguments, but only their number was limited.
#[tokio::test]
async fn calls_waiting_for_answers_count_toward_in_flight_bytes() {
    let mut options = options(EraChoice::Legacy);
    options.server.in_flight_bytes_max = 1 << 20;
    options.server.message_bytes_max = 1 << 20;
    let bridge = in_memory(&server(), options).await;
    let site = site_of(&bridge);
    let large = json!({"name": "ask", "arguments": {"other": "x".repeat(400 << 10)}});
    let waiting = call(&site, "ada", &large).await.message();
    assert_eq!(waiting["result"]["resultType"], "input_required", "{waiting}");
    let refused = call(&site, "ada", &large).await;
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("10")), "{}", refused.text());
    let other = call(&site, "bob", &large).await.message();
    assert_eq!(other["result"]["resultType"], "input_required", "{other}");
    bridge.close().await;
}
