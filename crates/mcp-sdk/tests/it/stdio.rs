//! Streams with one message per line, like the standard input and output.

use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::{LocalClient, McpServer, McpServerOptions, Revision};

use crate::fixtures::{answer, server, server_with, text, tool, with_hanging, with_waiting};
use crate::http::{request, with_meta};
use crate::stream::next;

async fn send(client: &mut LocalClient, id: impl Into<Value>, method: &str, params: &Value) {
    client.send(&request(id, method, params)).await;
}

fn modern(params: Value) -> Value {
    with_meta(params, &json!({"elicitation": {}}))
}

/// A legacy client that can answer all questions.
async fn legacy(server: &McpServer, revision: Revision) -> LocalClient {
    let capabilities = serde_json::from_value(crate::fixtures::capabilities()).unwrap();
    let mut client = server.connect().with_capabilities(&capabilities);
    let result = client.initialize(revision).await.unwrap();
    assert_eq!(result["protocolVersion"], revision.as_str());
    client
}

#[tokio::test(start_paused = true)]
async fn both_eras_share_a_stream() {
    let mut client = legacy(&server(), Revision::R20250618).await;
    send(&mut client, 10, "ping", &json!({})).await;
    send(&mut client, 11, "server/discover", &modern(json!({}))).await;
    send(&mut client, 12, "tools/call", &tool("progress")).await;
    send(&mut client, 13, "tools/call", &modern(tool("progress"))).await;
    send(&mut client, 14, "ping", &modern(json!({}))).await;
    assert_eq!(next(&mut client).await, json!({"jsonrpc": "2.0", "id": 10, "result": {}}));
    assert_eq!(next(&mut client).await["result"]["resultType"], "complete");
    assert_eq!(next(&mut client).await["error"]["code"], -32601);
    for _ in 0..2 {
        let message = next(&mut client).await;
        assert_eq!(message["result"].get("resultType").is_some(), message["id"] == 13, "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fast_request_overtakes_a_slow_one() {
    let (server, gate) = with_waiting(server());
    let mut client = server.connect();
    send(&mut client, 1, "tools/call", &modern(tool("wait"))).await;
    send(&mut client, 2, "tools/call", &modern(tool("fail"))).await;
    assert_eq!(next(&mut client).await["id"], 2);
    gate.notify_one();
    assert_eq!(next(&mut client).await["id"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_can_be_cancelled_in_both_eras() {
    let (server, running) = with_hanging(server());
    let mut client = legacy(&server, Revision::R20251125).await;
    for (id, params) in [(json!(1), tool("hang")), (json!("1"), modern(tool("hang")))] {
        send(&mut client, id.clone(), "tools/call", &params).await;
        client.request("ping", json!({})).await.unwrap();
        assert_eq!(running.count(), 1);
        client.notify("notifications/cancelled", json!({"requestId": "unknown"})).await;
        client.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"})).await;
        client.request("ping", json!({})).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(running.count(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_in_flight_cannot_be_used_again() {
    let (server, gate) = with_waiting(server());
    let mut client = server.connect();
    send(&mut client, "a", "tools/call", &modern(tool("wait"))).await;
    send(&mut client, "a", "tools/call", &modern(tool("wait"))).await;
    let refused = next(&mut client).await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("a"), &json!(-32600)));
    gate.notify_one();
    assert_eq!(text(&next(&mut client).await["result"]), "waited");
    send(&mut client, "a", "tools/call", &modern(tool("wait"))).await;
    gate.notify_one();
    assert_eq!(text(&next(&mut client).await["result"]), "waited");
}

#[tokio::test(start_paused = true)]
async fn lines_that_are_no_messages_are_answered_and_the_next_is_read() {
    let mut client = server().connect();
    for (line, code) in [
        (&b"nonsense\n"[..], -32700),
        (b"\xff\xfe\n", -32700),
        (b"{}\n", -32600),
        (b"[]\n", -32600),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]\n", -32600),
        (b"\"text\"\r\n", -32600),
    ] {
        client.send_bytes(line).await;
        assert_eq!(next(&mut client).await["error"]["code"], code);
    }
    client.send_bytes(b"\n \r\n\t\n").await;
    let result = client.request("server/discover", json!({})).await.unwrap();
    assert_eq!(result["resultType"], "complete");
}

#[tokio::test(start_paused = true)]
async fn an_endless_line_is_refused_once_and_costs_no_memory() {
    let mut client = server().connect();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..20 {
        client.send_bytes(&piece).await;
    }
    client.send_bytes(b"\n").await;
    let error = next(&mut client).await;
    assert_eq!((&error["error"]["code"], error.get("id")), (&json!(-32600), None));
    client.request("server/discover", json!({})).await.unwrap();
}

/// Regression test: the error had no id. The client could not match it to its request, and waited for its
/// timeout.
#[tokio::test(start_paused = true)]
async fn the_error_for_a_message_that_is_too_large_has_its_id() {
    let options = McpServerOptions { message_bytes_max: 2000, ..McpServerOptions::default() };
    let mut client = server_with(options).connect();
    let arguments = |length| json!({"name": "echo", "arguments": {"message": "x".repeat(length)}});
    for id in [json!(7), json!("se\"ven")] {
        send(&mut client, id.clone(), "tools/call", &modern(arguments(3000))).await;
        let refused = next(&mut client).await;
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&id, &json!(-32600)));
        assert_eq!(refused["error"]["message"], "the message is larger than 2000 bytes");
    }
    // Notifications are never answered.
    client.notify("notifications/nothing", arguments(3000)).await;
    client.request("tools/call", arguments(1000)).await.unwrap();
    client.send_bytes(format!("{{\"id\":1,\"method\":\"{}", "x".repeat(3000)).as_bytes()).await;
    client.finish().await;
    assert_eq!(
        next(&mut client).await["error"]["code"],
        -32600,
        "also for what the end of the input cut off"
    );
    assert_eq!(client.receive().await, None);
}

/// A batch with a subscription would never be answered. A batch of canceled requests has no answers.
#[tokio::test(start_paused = true)]
async fn a_batch_is_answered_without_what_never_ends() {
    let (server, running) = with_hanging(server());
    let mut client = legacy(&server, Revision::R20250326).await;
    let listen = modern(json!({"notifications": {"toolsListChanged": true}}));
    client
        .send(&json!([request(1, "subscriptions/listen", &listen), request(2, "tools/call", &tool("hang"))]))
        .await;
    client.send(&json!([request(3, "tools/call", &tool("hang"))])).await;
    client.request("ping", json!({})).await.unwrap();
    assert_eq!(running.count(), 2);
    for id in [2, 3] {
        client.notify("notifications/cancelled", json!({"requestId": id})).await;
    }
    let answers = next(&mut client).await;
    assert_eq!((&answers[0]["id"], &answers[0]["error"]["code"]), (&json!(1), &json!(-32600)));
    assert_eq!(answers.as_array().unwrap().len(), 1);
    client.finish().await;
    assert_eq!(client.receive().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_long_line_is_a_message() {
    let mut client = server().connect();
    let message = "x".repeat(3 << 20);
    let result =
        client.request("tools/call", json!({"name": "echo", "arguments": {"message": message}})).await;
    assert_eq!(result.unwrap()["structuredContent"]["message"].as_str().map(str::len), Some(3 << 20));
}

#[tokio::test(start_paused = true)]
async fn bytes_may_come_one_by_one() {
    let mut client = server().connect();
    for byte in format!("{}\n", request(1, "server/discover", &modern(json!({})))).as_bytes() {
        client.send_bytes(&[*byte]).await;
    }
    assert_eq!(next(&mut client).await["id"], 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_in_flight_at_the_end_of_input_is_answered() {
    let (server, gate) = with_waiting(server());
    let mut client = server.connect();
    send(&mut client, 1, "tools/call", &modern(tool("wait"))).await;
    let listen = modern(json!({"notifications": {"toolsListChanged": true}}));
    send(&mut client, 2, "subscriptions/listen", &listen).await;
    assert_eq!(next(&mut client).await["method"], "notifications/subscriptions/acknowledged");
    // The last line has no line feed.
    client.send_bytes(request(3, "server/discover", &modern(json!({}))).to_string().as_bytes()).await;
    client.finish().await;
    assert_eq!(next(&mut client).await["id"], 3);
    gate.notify_one();
    assert_eq!(next(&mut client).await["id"], 1);
    assert_eq!(client.receive().await, None, "subscriptions have no answer");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_client_that_has_closed_its_end() {
    // Regression test: a handler with an open question kept the process alive until its timeout.
    let mut client = legacy(&server(), Revision::R20250618).await;
    send(&mut client, 5, "tools/call", &tool("ask")).await;
    assert_eq!(next(&mut client).await["method"], "elicitation/create");
    let began = tokio::time::Instant::now();
    client.finish().await;
    assert_eq!(next(&mut client).await["error"]["code"], -32603);
    assert_eq!(client.receive().await, None);
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_never_returns_ends_with_its_time() {
    let options = McpServerOptions { handler_timeout: Duration::from_secs(5), ..McpServerOptions::default() };
    let (server, running) = with_hanging(server_with(options));
    let mut client = server.connect();
    send(&mut client, 1, "tools/call", &modern(tool("hang"))).await;
    client.finish().await;
    assert_eq!(next(&mut client).await["error"]["code"], -32603);
    assert_eq!((client.receive().await, running.count()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn many_requests_are_handled_at_a_time() {
    let (server, gate) = with_waiting(server());
    let mut client = server.connect();
    for id in 0..5000 {
        send(&mut client, id, "tools/call", &modern(tool("wait"))).await;
    }
    send(&mut client, 5000, "server/discover", &modern(json!({}))).await;
    assert_eq!(next(&mut client).await["id"], 5000);
    gate.notify_waiters();
    let mut seen = vec![false; 5000];
    for _ in 0..5000 {
        let id = next(&mut client).await["id"].as_u64().unwrap();
        assert!(!std::mem::replace(&mut seen[usize::try_from(id).unwrap()], true));
    }
}

#[tokio::test(start_paused = true)]
async fn as_many_handlers_as_there_may_be_can_be_answered_and_cancelled() {
    // Regression test: beyond a limit, the server stopped reading, and the answers for these calls never
    // arrived.
    let mut client = legacy(&server(), Revision::R20250618).await;
    let count = 2000;
    for id in 0..count {
        send(&mut client, 1000 + id, "tools/call", &tool("ask")).await;
        let question = next(&mut client).await;
        assert_eq!(question["method"], "elicitation/create");
    }
    for id in 1..=count {
        let result = answer("elicitation/create", &json!({}));
        client.send(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
        assert_eq!(text(&next(&mut client).await["result"]), "Ada");
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_subscriptions_of_one_stream_are_told_of_one_change() {
    let server = server();
    let mut client = server.connect();
    let listen = modern(json!({"notifications": {"toolsListChanged": true}}));
    for id in 0..10_000 {
        send(&mut client, id, "subscriptions/listen", &listen).await;
        let message = next(&mut client).await;
        assert_eq!(message["method"], "notifications/subscriptions/acknowledged", "{message}");
    }
    server.remove_tool("echo");
    let mut seen = vec![false; 10_000];
    for _ in 0..10_000 {
        let message = next(&mut client).await;
        assert_eq!(message["method"], "notifications/tools/list_changed");
        let id = message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].as_u64().unwrap();
        assert!(!std::mem::replace(&mut seen[usize::try_from(id).unwrap()], true));
    }
    client.notify("notifications/cancelled", json!({"requestId": 5})).await;
    client.request("server/discover", json!({})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_subscription_ends_when_it_is_cancelled() {
    let server = server();
    let mut client = server.connect();
    let listen = modern(json!({"notifications": {"toolsListChanged": true}}));
    send(&mut client, "s", "subscriptions/listen", &listen).await;
    assert_eq!(next(&mut client).await["method"], "notifications/subscriptions/acknowledged");
    client.notify("notifications/cancelled", json!({"requestId": "s"})).await;
    client.request("server/discover", json!({})).await.unwrap();
    server.remove_tool("echo");
    client.request("server/discover", json!({})).await.unwrap();
    client.finish().await;
    assert_eq!(client.receive().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_session_begins_once_and_is_told_of_changes() {
    let server = server();
    let mut client = legacy(&server, Revision::R20241105).await;
    assert_eq!(client.initialize(Revision::R20250618).await.unwrap_err().code.0, -32600);
    client.request("resources/subscribe", json!({"uri": "test://text"})).await.unwrap();
    server.resource_updated("test://text");
    let updated = next(&mut client).await;
    assert_eq!(
        (&updated["method"], &updated["params"]),
        (&json!("notifications/resources/updated"), &json!({"uri": "test://text"}))
    );
    server.remove_tool("echo");
    assert_eq!(next(&mut client).await["method"], "notifications/tools/list_changed");
}

#[tokio::test(start_paused = true)]
async fn batches_are_answered_in_the_revision_that_has_them() {
    let (server, gate) = with_waiting(server());
    let mut client = legacy(&server, Revision::R20250326).await;
    let batch = json!([
        request(1, "ping", &json!({})),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request(2, "tools/call", &tool("wait")),
        request(3, "nothing", &json!({})),
    ]);
    client.send(&batch).await;
    client.request("ping", json!({})).await.unwrap();
    gate.notify_one();
    // Regression test: a late answer was sent as a separate message.
    let answers = next(&mut client).await;
    let ids: Vec<_> = answers.as_array().unwrap().iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [1, 3, 2]);
    assert_eq!(text(&answers[2]["result"]), "waited");
    let mut other = legacy(&server, Revision::R20250618).await;
    other.send(&batch).await;
    assert_eq!(next(&mut other).await["error"]["code"], -32600);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_not_read_either() {
    let mut client = server().connect();
    let request = format!("{}\n", request(1, "tools/list", &modern(json!({}))));
    let mut sent = 0;
    let flood = async {
        loop {
            client.send_bytes(request.as_bytes()).await;
            sent += 1;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(10), flood).await.is_err());
    // The capacity of the pipe in both directions, and one read buffer of the server.
    assert!(sent * request.len() < 1 << 20, "{sent} requests were read");
}
