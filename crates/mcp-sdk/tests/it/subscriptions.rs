//! Modern subscriptions.

use serde_json::{Value, json};
use thruway_mcp_sdk::McpServer;
use thruway_mcp_sdk::schema::{Prompt, Resource, Tool};

use crate::fixtures::{Nothing, server, tool};
use crate::http::{Exchange, Message, Site, with_meta};

fn listen_as(id: &Value, filter: &Value) -> Message {
    let params = with_meta(json!({"notifications": filter}), &json!({}));
    let message = json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params});
    Message { content: message.to_string().into(), ..Message::modern("subscriptions/listen", json!({})) }
}

/// Opens a subscription and waits for its acknowledgment.
async fn listen(site: &Site, filter: &Value) -> Exchange {
    let mut exchange = site.open(&listen_as(&json!(1), filter));
    let first = exchange.next_message().await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"]["notifications"], *filter);
    exchange
}

/// Changes every list and resource.
fn change_everything(server: &McpServer) {
    server.add_tool(Tool::new("new"), |_: Nothing| "new").unwrap();
    server.add_prompt(Prompt::new("new"), |_: Nothing| "new".to_owned());
    server.add_resource(Resource::new("test://new", "new"), || "new");
    server.resource_updated("test://text");
    server.resource_updated("test://blob");
}

#[tokio::test(start_paused = true)]
async fn subscription_receives_only_requested_changes() {
    let server = server();
    let site = Site::new(&server);
    for (filter, expected) in [
        (json!({"toolsListChanged": true}), "notifications/tools/list_changed"),
        (json!({"promptsListChanged": true}), "notifications/prompts/list_changed"),
        (json!({"resourcesListChanged": true}), "notifications/resources/list_changed"),
        (json!({"resourceSubscriptions": ["test://text"]}), "notifications/resources/updated"),
    ] {
        let mut exchange = listen(&site, &filter).await;
        assert!(exchange.head().await.contains("Content-Type: text/event-stream"));
        change_everything(&server);
        let message = exchange.next_message().await;
        assert_eq!(message["method"], expected);
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
        if expected.ends_with("updated") {
            assert_eq!(message["params"]["uri"], "test://text");
        }
        Site::settle().await;
        exchange.advance();
        assert_eq!(exchange.take_event(), None, "{filter}");
    }
}

/// Regression test: the stream was cut off. A client could not distinguish a shutdown from a failure.
#[tokio::test(start_paused = true)]
async fn drain_ends_subscriptions_with_a_result() {
    let site = Site::new(&server());
    let id = json!("mine");
    let mut exchange = site.open(&listen_as(&id, &json!({"toolsListChanged": true})));
    assert_eq!(exchange.next_message().await["method"], "notifications/subscriptions/acknowledged");
    // A subscription that is still arriving is acknowledged first.
    let bytes = listen_as(&id, &json!({"toolsListChanged": true})).to_bytes();
    let (start, end) = bytes.split_at(bytes.len() - 1);
    let mut late = site.open_with(start);
    site.drain();
    late.send(end);
    assert_eq!(late.next_message().await["method"], "notifications/subscriptions/acknowledged");
    for exchange in [&mut exchange, &mut late] {
        let result = exchange.next_message().await;
        assert_eq!((&result["id"], &result["result"]["resultType"]), (&id, &json!("complete")));
        assert_eq!(result["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
        assert_eq!(exchange.next_event().await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn notifications_carry_id_of_subscription_request() {
    let server = server();
    let site = Site::new(&server);
    for id in [json!(7), json!("7"), json!("a\"b"), json!(i64::MIN)] {
        let mut exchange = site.open(&listen_as(&id, &json!({"toolsListChanged": true})));
        let acknowledged = exchange.next_message().await;
        assert_eq!(acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
        change_everything(&server);
        let message = exchange.next_message().await;
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    }
}

#[tokio::test(start_paused = true)]
async fn only_removal_of_existing_tool_sends_notification() {
    let server = server();
    let site = Site::new(&server);
    let mut exchange = listen(&site, &json!({"toolsListChanged": true})).await;
    assert!(!server.remove_tool("nothing"));
    Site::settle().await;
    exchange.advance();
    assert_eq!(exchange.take_event(), None);
    assert!(server.remove_tool("echo"));
    assert_eq!(exchange.next_message().await["method"], "notifications/tools/list_changed");
    assert_eq!(site.refused(&Message::modern("tools/call", tool("echo"))).await, (200, -32602));
}

#[tokio::test(start_paused = true)]
async fn invalid_subscription_filters_are_rejected() {
    let site = Site::new(&server());
    let many: Vec<_> = (0..1001).map(|n| n.to_string()).collect();
    for params in [
        json!({}),
        json!({"notifications": null}),
        json!({"notifications": {"toolsListChanged": 1}}),
        json!({"notifications": {"resourceSubscriptions": "test://text"}}),
        json!({"notifications": {"resourceSubscriptions": many}}),
        json!({"notifications": {"resourceSubscriptions": ["x".repeat(300 << 10)]}}),
    ] {
        let refused = site.refused(&Message::modern("subscriptions/listen", params)).await;
        assert_eq!(refused, (200, -32602));
    }
}

#[tokio::test(start_paused = true)]
async fn change_reaches_ten_thousand_http_subscriptions() {
    let server = server();
    let site = Site::new(&server);
    let message = listen_as(&json!("s"), &json!({"toolsListChanged": true}));
    let mut exchanges: Vec<_> = (0..10_000).map(|_| site.open(&message)).collect();
    for exchange in &mut exchanges {
        exchange.next_message().await;
    }
    server.remove_tool("echo");
    for exchange in &mut exchanges {
        let message = exchange.next_message().await;
        assert_eq!(message["method"], "notifications/tools/list_changed");
    }
    for exchange in exchanges {
        exchange.leave();
    }
}

#[tokio::test(start_paused = true)]
async fn updates_are_coalesced_while_client_does_not_read() {
    let server = server();
    let site = Site::new(&server);
    let uris: Vec<_> = (0..10).map(|n| format!("test://item/{n}")).collect();
    let mut exchange = listen(&site, &json!({"resourceSubscriptions": uris})).await;
    exchange.client().set_receive_capacity(0);
    // Only some of these fit into the buffers. Of the others, each resource is stored once.
    for round in 0..10_000 {
        server.resource_updated(&uris[round % uris.len()]);
        exchange.client().run();
    }
    exchange.client().add_receive_capacity(usize::MAX);
    let mut count = 0;
    Site::settle().await;
    exchange.advance();
    while exchange.take_event().is_some() {
        count += 1;
        exchange.advance();
    }
    assert!((10..2000).contains(&count), "{count}");
}
