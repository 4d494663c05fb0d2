//! Broken streams behind a bridge: clients of each era receive notifications for everything that may have
//! changed.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::SubscriptionFilter;
use thruway_mcp_sdk::{Bridge, EraChoice, McpClient, ServerNotification, Subscription};

use super::faults::{ANSWER_CALL, script};
use super::sites::{NEAR_ERAS, options, over_http};
use crate::client::misbehaving::{response, scripted};

const URI: &str = "test://n";

async fn listen(client: &McpClient) -> Subscription {
    let filter = SubscriptionFilter {
        tools_list_changed: Some(true),
        resource_subscriptions: vec![URI.to_owned()],
        ..SubscriptionFilter::default()
    };
    client.listen(filter).await.unwrap()
}

/// Waits until all requested notifications have arrived.
async fn wait_for_all_notifications(mut subscription: Subscription, way: &str) {
    let (mut lists, mut resources) = (false, false);
    let receiving = async {
        while !(lists && resources) {
            match subscription.next().await.expect("the subscription should not end") {
                ServerNotification::ToolsListChanged => lists = true,
                ServerNotification::ResourceUpdated(updated) => resources = updated.uri == URI,
                other => panic!("{way}: {other:?}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_mins(1), receiving).await.unwrap_or_else(|_| panic!("{way}"));
}

fn answer_with_broken_stream(message: &Value) -> String {
    let result = match message["method"].as_str() {
        Some("subscriptions/listen") => {
            let acknowledged = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
                "notifications": message["params"]["notifications"],
                "_meta": {"io.modelcontextprotocol/subscriptionId": message["id"]},
            }});
            // The stream ends here.
            return response("Content-Type: text/event-stream\r\n", &format!("data: {acknowledged}\n\n"));
        }
        Some("server/discover") => json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}},
            "serverInfo": {"name": "breaking", "version": "1"}, "ttlMs": 0, "cacheScope": "private"}),
        _ => json!({"resultType": "complete"}),
    };
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    response("Content-Type: application/json\r\n", &answer.to_string())
}

/// Regression test: the bridge itself received the notifications, but no client did.
#[tokio::test]
async fn subscribers_get_change_notifications_after_modern_stream_breaks() {
    let url = scripted(|_, message| answer_with_broken_stream(message)).await;
    let bridge = over_http(&url, options(EraChoice::Modern)).await;
    for near in NEAR_ERAS {
        let client = McpClient::builder().era(near).server(&bridge);
        wait_for_all_notifications(listen(&client).await, &format!("{near:?}")).await;
    }
    bridge.close().await;
}

#[tokio::test]
async fn subscribers_get_change_notifications_after_legacy_child_restarts() {
    let directory = std::env::temp_dir().join(format!("breaks-{}", std::process::id()));
    let on_call =
        format!("if mkdir {} 2>/dev/null; then exit 1; else {ANSWER_CALL}; fi", directory.display());
    let subscribes =
        r#"*resources/subscribe*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{}}" ;; *tools/call*)"#;
    let has_all = r#"\"tools\":{\"listChanged\":true},\"resources\":{\"subscribe\":true}"#;
    let script = script(&on_call).replace("*tools/call*)", subscribes).replace(r#"\"tools\":{}"#, has_all);
    for near in NEAR_ERAS {
        let _ = std::fs::remove_dir(&directory);
        let script = script.clone();
        let bridge = Bridge::connect(options(EraChoice::Legacy), move |builder| {
            let mut command = Command::new("sh");
            command.args(["-c", &script]);
            builder.command(command)
        });
        let bridge = bridge.await.unwrap();
        let client = McpClient::builder().era(near).server(&bridge);
        let subscription = listen(&client).await;
        client.call_tool("any", json!({})).await.unwrap_err();
        wait_for_all_notifications(subscription, &format!("{near:?}")).await;
        bridge.close().await;
    }
    std::fs::remove_dir(&directory).unwrap();
}
