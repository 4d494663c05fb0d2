//! Servers behind a bridge that die, hang or misbehave: each call ends with an error that names the failure.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::json_rpc;
use thruway_mcp_sdk::schema::{LoggingLevel, SubscriptionFilter};
use thruway_mcp_sdk::{
    Bridge, BridgeOptions, EraChoice, McpClient, McpClientBuilder, McpClientError, McpClientOptions,
    McpServerOptions, Revision, ServerNotification,
};

use crate::client::calls::text;
use crate::client::misbehaving::on_stream_with;
use crate::client::sites::{Site, answering};
use crate::http;

fn options() -> BridgeOptions {
    let client = McpClientOptions {
        // A shell may take longer than half a second to start on a busy machine. That was the timeout here
        // once.
        timeout: Duration::from_mins(1),
        exit_wait: Duration::from_millis(100),
        message_bytes_max: 64 << 10,
        ..McpClientOptions::default()
    };
    BridgeOptions { client, ..BridgeOptions::default() }
}

/// Options for a server that does not answer.
fn options_with_short_timeout() -> BridgeOptions {
    let client = McpClientOptions { timeout: Duration::from_millis(500), ..options().client };
    BridgeOptions { client, ..BridgeOptions::default() }
}

/// A legacy server that runs `on_call` for each tool call. `$id` is the id of the request.
pub(super) fn script(on_call: &str) -> String {
    let initialized = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
        "serverInfo": {"name": "script", "version": "1"}});
    format!(
        r#"
while read -r line; do
    id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
    case "$line" in
        *initialize\"*) echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{initialized}}}" ;;
        *tools/call*) {on_call} ;;
        *\"id\"*) echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{{\"code\":-32601,\"message\":\"no\"}}}}" ;;
    esac
done
"#,
        initialized = initialized.to_string().replace('"', "\\\"")
    )
}

/// The command that answers the call.
pub(super) const ANSWER_CALL: &str = r#"echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[]}}""#;

async fn bridge(script: String) -> Bridge {
    bridge_with(options(), script).await
}

async fn bridge_with(options: BridgeOptions, script: String) -> Bridge {
    let connect = move |builder: McpClientBuilder| {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        builder.command(command)
    };
    Bridge::connect(options, connect).await.unwrap()
}

async fn call(client: &McpClient) -> Result<(), json_rpc::Error> {
    match client.call_tool("any", json!({})).await {
        Ok(_) => Ok(()),
        Err(McpClientError::Server(error)) => Err(error),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn crashed_server_restarts_and_its_call_is_not_repeated() {
    let directory = std::env::temp_dir().join(format!("bridge-{}", std::process::id()));
    let died = directory.display();
    let on_call = format!("if mkdir {died} 2>/dev/null; then exit 1; else {ANSWER_CALL}; fi");
    let bridge = bridge(script(&on_call)).await;
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let client = McpClient::builder().era(era).server(&bridge);
        let _ = std::fs::remove_dir(&directory);
        let error = call(&client).await.unwrap_err();
        assert!(error.message.contains("the connection ended"), "{era:?}: {error}");
        assert_eq!(call(&client).await, Ok(()), "{era:?}: the restarted server answers");
    }
    std::fs::remove_dir(&directory).unwrap();
    bridge.close().await;
}

#[tokio::test]
async fn every_call_to_server_that_always_crashes_fails() {
    let bridge = bridge(script("exit 1")).await;
    let client = McpClient::builder().era(EraChoice::Legacy).server(&bridge);
    for _ in 0..8 {
        let error = call(&client).await.unwrap_err();
        assert!(error.message.contains("the server behind this bridge"), "{error}");
    }
    bridge.close().await;
}

#[tokio::test]
async fn call_error_names_fault_of_server() {
    for (on_call, expected) in [
        ("head -c 200000 /dev/zero | tr '\\0' x; echo", "larger than allowed"),
        ("echo \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$id,\\\"result\\\":[]}\"", "not an object"),
        ("yes rubbish | head -n 5000", "an invalid message"),
    ] {
        let bridge = bridge(script(on_call)).await;
        for era in [EraChoice::Legacy, EraChoice::Modern] {
            let client = McpClient::builder().era(era).server(&bridge);
            let error = call(&client).await.unwrap_err();
            assert!(error.message.contains(expected), "{era:?}, {on_call}: {error}");
            if on_call.starts_with("yes") {
                // The client has given up the server.
                break;
            }
        }
        bridge.close().await;
    }
}

/// Regression test: an invalid line was not logged, and the call that it should have answered waited for its
/// timeout, which is 5 minutes for a bridge.
#[tokio::test]
async fn invalid_answer_fails_its_call_at_once_and_next_call_succeeds() {
    let invalid_utf8 =
        r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"\377"}]}}\n' "$id""#;
    let pretty = r#"printf '{\n  "jsonrpc": "2.0",\n  "id": %s,\n  "result": {"content": []}\n}\n' "$id""#;
    let with_length =
        r#"printf 'Content-Length: 51\r\n\r\n{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}' "$id""#;
    let events = r#"printf 'data: {"jsonrpc":"2.0","id":%s,"result":{"content":[]}}\n\n' "$id""#;
    let state = std::env::temp_dir().join(format!("invalid-{}", std::process::id()));
    for on_call in [invalid_utf8, pretty, with_length, events] {
        let _ = std::fs::remove_dir(&state);
        let client = McpClientOptions { timeout: Duration::from_mins(5), ..options().client };
        // The next call gets a valid answer.
        let state = state.display();
        let on_call = format!("if mkdir {state} 2>/dev/null; then {on_call}; else echo; {ANSWER_CALL}; fi");
        let bridge = bridge_with(BridgeOptions { client, ..options() }, script(&on_call)).await;
        let client = McpClient::builder().era(EraChoice::Legacy).server(&bridge);
        let outcome = tokio::time::timeout(Duration::from_mins(1), call(&client)).await;
        let error = outcome.expect("the call should fail at once").unwrap_err();
        assert!(error.message.contains("not a JSON-RPC message"), "{on_call}: {error}");
        assert_eq!(call(&client).await, Ok(()), "{on_call}");
        bridge.close().await;
    }
    std::fs::remove_dir(&state).unwrap();
}

/// Regression test: an answer after a byte order mark was lost.
#[tokio::test]
async fn byte_order_marks_and_text_between_messages_are_ignored() {
    let marked = r#"printf '\357\273\277{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}\n' "$id""#;
    let between =
        format!(r#"echo 'called {{}}'; echo '{{"level":30,"id":'$id',"msg":"called"}}'; {ANSWER_CALL}"#);
    for on_call in [marked, &between] {
        let bridge = bridge(script(on_call)).await;
        let client = McpClient::builder().era(EraChoice::Legacy).server(&bridge);
        for _ in 0..3 {
            assert_eq!(call(&client).await, Ok(()), "{on_call}");
        }
        bridge.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_call_ends_with_timeout_of_bridge() {
    let wrong_id = |_: &Value| json!({"jsonrpc": "2.0", "id": 99, "result": {}}).to_string() + "\n";
    for answer in [|_: &Value| String::new(), wrong_id] {
        let connect = move |builder: McpClientBuilder| {
            Ok(on_stream_with(builder, move |message| {
                let answered = |key: &str, value: Value| {
                    format!("{}\n", json!({"jsonrpc": "2.0", "id": message["id"], key: value}))
                };
                let answer = match message["method"].as_str() {
                    Some("initialize") => answered(
                        "result",
                        json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "silent", "version": "1"}}),
                    ),
                    Some("tools/call") => answer(&message),
                    _ if message.get("id").is_some() => {
                        answered("error", json!({"code": -32601, "message": "no"}))
                    }
                    _ => String::new(),
                };
                answer.into_bytes()
            }))
        };
        let bridge = Bridge::connect(options(), connect).await.unwrap();
        for era in [EraChoice::Legacy, EraChoice::Modern] {
            let client = McpClient::builder().era(era).server(&bridge).with_timeout(Duration::from_hours(1));
            let error = call(&client).await.unwrap_err();
            assert!(error.message.contains("did not answer before the timeout"), "{era:?}: {error}");
        }
        bridge.close().await;
    }
}

#[tokio::test]
async fn server_that_floods_stderr_still_answers() {
    let flood = format!("yes flood | head -n 100000 >&2; {ANSWER_CALL}");
    let script = script(&flood);
    let connect = move |builder: McpClientBuilder| {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        builder.on_stderr(|_| {}).command(command)
    };
    let bridge = Bridge::connect(options(), connect).await.unwrap();
    let client = McpClient::builder().era(EraChoice::Modern).server(&bridge);
    assert_eq!(call(&client).await, Ok(()));
    bridge.close().await;
}

#[tokio::test]
async fn idle_dedicated_server_exits() {
    let ended = std::env::temp_dir().join(format!("ended-{}", std::process::id()));
    for near in [EraChoice::Legacy, EraChoice::Modern] {
        let _ = std::fs::remove_file(&ended);
        // The shared server continues.
        let script = format!("{}echo ended >> {}", script(ANSWER_CALL), ended.display());
        let server =
            McpServerOptions { session_idle: Duration::from_millis(200), ..McpServerOptions::default() };
        let bridge = bridge_with(BridgeOptions { server, ..options() }, script).await;
        let site = http::Site::new(&bridge);
        call_once(&site, near).await;
        let waiting = async {
            while !ended.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), waiting).await.unwrap_or_else(|_| panic!("{near:?}"));
        assert_eq!(std::fs::read_to_string(&ended).unwrap(), "ended\n");
        // Answered by another server.
        call_once(&site, near).await;
        bridge.close().await;
    }
    std::fs::remove_file(&ended).unwrap();
}

/// Calls a tool from a client that can answer questions and has no stream open.
async fn call_once(site: &http::Site, near: EraChoice) {
    let (tool, capabilities) = (json!({"name": "any", "arguments": {}}), json!({"elicitation": {}}));
    let answered = if near == EraChoice::Legacy {
        let session = site.initialize_with("2025-06-18", &capabilities).await;
        site.send(&session.request(2, "tools/call", &tool)).await
    } else {
        site.send(&http::Message::modern_with("tools/call", tool, &capabilities)).await
    };
    assert!(answered.text().contains(r#""content":[]"#), "{}", answered.text());
}

/// Regression test: a session with a server that the client had given up could not send any more requests.
#[tokio::test]
async fn session_gets_new_server_after_invalid_messages() {
    let directory = std::env::temp_dir().join(format!("given-up-{}", std::process::id()));
    let _ = std::fs::remove_dir(&directory);
    let died = directory.display();
    let on_call =
        format!("if mkdir {died} 2>/dev/null; then yes rubbish | head -n 5000; else {ANSWER_CALL}; fi");
    let script = script(&on_call).replace("*tools/call*)", "*resources/subscribe*) echo \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$id,\\\"result\\\":{}}\" ;; *tools/call*)");
    let bridge = bridge_with(options(), script).await;
    let client = answering(McpClient::builder().era(EraChoice::Legacy)).server(&bridge);
    let resource_subscriptions = vec!["test://n".to_owned()];
    let filter = SubscriptionFilter { resource_subscriptions, ..SubscriptionFilter::default() };
    let mut subscription = client.listen(filter).await.unwrap();
    let error = call(&client).await.unwrap_err();
    assert!(error.message.contains("an invalid message"), "{error}");
    let replaced = async {
        while let Err(error) = call(&client).await {
            assert!(error.message.contains("the connection ended"), "{error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // Changes may have been missed.
        while !matches!(subscription.next().await, Some(ServerNotification::ResourceUpdated(_))) {}
    };
    tokio::time::timeout(Duration::from_mins(1), replaced).await.unwrap();
    std::fs::remove_dir(&directory).unwrap();
    bridge.close().await;
}

/// Regression test: legacy servers that sent requests outside of calls got an error, as if the client could
/// not answer questions.
#[tokio::test]
async fn server_requests_outside_calls_use_session_stream() {
    let ask = |id: u32, method: &str| {
        let params = json!({"messages": [], "maxTokens": 1});
        format!("echo '{}'", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    };
    // Like servers that ask for roots after a change.
    let hears = format!(
        r#"*roots/list_changed*) {} ;; *\"id\":7001,*file:*) {} ;; *\"id\":7002,*42*) said=asked ;; *tools/call*)"#,
        ask(7001, "roots/list"),
        ask(7002, "sampling/createMessage"),
    );
    let answer = ANSWER_CALL.replace("[]", r#"[{\"type\":\"text\",\"text\":\"$said\"}]"#);
    let bridge = bridge_with(options(), script(&answer).replace("*tools/call*)", &hears)).await;
    let site = Site::new(&bridge);
    for client in [
        answering(McpClient::builder().era(EraChoice::Legacy)).http(&site.url),
        answering(McpClient::builder().era(EraChoice::Revision(Revision::R20241105))).server(&bridge),
    ] {
        let call = async || text(&client.call_tool("any", json!({})).await.unwrap()).to_owned();
        assert_eq!(call().await, "");
        // A client over HTTP can answer questions once its stream is open, which a busy machine delays. The
        // server asks again after another change.
        let answered = async {
            for n in 0.. {
                if n % 50 == 0 {
                    client.roots_changed().await.unwrap();
                }
                if call().await == "asked" {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), answered).await.unwrap();
        client.close().await;
    }
    bridge.close().await;
}

/// A client that requests log messages waits for a server that does not confirm. Other clients wait only
/// briefly.
#[tokio::test(start_paused = true)]
async fn unanswered_log_level_request_does_not_block_other_clients() {
    let connect = |builder: McpClientBuilder| {
        Ok(on_stream_with(builder, |message| {
            let result = match message["method"].as_str() {
                Some("initialize") => {
                    json!({"protocolVersion": "2025-06-18", "capabilities": {"logging": {}, "tools": {}},
                    "serverInfo": {"name": "silent", "version": "1"}})
                }
                Some("tools/call") => json!({"content": []}),
                _ => return Vec::new(),
            };
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            format!("{answer}\n").into_bytes()
        }))
    };
    let client = McpClientOptions { era: EraChoice::Legacy, ..BridgeOptions::default().client };
    let options = BridgeOptions { client, ..BridgeOptions::default() };
    let bridge = Bridge::connect(options, connect).await.unwrap();
    let session = || McpClient::builder().era(EraChoice::Legacy).server(&bridge);
    let (one, two) = (session(), session());
    let modern = McpClient::builder().era(EraChoice::Modern).server(&bridge);
    modern.set_logging_level(LoggingLevel::Debug).await.unwrap();
    let began = tokio::time::Instant::now();
    let (_, _, called) = tokio::join!(
        one.set_logging_level(LoggingLevel::Debug),
        two.set_logging_level(LoggingLevel::Error),
        call(&modern),
    );
    assert_eq!(called, Ok(()));
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
}

/// Regression test: one unanswered subscription delayed all other subscriptions.
#[tokio::test]
async fn unanswered_subscription_does_not_block_other_subscriptions() {
    let respond = script(ANSWER_CALL).replace("*tools/call*)", "*slow*) : ;; *resources/subscribe*)");
    let client = McpClientOptions { timeout: Duration::from_mins(5), ..options().client };
    let bridge = bridge_with(BridgeOptions { client, ..options() }, respond).await;
    let client = McpClient::builder().era(EraChoice::Legacy).server(&bridge);
    let listen = |uri: &str| {
        let resource_subscriptions = vec![uri.to_owned()];
        let filter = SubscriptionFilter { resource_subscriptions, ..SubscriptionFilter::default() };
        let client = client.clone();
        async move { client.listen(filter).await }
    };
    let mut slow = std::pin::pin!(listen("test://slow"));
    let both = async {
        tokio::select! {
            biased;
            _ = &mut slow => panic!("it should not be answered"),
            quick = async {
                tokio::task::yield_now().await;
                listen("test://quick").await
            } => quick,
        }
    };
    tokio::time::timeout(Duration::from_mins(1), both).await.unwrap().unwrap();
    bridge.close().await;
}

#[tokio::test]
async fn bridge_to_missing_or_silent_server_fails_to_connect() {
    let none = Bridge::connect(options(), |builder| builder.command(Command::new("/nowhere/to/be/found")));
    assert!(matches!(none.await.unwrap_err(), McpClientError::Start(_)));
    let silent = Bridge::connect(options_with_short_timeout(), |builder| {
        let mut command = Command::new("sleep");
        command.arg("1000");
        builder.command(command)
    });
    assert_eq!(silent.await.unwrap_err(), McpClientError::TimedOut);
}
