//! Legacy sessions.

use serde_json::json;
use thruway_mcp_sdk::{Authorization, LegacySessions, McpServerOptions};

use crate::authorization::Plain;
use crate::fixtures::{answer, server, server_with, text, tool, with_hanging, with_waiting};
use crate::http::{Message, Session, Site, request};

#[tokio::test(start_paused = true)]
async fn session_id_must_be_present_and_known() {
    let site = Site::new(&server());
    let session = site.initialize("2025-06-18").await;
    let ping = session.request(1, "ping", &json!({}));
    assert_eq!(site.send(&ping).await.status, 200);
    assert_eq!(site.send(&ping.clone().without_field("Mcp-Session-Id")).await.status, 400);
    for unknown in
        ["x", "", "0", &session.id.clone().unwrap().to_uppercase().replace(|c: char| c.is_numeric(), "0")]
    {
        let response = site.send(&ping.clone().with_field("Mcp-Session-Id", unknown)).await;
        assert_eq!(response.status, 404, "{unknown}");
    }
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(site.send(&Message::post(&notification)).await.status, 400);
    assert_eq!(site.send(&session.post(&notification).with_field("Mcp-Session-Id", "x")).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn duplicate_session_id_header_is_rejected() {
    let site = Site::new(&server());
    let session = site.initialize("2025-06-18").await;
    let mut ping = session.request(1, "ping", &json!({}));
    let named_again = ("mcp-session-id".to_owned(), session.id.clone().unwrap());
    ping.fields.push(named_again.clone());
    assert_eq!(site.send(&ping).await.status, 400);
    let mut delete = session.delete();
    delete.fields.push(named_again);
    assert_eq!(site.send(&delete).await.status, 400);
}

/// Regression test: a client could store 4 MiB in each of ten thousand sessions.
#[tokio::test(start_paused = true)]
async fn client_capabilities_size_is_limited() {
    let site = Site::new(&server());
    let long = |bytes| json!({"experimental": {"x": "x".repeat(bytes)}});
    site.initialize_with("2025-06-18", &long(60 << 10)).await;
    let response = site.send(&Session::initialize("2025-06-18", &long(64 << 10))).await;
    assert_eq!(response.error_code(), -32602);
    assert_eq!(response.field("mcp-session-id"), None);
}

#[tokio::test(start_paused = true)]
async fn unknown_protocol_version_header_gets_400() {
    let site = Site::new(&server());
    let session = site.initialize("2025-06-18").await;
    let ping = session.request(1, "ping", &json!({}));
    for version in ["1999-01-01", "", "x"] {
        let response = site.send(&ping.clone().with_field("MCP-Protocol-Version", version)).await;
        assert_eq!(response.status, 400, "{version}");
    }
    assert_eq!(site.send(&ping.without_field("MCP-Protocol-Version")).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn delete_ends_session_with_its_streams_and_calls() {
    let (server, running) = with_hanging(server());
    let site = Site::new(&server);
    let session = site.initialize("2025-06-18").await;
    let mut stream = site.open(&session.get());
    stream.head().await;
    let hanging = site.open(&session.request(7, "tools/call", &tool("hang")));
    let mut asking = site.open(&session.request(8, "tools/call", &tool("ask")));
    assert_eq!(asking.next_message().await["method"], "elicitation/create");
    assert_eq!(running.count(), 1);

    assert_eq!(site.send(&session.delete()).await.status, 204);
    assert_eq!(site.send(&session.delete()).await.status, 404);
    assert_eq!(site.send(&session.request(1, "ping", &json!({}))).await.status, 404);
    assert_eq!(stream.next_event().await, None, "the stream should end with its session");
    // Regression test: the response was 202 without a body, and clients waited for their timeouts.
    let canceled = hanging.response().await;
    assert_eq!((canceled.status, canceled.error_code()), (200, -32603));
    assert_eq!(canceled.message()["id"], 7);
    assert_eq!(running.count(), 0);
    assert_eq!(asking.next_message().await["id"], 8, "the stream of a call should end with a response");
    assert_eq!(asking.next_event().await, None);
    assert_eq!(site.send(&Message::without_content("DELETE")).await.status, 405);
}

fn with_sessions(sessions_max: usize) -> McpServerOptions {
    McpServerOptions { sessions_max, ..McpServerOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn new_sessions_evict_old_ones_at_the_limit() {
    let site = Site::new(&server_with(with_sessions(3)));
    let mut sessions = Vec::new();
    for _ in 0..10 {
        sessions.push(site.initialize("2025-06-18").await);
    }
    let mut alive = 0;
    for session in &sessions {
        let status = site.send(&session.request(1, "ping", &json!({}))).await.status;
        alive += usize::from(status == 200);
        assert!(status == 200 || status == 404);
    }
    assert_eq!(alive, 3);
}

/// Regression test: a flood of `initialize` ended sessions with an open stream or a running call. The calls
/// ended with 202 and no body.
#[tokio::test(start_paused = true)]
async fn flood_of_new_sessions_does_not_evict_sessions_in_use() {
    let (server, gate) = with_waiting(server_with(with_sessions(20)));
    let site = Site::new(&server);
    let (reading, calling, resuming) = (
        site.initialize("2025-06-18").await,
        site.initialize("2025-06-18").await,
        site.initialize("2025-11-25").await,
    );
    let mut stream = site.open(&reading.get());
    stream.head().await;
    let call = site.open(&calling.request(1, "tools/call", &tool("wait")));
    // Its client has disconnected and will return.
    site.open(&resuming.request(2, "tools/call", &tool("wait"))).leave();
    Site::settle().await;
    for _ in 0..200 {
        assert_eq!(site.send(&Session::initialize("2025-06-18", &json!({}))).await.status, 200);
    }
    gate.notify_waiters();
    assert_eq!(text(&call.response().await.message()["result"]), "waited");
    server.remove_tool("echo");
    assert_eq!(stream.next_message().await["method"], "notifications/tools/list_changed");
    assert_eq!(site.send(&resuming.request(3, "ping", &json!({}))).await.status, 200);
}

/// Regression test: a new session replaced a session in use.
#[tokio::test(start_paused = true)]
async fn new_session_gets_503_while_all_sessions_are_in_use() {
    let site = Site::new(&server_with(with_sessions(2)));
    let first = site.initialize("2025-06-18").await;
    let second = site.initialize("2025-06-18").await;
    let mut streams = [site.open(&first.get()), site.open(&second.get())];
    for stream in &mut streams {
        stream.head().await;
    }
    let refused = site.send(&Session::initialize("2025-06-18", &json!({}))).await;
    assert_eq!((refused.status, refused.error_code()), (503, -32603));
    assert_eq!((refused.field("retry-after"), refused.field("mcp-session-id")), (Some("10"), None));
    assert_eq!(refused.message()["id"], 0);
    assert_eq!(site.send(&first.delete()).await.status, 204);
    site.initialize("2025-06-18").await;
    assert_eq!(site.send(&second.request(1, "ping", &json!({}))).await.status, 200);
}

/// Regression test: one client could occupy all sessions of a server.
#[tokio::test(start_paused = true)]
async fn address_cannot_exceed_session_quota() {
    let options = McpServerOptions { sessions_per_address_max: 1, ..McpServerOptions::default() };
    let site = Site::new(&server_with(options));
    let first = site.initialize("2025-06-18").await;
    let second = site.initialize("2025-06-18").await;
    assert_eq!(
        site.send(&first.request(1, "ping", &json!({}))).await.status,
        404,
        "the second session should evict it"
    );
    let mut stream = site.open(&second.get());
    stream.head().await;
    assert_eq!(site.send(&Session::initialize("2025-06-18", &json!({}))).await.status, 503);
}

/// Regression test: the stream ended without an answer, and the client kept waiting.
#[tokio::test(start_paused = true)]
async fn streaming_call_gets_error_when_session_ends() {
    let (server, _gate) = with_waiting(server());
    let site = Site::new(&server);
    let session = site.initialize("2025-11-25").await;
    let mut params = tool("wait");
    params["_meta"] = json!({"progressToken": 1});
    let mut call = site.open(&session.request(5, "tools/call", &params));
    assert_eq!(call.next_message().await["method"], "notifications/progress");
    assert_eq!(site.send(&session.delete()).await.status, 204);
    let answer = call.next_message().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(5), &json!(-32603)));
    assert_eq!(call.next_event().await, None);
}

#[tokio::test(start_paused = true)]
async fn client_cannot_answer_elicitation_of_another_session() {
    let site = Site::new(&server());
    let (session, thief) = (site.initialize("2025-06-18").await, site.initialize("2025-06-18").await);
    let mut exchange = site.open(&session.request(1, "tools/call", &tool("ask")));
    let question = exchange.next_message().await;
    let stolen = json!({"action": "accept", "content": {"name": "Mallory"}});
    assert_eq!(site.send(&thief.respond(&question["id"], &stolen)).await.status, 202);
    Site::settle().await;
    exchange.advance();
    assert_eq!(exchange.take_event(), None);
    let ours = session.respond(&question["id"], &answer("elicitation/create", &json!({})));
    assert_eq!(site.send(&ours).await.status, 202);
    assert_eq!(text(&exchange.next_message().await["result"]), "Ada");
}

#[tokio::test(start_paused = true)]
async fn unexpected_client_responses_are_ignored() {
    let site = Site::new(&server());
    let session = site.initialize("2025-06-18").await;
    for id in [json!(1), json!(-1), json!("1"), json!(i64::MAX)] {
        assert_eq!(site.send(&session.respond(&id, &json!({}))).await.status, 202);
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_notification_stops_only_its_request() {
    let (server, running) = with_hanging(server());
    let site = Site::new(&server);
    let (session, other) = (site.initialize("2025-06-18").await, site.initialize("2025-06-18").await);
    let mut exchange = site.open(&session.request("r", "tools/call", &tool("hang")));
    let cancel = |id: &str| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    for message in [session.post(&cancel("other")), other.post(&cancel("r"))] {
        assert_eq!(site.send(&message).await.status, 202);
    }
    Site::settle().await;
    assert!(exchange.is_pending() && running.count() == 1);
    assert_eq!(site.send(&session.post(&cancel("r"))).await.status, 202);
    // Regression test: the response was 202 without a body, which does not answer a request.
    let answer = exchange.response().await;
    assert_eq!((answer.status, answer.error_code()), (200, -32603));
    assert_eq!((answer.message()["id"].as_str(), running.count()), (Some("r"), 0));
}

#[tokio::test(start_paused = true)]
async fn request_id_cannot_be_reused_until_answered() {
    let (server, gate) = with_waiting(server());
    let site = Site::new(&server);
    let (session, other) = (site.initialize("2025-06-18").await, site.initialize("2025-06-18").await);
    let call = session.request(5, "tools/call", &tool("wait"));
    let first = site.open(&call);
    Site::settle().await;
    let refused = site.send(&call).await;
    assert_eq!((refused.status, refused.error_code()), (400, -32600));
    assert_eq!(refused.message()["id"], 5);
    let elsewhere = site.open(&other.request(5, "tools/call", &tool("wait")));
    Site::settle().await;
    gate.notify_waiters();
    assert_eq!(text(&first.response().await.message()["result"]), "waited");
    assert_eq!(text(&elsewhere.response().await.message()["result"]), "waited");
    assert_eq!(site.open(&call).response_after(|| gate.notify_one()).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn number_of_calls_with_disconnected_client_is_limited() {
    let (server, running) = with_hanging(server());
    let site = Site::new(&server);
    let session = site.initialize("2025-06-18").await;
    for id in 0..1000 {
        site.open(&session.request(id, "tools/call", &tool("hang"))).leave();
    }
    let refused = site.refused(&session.request(1000, "tools/call", &tool("hang"))).await;
    assert_eq!((refused, running.count()), ((400, -32603), 1000));
    assert_eq!(site.send(&session.request(1, "ping", &json!({}))).await.status, 200);
    assert_eq!(site.send(&session.delete()).await.status, 204);
    Site::settle().await;
    assert_eq!(running.count(), 0);
}

/// Regression test: only the number of calls was limited. 60 calls with 4 MiB of arguments each took 270 MiB.
#[tokio::test(start_paused = true)]
async fn in_flight_bytes_are_limited_per_caller() {
    let options = McpServerOptions {
        in_flight_bytes_max: 1 << 20,
        message_bytes_max: 1 << 20,
        ..McpServerOptions::default()
    };
    let (server, running) = with_hanging(server_with(options));
    let authorization = Authorization::new("https://mcp.example/mcp", ["https://login.example"], Plain);
    let site = Site::of(server.endpoint().authorize(authorization));
    let by =
        |caller: &str, message: Message| message.with_field("Authorization", &format!("Bearer {caller}/use"));
    let begin = async |caller: &str| {
        let response = site.send(&by(caller, Session::initialize("2025-06-18", &json!({})))).await;
        let id = response.field("mcp-session-id").unwrap().to_owned();
        Session { id: Some(id), revision: "2025-06-18".to_owned() }
    };
    let large = json!({"name": "hang", "arguments": {"other": "x".repeat(200 << 10)}});
    let modern = Message::modern("tools/call", large.clone());
    let (first, second) = (begin("ada").await, begin("ada").await);
    // Two sessions of one caller share one limit.
    site.open(&by("ada", first.request(1, "tools/call", &large))).leave();
    site.open(&by("ada", second.request(1, "tools/call", &large))).leave();
    Site::settle().await;
    assert_eq!(running.count(), 2);
    for message in [first.request(2, "tools/call", &large), modern.clone()] {
        let refused = site.send(&by("ada", message)).await;
        assert_eq!((refused.status, refused.error_code()), (503, -32603), "{}", refused.text());
        assert_eq!(refused.field("retry-after"), Some("10"));
        assert!(refused.text().contains("this caller's requests"), "{}", refused.text());
    }
    // Small requests and other callers are not affected.
    let small = site.send(&by("ada", first.request(3, "tools/call", &tool("progress")))).await;
    assert_eq!(text(&small.message()["result"]), "done");
    let other = site.open(&by("bob", modern.clone()));
    Site::settle().await;
    assert_eq!(running.count(), 3);
    // A modern call ends with its connection.
    other.leave();
    assert_eq!(site.send(&by("ada", first.delete())).await.status, 204);
    Site::settle().await;
    assert_eq!(running.count(), 1);
    site.open(&by("ada", second.request(4, "tools/call", &large))).leave();
    Site::settle().await;
    assert_eq!(running.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn stateless_mode_serves_each_request_without_session() {
    let options =
        McpServerOptions { legacy_sessions: LegacySessions::Stateless, ..McpServerOptions::default() };
    let site = Site::new(&server_with(options));
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = site.initialize(revision).await;
        assert_eq!(session.id, None);
        assert_eq!(text(&session.call(&site, "tools/call", tool("progress")).await), "done");
        let refused = site.refused(&session.request(1, "tools/call", &tool("ask"))).await;
        assert_eq!(refused, (200, -32600));
        let subscribe = session.request(1, "resources/subscribe", &json!({"uri": "test://text"}));
        assert_eq!(site.refused(&subscribe).await, (200, -32600));
        assert_eq!(site.send(&session.get()).await.status, 405);
    }
    // Messages before the answer have no stream.
    let mut params = tool("progress");
    params["_meta"] = json!({"progressToken": 1});
    let session = Session { id: None, revision: "2025-06-18".to_owned() };
    assert_eq!(text(&session.call(&site, "tools/call", params).await), "done");
    let batch = json!([request(1, "ping", &json!({})), request(2, "tools/call", &tool("progress"))]);
    let response = site.send(&Message::post(&batch)).await.message();
    assert_eq!((&response[0]["id"], text(&response[1]["result"])), (&json!(1), "done"));
}
