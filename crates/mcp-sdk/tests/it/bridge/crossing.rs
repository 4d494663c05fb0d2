//! Messages across a bridge, over all transports and between all eras.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use thruway_mcp_sdk::json_rpc::ErrorCode;
use thruway_mcp_sdk::schema::{
    CompleteArgument, CompletionReference, ContentBlock, LoggingLevel, PromptReference, ResourceContents,
    SubscriptionFilter, Tool,
};
use thruway_mcp_sdk::{Context, EraChoice, McpClient, ServerNotification};
use tokio::sync::Notify;

use super::sites::{bridges, clients, options, over_http};
use crate::client::calls::text;
use crate::client::sites::{Recorder, Site, answering};
use crate::fixtures::{Nothing, server, with_hanging};
use crate::http;

#[tokio::test]
async fn client_can_use_all_server_features_through_bridge() {
    let server = server();
    let site = Site::new(&server);
    for (far, bridge) in bridges(&server, &site).await {
        let near = Site::new(&bridge);
        for (way, client) in clients(&bridge, &near, |builder| builder) {
            let way = format!("{way} {far}");
            use_everything(&client, &way).await;
            client.close().await;
        }
        bridge.close().await;
    }
}

async fn use_everything(client: &McpClient, way: &str) {
    client.ping().await.unwrap_or_else(|error| panic!("{way}: {error}"));
    let discovered = client.discover().await.unwrap();
    assert!(discovered.capabilities.tools.is_some(), "{way}");
    assert_eq!(discovered.meta.unwrap()["io.modelcontextprotocol/serverInfo"]["name"], "fixtures", "{way}");
    let tools = client.list_tools().await.unwrap_or_else(|error| panic!("{way}: {error}"));
    assert!(tools.iter().any(|tool| tool.name == "echo"), "{way}");
    let result = client.call_tool("echo", json!({"message": "hü\n"})).await.unwrap();
    assert!(text(&result).contains("hü"), "{way}");
    let read = client.read_resource("test://item/7").await.unwrap();
    assert!(matches!(&read.contents[..], [ResourceContents::Text(text)] if text.text == "item 7"), "{way}");
    assert_eq!(client.list_resources().await.unwrap().len(), 4, "{way}");
    let arguments = BTreeMap::from([("message".to_owned(), "cheese".to_owned())]);
    let prompt = client.get_prompt("greeting", arguments).await.unwrap();
    assert!(matches!(&prompt.messages[0].content, ContentBlock::Text(text) if text.text == "Say cheese."));
    let reference = CompletionReference::Prompt(PromptReference { name: "greeting".into(), title: None });
    let argument = CompleteArgument { name: "message".into(), value: "x".into() };
    assert_eq!(client.complete(reference, argument, None).await.unwrap().values[1], "x1", "{way}");
    check_errors(client, way).await;
}

async fn check_errors(client: &McpClient, way: &str) {
    let failed = client.call_tool("fail", json!({})).await.unwrap();
    assert_eq!(failed.is_error, Some(true), "{way}");
    let refused = client.call_tool("unknown", json!({})).await.unwrap_err();
    assert_eq!(refused.server_error().unwrap().code, ErrorCode::INVALID_PARAMS, "{way}");
    let refused = client.read_resource("test://nowhere").await.unwrap_err();
    let is_modern = client.revision().await.unwrap().era() == thruway_mcp_sdk::Revision::LATEST.era();
    let expected = if is_modern { ErrorCode::INVALID_PARAMS } else { ErrorCode::RESOURCE_NOT_FOUND };
    assert_eq!(refused.server_error().unwrap().code, expected, "{way}");
}

#[tokio::test]
async fn elicitation_sampling_and_roots_requests_cross_bridge() {
    let server = server();
    let site = Site::new(&server);
    for (far, bridge) in bridges(&server, &site).await {
        let near = Site::new(&bridge);
        for (way, client) in clients(&bridge, &near, answering) {
            let way = format!("{way} {far}");
            let call = async |tool: &str| match client.call_tool(tool, json!({"message": "m"})).await {
                Ok(result) => text(&result).to_owned(),
                Err(error) => panic!("{way}: {error}"),
            };
            assert_eq!(call("ask").await, "Ada", "{way}");
            assert_eq!(call("ask_twice").await, "Ada and Ada", "{way}");
            assert_eq!(call("ask_all").await, "Ada 42 file:///home", "{way}");
            let prompt = client.get_prompt("asks", BTreeMap::new()).await.unwrap();
            let content = &prompt.messages[0].content;
            assert!(matches!(content, ContentBlock::Text(text) if text.text == "Ada"), "{way}");
            client.read_resource("test://asks").await.unwrap_or_else(|error| panic!("{way}: {error}"));
        }
        bridge.close().await;
    }
}

#[tokio::test]
async fn tool_that_asks_fails_for_client_without_elicitation() {
    let server = server();
    let site = Site::new(&server);
    for (far, bridge) in bridges(&server, &site).await {
        let near = Site::new(&bridge);
        for (way, client) in clients(&bridge, &near, |builder| builder) {
            let failed = match client.call_tool("ask", json!({})).await {
                Ok(result) => result.is_error == Some(true),
                Err(error) => error.server_error().is_some(),
            };
            assert!(failed, "{way} {far}");
        }
    }
}

#[tokio::test]
async fn progress_and_log_messages_cross_bridge() {
    let server = server();
    let site = Site::new(&server);
    for (far, bridge) in bridges(&server, &site).await {
        let near = Site::new(&bridge);
        let logged = Recorder::new();
        for (way, client) in clients(&bridge, &near, |builder| builder.on_notification(logged.callback())) {
            let way = format!("{way} {far}");
            let recorder = Recorder::new();
            let record = recorder.callback();
            let reporting = client.clone().with_progress(move |progress| record(progress.progress));
            assert_eq!(text(&reporting.call_tool("progress", json!({})).await.unwrap()), "done", "{way}");
            let steps = recorder.take();
            assert!(steps.starts_with(&[1.0, 2.0]) && steps.ends_with(&[3.0]), "{way}: {steps:?}");
            logged.take();
            client.set_logging_level(LoggingLevel::Error).await.unwrap();
            client.call_tool("log", json!({})).await.unwrap();
            let levels = logged.take().into_iter().filter_map(|notification| match notification {
                ServerNotification::Message(message) => Some(message.level),
                _ => None,
            });
            assert_eq!(levels.collect::<Vec<_>>(), LoggingLevel::ALL[4..], "{way}");
        }
    }
}

#[tokio::test]
async fn change_notifications_cross_bridge() {
    let server = server();
    let site = Site::new(&server);
    let filter = SubscriptionFilter {
        tools_list_changed: Some(true),
        resource_subscriptions: vec!["test://text".into()],
        ..SubscriptionFilter::default()
    };
    for (far, bridge) in bridges(&server, &site).await {
        let near = Site::new(&bridge);
        for (way, client) in clients(&bridge, &near, |builder| builder) {
            let way = format!("{way} {far}");
            let mut subscription =
                client.listen(filter.clone()).await.unwrap_or_else(|error| panic!("{way}: {error}"));
            let mut updated = false;
            let mut changed = false;
            let receiving = async {
                while !(updated && changed) {
                    match subscription.next().await.expect("the subscription should not end") {
                        ServerNotification::ToolsListChanged => changed = true,
                        ServerNotification::ResourceUpdated(resource) => {
                            updated = resource.uri == "test://text";
                        }
                        other => panic!("{way}: {other:?}"),
                    }
                }
            };
            // Legacy streams may open after `listen` has returned.
            let changing = async {
                loop {
                    server.resource_updated("test://text");
                    server.add_tool(Tool::new("new"), |_: Nothing| "new").unwrap();
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let both = async {
                tokio::select! { () = receiving => {}, () = changing => {} }
            };
            tokio::time::timeout(Duration::from_mins(1), both).await.unwrap_or_else(|_| panic!("{way}"));
        }
        bridge.close().await;
    }
}

#[tokio::test]
async fn aborted_call_is_canceled_at_server_behind_bridge() {
    let (server, running) = with_hanging(server());
    let site = Site::new(&server);
    for (far, bridge) in bridges(&server, &site).await {
        let near = Site::new(&bridge);
        for prepare in [|builder| builder, answering] {
            for (way, client) in clients(&bridge, &near, prepare) {
                client.revision().await.unwrap();
                let call = tokio::spawn(async move { client.call_tool("hang", json!({})).await });
                while running.count() == 0 {
                    tokio::task::yield_now().await;
                }
                call.abort();
                let cancelled = async {
                    while running.count() > 0 {
                        tokio::task::yield_now().await;
                    }
                };
                let waited = tokio::time::timeout(Duration::from_mins(1), cancelled).await;
                waited.unwrap_or_else(|_| panic!("{way} {far}"));
            }
        }
    }
}

/// Regression test: the server closed the stream of a call to free the connection, but the bridge kept the
/// stream to its client open. Three checks of the official suite did not apply through a bridge.
#[tokio::test]
async fn bridge_closes_client_stream_when_server_disconnects() {
    let gate = Arc::new(Notify::new());
    let waited = gate.clone();
    let server = server().tool(Tool::new("let_go"), move |_: Nothing, context: Context| {
        let gate = waited.clone();
        async move {
            context.disconnect(Duration::from_millis(20)).await;
            gate.notified().await;
            "done"
        }
    });
    let site = Site::new(&server);
    let bridge = over_http(&site.url, options(EraChoice::Legacy)).await;
    let near = http::Site::new(&bridge);
    let session = near.initialize("2025-11-25").await;
    let mut exchange =
        near.open(&session.request(1, "tools/call", &json!({"name": "let_go", "arguments": {}})));
    let [primed, last] = [exchange.next_event().await.unwrap(), exchange.next_event().await.unwrap()];
    assert_eq!((primed.message, last.message), (None, None));
    assert!(exchange.next_event().await.is_none(), "the connection is not kept open");
    gate.notify_one();
    let again = session.get().with_field("Last-Event-ID", &last.id.unwrap());
    let messages = near.open(&again).response().await.messages();
    assert_eq!(messages.last().unwrap()["result"]["content"][0]["text"], "done", "{messages:?}");
    bridge.close().await;
}
