//! Servers that the client starts itself: well-behaved servers, and servers that die, hang, flood or print
//! other text.

use std::process::Command;
use std::time::Duration;

use serde_json::json;
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientBuilder, McpClientError, McpClientOptions, Revision};

use super::sites::Recorder;

/// Answers each request in order. The ids of consecutive calls are 1, 2, 3, …
const ANSWER_ALL: &str = r#"
id=0
while read -r line; do
    id=$((id + 1))
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"resultType\":\"complete\",\"content\":[]}}"
done
"#;

fn builder() -> McpClientBuilder {
    let options = McpClientOptions {
        era: EraChoice::Modern,
        timeout: Duration::from_mins(1),
        exit_wait: Duration::from_millis(100),
        ..McpClientOptions::default()
    };
    McpClient::builder().options(options)
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

async fn call(client: &McpClient) -> Result<(), McpClientError> {
    client.call_tool("echo", json!({})).await.map(drop)
}

#[tokio::test]
async fn child_answers_calls_until_client_closes() {
    let client = builder().command(shell(ANSWER_ALL)).unwrap();
    for _ in 0..3 {
        assert_eq!(call(&client).await, Ok(()));
    }
    let other = client.clone();
    client.close().await;
    assert_eq!(call(&other).await, Err(McpClientError::Closed));
}

#[tokio::test]
async fn close_terminates_and_then_kills_child_that_does_not_exit() {
    for script in ["exec sleep 1000", "trap '' TERM; echo up >&2; while :; do sleep 0.02; done"] {
        let began = tokio::time::Instant::now();
        let up = Recorder::new();
        let record = up.callback();
        let builder = builder().on_stderr(move |line| record(line.to_owned()));
        builder.command(shell(script)).unwrap().close().await;
        assert!(began.elapsed() < Duration::from_mins(1), "{script}");
    }
}

/// Regression test: the client waited for `exit_wait` although the child had exited.
#[tokio::test]
async fn close_does_not_wait_for_other_processes_with_the_pipe_of_the_child() {
    let options = McpClientOptions { exit_wait: Duration::from_mins(1), ..McpClientOptions::default() };
    let client = McpClient::builder().options(options).command(shell("sleep 20 & cat >/dev/null")).unwrap();
    let began = tokio::time::Instant::now();
    client.close().await;
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[tokio::test]
async fn calls_to_exited_child_fail_with_closed_error() {
    for script in ["read -r line; exit 3", "exit 0", "read -r line; printf '{\"jsonrpc\":'; kill -9 $$"] {
        let client = builder().command(shell(script)).unwrap();
        assert_eq!(call(&client).await, Err(McpClientError::Closed), "{script}");
        assert_eq!(call(&client).await, Err(McpClientError::Closed), "{script}: the stream stays closed");
    }
    let none = builder().command(Command::new("/nowhere/to/be/found"));
    assert!(matches!(none.unwrap_err(), McpClientError::Start(std::io::ErrorKind::NotFound)));
}

#[tokio::test]
async fn calls_to_hanging_child_time_out() {
    let client = builder().command(shell("exec sleep 1000")).unwrap();
    let short_timeout_client = client.clone().with_timeout(Duration::from_millis(50));
    assert_eq!(call(&short_timeout_client).await, Err(McpClientError::TimedOut));
    // The server does not read either. The messages fill the pipe, and the callers must not wait forever.
    let message = "x".repeat(256 << 10);
    for _ in 0..80 {
        let short_timeout_client = client.clone().with_timeout(Duration::from_millis(2));
        let outcome = short_timeout_client.call_tool("echo", json!({"message": message})).await;
        assert_eq!(outcome.unwrap_err(), McpClientError::TimedOut);
    }
    client.close().await;
}

#[tokio::test]
async fn child_may_flood_its_stderr() {
    let flood = "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo >&2; yes line | head -n 20000 >&2;";
    let recorder = Recorder::new();
    let record = recorder.callback();
    let builder = builder().on_stderr(move |line| record(line.len()));
    let client = builder.command(shell(&format!("{flood} {ANSWER_ALL}"))).unwrap();
    assert_eq!(call(&client).await, Ok(()));
    client.close().await;
    let lines = recorder.take();
    assert!(lines.len() <= 20_010 && lines.iter().all(|line| *line < 64 << 10), "{}", lines.len());
}

#[tokio::test]
async fn child_may_print_greeting_but_not_endless_garbage() {
    let client = builder().command(shell(&format!("echo 'Listening on stdio'; echo; {ANSWER_ALL}"))).unwrap();
    assert_eq!(call(&client).await, Ok(()));
    let client = builder().command(shell("exec yes rubbish")).unwrap();
    assert_eq!(call(&client).await, Err(McpClientError::MessageInvalid));
}

#[tokio::test]
async fn child_that_does_not_support_probe_uses_legacy_era() {
    let initialized = json!({
        "protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"},
    });
    // The server answers the probe with an error, or not at all.
    let refusal = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "what?"}});
    for answer in [format!("echo '{refusal}'"), ":".to_owned()] {
        let response = json!({"jsonrpc": "2.0", "id": 2, "result": initialized});
        let script = format!("read -r a; {answer}; read -r b; echo '{response}'; cat >/dev/null");
        let options =
            McpClientOptions { probe_timeout: Duration::from_millis(100), ..McpClientOptions::default() };
        let client = McpClient::builder().options(options).command(shell(&script)).unwrap();
        assert_eq!(client.revision().await, Ok(Revision::R20250326));
        client.close().await;
    }
}

/// Regression test: the client started a session after the timeout of its probe. The server refused it,
/// because it had read the probe in the meantime and used the modern era.
#[tokio::test]
async fn slow_starting_child_can_use_modern_era() {
    let refusal = json!({
        "jsonrpc": "2.0", "id": 2,
        "error": {"code": -32022, "message": "no handshake", "data": {"supported": ["2026-07-28"]}},
    });
    let discovered = json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}, "ttlMs": 0,
        "cacheScope": "private",
    });
    let options =
        McpClientOptions { probe_timeout: Duration::from_millis(100), ..McpClientOptions::default() };
    let response = json!({"jsonrpc": "2.0", "id": 3, "result": discovered});
    let script =
        format!("read -r a; read -r b; echo '{refusal}'; read -r c; echo '{response}'; cat >/dev/null");
    let client = McpClient::builder().options(options.clone()).command(shell(&script)).unwrap();
    assert_eq!(client.revision().await, Ok(Revision::LATEST));
    client.close().await;
    // The client gives up on a server that refuses both eras.
    let again = json!({"jsonrpc": "2.0", "id": 3, "error": {"code": -32601, "message": "what?"}});
    let script = format!("read -r a; read -r b; echo '{refusal}'; read -r c; echo '{again}'; cat >/dev/null");
    let client = McpClient::builder().options(options).command(shell(&script)).unwrap();
    assert!(matches!(client.revision().await, Err(McpClientError::Server(error)) if error.code.0 == -32022));
    client.close().await;
}
