//! Servers that start slowly or exit at the start. Each call waits no longer than its own timeout.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::json_rpc::Error;
use thruway_mcp_sdk::schema::ClientCapabilities;
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientBuilder, McpClientError, McpClientOptions, Revision};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::misbehaving::on_stream_with;
use crate::fixtures::server;

fn builder(era: EraChoice) -> McpClientBuilder {
    let options = McpClientOptions { era, timeout: Duration::from_mins(1), ..McpClientOptions::default() };
    McpClient::builder().options(options)
}

fn child(era: EraChoice, script: &str) -> McpClient {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    builder(era).command(command).unwrap()
}

fn initialized(id: &Value) -> String {
    let result = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

/// Regression test: each waiting call started another handshake. The last of eight calls waited eight times
/// as long.
#[tokio::test(start_paused = true)]
async fn calls_waiting_for_handshake_share_its_failure() {
    let began = Instant::now();
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = requests.clone();
    let client = on_stream_with(builder(EraChoice::Legacy), move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Vec::new()
    });
    let long_timeout_client = client.with_timeout(Duration::from_mins(10));
    let calls = (0..8).map(|_| {
        let client = long_timeout_client.clone();
        tokio::spawn(async move { client.ping().await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap(), Err(McpClientError::TimedOut));
    }
    assert_eq!((began.elapsed().as_secs(), requests.load(Ordering::Relaxed)), (60, 1));
}

/// Regression test: a call waited for the whole handshake, whatever its own timeout. A call that times out
/// does not abort the handshake for the next call.
#[tokio::test]
async fn handshake_continues_after_a_call_times_out() {
    let (near, far) = UnixStream::pair().unwrap();
    let (answered, handshakes) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (may_answer, counter) = (answered.clone(), handshakes.clone());
    tokio::spawn(async move {
        let (input, mut output) = far.into_split();
        let mut lines = BufReader::new(input).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let answer = match message["method"].as_str() {
                Some("initialize") => {
                    counter.fetch_add(1, Ordering::Relaxed);
                    may_answer.notified().await;
                    initialized(&message["id"])
                }
                Some("ping") => json!({"jsonrpc": "2.0", "id": message["id"], "result": {}}).to_string(),
                _ => continue,
            };
            output.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        }
    });
    let client = builder(EraChoice::Legacy).unix_stream(near);
    let short_timeout_client = client.clone().with_timeout(Duration::from_millis(20));
    assert_eq!(short_timeout_client.ping().await, Err(McpClientError::TimedOut));
    answered.notify_one();
    assert_eq!(client.ping().await, Ok(()));
    assert_eq!(handshakes.load(Ordering::Relaxed), 1);
}

/// The probe may use half of the timeout, so that the handshake with a server that ignores the probe has the
/// other half.
#[tokio::test(start_paused = true)]
async fn server_that_ignores_probe_is_initialized_in_time() {
    let options = McpClientOptions { timeout: Duration::from_secs(2), ..McpClientOptions::default() };
    let client = on_stream_with(McpClient::builder().options(options), |message| {
        let answer = match message["method"].as_str() {
            Some("initialize") => initialized(&message["id"]),
            _ => return Vec::new(),
        };
        format!("{answer}\n").into_bytes()
    });
    assert_eq!(client.revision().await, Ok(Revision::R20250618));
}

/// Regression test: the client sent modern requests repeatedly, and the server exited each time.
#[tokio::test]
async fn server_that_exits_at_probe_is_restarted_and_initialized() {
    let script = format!(
        r#"while read -r line; do case "$line" in
            *\"initialize\"*) id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
                echo '{}' | sed "s/7007/$id/" ;;
            *notifications/initialized*) ;;
            *) exit 1 ;;
        esac; done"#,
        initialized(&json!(7007))
    );
    let client = child(EraChoice::Auto, &script);
    assert_eq!(client.revision().await, Ok(Revision::R20250618));
    client.close().await;
    let client = child(EraChoice::Auto, "read -r line; exit 1");
    assert_eq!(client.revision().await, Err(McpClientError::Closed), "a server that supports neither era");
}

/// Regression test: the client sent the next round to a server that had exited, and waited for its answer.
#[tokio::test]
async fn next_round_fails_at_once_after_server_exits() {
    let asks = json!({"jsonrpc": "2.0", "id": 1, "result": {"resultType": "input_required", "requestState": "s",
        "inputRequests": {"q": {"method": "roots/list", "params": {}}}}});
    let script = format!("read -r a; read -r b; echo '{asks}'");
    let other_call_failed = Arc::new(Notify::new());
    let noticed = other_call_failed.clone();
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    let capabilities: ClientCapabilities = serde_json::from_value(json!({"roots": {}})).unwrap();
    let builder = builder(EraChoice::Modern).answers(capabilities, move |_| {
        let noticed = noticed.clone();
        async move {
            noticed.notified().await;
            Ok::<_, Error>(serde_json::from_value(json!({"roots": []})).unwrap())
        }
    });
    let client = builder.command(command).unwrap();
    // After the handshake, calls are sent in their order.
    client.revision().await.unwrap();
    let began = Instant::now();
    let (first_call, ()) = tokio::join!(client.call_tool("asks", json!({})), async {
        assert_eq!(client.call_tool("other", json!({})).await, Err(McpClientError::Closed));
        other_call_failed.notify_one();
    });
    assert_eq!(first_call, Err(McpClientError::Closed));
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

/// Regression test: a child was given up after a thousand other lines in total, however long it had run.
#[tokio::test]
async fn other_lines_between_messages_are_ignored() {
    let script = r#"
        id=0
        while read -r line; do
            id=$((id + 1))
            yes 'working ...' | head -n 700
            echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"resultType\":\"complete\",\"content\":[]}}"
        done"#;
    let client = child(EraChoice::Modern, script);
    for n in 0..4 {
        assert!(client.call_tool("any", json!({})).await.is_ok(), "{n}");
    }
    client.close().await;
}

/// Regression test: such a timeout overflowed the clock, and the call panicked.
#[tokio::test]
async fn call_timeout_may_be_duration_max() {
    let options = McpClientOptions {
        timeout: Duration::MAX,
        timeout_max: Duration::MAX,
        ..McpClientOptions::default()
    };
    let client = McpClient::builder().options(options).server(&server());
    assert_eq!(client.with_timeout(Duration::MAX).ping().await, Ok(()));
}
