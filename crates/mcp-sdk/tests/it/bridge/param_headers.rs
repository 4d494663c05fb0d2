//! Headers that mirror arguments, with servers that never see the headers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{
    Bridge, Context, EraChoice, HandlerError, McpClient, McpClientBuilder, McpClientError, McpServer,
};

use super::sites::{FAR_ERAS, bridges, in_memory, options};
use crate::client::misbehaving::on_stream_with;
use crate::client::sites::Site;
use crate::fixtures::ask;
use crate::http::{self, Message};
use crate::mirroring::{mirroring, query};

/// Regression test: the bridge used the body and ignored the headers. A gateway that filters by
/// `Mcp-Param-Region: eu` forwarded a call for `us`. A legacy server, or a server on a stream, never sees
/// these headers. For a server over HTTP, the bridge writes them itself.
#[tokio::test]
async fn bridge_compares_param_headers_with_arguments_for_all_servers() {
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
        // Regression test: a client bypassed the comparison with an older revision.
        let session = near.initialize("2025-06-18").await;
        let call = json!({"name": "query", "arguments": {"region": "us", "limit": 5}});
        let message = session.request(2, "tools/call", &call).with_field("Mcp-Param-Region", "eu");
        assert_eq!(near.refused(&message).await, (400, -32020), "{far}: a legacy revision");
        bridge.close().await;
    }
}

/// Regression test: the bridge never updated its first list of tools.
#[tokio::test(start_paused = true)]
async fn param_headers_are_checked_against_latest_tool_list() {
    for far in FAR_ERAS {
        let server = McpServer::new("changing", "1").tool(Tool::new("query"), || "unchanged");
        let bridge = in_memory(&server, options(far)).await;
        let near = http::Site::new(&bridge);
        let without = query(&json!({"region": "eu"}));
        let with = without.clone().with_field("Mcp-Param-Region", "eu");
        assert_eq!(near.send(&without).await.status, 200, "{far:?}");
        let annotated = annotated_tool(&mirroring()).await;
        server.add_tool(annotated, || "changed").unwrap();
        // Longer than the lifetime of a list from a server that does not announce changes.
        tokio::time::sleep(Duration::from_mins(6)).await;
        assert_eq!(near.refused(&without).await, (400, -32020), "{far:?}");
        assert_eq!(near.send(&with).await.status, 200, "{far:?}");
        // The requirement no longer exists, so the bridge accepts requests without the header.
        server.add_tool(Tool::new("query"), || "unchanged").unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(near.send(&without).await.status, 200, "{far:?}");
        bridge.close().await;
    }
}

#[derive(Deserialize, JsonSchema)]
struct Region {
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

/// Regression test: the bridge checked the first request of a call, but not the request with the answers.
#[tokio::test]
async fn param_headers_are_checked_again_when_call_continues() {
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
        let input_required = near.send(&call(json!({}))).await.message();
        let result = &input_required["result"];
        let (key, _) = result["inputRequests"].as_object().unwrap().iter().next().unwrap();
        let answer = json!({key: {"action": "accept", "content": {"name": "Ada"}}});
        json!({"requestState": result["requestState"], "inputResponses": answer})
    };
    let other = call(answers().await).with_field("Mcp-Param-Region", "us");
    assert_eq!(near.refused(&other).await, (400, -32020));
    let answered = near.send(&call(answers().await)).await.message();
    assert_eq!(answered["result"]["content"][0]["text"], "Ada in eu", "{answered}");
    bridge.close().await;
}

/// A server of `era` that counts the lists of its tools. The lists fail while `fails` is set.
fn listing(
    era: EraChoice,
    lists: Arc<AtomicUsize>,
    fails: Arc<AtomicBool>,
) -> impl Fn(McpClientBuilder) -> Result<McpClient, McpClientError> + Send + Sync + 'static {
    move |builder| {
        let (lists, fails) = (lists.clone(), fails.clone());
        Ok(on_stream_with(builder, move |message| {
            let tool = json!({"name": "query", "inputSchema": {"type": "object", "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"}}}});
            let mut answer = match message["method"].as_str() {
                Some("tools/list") => {
                    lists.fetch_add(1, Ordering::Relaxed);
                    if fails.load(Ordering::Relaxed) {
                        json!({"error": {"code": -32603, "message": "no list"}})
                    } else {
                        json!({"result": {"tools": [tool], "ttlMs": 0, "cacheScope": "private"}})
                    }
                }
                Some("tools/call") => json!({"result": {"content": []}}),
                Some("initialize") => json!({"result": {"protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {"listChanged": true}},
                    "serverInfo": {"name": "listing", "version": "1"}}}),
                Some("server/discover") => json!({"result": {"supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}}, "serverInfo": {"name": "listing", "version": "1"},
                    "ttlMs": 0, "cacheScope": "private"}}),
                _ => return Vec::new(),
            };
            answer["jsonrpc"] = json!("2.0");
            answer["id"] = message["id"].clone();
            if era == EraChoice::Modern && answer["result"].is_object() {
                answer["result"]["resultType"] = json!("complete");
            }
            format!("{answer}\n").into_bytes()
        }))
    }
}

/// Regression test: the first call listed the tools although none of its arguments could be mirrored, and
/// failed if the list failed.
#[tokio::test(start_paused = true)]
async fn call_without_param_headers_does_not_list_tools() {
    for far in FAR_ERAS {
        let (lists, fails) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
        let connect = listing(far, lists.clone(), fails.clone());
        let bridge = Bridge::connect(options(far), connect).await.unwrap();
        let near = http::Site::new(&bridge);
        for arguments in [json!({}), json!({"region": null}), json!({"other": [1, "a"], "nested": {}})] {
            let answer = near.send(&query(&arguments)).await;
            assert_eq!((answer.status, lists.load(Ordering::Relaxed)), (200, 0), "{far:?} {arguments}");
        }
        // Only the list could show that this call needs a header, and no client has ever received a list.
        let without = query(&json!({"region": "eu"}));
        assert_eq!(near.send(&without).await.status, 200, "{far:?}");
        // A header that cannot be compared is refused, because a gateway may have used it for a decision.
        let with = without.clone().with_field("Mcp-Param-Region", "eu");
        let refused = near.send(&with).await;
        assert!(refused.text().contains("no list"), "{far:?}: {}", refused.text());
        fails.store(false, Ordering::Relaxed);
        assert_eq!(near.send(&with).await.status, 200, "{far:?}");
        assert_eq!(near.refused(&without).await, (400, -32020), "{far:?}: a header is missing");
        // The last list stays valid until there is another one.
        fails.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_mins(6)).await;
        assert_eq!(near.refused(&without).await, (400, -32020), "{far:?}: a header is missing");
        assert_eq!(near.send(&with).await.status, 200, "{far:?}");
        bridge.close().await;
    }
}

/// Returns the tool `query` from the list of `server`.
async fn annotated_tool(server: &McpServer) -> Tool {
    let tools = McpClient::builder().server(server).list_tools().await.unwrap();
    tools.into_iter().find(|tool| tool.name == "query").unwrap()
}
