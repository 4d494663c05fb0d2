//! All offers of servers, over all transports and in both eras.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use thruway_mcp_sdk::json_rpc::ErrorCode;
use thruway_mcp_sdk::schema::{
    CallToolResult, CompleteArgument, CompletionReference, ContentBlock, LoggingLevel, PromptReference,
    ResourceContents, Tool,
};
use thruway_mcp_sdk::{
    EraChoice, McpClient, McpClientError, McpServer, McpServerOptions, Revision, ServerNotification,
};

use super::misbehaving::on_stream_with;
use super::sites::{Recorder, Site, clients};
use crate::fixtures::{server, server_with, with_hanging, with_waiting};

pub(crate) fn text(result: &CallToolResult) -> &str {
    match &result.content[..] {
        [ContentBlock::Text(text), ..] => &text.text,
        other => panic!("no text: {other:?}"),
    }
}

#[tokio::test]
async fn client_can_use_all_server_features() {
    let options = McpServerOptions { page_entries: 3, ..McpServerOptions::default() };
    let server = server_with(options);
    let site = Site::new(&server);
    for (way, client) in clients(&server, &site, |builder| builder) {
        client.ping().await.unwrap_or_else(|error| panic!("{way}: {error}"));
        let discovered = client.discover().await.unwrap();
        assert!(discovered.capabilities.tools.is_some(), "{way}");
        assert_eq!(discovered.meta.unwrap()["io.modelcontextprotocol/serverInfo"]["name"], "fixtures");

        let tools = client.list_tools().await.unwrap();
        assert!(tools.len() > 6 && tools.iter().any(|tool| tool.name == "echo"), "{way}: several pages");
        let result = client.call_tool("echo", json!({"message": "hü"})).await.unwrap();
        assert!(text(&result).contains("hü"), "{way}");
        let failed = client.call_tool("fail", json!({})).await.unwrap();
        assert_eq!(failed.is_error, Some(true), "{way}");

        let resources = client.list_resources().await.unwrap();
        assert_eq!(resources.len(), 4, "{way}");
        let templates = client.list_resource_templates().await.unwrap();
        assert_eq!(templates[0].uri_template, "test://item/{id}");
        let read = client.read_resource("test://item/7").await.unwrap();
        assert!(matches!(&read.contents[..], [ResourceContents::Text(text)] if text.text == "item 7"));

        assert_eq!(client.list_prompts().await.unwrap().len(), 2, "{way}");
        let arguments = BTreeMap::from([("message".to_owned(), "cheese".to_owned())]);
        let prompt = client.get_prompt("greeting", arguments).await.unwrap();
        assert!(
            matches!(&prompt.messages[0].content, ContentBlock::Text(text) if text.text == "Say cheese.")
        );
        let reference = CompletionReference::Prompt(PromptReference { name: "greeting".into(), title: None });
        let argument = CompleteArgument { name: "message".into(), value: "x".into() };
        let completion = client.complete(reference, argument, None).await.unwrap();
        assert_eq!((completion.values.len(), &*completion.values[1]), (100, "x1"), "{way}");
        client.close().await;
    }
}

#[tokio::test]
async fn client_uses_chosen_revision_or_latest_one() {
    let server = server();
    let site = Site::new(&server);
    for (way, client) in clients(&server, &site, |builder| builder) {
        let expected = match () {
            () if way.contains("20250618") => Revision::R20250618,
            () if way.contains("20241105") => Revision::R20241105,
            () if way.contains("Legacy") => Revision::R20251125,
            () => Revision::R20260728,
        };
        assert_eq!(client.revision().await, Ok(expected), "{way}");
    }
}

#[tokio::test]
async fn server_errors_keep_their_codes() {
    let server = server();
    let site = Site::new(&server);
    for (way, client) in clients(&server, &site, |builder| builder) {
        let refused = client.call_tool("unknown", json!({})).await.unwrap_err();
        assert_eq!(refused.server_error().unwrap().code, ErrorCode::INVALID_PARAMS, "{way}");
        let refused = client.read_resource("test://nowhere").await.unwrap_err();
        let code = refused.server_error().unwrap().code;
        assert!(matches!(code, ErrorCode::INVALID_PARAMS | ErrorCode::RESOURCE_NOT_FOUND), "{way}: {code:?}");
        let refused = client.call_tool("echo", [1]).await;
        assert_eq!(refused, Err(McpClientError::ArgumentsInvalid));
    }
}

#[tokio::test]
async fn client_reports_progress_and_log_messages() {
    let server = server();
    let site = Site::new(&server);
    let logged = Recorder::new();
    for (way, client) in clients(&server, &site, |builder| builder.on_notification(logged.callback())) {
        let recorder = Recorder::new();
        let record = recorder.callback();
        let reporting = client.clone().with_progress(move |progress| record(progress.progress));
        assert_eq!(text(&reporting.call_tool("progress", json!({})).await.unwrap()), "done");
        let steps = recorder.take();
        assert!(steps.starts_with(&[1.0, 2.0]) && steps.ends_with(&[3.0]), "{way}: {steps:?}");

        logged.take();
        client.set_logging_level(LoggingLevel::Error).await.unwrap();
        client.call_tool("log", json!({})).await.unwrap();
        let levels: Vec<_> = logged.take().into_iter().filter_map(level).collect();
        assert_eq!(levels, LoggingLevel::ALL[4..], "{way}");
    }
}

fn level(notification: ServerNotification) -> Option<LoggingLevel> {
    match notification {
        ServerNotification::Message(message) => Some(message.level),
        _ => None,
    }
}

#[tokio::test]
async fn many_requests_run_concurrently() {
    let (server, gate) = with_waiting(server());
    let site = Site::new(&server);
    for (way, client) in clients(&server, &site, |builder| builder) {
        let calls: Vec<_> = (0..20)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { client.call_tool("wait", json!({})).await })
            })
            .collect();
        for n in 0..50 {
            let message = json!({"message": n.to_string()});
            assert!(
                text(&client.call_tool("echo", message).await.unwrap()).contains(&n.to_string()),
                "{way}"
            );
        }
        for call in calls {
            while !call.is_finished() {
                gate.notify_one();
                tokio::task::yield_now().await;
            }
            assert_eq!(text(&call.await.unwrap().unwrap()), "waited", "{way}");
        }
    }
}

#[tokio::test]
async fn dropped_call_is_canceled_at_server() {
    let (server, running) = with_hanging(server());
    let site = Site::new(&server);
    for (way, client) in clients(&server, &site, |builder| builder) {
        client.revision().await.unwrap();
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool("hang", json!({})).await }
        });
        while running.count() == 0 {
            tokio::task::yield_now().await;
        }
        call.abort();
        let cancelled = async {
            while running.count() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), cancelled).await.unwrap_or_else(|_| panic!("{way}"));
        client.ping().await.unwrap();
    }
}

#[tokio::test]
async fn timed_out_call_is_canceled_at_server() {
    let (server, running) = with_hanging(server());
    let site = Site::new(&server);
    for (way, client) in clients(&server, &site, |builder| builder) {
        client.revision().await.unwrap();
        let short_timeout_client = client.clone().with_timeout(Duration::from_millis(50));
        assert_eq!(
            short_timeout_client.call_tool("hang", json!({})).await,
            Err(McpClientError::TimedOut),
            "{way}"
        );
        while running.count() > 0 {
            tokio::task::yield_now().await;
        }
        client.ping().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn progress_extends_call_timeout() {
    let server = McpServer::new("slow", "1").tool(
        Tool::new("slow"),
        |_: crate::fixtures::Nothing, context: thruway_mcp_sdk::Context| async move {
            for step in 1..=5 {
                tokio::time::sleep(Duration::from_secs(40)).await;
                context.progress(f64::from(step), None, None).await;
            }
            "done"
        },
    );
    for era in [EraChoice::Modern, EraChoice::Legacy] {
        let client = McpClient::builder().era(era).server(&server);
        assert_eq!(client.call_tool("slow", json!({})).await, Err(McpClientError::TimedOut));
        let client_with_progress = client.clone().with_progress(|_| {});
        assert_eq!(text(&client_with_progress.call_tool("slow", json!({})).await.unwrap()), "done");
    }
}

#[tokio::test]
async fn arguments_are_mirrored_in_headers_if_tool_requires_it() {
    let schema = |region: Value| {
        let schema = json!({"type": "object", "properties": {"region": region}});
        schema.as_object().unwrap().clone()
    };
    let wanted = schema(json!({"type": "string", "x-mcp-header": "Region"}));
    let server = McpServer::new("regions", "1")
        .tool(Tool::new("region").with_input_schema(wanted), |arguments: Value| arguments.to_string());
    let site = Site::new(&server);
    let client = McpClient::builder().era(EraChoice::Modern).http(&site.url);
    // The tool has not been listed. The server refuses the call, and the client lists the tools.
    for region in ["eu", "grün", " padded "] {
        let result = client.call_tool("region", json!({"region": region})).await.unwrap();
        assert_eq!(serde_json::from_str::<Value>(text(&result)).unwrap()["region"], region);
    }
    client.call_tool("region", json!({})).await.unwrap();
}

#[tokio::test]
async fn client_starts_new_session_after_server_ends_it() {
    let options = McpServerOptions { sessions_max: 1, ..McpServerOptions::default() };
    let site = Site::new(&server_with(options));
    let client = || McpClient::builder().era(EraChoice::Legacy).http(&site.url);
    let (one, other) = (client(), client());
    for _ in 0..3 {
        // Each client ends the session of the other.
        one.call_tool("echo", json!({"message": "1"})).await.unwrap();
        other.call_tool("echo", json!({"message": "2"})).await.unwrap();
    }
    other.close().await;
}

/// Regression test: each line of such arguments was sent as a separate message, which the server rejected.
#[tokio::test]
async fn multi_line_arguments_are_sent_on_one_line() {
    let client = on_stream_with(McpClient::builder().era(EraChoice::Modern), |request| {
        let content = json!([{"type": "text", "text": request["params"]["arguments"].to_string()}]);
        let result = json!({"resultType": "complete", "content": content});
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        format!("{answer}\n").into_bytes()
    });
    let lines = RawValue::from_string("{\n \"a\":\r\n [1,\r2]\n}".to_owned()).unwrap();
    let result = client.call_tool("any", &lines).await.unwrap();
    assert_eq!(text(&result), r#"{"a":[1,2]}"#);
    let result = client.call_tool("any", BTreeMap::from([("within", &lines)])).await.unwrap();
    assert_eq!(text(&result), r#"{"within":{"a":[1,2]}}"#);
}
