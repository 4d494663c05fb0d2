//! Cached results, and results that violate their schema.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{CacheHint, CacheScope, Resource, SubscriptionFilter, Tool, ToolAnnotations};
use thruway_mcp_sdk::{
    Bridge, BridgeOptions, EraChoice, McpClient, McpClientError, McpClientOptions, McpServer,
    McpServerOptions,
};

use crate::fixtures::{Nothing, server_with};

/// A server with results that may be cached for a minute. Counts reads of its resource.
fn counting() -> (McpServer, Arc<AtomicUsize>) {
    let cache = CacheHint { ttl_ms: 60_000, cache_scope: CacheScope::Private };
    let reads = Arc::new(AtomicUsize::new(0));
    let ours = reads.clone();
    let server = server_with(McpServerOptions { cache, ..McpServerOptions::default() });
    let server = server.resource(Resource::new("test://counted", "counted"), move || {
        ours.fetch_add(1, Ordering::Relaxed).to_string()
    });
    (server, reads)
}

#[tokio::test(start_paused = true)]
async fn cached_result_is_reused_until_its_ttl_ends() {
    let (server, reads) = counting();
    let client = McpClient::builder().era(EraChoice::Modern).server(&server);
    for _ in 0..3 {
        client.read_resource("test://counted").await.unwrap();
    }
    assert_eq!(reads.load(Ordering::Relaxed), 1);
    tokio::time::sleep(Duration::from_secs(61)).await;
    client.read_resource("test://counted").await.unwrap();
    assert_eq!(reads.load(Ordering::Relaxed), 2);
    client.read_resource("test://text").await.unwrap();
    let options = McpClientOptions { keeps_results: false, ..McpClientOptions::default() };
    let other = McpClient::builder().options(options).server(&server);
    for _ in 0..2 {
        other.read_resource("test://counted").await.unwrap();
    }
    assert_eq!(reads.load(Ordering::Relaxed), 4, "a client without a cache");
}

#[tokio::test]
async fn change_notification_clears_cached_result() {
    let (server, reads) = counting();
    let client = McpClient::builder().era(EraChoice::Modern).server(&server);
    let filter = SubscriptionFilter {
        tools_list_changed: Some(true),
        resource_subscriptions: vec!["test://counted".into()],
        ..SubscriptionFilter::default()
    };
    let mut subscription = client.listen(filter).await.unwrap();
    let before = client.list_tools().await.unwrap().len();
    client.read_resource("test://counted").await.unwrap();
    server.resource_updated("test://counted");
    subscription.next().await.unwrap();
    client.read_resource("test://counted").await.unwrap();
    assert_eq!(reads.load(Ordering::Relaxed), 2);
    server.add_tool(Tool::new("new"), |_: Nothing| "new").unwrap();
    subscription.next().await.unwrap();
    assert_eq!(client.list_tools().await.unwrap().len(), before + 1);
}

/// A result that depends on the client's answers must not be shared.
#[tokio::test]
async fn result_that_depends_on_client_answers_is_not_cached() {
    let (server, _) = counting();
    let questions = Arc::new(AtomicUsize::new(0));
    let ours = questions.clone();
    let capabilities = serde_json::from_value(crate::fixtures::capabilities()).unwrap();
    let builder = McpClient::builder().era(EraChoice::Modern).answers(capabilities, move |question| {
        ours.fetch_add(1, Ordering::Relaxed);
        async move { Ok(super::sites::response(&question)) }
    });
    let client = builder.server(&server);
    for _ in 0..2 {
        client.read_resource("test://asks").await.unwrap();
    }
    assert_eq!(questions.load(Ordering::Relaxed), 2);
}

/// A server that answers each request with `result(method, params)`.
async fn answering(result: impl Fn(&str, &Value) -> Value + Send + 'static) -> String {
    super::misbehaving::scripted(move |_, message| {
        let result = result(message["method"].as_str().unwrap_or_default(), &message["params"]);
        response(message, "result", &result)
    })
    .await
}

/// The response to `message` with its `result` or its `error`.
fn response(message: &Value, outcome: &str, value: &Value) -> String {
    let content = json!({"jsonrpc": "2.0", "id": message["id"], outcome: value}).to_string();
    let length = content.len();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
    format!("{head}\r\nContent-Length: {length}\r\n\r\n{content}")
}

#[tokio::test]
async fn structured_result_is_checked_against_output_schema() {
    let schema = json!({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]});
    let promising = Tool::new("promising").with_output_schema(schema.as_object().unwrap().clone());
    let url = answering(move |method, params| {
        if method == "tools/list" {
            return listed(&json!([promising]));
        }
        let mut result = params["arguments"].clone();
        result["resultType"] = "complete".into();
        result["content"] = json!([]);
        result
    });
    let client = McpClient::builder().era(EraChoice::Modern).http(&url.await);
    let call = async |result: Value| client.call_tool("promising", result).await.map(drop);
    let violating = json!({"structuredContent": {"sum": "three"}});
    assert_eq!(
        call(violating.clone()).await,
        Ok(()),
        "the client has no schema of a tool that was not listed"
    );
    client.list_tools().await.unwrap();
    assert_eq!(call(json!({"structuredContent": {"sum": 3}})).await, Ok(()));
    assert_eq!(call(json!({"isError": true})).await, Ok(()), "an error result needs no structured content");
    for (result, reason) in [(violating, "/sum"), (json!({}), "structuredContent")] {
        let refused = call(result).await.unwrap_err();
        assert!(
            matches!(&refused, McpClientError::ResultInvalid(message) if message.contains(reason)),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn tool_with_invalid_header_annotation_is_not_listed() {
    let input = |annotation: Value| {
        let schema =
            json!({"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": annotation}}});
        schema.as_object().unwrap().clone()
    };
    let good = Tool::new("good").with_input_schema(input(json!("Region")));
    let tools = json!([good, Tool::new("bad").with_input_schema(input(json!("not a token")))]);
    let url = answering(move |_, _| listed(&tools));
    let client = McpClient::builder().era(EraChoice::Modern).http(&url.await);
    let names: Vec<_> = client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["good"]);
}

fn listed(tools: &Value) -> Value {
    json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools})
}

/// A server with one tool, which requires an argument in the header `Mcp-Param-Region-N`. N may change
/// without a notification.
async fn changeable(wanted: Arc<AtomicUsize>) -> String {
    super::misbehaving::scripted(move |head, message| {
        let header = format!("Region-{}", wanted.load(Ordering::Relaxed));
        let is_mirrored = head.to_lowercase().contains(&format!("mcp-param-{}: eu", header.to_lowercase()));
        let region = json!({"type": "string", "x-mcp-header": header});
        let schema = json!({"type": "object", "properties": {"region": region}});
        let tool = Tool::new("region").with_input_schema(schema.as_object().unwrap().clone());
        let result = match message["method"].as_str() {
            Some("server/discover") => json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}}, "serverInfo": {"name": "changeable", "version": "1"}}),
            Some("tools/list") => {
                let mut list = listed(&json!([tool]));
                list["ttlMs"] = 60_000.into();
                list
            }
            Some("tools/call") if is_mirrored => json!({"resultType": "complete", "content": []}),
            _ => {
                return response(message, "error", &json!({"code": -32020, "message": "a header"}));
            }
        };
        response(message, "result", &result)
    })
    .await
}

/// Regression test: the client used the outdated list from the cache again.
#[tokio::test]
async fn client_lists_tools_again_after_header_error() {
    let wanted = Arc::new(AtomicUsize::new(0));
    let url = changeable(wanted.clone()).await;
    let far = McpClientOptions { era: EraChoice::Modern, ..McpClientOptions::default() };
    let options = BridgeOptions { client: far, ..BridgeOptions::default() };
    let site = url.clone();
    let bridge = Bridge::connect(options, move |builder| Ok(builder.http(&site))).await.unwrap();
    let direct = McpClient::builder().era(EraChoice::Modern).http(&url);
    let bridged = McpClient::builder().era(EraChoice::Modern).server(&bridge);
    for header in 0..3 {
        wanted.store(header, Ordering::Relaxed);
        for client in [&direct, &bridged] {
            let outcome = client.call_tool("region", json!({"region": "eu"})).await;
            assert_eq!(outcome.map(drop), Ok(()), "Region-{header}");
        }
    }
}

/// Tool calls that are repeated after a child process has died.
#[tokio::test]
async fn only_read_only_tool_calls_are_repeated_after_child_exits() {
    let read_only = ToolAnnotations { read_only_hint: Some(true), ..ToolAnnotations::default() };
    let tools = json!([Tool::new("reads").with_annotations(read_only), Tool::new("writes")]);
    let directory = std::env::temp_dir().join(format!("repeated-{}", std::process::id()));
    let script = format!(
        r#"
while read -r line; do
    id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
    case "$line" in
        *tools/list*) result='{}' ;;
        *) if mkdir {died} 2>/dev/null; then exit 1; fi; result='{{"resultType":"complete","content":[]}}' ;;
    esac
    echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}}"
done
"#,
        listed(&tools),
        died = directory.display()
    );
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]);
    let client = McpClient::builder().era(EraChoice::Modern).command(command).unwrap();
    client.list_tools().await.unwrap();
    for (tool, is_repeated) in [("reads", true), ("writes", false)] {
        let _ = std::fs::remove_dir(&directory);
        let outcome = client.call_tool(tool, json!({})).await;
        let expected = if is_repeated { Ok(()) } else { Err(McpClientError::Closed) };
        assert_eq!(outcome.map(drop), expected, "{tool}");
    }
    std::fs::remove_dir(&directory).unwrap();
    client.close().await;
}
