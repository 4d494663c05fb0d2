//! Limits for clients that use resources without end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use thruway_mcp_sdk::schema::SubscriptionFilter;
use thruway_mcp_sdk::{Bridge, BridgeOptions, EraChoice, McpClient};

use super::sites::{FAR_ERAS, in_memory, options};
use crate::client::sites::answering;
use crate::fixtures::{server, tool, with_hanging, with_waiting};
use crate::http::{Message, Site};

/// Regression test: such a question never timed out. Its session and the server of this session stayed
/// forever.
#[tokio::test(start_paused = true)]
async fn unanswered_elicitation_is_canceled_after_question_wait() {
    for far in FAR_ERAS {
        let options = BridgeOptions { question_wait: Duration::from_mins(1), ..options(far) };
        let bridge = in_memory(&server(), options).await;
        let site = Site::new(&bridge);
        let session = site.initialize_with("2025-06-18", &json!({"elicitation": {}})).await;
        let call = json!({"name": "ask", "arguments": {}});
        let mut exchange = site.open(&session.request(2, "tools/call", &call));
        let question = exchange.next_message().await;
        assert_eq!(question["method"], "elicitation/create", "{far:?}: {question}");
        tokio::time::sleep(Duration::from_secs(61)).await;
        let cancellation = exchange.next_message().await;
        assert_eq!(cancellation["method"], "notifications/cancelled", "{far:?}: {cancellation}");
        assert_eq!(cancellation["params"]["requestId"], question["id"], "{far:?}: {cancellation}");
        let answer = exchange.next_message().await;
        assert_eq!(answer["id"], 2, "{far:?}: {answer}");
        assert!(answer.to_string().contains("not answer before the timeout"), "{far:?}: {answer}");
    }
}

/// Regression test: the server subscribed to all resources before it refused the request, and on a stream it
/// did not refuse it.
#[tokio::test]
async fn listen_to_too_many_resources_is_rejected_before_subscribing() {
    let uris: Vec<_> = (0..=1000).map(|n| format!("test://{n}")).collect();
    let params = json!({"notifications": {"resourceSubscriptions": uris}});
    for far in FAR_ERAS {
        let connected = Arc::new(AtomicUsize::new(0));
        let (counter, behind) = (connected.clone(), server());
        let connect = move |builder: thruway_mcp_sdk::McpClientBuilder| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(builder.server(&behind))
        };
        let bridge = Bridge::connect(options(far), connect).await.unwrap();
        bridge.close().await;
        let site = Site::new(&bridge);
        let refused = site.send(&Message::modern("subscriptions/listen", params.clone())).await;
        assert_eq!(refused.error_code(), -32602, "{far:?}: {}", refused.text());
        assert_eq!(connected.load(Ordering::Relaxed), 1, "{far:?}: the server has no subscription");
        let client = answering(McpClient::builder().era(EraChoice::Modern)).server(&bridge);
        let filter = serde_json::from_value(params["notifications"].clone()).unwrap();
        let error = client.listen(filter).await.unwrap_err();
        assert!(error.to_string().contains("too many resources"), "{far:?}: {error}");
    }
}

/// Regression test: each question left a timer behind until its timeout.
#[tokio::test]
async fn answered_elicitation_leaves_no_timer_task() {
    let bridge = in_memory(&server(), options(EraChoice::Legacy)).await;
    let client = answering(McpClient::builder().era(EraChoice::Modern)).server(&bridge);
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    client.call_tool("ask", json!({})).await.unwrap();
    let before = tasks();
    for _ in 0..20 {
        client.call_tool("ask", json!({})).await.unwrap();
    }
    assert!(tasks() < before + 5, "{} tasks became {}", before, tasks());
}

/// Regression test: the servers behind a bridge were closed while they handled calls.
#[tokio::test]
async fn drain_waits_for_running_calls() {
    let (server, gate) = with_waiting(server());
    for far in FAR_ERAS {
        let bridge = in_memory(&server, options(far)).await;
        let site = Site::new(&bridge);
        let call = json!({"name": "wait", "arguments": {}});
        let mut exchange = site.open(&Message::modern("tools/call", call.clone()));
        assert!(exchange.is_pending());
        let draining = bridge.clone();
        let mut draining = tokio::spawn(async move { draining.drain(Duration::from_mins(1)).await });
        let is_early = tokio::time::timeout(Duration::from_millis(50), &mut draining).await.is_ok();
        assert!(!is_early, "{far:?}");
        gate.notify_one();
        let answer = exchange.response().await.message();
        assert!(answer["result"].is_object(), "{far:?}: {answer}");
        draining.await.unwrap();
        let refused = site.send(&Message::modern("tools/call", call)).await.message();
        assert!(refused["error"].is_object(), "{far:?}: no server is started any more: {refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn drain_timeout_ends_hanging_call_with_error() {
    let (server, running) = with_hanging(server());
    let bridge = in_memory(&server, options(EraChoice::Modern)).await;
    let site = Site::new(&bridge);
    let mut exchange = site.open(&Message::modern("tools/call", json!({"name": "hang", "arguments": {}})));
    while running.count() == 0 {
        assert!(exchange.is_pending());
        tokio::task::yield_now().await;
    }
    bridge.drain(Duration::from_secs(1)).await;
    let answer = exchange.response().await.message();
    assert!(answer["error"].is_object(), "{answer}");
}

/// Regression test: idle servers of modern clients blocked new sessions until they timed out.
#[tokio::test]
async fn new_session_replaces_idle_server() {
    let options = BridgeOptions { servers_max: 1, ..options(EraChoice::Legacy) };
    let bridge = in_memory(&server(), options).await;
    let site = Site::new(&bridge);
    let (call, capabilities) = (tool("progress"), json!({"elicitation": {}}));
    let answer = site.send(&Message::modern_with("tools/call", call.clone(), &capabilities)).await.message();
    assert!(answer["result"].is_object(), "{answer}");
    let session = site.initialize_with("2025-06-18", &capabilities).await;
    let answered = site.send(&session.request(2, "tools/call", &call)).await;
    assert!(answered.text().contains("done"), "{}", answered.text());
}

/// Regression test: a server that became idle while another call waited kept its share until that call timed
/// out.
#[tokio::test]
async fn waiting_call_replaces_server_that_becomes_idle() {
    let (server, gate) = with_waiting(server());
    let options = BridgeOptions { servers_max: 1, ..options(EraChoice::Legacy) };
    let bridge = in_memory(&server, options).await;
    let site = Site::new(&bridge);
    let call = |capability: &str| {
        let wait = json!({"name": "wait", "arguments": {}});
        Message::modern_with("tools/call", wait, &json!({ capability: {} }))
    };
    let mut first = site.open(&call("elicitation"));
    assert!(first.is_pending());
    tokio::task::yield_now().await;
    let mut second = site.open(&call("sampling"));
    let answers = async {
        assert!(second.is_pending(), "it waits for a server");
        gate.notify_one();
        assert!(first.response().await.message()["result"].is_object());
        gate.notify_one();
        second.response().await.message()
    };
    let answer = tokio::time::timeout(Duration::from_mins(1), answers)
        .await
        .expect("the second call should get a server");
    assert!(answer["result"].is_object(), "{answer}");
}

/// A subscription to `test://text` of a client with this capability.
fn listening(capability: &str) -> Message {
    let params = json!({"notifications": {"resourceSubscriptions": ["test://text"]}});
    Message::modern_with("subscriptions/listen", params, &json!({ capability: {} }))
}

/// Regression test: calls waited 30 s for a server, although no ending call could free one. Subscriptions
/// then received no changes.
#[tokio::test(start_paused = true)]
async fn client_gets_503_if_subscriptions_hold_all_servers() {
    let options = BridgeOptions { servers_max: 1, ..options(EraChoice::Legacy) };
    let bridge = in_memory(&server(), options).await;
    let site = Site::new(&bridge);
    let mut subscription = site.open(&listening("elicitation"));
    assert_eq!(subscription.next_message().await["method"], "notifications/subscriptions/acknowledged");
    let call = Message::modern_with("tools/call", tool("progress"), &json!({"sampling": {}}));
    let began = tokio::time::Instant::now();
    for refused in [&call, &listening("sampling")] {
        let refused = site.send(refused).await;
        assert_eq!((refused.status, refused.field("retry-after")), (503, Some("10")), "{}", refused.text());
        assert!(refused.text().contains("share of the servers behind this bridge"), "{}", refused.text());
    }
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    // The client that holds the server can continue, and so can clients that cannot answer questions.
    for capabilities in [json!({"elicitation": {}}), json!({})] {
        let call = Message::modern_with("tools/call", tool("progress"), &capabilities);
        assert_eq!(site.send(&call).await.status, 200, "{capabilities}");
    }
    subscription.leave();
    Site::settle().await;
    assert_eq!(site.send(&call).await.status, 200);
}

#[tokio::test]
async fn subscriptions_share_a_server_with_shares_subscriptions() {
    let options = BridgeOptions { servers_max: 1, shares_subscriptions: true, ..options(EraChoice::Legacy) };
    let behind = server();
    let bridge = in_memory(&behind, options).await;
    let site = Site::new(&bridge);
    let mut all = ["elicitation", "sampling"].map(|capability| site.open(&listening(capability)));
    for one in &mut all {
        let acknowledged = one.next_message().await;
        assert_eq!(
            acknowledged["params"]["notifications"]["resourceSubscriptions"][0], "test://text",
            "{acknowledged}"
        );
    }
    let call = Message::modern_with("tools/call", tool("progress"), &json!({"roots": {}}));
    assert_eq!(site.send(&call).await.status, 200);
    behind.resource_updated("test://text");
    for one in &mut all {
        assert_eq!(one.next_message().await["params"]["uri"], "test://text");
    }
}

/// Regression test: a second subscription that failed removed the first one.
#[tokio::test]
async fn failed_subscription_does_not_end_existing_one() {
    let uri = "test://text";
    let filter =
        SubscriptionFilter { resource_subscriptions: vec![uri.into()], ..SubscriptionFilter::default() };
    let bridge = in_memory(&server(), options(EraChoice::Legacy)).await;
    let client = McpClient::builder().era(EraChoice::Legacy).server(&bridge);
    let mut subscription = client.listen(filter.clone()).await.unwrap();
    bridge.drain(Duration::ZERO).await;
    client.listen(filter).await.unwrap_err();
    bridge.resource_updated(uri);
    let notification = tokio::time::timeout(Duration::from_mins(1), subscription.next()).await.unwrap();
    assert!(notification.is_some());
}
