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

/// A legacy client that can answer all requests from the server.
async fn legacy(server: &McpServer, revision: Revision) -> LocalClient {
    let capabilities = serde_json::from_value(crate::fixtures::capabilities()).unwrap();
    let mut client = server.connect().with_capabilities(&capabilities);
    let result = client.initialize(revision).await.unwrap();
    assert_eq!(result["protocolVersion"], revision.as_str());
    client
}

#[tokio::test(start_paused = true)]
async fn one_stream_can_carry_both_eras() {
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
async fn fast_request_overtakes_slow_one() {
    let (server, gate) = with_waiting(server());
    let mut client = server.connect();
    send(&mut client, 1, "tools/call", &modern(tool("wait"))).await;
    send(&mut client, 2, "tools/call", &modern(tool("fail"))).await;
    assert_eq!(next(&mut client).await["id"], 2);
    gate.notify_one();
    assert_eq!(next(&mut client).await["id"], 1);
}

#[tokio::test(start_paused = true)]
async fn client_can_cancel_request_in_both_eras() {
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
async fn request_id_cannot_be_reused_while_in_flight() {
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
async fn invalid_line_gets_error_and_next_line_is_read() {
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
async fn huge_line_gets_one_error_and_next_line_is_read() {
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
async fn oversized_message_error_contains_request_id() {
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
        "a message cut off by the end of input should get an error too"
    );
    assert_eq!(client.receive().await, None);
}

/// A batch that contains a subscription would never get its response. A batch of canceled requests gets no
/// response.
#[tokio::test(start_paused = true)]
async fn batch_with_subscription_and_canceled_calls_is_answered() {
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
async fn line_of_3_mib_is_accepted() {
    let mut client = server().connect();
    let message = "x".repeat(3 << 20);
    let result =
        client.request("tools/call", json!({"name": "echo", "arguments": {"message": message}})).await;
    assert_eq!(result.unwrap()["structuredContent"]["message"].as_str().map(str::len), Some(3 << 20));
}

#[tokio::test(start_paused = true)]
async fn request_can_arrive_byte_by_byte() {
    let mut client = server().connect();
    for byte in format!("{}\n", request(1, "server/discover", &modern(json!({})))).as_bytes() {
        client.send_bytes(&[*byte]).await;
    }
    assert_eq!(next(&mut client).await["id"], 1);
}

#[tokio::test(start_paused = true)]
async fn in_flight_requests_are_answered_after_end_of_input() {
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
async fn end_of_input_fails_pending_elicitation_at_once() {
    // Regression test: a handler with a pending elicitation kept the process alive until its timeout.
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
async fn handler_timeout_applies_after_end_of_input() {
    let options = McpServerOptions { handler_timeout: Duration::from_secs(5), ..McpServerOptions::default() };
    let (server, running) = with_hanging(server_with(options));
    let mut client = server.connect();
    send(&mut client, 1, "tools/call", &modern(tool("hang"))).await;
    client.finish().await;
    assert_eq!(next(&mut client).await["error"]["code"], -32603);
    assert_eq!((client.receive().await, running.count()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn five_thousand_requests_run_concurrently() {
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
async fn client_can_answer_2000_pending_elicitations() {
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
async fn change_reaches_ten_thousand_subscriptions_on_one_stream() {
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
async fn canceled_subscription_receives_no_changes() {
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
async fn session_rejects_second_initialize_and_receives_changes() {
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
async fn batch_gets_one_response_array_only_in_2025_03_26() {
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
async fn server_stops_reading_from_client_that_does_not_read() {
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
