//! Headers that mirror arguments, before servers that never see them.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{Context, EraChoice, HandlerError, McpClient, McpServer};

use super::sites::{FAR_ERAS, bridges, in_memory, options};
use crate::client::sites::Site;
use crate::fixtures::ask;
use crate::http::{self, Message};
use crate::mirroring::{mirroring, query};

/// A bridge took what the body says, whatever the headers said: a gateway that decides by `Mcp-Param-Region:
/// eu` let a call for `us` through. A server of the legacy era, and one on a stream, never see these headers,
/// and for one over HTTP the bridge writes them itself.
#[tokio::test]
async fn headers_of_arguments_are_compared_whatever_the_server_is() {
    let server = mirroring();
    let site = Site::new(&server);
    for (far, bridge) in bridges(&server, &site).await {
        let near = http::Site::new(&bridge);
        for capabilities in [json!({}), json!({"elicitation": {}})] {
            let call = |arguments: Value| {
                Message::modern_with(
                    "tools/call",
                    json!({"name": "query", "arguments": arguments}),
                    &capabilities,
                )
            };
            let proper = call(json!({"region": "eu", "limit": 5}))
                .with_field("Mcp-Param-Region", "eu")
                .with_field("mcp-param-limit", "5");
            let answer = near.send(&proper).await;
            assert!(answer.status == 200 && answer.text().contains("eu"), "{far}: {}", answer.text());
            for (message, why) in [
                (proper.clone().with_field("Mcp-Param-Region", "us"), "another region"),
                (proper.clone().with_field("Mcp-Param-Limit", "6"), "another number"),
                (proper.clone().without_field("Mcp-Param-Region"), "a header is missing"),
                (
                    call(json!({"limit": 5}))
                        .with_field("Mcp-Param-Limit", "5")
                        .with_field("Mcp-Param-Region", "eu"),
                    "no argument",
                ),
            ] {
                assert_eq!(near.refused(&message).await, (400, -32020), "{far}: {why}");
            }
            let encoded = proper.with_field("Mcp-Param-Region", "=?base64?ZXU=?=");
            assert_eq!(near.send(&encoded).await.status, 200, "{far}");
        }
        // A client got around the comparison by an older revision.
        let session = near.initialize("2025-06-18").await;
        let call = json!({"name": "query", "arguments": {"region": "us", "limit": 5}});
        let message = session.request(2, "tools/call", &call).with_field("Mcp-Param-Region", "eu");
        assert_eq!(near.refused(&message).await, (400, -32020), "{far}: a legacy revision");
        bridge.close_bridge().await;
    }
}

/// The first list that a bridge had of the tools was all that it would ever have known.
#[tokio::test(start_paused = true)]
async fn a_tool_that_changes_is_compared_with_its_latest_list() {
    for far in FAR_ERAS {
        let server = McpServer::new("changing", "1").tool(Tool::new("query"), || "unchanged");
        let bridge = in_memory(&server, options(far)).await;
        let near = http::Site::new(&bridge);
        let without = query(&json!({"region": "eu"}));
        let with = without.clone().with_field("Mcp-Param-Region", "eu");
        assert_eq!(near.send(&without).await.status, 200, "{far:?}");
        let annotated = annotated_tool(&mirroring()).await;
        server.add_tool(annotated, || "changed").unwrap();
        // Longer than a list is believed of a server that does not tell of changes.
        tokio::time::sleep(Duration::from_mins(6)).await;
        assert_eq!(near.refused(&without).await, (400, -32020), "{far:?}");
        assert_eq!(near.send(&with).await.status, 200, "{far:?}");
        // The requirement is gone: nobody is refused for it.
        server.add_tool(Tool::new("query"), || "unchanged").unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(near.send(&without).await.status, 200, "{far:?}");
        bridge.close_bridge().await;
    }
}

#[derive(Deserialize, JsonSchema)]
struct Region {
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

/// Only the request that began a call would have been looked at, and not the one that brings the answers.
#[tokio::test]
async fn headers_are_compared_again_when_a_call_is_continued() {
    let asking = McpServer::new("asking", "1").tool(
        Tool::new("move"),
        |Region { region }: Region, context: Context| async move {
            Ok::<_, HandlerError>(format!("{} in {region}", ask(&context, "name").await?))
        },
    );
    let bridge = in_memory(&asking, options(EraChoice::Legacy)).await;
    let near = http::Site::new(&bridge);
    let call = |more: Value| {
        let mut params = json!({"name": "move", "arguments": {"region": "eu"}});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let message = Message::modern_with("tools/call", params, &json!({"elicitation": {}}));
        message.with_field("Mcp-Param-Region", "eu")
    };
    let answers = async || {
        let asked = near.send(&call(json!({}))).await.message();
        let result = &asked["result"];
        let (key, _) = result["inputRequests"].as_object().unwrap().iter().next().unwrap();
        let answer = json!({key: {"action": "accept", "content": {"name": "Ada"}}});
        json!({"requestState": result["requestState"], "inputResponses": answer})
    };
    let other = call(answers().await).with_field("Mcp-Param-Region", "us");
    assert_eq!(near.refused(&other).await, (400, -32020));
    let answered = near.send(&call(answers().await)).await.message();
    assert_eq!(answered["result"]["content"][0]["text"], "Ada in eu", "{answered}");
    bridge.close_bridge().await;
}

/// The tool `query` as `server` lists it.
async fn annotated_tool(server: &McpServer) -> Tool {
    let tools = McpClient::builder().server(server).list_tools().await.unwrap();
    tools.into_iter().find(|tool| tool.name == "query").unwrap()
}
