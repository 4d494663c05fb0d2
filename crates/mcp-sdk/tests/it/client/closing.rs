//! Closing a client also closes its clones and subscriptions, even over HTTP, where no connection ends.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::SubscriptionFilter;
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientError, McpClientOptions, Revision};
use thruway_server::Router;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::misbehaving::{response, scripted};
use super::sites::{Recorder, Site};
use crate::fixtures::server;

fn filter() -> SubscriptionFilter {
    SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() }
}

/// Regression test: clones and subscriptions started another session after the close.
#[tokio::test]
async fn close_over_http_also_closes_clones_and_subscriptions() {
    let server = server();
    let sse = server.endpoint().sse_endpoints("/message");
    let old = Site::of(Router::new().get("/mcp", sse.stream()).post("/message", sse.messages()));
    let site = Site::new(&server);
    for (era, url) in [
        (EraChoice::Modern, &site.url),
        (EraChoice::Legacy, &site.url),
        (EraChoice::Revision(Revision::R20241105), &old.url),
    ] {
        let client = McpClient::builder().era(era).http(url);
        let other = client.clone();
        let mut subscription = client.listen(filter()).await.unwrap();
        client.close().await;
        assert_eq!(other.ping().await, Err(McpClientError::Closed), "{era:?}");
        let ended = timeout(Duration::from_mins(1), subscription.next()).await;
        assert_eq!(ended, Ok(None), "{era:?}");
        assert_eq!(subscription.end(), Some(McpClientError::Closed), "{era:?}");
    }
}

/// A call during the close must not restart the child.
#[tokio::test]
async fn call_during_close_does_not_restart_child() {
    let started = Recorder::new();
    let record = started.callback();
    let options = McpClientOptions { exit_wait: Duration::from_millis(100), ..McpClientOptions::default() };
    let builder = McpClient::builder().options(options).era(EraChoice::Legacy);
    let mut command = Command::new("sh");
    command.args(["-c", "echo up >&2; exec sleep 1000"]);
    let client = builder.on_stderr(move |line| record(line.to_owned())).command(command).unwrap();
    let other = client.clone();
    let calling = async {
        // After its input is closed.
        tokio::task::yield_now().await;
        other.ping().await
    };
    let ((), called) = tokio::join!(client.close(), calling);
    assert_eq!(called, Err(McpClientError::Closed));
    assert_eq!(other.ping().await, Err(McpClientError::Closed));
    assert!(started.take().len() <= 1);
}

/// Regression test: the child was about to restart at that time, and subscriptions waited forever.
#[tokio::test]
async fn close_right_after_child_exits_ends_subscriptions() {
    let initialized = json!({"jsonrpc": "2.0", "id": 7007, "result": {"protocolVersion": "2025-06-18",
        "capabilities": {"resources": {"subscribe": true}}, "serverInfo": {"name": "dying", "version": "1"}}});
    let subscribed = json!({"jsonrpc": "2.0", "id": 7007, "result": {}});
    let answer = |answer: &Value| {
        let id = r#"id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')"#;
        format!("read -r line; {id}; echo '{answer}' | sed \"s/7007/$id/\"")
    };
    // The child exits at the call.
    let script = format!("{}; read -r line; {}; read -r line", answer(&initialized), answer(&subscribed));
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    let client = McpClient::builder().era(EraChoice::Legacy).command(command).unwrap();
    let resource_subscriptions = vec!["test://n".to_owned()];
    let filter = SubscriptionFilter { resource_subscriptions, ..SubscriptionFilter::default() };
    let mut subscription = client.listen(filter).await.unwrap();
    let other = client.clone();
    assert_eq!(client.call_tool("any", json!({})).await.err(), Some(McpClientError::Closed));
    client.close().await;
    let ended = timeout(Duration::from_mins(1), subscription.next()).await;
    assert_eq!(ended, Ok(None));
    assert_eq!(subscription.end(), Some(McpClientError::Closed));
    assert_eq!(other.ping().await, Err(McpClientError::Closed));
}

#[tokio::test]
async fn client_sends_no_request_after_session_delete() {
    let seen = Recorder::new();
    let record = seen.callback();
    let url = scripted(move |head, message| {
        let method = head.split(' ').next().unwrap_or_default();
        record(message["method"].as_str().unwrap_or(method).to_owned());
        let answer = |result: Value| {
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            response("Content-Type: application/json\r\nMcp-Session-Id: s\r\n", &answer.to_string())
        };
        match message["method"].as_str() {
            Some("initialize") => answer(json!({"protocolVersion": "2025-11-25", "capabilities": {},
                "serverInfo": {"name": "s", "version": "1"}})),
            Some("ping" | "resources/subscribe") => answer(json!({})),
            _ => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
        }
    })
    .await;
    let client = McpClient::builder().era(EraChoice::Legacy).http(&url);
    let resource_subscriptions = vec!["test://n".to_owned()];
    let filter = SubscriptionFilter { resource_subscriptions, ..SubscriptionFilter::default() };
    let (other, subscription) = (client.clone(), client.listen(filter).await.unwrap());
    client.close().await;
    drop(subscription);
    assert_eq!(other.roots_changed().await, Err(McpClientError::Closed));
    assert_eq!(other.ping().await, Err(McpClientError::Closed));
    assert_eq!(seen.take().last().map(String::as_str), Some("DELETE"));
}

/// Regression test: such a subscription sends no request, so it did not notice the end and waited forever.
#[tokio::test]
async fn listen_fails_after_connection_has_ended() {
    let (near, far) = UnixStream::pair().unwrap();
    let (leave, left) = oneshot::channel();
    tokio::spawn(async move {
        let (input, mut output) = far.into_split();
        let mut lines = BufReader::new(input).lines();
        let request: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "leaving", "version": "1"}});
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        output.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        let _ = left.await;
    });
    let client = McpClient::builder().era(EraChoice::Legacy).unix_stream(near);
    let mut subscription = client.listen(filter()).await.unwrap();
    leave.send(()).unwrap();
    assert_eq!(timeout(Duration::from_mins(1), subscription.next()).await, Ok(None));
    assert_eq!(client.listen(filter()).await.err(), Some(McpClientError::Closed));
}
