//! Heap use of idle clients, and leaks of requests.
//!
//! Each thread has its own counter, and each test has its own thread, so tests do not count each other's
//! memory.

use serde_json::{Value, json};
use thruway_mcp_sdk::McpServerOptions;
use thruway_testkit::heap::{CountingAllocator, held_bytes};

use crate::fixtures::{server, server_with, tool, with_hanging};
use crate::http::{Message, Session, Site, request, with_meta};
use crate::stream::next;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn bytes_in_use() -> usize {
    usize::try_from(held_bytes()).unwrap()
}

/// Returns the additional memory in use, in bytes for each of `count`.
fn bytes_each(before: usize, count: usize) -> usize {
    bytes_in_use().saturating_sub(before) / count
}

#[tokio::test(start_paused = true)]
async fn idle_session_uses_less_than_2_kib() {
    let site = Site::new(&server());
    site.initialize("2025-06-18").await;
    let before = bytes_in_use();
    for _ in 0..4000 {
        site.initialize("2025-06-18").await;
    }
    let each = bytes_each(before, 4000);
    assert!(each < 2 << 10, "{each} bytes");
}

/// Regression test: parsed capabilities of a client took up to 35 times their size on the wire.
#[tokio::test(start_paused = true)]
async fn session_stores_client_capabilities_at_wire_size() {
    let site = Site::new(&server());
    let capabilities = json!({"experimental": {"x": vec![0; 20_000]}});
    site.initialize_with("2025-06-18", &capabilities).await;
    let before = bytes_in_use();
    for _ in 0..20 {
        site.initialize_with("2025-06-18", &capabilities).await;
    }
    let each = bytes_each(before, 20);
    assert!(each < 44 << 10, "{each} bytes");
}

/// Regression test: the server kept the arguments of legacy requests, which only modern input requests need,
/// and kept the parsed answers of clients. Handlers outlive the connections of legacy clients.
#[tokio::test(start_paused = true)]
async fn running_handler_does_not_retain_unused_arguments_and_responses() {
    let (server, running) = with_hanging(server());
    let site = Site::new(&server);
    let session = site.initialize("2025-06-18").await;
    let before = bytes_in_use();
    let params = json!({"name": "hang", "arguments": {"other": "x".repeat(1 << 20)}});
    site.open(&session.request(1, "tools/call", &params)).leave();
    Site::settle().await;
    drop(params);
    assert_eq!(running.count(), 1);
    let more = bytes_in_use().saturating_sub(before);
    assert!(more < 256 << 10, "{more} bytes");
    let mut params = tool("hang");
    params["inputResponses"] = json!({"x": vec![0; 100_000]});
    let message = Message::modern("tools/call", params);
    let waiting = site.open(&message);
    Site::settle().await;
    assert_eq!(running.count(), 2);
    let more = bytes_in_use().saturating_sub(before);
    assert!(more < 2 << 20, "{more} bytes");
    drop(waiting);
}

/// Regression test: a session kept the last event of each stream for half an hour, without a limit on its
/// size. 30 sessions with a batch and a large answer took 176 MB.
#[tokio::test(start_paused = true)]
async fn stored_session_events_respect_memory_limit() {
    let options = McpServerOptions { in_flight_bytes_max: 1 << 20, ..McpServerOptions::default() };
    let (server, _running) = with_hanging(server_with(options));
    let site = Site::new(&server);
    let echo = json!({"name": "echo", "arguments": {"message": "x".repeat(200 << 10)}});
    let batch = json!([request(1, "tools/call", &echo), request(2, "tools/call", &tool("hang"))]);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    let leave_events = async || {
        let session = site.initialize("2025-03-26").await;
        let mut exchange = site.open(&session.post(&batch));
        let event = exchange.next_event().await.unwrap();
        assert_eq!(event.message.unwrap()[0]["id"], 1, "a connected client gets every event");
        exchange.leave();
        assert_eq!(site.send(&session.post(&cancel)).await.status, 202);
        Site::settle().await;
        session
    };
    // Fills the buffers that threads keep.
    let first = leave_events().await;
    assert_eq!(site.send(&first.delete()).await.status, 204);
    drop(first);
    Site::settle().await;
    let before = bytes_in_use();
    let mut sessions = Vec::new();
    for _ in 0..12 {
        sessions.push(leave_events().await);
    }
    let more = bytes_in_use().saturating_sub(before);
    assert!(more < (1 << 20) + (12 << 12), "{more} bytes");
    // Requests have a separate limit, and events within the limit can still be requested.
    let again = |session: &Session| session.get().with_field("Last-Event-ID", "1-0");
    let kept = site.send(&again(&sessions[0])).await.messages();
    assert_eq!(kept[0][0]["id"], 1);
    assert_eq!(site.send(&again(&sessions[11])).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn idle_subscription_uses_less_than_4_kib() {
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["test://text"]});
    let params = with_meta(json!({"notifications": filter}), &json!({}));
    let server = server();
    let mut client = server.connect();
    let mut before = 0;
    for id in 0..4001 {
        client.send(&request(id, "subscriptions/listen", &params)).await;
        assert_eq!(next(&mut client).await["method"], "notifications/subscriptions/acknowledged");
        if id == 0 {
            before = bytes_in_use();
        }
    }
    let each = bytes_each(before, 4000);
    assert!(each < 4 << 10, "{each} bytes");
}

#[tokio::test(start_paused = true)]
async fn idle_http_subscription_with_connection_uses_about_4_kib() {
    let site = Site::new(&server());
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["test://text"]});
    let message = Message::modern("subscriptions/listen", json!({"notifications": filter}));
    let mut exchanges = Vec::with_capacity(2001);
    let mut before = 0;
    for _ in 0..2001 {
        let mut exchange = site.open(&message);
        exchange.next_message().await;
        exchanges.push(exchange);
        if exchanges.len() == 1 {
            before = bytes_in_use();
        }
    }
    // The memory of the test's client counts too.
    let each = bytes_each(before, 2000);
    assert!(each < (4 << 10) + 64, "{each} bytes");
}

/// Calls each tool once.
async fn call_everything(site: &Site, session: &Session) {
    let mut with_progress = tool("progress");
    with_progress["_meta"] = json!({"progressToken": 1});
    let ask = Message::modern_with("tools/call", tool("ask"), &json!({"elicitation": {}}));
    let cursor = json!({"cursor": "x"});
    let calls: [(&str, &Value); 7] = [
        ("tools/call", &tool("fail")),
        ("tools/call", &tool("progress")),
        ("tools/call", &with_progress),
        ("tools/list", &json!({})),
        ("tools/list", &cursor),
        ("resources/read", &json!({"uri": "test://item/5"})),
        ("nothing", &json!({})),
    ];
    for (method, params) in calls {
        site.send(&Message::modern(method, params.clone())).await;
        site.send(&session.request(1, method, params)).await;
    }
    site.send(&ask).await;
    let mut asking = site.open(&session.request(2, "tools/call", &tool("ask")));
    let question = asking.next_message().await;
    let refused = json!({"action": "decline"});
    site.send(&session.respond(&question["id"], &refused)).await;
    asking.response().await;
    site.open(&Message::modern("subscriptions/listen", json!({"notifications": {}}))).leave();
}

#[tokio::test(start_paused = true)]
async fn http_requests_do_not_leak_memory() {
    let site = Site::new(&server());
    let session = site.initialize("2025-11-25").await;
    // Stores the maximum number of streams.
    for _ in 0..50 {
        call_everything(&site, &session).await;
    }
    let before = bytes_in_use();
    for _ in 0..300 {
        call_everything(&site, &session).await;
    }
    let more = bytes_in_use().saturating_sub(before);
    assert!(more < 16 << 10, "{more} bytes");
}

#[tokio::test(start_paused = true)]
async fn stream_requests_do_not_leak_memory() {
    let server = server();
    let mut client = server.connect();
    let mut before = 0;
    for round in 0..2000 {
        for name in ["progress", "fail", "nothing", "panic_later"].iter().take(if round == 0 { 4 } else { 3 })
        {
            let _ = client.request("tools/call", tool(name)).await;
        }
        if round == 100 {
            before = bytes_in_use();
        }
    }
    let more = bytes_in_use().saturating_sub(before);
    assert!(more < 16 << 10, "{more} bytes");
}
