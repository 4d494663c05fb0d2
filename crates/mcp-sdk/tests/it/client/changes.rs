//! Subscriptions, over all transports and in both eras.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{SubscriptionFilter, Tool};
use thruway_mcp_sdk::{EraChoice, McpClient, McpEndpoint, ServerNotification, Subscription};
use thruway_server::{Answer, Handler, Request, Router};

use super::sites::{Site, clients};
use crate::fixtures::server;

fn filter() -> SubscriptionFilter {
    SubscriptionFilter {
        tools_list_changed: Some(true),
        resource_subscriptions: vec!["test://text".into()],
        ..SubscriptionFilter::default()
    }
}

async fn next(subscription: &mut Subscription, way: &str) -> ServerNotification {
    let next = tokio::time::timeout(Duration::from_mins(1), subscription.next());
    next.await.unwrap_or_else(|_| panic!("{way}: no notification")).expect("the subscription should not end")
}

#[tokio::test]
async fn subscription_reports_resource_and_tool_list_changes() {
    let server = server();
    let site = Site::new(&server);
    for (n, (way, client)) in clients(&server, &site, |builder| builder).into_iter().enumerate() {
        let mut subscription = client.listen(filter()).await.unwrap_or_else(|error| panic!("{way}: {error}"));
        // Over HTTP, the legacy stream may open after `listen` has returned. The change is announced until
        // the client receives it.
        let changing = async {
            loop {
                server.resource_updated("test://text");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let change = tokio::select! {
            change = next(&mut subscription, &way) => change,
            () = changing => unreachable!("the changes never end"),
        };
        assert!(
            matches!(change, ServerNotification::ResourceUpdated(updated) if updated.uri == "test://text")
        );
        let _changed = server.clone().tool(Tool::new(format!("new{n}")), |_: crate::fixtures::Nothing| "new");
        while next(&mut subscription, &way).await != ServerNotification::ToolsListChanged {}
        drop(subscription);
        client.ping().await.unwrap();
    }
}

#[tokio::test]
async fn closing_client_ends_its_subscriptions() {
    let server = server();
    for era in [EraChoice::Modern, EraChoice::Legacy] {
        let client = McpClient::builder().era(era).server(&server);
        let mut subscription = client.listen(filter()).await.unwrap();
        client.close().await;
        assert_eq!(subscription.next().await, None, "{era:?}");
        assert!(subscription.end().is_some());
    }
}

#[tokio::test]
async fn subscription_continues_in_next_session() {
    let restarted = Arc::new(AtomicBool::new(false));
    let endpoint = Restartable {
        before: server().endpoint(),
        after: server().endpoint(),
        is_restarted: restarted.clone(),
    };
    let site = Site::of(Router::new().any("/mcp", endpoint));
    let client = McpClient::builder().era(EraChoice::Legacy).http(&site.url);
    let mut subscription = client.listen(filter()).await.unwrap();
    // The server has lost the session. The next call notices this, and everything is reported as changed.
    restarted.store(true, Ordering::Relaxed);
    client.ping().await.unwrap();
    assert_eq!(next(&mut subscription, "reopened").await, ServerNotification::ToolsListChanged);
    let updated = next(&mut subscription, "reopened").await;
    assert!(matches!(updated, ServerNotification::ResourceUpdated(updated) if updated.uri == "test://text"));
}

/// An endpoint of a server that loses its sessions.
struct Restartable {
    before: McpEndpoint,
    after: McpEndpoint,
    is_restarted: Arc<AtomicBool>,
}

impl Handler for Restartable {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let is_restarted = self.is_restarted.load(Ordering::Relaxed);
        if is_restarted { self.after.handle(request) } else { self.before.handle(request) }
    }
}

/// An acknowledged stream that ends.
fn acknowledged(id: &Value) -> String {
    let acknowledged = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
        "notifications": {"toolsListChanged": true},
        "_meta": {"io.modelcontextprotocol/subscriptionId": id},
    }});
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    format!("{head}data: {acknowledged}\n\n")
}

/// The client reopens a modern stream that has ended, and reports everything as changed. Regression test: the
/// client did not report a subscription as active if its stream had already ended.
#[tokio::test]
async fn modern_subscription_reopens_when_its_stream_ends() {
    let opened = Arc::new(AtomicUsize::new(0));
    let ours = opened.clone();
    let url = super::misbehaving::scripted(move |_, message| {
        ours.fetch_add(1, Ordering::Relaxed);
        acknowledged(&message["id"])
    });
    let client = McpClient::builder().era(EraChoice::Modern).http(&url.await);
    let wanted = SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() };
    let mut subscription = client.listen(wanted).await.unwrap();
    assert_eq!(next(&mut subscription, "reopened").await, ServerNotification::ToolsListChanged);
    assert!(opened.load(Ordering::Relaxed) > 1 && subscription.end().is_none());
}

/// Regression test: results stayed cached after a broken stream. Only announced changes removed them.
#[tokio::test]
async fn broken_subscription_stream_clears_cached_results() {
    let (opened, version) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (openings, versions) = (opened.clone(), version.clone());
    let url = super::misbehaving::scripted(move |_, message| {
        if message["method"] == "subscriptions/listen" {
            openings.fetch_add(1, Ordering::Relaxed);
            return acknowledged(&message["id"]);
        }
        let tools = [Tool::new(format!("of-{}", versions.load(Ordering::Relaxed)))];
        let result =
            json!({"resultType": "complete", "ttlMs": 600_000, "cacheScope": "private", "tools": tools});
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        super::misbehaving::response("Content-Type: application/json\r\n", &answer.to_string())
    });
    let recorder = super::sites::Recorder::new();
    let builder = McpClient::builder().era(EraChoice::Modern).on_notification(recorder.callback());
    let client = builder.http(&url.await);
    let wanted = SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() };
    let mut subscription = client.listen(wanted).await.unwrap();
    assert_eq!(client.list_tools().await.unwrap()[0].name, "of-0");
    version.store(1, Ordering::Relaxed);
    let before = opened.load(Ordering::Relaxed);
    // The client has handled the stream before the last one.
    while opened.load(Ordering::Relaxed) < before + 2 {
        assert_eq!(next(&mut subscription, "reopened").await, ServerNotification::ToolsListChanged);
    }
    assert_eq!(client.list_tools().await.unwrap()[0].name, "of-1");
    assert!(recorder.take().contains(&ServerNotification::ToolsListChanged));
}
