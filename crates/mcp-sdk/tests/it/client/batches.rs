//! Servers that answer with batches, as revision 2025-03-26 permits.

use serde_json::{Value, json};
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientBuilder, McpClientError, Revision, ServerNotification};

use super::misbehaving::{on_stream_with, response, scripted};
use super::sites::Recorder;

/// Returns the response to a message. Except for the first message, it is a batch of a log message and the
/// answer.
fn answer(revision: &str, message: &Value) -> Option<String> {
    let id = message.get("id")?;
    let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    if message["method"] == "initialize" {
        let initialized = json!({"protocolVersion": revision, "capabilities": {}, "serverInfo": {"name": "b", "version": "1"}});
        return Some(result(initialized).to_string());
    }
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}});
    Some(json!([log, result(json!({"content": []})), log]).to_string())
}

/// Returns the outcome of a call, and the number of received log messages.
async fn call(
    revision: Revision,
    connect: impl AsyncFnOnce(McpClientBuilder) -> McpClient,
) -> (Result<(), McpClientError>, usize) {
    let recorder = Recorder::new();
    let builder =
        McpClient::builder().era(EraChoice::Revision(revision)).on_notification(recorder.callback());
    let client = connect(builder).await.with_timeout(std::time::Duration::from_secs(2));
    let outcome = client.call_tool("any", json!({})).await.map(drop);
    let is_log = |notification: &ServerNotification| matches!(notification, ServerNotification::Message(_));
    (outcome, recorder.take().iter().filter(|notification| is_log(notification)).count())
}

async fn call_over_http(
    revision: Revision,
    frame: fn(&str) -> String,
) -> (Result<(), McpClientError>, usize) {
    let url = scripted(move |_, message| match answer(revision.as_str(), message) {
        Some(answer) if message["method"] == "initialize" => {
            response("Content-Type: application/json\r\n", &answer)
        }
        Some(answer) => frame(&answer),
        None => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
    })
    .await;
    call(revision, async |builder: McpClientBuilder| builder.http(&url)).await
}

fn json_body(answer: &str) -> String {
    response("Content-Type: application/json\r\n", answer)
}

fn event(answer: &str) -> String {
    response("Content-Type: text/event-stream\r\n", &format!("data: {answer}\n\n"))
}

/// Regression test: batches were treated as invalid messages.
#[tokio::test]
async fn client_accepts_batches_on_all_transports() {
    let revision = Revision::R20250326;
    for frame in [json_body, event] {
        assert_eq!(call_over_http(revision, frame).await, (Ok(()), 2));
    }
    let on_stream = async |builder: McpClientBuilder| {
        on_stream_with(builder, move |message| {
            answer(revision.as_str(), &message).map(|line| line + "\n").unwrap_or_default().into_bytes()
        })
    };
    assert_eq!(call(revision, on_stream).await, (Ok(()), 2));
}

#[tokio::test]
async fn unsupported_or_invalid_batch_fails_the_call() {
    for frame in [json_body, event] {
        let outcome = call_over_http(Revision::R20250618, frame).await;
        assert_eq!(outcome, (Err(McpClientError::MessageInvalid), 0));
    }
    for wrong in ["[]", "[[]]", "[{}]", "[1", r#"[{"jsonrpc":"2.0","id":99,"result":{}}]"#] {
        let url = scripted(move |_, message| match answer("2025-03-26", message) {
            Some(answer) if message["method"] == "initialize" => json_body(&answer),
            Some(_) => json_body(wrong),
            None => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
        })
        .await;
        let connect = async |builder: McpClientBuilder| builder.http(&url);
        let outcome = call(Revision::R20250326, connect).await;
        assert_eq!(outcome, (Err(McpClientError::MessageInvalid), 0), "{wrong}");
    }
}
