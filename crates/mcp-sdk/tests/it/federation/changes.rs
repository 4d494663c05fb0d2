//! Notifications about changes of lists and resources of members.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use thruway_mcp_sdk::schema::{LoggingLevel, Resource, SubscriptionFilter, Tool};
use thruway_mcp_sdk::{
    EraChoice, McpClient, McpClientError, McpGatewayOptions, McpServer, Member, MemberState,
    ServerNotification,
};
use tokio::time::{sleep, timeout};

use super::sites::{ERAS, of_era, options, wait_for, with_options};
use crate::bridge::sites::clients;
use crate::client::sites::{Recorder, Site};

fn server(uri: &'static str) -> McpServer {
    McpServer::new("text", "1.0")
        .resource(Resource::new(uri, uri), || "text")
        .tool(Tool::new("new"), || "new")
}

#[tokio::test]
async fn subscription_reports_changes_of_all_members() {
    for era in ERAS {
        let (one, two) = (server("test://one"), server("test://two"));
        let gateway = with_options(options(era), [of_era("one", &one, era), of_era("two", &two, era)]);
        let near = Site::new(&gateway);
        let filter = SubscriptionFilter {
            tools_list_changed: Some(true),
            resource_subscriptions: vec!["test://one".into(), "test://two".into()],
            ..SubscriptionFilter::default()
        };
        for (way, client) in clients(&gateway, &near, |builder| builder) {
            let way = format!("{way} to {era:?}");
            let mut subscription =
                client.listen(filter.clone()).await.unwrap_or_else(|error| panic!("{way}: {error}"));
            for (server, uri) in [(&one, "test://one"), (&two, "test://two")] {
                let (mut is_updated, mut is_changed) = (false, false);
                let receiving = async {
                    while !(is_updated && is_changed) {
                        match subscription.next().await.expect("the subscription should not end") {
                            ServerNotification::ToolsListChanged => is_changed = true,
                            ServerNotification::ResourceUpdated(resource) => {
                                is_updated |= resource.uri == uri;
                            }
                            other => panic!("{way}: {other:?}"),
                        }
                    }
                };
                // Legacy streams may open after `listen` has returned.
                let changing = async {
                    loop {
                        server.resource_updated(uri);
                        server.add_tool(Tool::new("new"), || "new").unwrap();
                        sleep(Duration::from_millis(5)).await;
                    }
                };
                let both = async {
                    tokio::select! { () = receiving => {}, () = changing => {} }
                };
                timeout(Duration::from_mins(1), both).await.unwrap_or_else(|_| panic!("{way}: {uri}"));
            }
            client.close().await;
        }
        gateway.close().await;
    }
}

#[tokio::test]
async fn level_of_log_messages_applies_to_all_members() {
    for era in ERAS {
        let gateway = with_options(
            options(era),
            ["one", "two"].map(|name| of_era(name, &crate::fixtures::server(), era)),
        );
        let near = Site::new(&gateway);
        for (way, client) in clients(&gateway, &near, |builder| builder) {
            client.list_tools().await.unwrap();
            client
                .set_logging_level(LoggingLevel::Debug)
                .await
                .unwrap_or_else(|error| panic!("{way}: {error}"));
            client.close().await;
        }
        gateway.close().await;
    }
}

/// A member can connect after the client has set the log level.
#[tokio::test]
async fn level_of_log_messages_applies_to_late_member() {
    let gate = Arc::new(AtomicBool::new(false));
    let server = crate::fixtures::server();
    let opened = gate.clone();
    let late = Member::new("late", move |builder| {
        if opened.load(Ordering::Relaxed) {
            return Ok(builder.era(EraChoice::Legacy).server(&server));
        }
        Err(McpClientError::Start(std::io::ErrorKind::NotFound))
    });
    let gateway = with_options(McpGatewayOptions::default(), [late]);
    let logged = Recorder::new();
    let builder = McpClient::builder().era(EraChoice::Legacy).on_notification(logged.callback());
    let client = builder.server(&gateway);
    client.set_logging_level(LoggingLevel::Debug).await.unwrap();
    gate.store(true, Ordering::Relaxed);
    wait_for(&gateway, "late", MemberState::Connected).await;
    let has_debug = async {
        loop {
            client.call_tool("late__log", json!({})).await.unwrap();
            let is_debug = |one: &ServerNotification| matches!(one, ServerNotification::Message(message) if message.level == LoggingLevel::Debug);
            if logged.take().iter().any(is_debug) {
                return;
            }
        }
    };
    timeout(Duration::from_mins(1), has_debug).await.unwrap();
}
