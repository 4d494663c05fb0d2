//! Requests of clients of each era to members of each era.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use thruway_mcp_sdk::json_rpc::ErrorCode;
use thruway_mcp_sdk::schema::{
    CompleteArgument, CompletionReference, ContentBlock, LoggingLevel, PromptReference, ResourceContents,
    ResourceTemplateReference, Tool,
};
use thruway_mcp_sdk::{McpClient, McpGateway, McpServer, ServerNotification};

use super::sites::{ERAS, gateway, in_memory, of_era, options, over_http, with_options};
use crate::bridge::sites::clients;
use crate::client::calls::text;
use crate::client::sites::{Recorder, Site};
use crate::fixtures::{server, with_hanging};

fn greeter() -> McpServer {
    McpServer::new("greeter", "1.0").tool(Tool::new("greet"), || "Hello!")
}

#[tokio::test]
async fn client_can_use_all_features_of_a_member() {
    let fixtures = server();
    let site = Site::new(&fixtures);
    for era in ERAS {
        let members = [of_era("greeter", &greeter(), era), of_era("fixtures", &fixtures, era)];
        let in_memory = with_options(options(era), members);
        let http = with_options(options(era), [over_http("fixtures", &site.url), in_memory_greeter()]);
        for (far, gateway) in [("in memory", in_memory), ("over HTTP", http)] {
            let near = Site::new(&gateway);
            for (way, client) in clients(&gateway, &near, |builder| builder) {
                use_everything(&client, &format!("{way} to {era:?} {far}")).await;
                client.close().await;
            }
            gateway.close().await;
        }
    }
}

fn in_memory_greeter() -> thruway_mcp_sdk::Member {
    in_memory("greeter", &greeter())
}

async fn use_everything(client: &McpClient, way: &str) {
    client.ping().await.unwrap_or_else(|error| panic!("{way}: {error}"));
    let discovered = client.discover().await.unwrap();
    assert_eq!(discovered.meta.unwrap()["io.modelcontextprotocol/serverInfo"]["name"], "gateway", "{way}");
    let tools = client.list_tools().await.unwrap_or_else(|error| panic!("{way}: {error}"));
    for name in ["fixtures__echo", "greeter__greet"] {
        assert!(tools.iter().any(|tool| tool.name == name), "{way}: {name}");
    }
    let greeted = client.call_tool("greeter__greet", json!({})).await;
    assert_eq!(text(&greeted.unwrap_or_else(|error| panic!("{way}: {error}"))), "Hello!", "{way}");
    let result = client.call_tool("fixtures__echo", json!({"message": "hü\n"})).await.unwrap();
    assert!(text(&result).contains("hü"), "{way}");
    for uri in ["test://item/7", "test://text"] {
        let read = client.read_resource(uri).await.unwrap_or_else(|error| panic!("{way}: {error}"));
        assert!(matches!(&read.contents[..], [ResourceContents::Text(text)] if text.uri == uri), "{way}");
    }
    assert_eq!(client.list_resources().await.unwrap().len(), 4, "{way}");
    assert_eq!(client.list_resource_templates().await.unwrap().len(), 1, "{way}");
    let arguments = BTreeMap::from([("message".to_owned(), "cheese".to_owned())]);
    let prompt = client.get_prompt("fixtures__greeting", arguments).await.unwrap();
    assert!(matches!(&prompt.messages[0].content, ContentBlock::Text(text) if text.text == "Say cheese."));
    let prompt = PromptReference { name: "fixtures__greeting".into(), title: None };
    let argument = CompleteArgument { name: "message".into(), value: "x".into() };
    let completed = client.complete(CompletionReference::Prompt(prompt), argument.clone(), None).await;
    assert_eq!(completed.unwrap().values[1], "x1", "{way}");
    let template = ResourceTemplateReference { uri: "test://item/{id}".into() };
    let completed = client.complete(CompletionReference::Resource(template), argument, None).await;
    assert!(completed.is_ok_and(|completed| completed.values.is_empty()), "{way}");
    check_errors(client, way).await;
}

async fn check_errors(client: &McpClient, way: &str) {
    let failed = client.call_tool("fixtures__fail", json!({})).await.unwrap();
    assert_eq!(failed.is_error, Some(true), "{way}");
    for name in ["echo", "fixtures__unknown", "unknown__echo", "__echo", ""] {
        let refused = client.call_tool(name, json!({})).await.unwrap_err();
        assert_eq!(refused.server_error().unwrap().code, ErrorCode::INVALID_PARAMS, "{way} {name}");
    }
    let refused = client.read_resource("nowhere://item").await.unwrap_err();
    let is_modern = client.revision().await.unwrap().era() == thruway_mcp_sdk::Revision::LATEST.era();
    let expected = if is_modern { ErrorCode::INVALID_PARAMS } else { ErrorCode::RESOURCE_NOT_FOUND };
    assert_eq!(refused.server_error().unwrap().code, expected, "{way}");
}

#[tokio::test]
async fn progress_and_log_messages_reach_the_client_of_the_call() {
    for era in ERAS {
        let gateway = gateway_of_two(era);
        let near = Site::new(&gateway);
        let logged = Recorder::new();
        for (way, client) in clients(&gateway, &near, |builder| builder.on_notification(logged.callback())) {
            let way = format!("{way} to {era:?}");
            for member in ["one", "two"] {
                let recorder = Recorder::new();
                let record = recorder.callback();
                let reporting = client.clone().with_progress(move |progress| record(progress.progress));
                let tool = format!("{member}__progress");
                assert_eq!(text(&reporting.call_tool(&tool, json!({})).await.unwrap()), "done", "{way}");
                let steps = recorder.take();
                assert!(steps.starts_with(&[1.0, 2.0]) && steps.ends_with(&[3.0]), "{way}: {steps:?}");
            }
            client.set_logging_level(LoggingLevel::Error).await.unwrap();
            for member in ["one", "two"] {
                logged.take();
                client.call_tool(&format!("{member}__log"), json!({})).await.unwrap();
                let levels = logged.take().into_iter().filter_map(|notification| match notification {
                    ServerNotification::Message(message) => Some(message.level),
                    _ => None,
                });
                assert_eq!(levels.collect::<Vec<_>>(), LoggingLevel::ALL[4..], "{way} {member}");
            }
        }
        gateway.close().await;
    }
}

fn gateway_of_two(era: thruway_mcp_sdk::EraChoice) -> McpGateway {
    with_options(options(era), [in_memory("one", &server()), in_memory("two", &server())])
}

#[tokio::test]
async fn aborted_call_is_canceled_at_its_member() {
    let (server, running) = with_hanging(server());
    let gateway = gateway([in_memory("greeter", &greeter()), in_memory("hanging", &server)]);
    let near = Site::new(&gateway);
    for (way, client) in clients(&gateway, &near, |builder| builder) {
        client.revision().await.unwrap();
        let call = tokio::spawn(async move { client.call_tool("hanging__hang", json!({})).await });
        while running.count() == 0 {
            tokio::task::yield_now().await;
        }
        call.abort();
        let canceled = async {
            while running.count() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), canceled).await.unwrap_or_else(|_| panic!("{way}"));
    }
    gateway.close().await;
}
