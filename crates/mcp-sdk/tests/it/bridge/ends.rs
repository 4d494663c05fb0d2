//! The end of clients of a bridge, and of the servers behind it.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::ClientCapabilities;
use thruway_mcp_sdk::{
    Authorization, Bridge, BridgeOptions, EraChoice, McpClient, McpClientBuilder, McpClientOptions,
    ServerNotification,
};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use super::sites::{options, over_http};
use crate::authorization::Plain;
use crate::client::misbehaving::{response, scripted};
use crate::client::sites::{Recorder, answering};
use crate::fixtures::{server, tool};
use crate::http::{Message, Site};

/// Regression test: the next caller got the server of the previous one, with the server's data about that
/// client.
#[tokio::test]
async fn dedicated_server_serves_only_one_caller() {
    let connected = Arc::new(AtomicUsize::new(0));
    let (counter, behind) = (connected.clone(), server());
    let connect = move |builder: McpClientBuilder| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(builder.server(&behind))
    };
    let bridge = Bridge::connect(options(EraChoice::Legacy), connect).await.unwrap();
    let authorization = Authorization::new("https://mcp.example/mcp", ["https://login.example"], Plain);
    let site = Site::of(bridge.endpoint().authorize(authorization));
    let subscribe = json!({"notifications": {"resourceSubscriptions": ["test://text"]}});
    // The bridge uses the first connection for the description of the server.
    for (caller, expected) in [("ada", 2), ("ada", 2), ("bob", 3), ("ada", 3), ("bob", 3)] {
        let of_caller = |method: &str, params: &Value| {
            let message = Message::modern_with(method, params.clone(), &json!({"elicitation": {}}));
            message.with_field("Authorization", &format!("Bearer {caller}/use"))
        };
        let answer = site.send(&of_caller("tools/call", &tool("progress"))).await;
        assert!(answer.text().contains("done"), "{}", answer.text());
        let acknowledged = site.open(&of_caller("subscriptions/listen", &subscribe)).next_message().await;
        assert_eq!(acknowledged["params"]["notifications"], subscribe["notifications"]);
        assert_eq!(connected.load(Ordering::Relaxed), expected, "{caller}");
    }
}

/// A legacy server over HTTP. Returns its URL and the requests that it receives.
async fn sessions() -> (String, mpsc::UnboundedReceiver<String>) {
    let (seen, requests) = mpsc::unbounded_channel();
    let count = AtomicUsize::new(0);
    let url = scripted(move |head, message| {
        let field = head.lines().find_map(|line| line.strip_prefix("Mcp-Session-Id: ")).unwrap_or_default();
        let method = head.split(' ').next().unwrap_or_default();
        let _ = seen.send(format!("{} {field}", message["method"].as_str().unwrap_or(method)));
        let answer = |result: Value, fields: &str| {
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            response(&format!("Content-Type: application/json\r\n{fields}"), &answer.to_string())
        };
        match message["method"].as_str() {
            Some("initialize") => answer(
                json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "far", "version": "1"}}),
                &format!("Mcp-Session-Id: s{}\r\n", count.fetch_add(1, Ordering::Relaxed)),
            ),
            Some("tools/call") => answer(json!({"content": []}), ""),
            // The bridge compares headers with the arguments of a tool.
            Some("tools/list") => answer(json!({"tools": []}), ""),
            _ => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
        }
    });
    (url.await, requests)
}

async fn wait_for_request(requests: &mut mpsc::UnboundedReceiver<String>, expected: &str) {
    let waiting = async { while requests.recv().await.expect("the server should run") != expected {} };
    timeout(Duration::from_mins(1), waiting).await.unwrap_or_else(|_| panic!("no such request: {expected}"));
}

/// Regression test: the bridge did not end unused sessions at the server. The server had to expire them.
#[tokio::test]
async fn server_session_ends_with_client_session_or_when_replaced() {
    let (url, mut requests) = sessions().await;
    let bridge = over_http(&url, BridgeOptions { servers_max: 1, ..options(EraChoice::Legacy) }).await;
    let site = Site::new(&bridge);
    let capabilities = json!({"elicitation": {}});
    let session = site.initialize_with("2025-06-18", &capabilities).await;
    site.send(&session.request(2, "tools/call", &tool("any"))).await;
    wait_for_request(&mut requests, "tools/call s1").await;
    assert_eq!(site.send(&session.delete()).await.status, 204);
    wait_for_request(&mut requests, "DELETE s1").await;
    let answer = site.send(&Message::modern_with("tools/call", tool("any"), &capabilities)).await;
    assert!(answer.text().contains(r#""content":[]"#), "{}", answer.text());
    wait_for_request(&mut requests, "tools/call s2").await;
    let session = site.initialize_with("2025-06-18", &capabilities).await;
    site.send(&session.request(2, "tools/call", &tool("any"))).await;
    wait_for_request(&mut requests, "DELETE s2").await;
}

/// Regression test: while a server was starting, a client could queue any number of notifications about
/// changed roots.
#[tokio::test]
async fn repeated_roots_changes_are_merged_while_server_starts() {
    let (released, roots_changes) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (initialized, mut requests) = mpsc::unbounded_channel();
    let (held, counter, count) = (released.clone(), roots_changes.clone(), AtomicUsize::new(0));
    let connect = move |builder: McpClientBuilder| {
        let (near, far) = tokio::net::UnixStream::pair().unwrap();
        let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
        tokio::spawn(slow_server(far, is_first, held.clone(), counter.clone(), initialized.clone()));
        Ok(builder.unix_stream(near))
    };
    let bridge = Bridge::connect(options(EraChoice::Legacy), connect).await.unwrap();
    let client = answering(McpClient::builder().era(EraChoice::Legacy)).server(&bridge);
    client.ping().await.unwrap();
    let calling = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("any", json!({})).await }
    });
    for _ in 0..2 {
        requests.recv().await.unwrap();
    }
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..100 {
        client.roots_changed().await.unwrap();
    }
    // The bridge answers this request after all the others.
    client.ping().await.unwrap();
    assert!(tasks() < before + 10, "{before} tasks became {}", tasks());
    released.notify_one();
    calling.await.unwrap().unwrap();
    while roots_changes.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    // On the stream, all notifications precede this answer.
    client.call_tool("any", json!({})).await.unwrap();
    let roots_changes = roots_changes.load(Ordering::Relaxed);
    assert!(roots_changes <= 2, "{roots_changes} notifications");
}

/// A legacy server that starts on a signal, and counts notifications about roots.
async fn slow_server(
    far: tokio::net::UnixStream,
    is_first: bool,
    released: Arc<Notify>,
    roots_changes: Arc<AtomicUsize>,
    initialized: mpsc::UnboundedSender<()>,
) {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let (input, mut output) = far.into_split();
    let mut lines = BufReader::new(input).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        let result = match message["method"].as_str() {
            Some("initialize") => {
                initialized.send(()).unwrap();
                if !is_first {
                    released.notified().await;
                }
                json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "slow", "version": "1"}})
            }
            Some("notifications/roots/list_changed") => {
                roots_changes.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            Some("tools/call") => json!({"content": []}),
            _ => continue,
        };
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        output.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
    }
}

/// Regression test: legacy clients received no notification about completed pages.
#[tokio::test]
async fn elicitation_complete_reaches_only_clients_of_2025_11_25() {
    let complete = json!({"jsonrpc": "2.0", "method": "notifications/elicitation/complete",
        "params": {"elicitationId": "e1"}});
    let script = super::faults::script(&format!("echo '{complete}'; {}", super::faults::ANSWER_CALL));
    let script = script.replace("2025-06-18", "2025-11-25");
    let connect = move |builder: McpClientBuilder| {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        builder.command(command)
    };
    let bridge = Bridge::connect(options(EraChoice::Legacy), connect).await.unwrap();
    let client = |era| {
        let recorder = Recorder::new();
        let builder = McpClient::builder().era(era).on_notification(recorder.callback());
        let capabilities = ClientCapabilities::default().with_elicitation();
        let builder =
            builder.answers(capabilities, |_| async { unreachable!("the server asks no questions") });
        (builder.server(&bridge), recorder)
    };
    let (newer, recorder) = client(EraChoice::Legacy);
    let (older, older_recorder) = client(EraChoice::Revision(thruway_mcp_sdk::Revision::R20250618));
    older.call_tool("any", json!({})).await.unwrap();
    newer.call_tool("any", json!({})).await.unwrap();
    let waiting = async {
        loop {
            let notifications = recorder.take();
            if let Some(ServerNotification::Other { method, params }) = notifications.first() {
                assert_eq!(
                    (&**method, &params["elicitationId"]),
                    ("notifications/elicitation/complete", &json!("e1"))
                );
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_mins(1), waiting).await.unwrap();
    assert_eq!(older_recorder.take(), [], "its revision does not have this notification");
    bridge.close().await;
}

/// A legacy server. The client gives up its first process for a session at the first call. Later processes
/// answer with the requested log level, and send no changes without a subscription.
fn server_that_is_replaced(
    name: &str,
) -> (
    BridgeOptions,
    impl Fn(McpClientBuilder) -> Result<McpClient, thruway_mcp_sdk::McpClientError>,
    std::path::PathBuf,
) {
    let directory = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let died = directory.display();
    let answer = super::faults::ANSWER_CALL.replace("[]", r#"[{\"type\":\"text\",\"text\":\"$level\"}]"#);
    let on_call = format!("if mkdir {died} 2>/dev/null; then yes rubbish | head -n 5000; else {answer}; fi");
    let empty = r#"echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{}}""#;
    let script = super::faults::script(&on_call)
        .replace(r#"\"tools\":{}"#, r#"\"tools\":{},\"logging\":{}"#)
        .replace(
            "*tools/call*)",
            &format!("*setLevel*debug*) level=debug; {empty} ;; *resources/subscribe*) [ -n \"$second\" ] || {empty} ;; *tools/call*)"),
        );
    let script = format!(
        "if [ -d {died} ]; then second=1; fi\n{script}\n[ -z \"$second\" ] || echo ended > {died}/ended\n"
    );
    let connect = move |builder: McpClientBuilder| {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        builder.command(command)
    };
    let client = McpClientOptions {
        era: EraChoice::Legacy,
        exit_wait: Duration::from_millis(100),
        ..BridgeOptions::default().client
    };
    (BridgeOptions { client, ..BridgeOptions::default() }, connect, directory)
}

async fn until_replaced(client: &McpClient) -> String {
    let calling = async {
        loop {
            match client.call_tool("any", json!({})).await {
                Ok(result) => return crate::client::calls::text(&result).to_owned(),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    timeout(Duration::from_mins(1), calling).await.expect("the server should be replaced")
}

/// Regression test: the replacement server used its own log level.
#[tokio::test]
async fn replacement_server_keeps_log_level() {
    let (options, connect, directory) = server_that_is_replaced("logs");
    let bridge = Bridge::connect(options, connect).await.unwrap();
    let client = answering(McpClient::builder().era(EraChoice::Legacy)).server(&bridge);
    client.set_logging_level(thruway_mcp_sdk::schema::LoggingLevel::Debug).await.unwrap();
    assert_eq!(until_replaced(&client).await, "debug");
    bridge.close().await;
    std::fs::remove_dir_all(directory).unwrap();
}

/// Regression test: an ended session kept its server until the server answered, for minutes per resource.
#[tokio::test]
async fn hanging_server_does_not_keep_ended_session_alive() {
    let (options, connect, directory) = server_that_is_replaced("hangs");
    let bridge = Bridge::connect(options, connect).await.unwrap();
    let client = answering(McpClient::builder().era(EraChoice::Legacy)).server(&bridge);
    let filter = thruway_mcp_sdk::schema::SubscriptionFilter {
        resource_subscriptions: vec!["test://n".to_owned()],
        ..Default::default()
    };
    let subscription = client.listen(filter).await.unwrap();
    until_replaced(&client).await;
    drop((client, subscription));
    let ended = async {
        while !directory.join("ended").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_mins(1), ended).await.expect("the server of the session should end");
    bridge.close().await;
    std::fs::remove_dir_all(directory).unwrap();
}
