//! Broken streams behind a bridge: clients of each era receive notifications for everything that may have
//! changed.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::SubscriptionFilter;
use thruway_mcp_sdk::{Bridge, EraChoice, McpClient, ServerNotification, Subscription};

use super::faults::{PROPER, script};
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
async fn hear_everything(mut subscription: Subscription, way: &str) {
    let (mut lists, mut resources) = (false, false);
    let telling = async {
        while !(lists && resources) {
            match subscription.next().await.expect("the subscription should stand") {
                ServerNotification::ToolsListChanged => lists = true,
                ServerNotification::ResourceUpdated(updated) => resources = updated.uri == URI,
                other => panic!("{way}: {other:?}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_mins(1), telling).await.unwrap_or_else(|_| panic!("{way}"));
}

fn answer_of_breaking(message: &Value) -> String {
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
async fn who_listens_across_hears_that_a_stream_of_the_modern_era_has_broken() {
    let url = scripted(|_, message| answer_of_breaking(message)).await;
    let bridge = over_http(&url, options(EraChoice::Modern)).await;
    for near in NEAR_ERAS {
        let client = McpClient::builder().era(near).server(&bridge);
        hear_everything(listen(&client).await, &format!("{near:?}")).await;
    }
    bridge.close().await;
}

#[tokio::test]
async fn who_listens_across_hears_that_a_child_of_the_legacy_era_has_been_started_again() {
    let directory = std::env::temp_dir().join(format!("breaks-{}", std::process::id()));
    let on_call = format!("if mkdir {} 2>/dev/null; then exit 1; else {PROPER}; fi", directory.display());
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
        hear_everything(subscription, &format!("{near:?}")).await;
        bridge.close().await;
    }
    std::fs::remove_dir(&directory).unwrap();
}
