//! Bursts of messages, for clients that read and for clients that do not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{LoggingLevel, Tool};
use thruway_mcp_sdk::{Context, EraChoice, McpClient, McpServer, ServerNotification};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::sites::{bridges, clients, in_memory, options, over_http};
use crate::client::calls::text;
use crate::client::misbehaving::response;
use crate::client::sites::{Recorder, Site, answering};
use crate::fixtures::{Nothing, server};

const MESSAGES: u32 = 1000;

/// A server with the tool `burst`, which logs and reports progress as fast as it can.
fn bursting() -> McpServer {
    server().tool(Tool::new("burst"), |_: Nothing, context: Context| async move {
        for n in 1..=MESSAGES {
            context.log(LoggingLevel::Info, None, n).await;
            context.progress(f64::from(n), None, None).await;
        }
        "done"
    })
}

/// Regression test: 128 of 1,000 messages arrived. Each queue dropped messages beyond its capacity.
#[tokio::test]
async fn burst_of_messages_arrives_completely() {
    let server = bursting();
    let site = Site::new(&server);
    for (far, bridge) in bridges(&server, &site).await {
        let near = Site::new(&bridge);
        for prepare in [|builder| builder, answering] {
            let logged = Recorder::new();
            for (way, client) in
                clients(&bridge, &near, |builder| prepare(builder).on_notification(logged.callback()))
            {
                let way = format!("{way} {far}");
                client.set_logging_level(LoggingLevel::Info).await.unwrap();
                let reported = Recorder::new();
                let record = reported.callback();
                let reporting = client.clone().with_progress(move |progress| record(progress.progress));
                assert_eq!(text(&reporting.call_tool("burst", json!({})).await.unwrap()), "done", "{way}");
                let steps: Vec<_> = (1..=MESSAGES).map(f64::from).collect();
                assert_eq!(reported.take(), steps, "{way}");
                let messages = logged.take().into_iter().filter_map(|notification| match notification {
                    ServerNotification::Message(message) => message.data.as_u64(),
                    _ => None,
                });
                assert_eq!(messages.count(), MESSAGES as usize, "{way}");
                client.close().await;
            }
        }
        bridge.close().await;
    }
}

/// A client on its own pipe that sends a call and reads nothing.
async fn without_reading(bridge: &McpServer) -> UnixStream {
    let (mut near, far) = UnixStream::pair().unwrap();
    let bridge = bridge.clone();
    tokio::spawn(async move { bridge.serve_unix_stream(far).await });
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/logLevel": "info",
    });
    let params = json!({"name": "flood", "arguments": {}, "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    near.write_all(format!("{call}\n").as_bytes()).await.unwrap();
    near
}

/// Both clients share one stream to the server. The bridge counts undeliverable messages, and the answer
/// arrives.
#[tokio::test]
async fn client_that_does_not_read_does_not_block_other_clients() {
    let server = server().tool(Tool::new("flood"), |_: Nothing, context: Context| async move {
        for n in 0..4000 {
            context.log(LoggingLevel::Info, None, format!("{n} {}", "x".repeat(1000))).await;
        }
        "flooded"
    });
    let bridge = in_memory(&server, options(EraChoice::Legacy)).await;
    let silent = without_reading(&bridge).await;
    let other = McpClient::builder().era(EraChoice::Modern).server(&bridge);
    let dropping = async {
        while bridge.dropped_messages() == 0 {
            other.ping().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_mins(1), dropping).await.expect("messages should be dropped");
    let result = other.call_tool("echo", json!({"message": "here"})).await.unwrap();
    assert!(text(&result).contains("here"));
    let mut lines = BufReader::new(silent).lines();
    let answer = async {
        loop {
            let message: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
            if message["id"] == 1 {
                return message;
            }
        }
    };
    let answer = tokio::time::timeout(Duration::from_mins(1), answer).await.expect("the answer should come");
    assert_eq!(answer["result"]["content"][0]["text"], "flooded", "{answer}");
    bridge.close().await;
}

/// A server of 2025-11-25 over HTTP. The response to a call of `hang` is an event stream. With arguments, the
/// stream reports progress without end; otherwise it is silent. The response to any other call reports
/// progress of the first call, more than the queue of its client can hold, and then answers. Counts the calls
/// of `hang` whose connection has ended.
async fn reporting(ended: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let first = Arc::new(Mutex::new(Value::Null));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(report(BufReader::new(stream), first.clone(), ended.clone()));
        }
    });
    url
}

async fn report(mut stream: BufReader<TcpStream>, first: Arc<Mutex<Value>>, ended: Arc<AtomicUsize>) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).await.unwrap() > 0 {}
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut content = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut content).await.unwrap();
    let message: Value = serde_json::from_slice(&content).unwrap_or_default();
    let answer = |result: Value| json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    let progress = |token: &Value| {
        let params = json!({"progressToken": token, "progress": 1, "message": "x".repeat(64 << 10)});
        let message = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        format!("data: {message}\n\n")
    };
    let whole = match message["method"].as_str() {
        Some("initialize") => {
            let initialized = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "reporting", "version": "1"}});
            response("Content-Type: application/json\r\n", &answer(initialized))
        }
        Some("tools/call") if message["params"]["name"] == "hang" => {
            let token = message["params"]["_meta"]["progressToken"].clone();
            *first.lock().unwrap() = token.clone();
            stream.write_all(response("Content-Type: text/event-stream\r\n", "").as_bytes()).await.unwrap();
            let is_endless = message["params"]["arguments"]["endless"] == true;
            while is_endless && stream.write_all(progress(&token).as_bytes()).await.is_ok() {}
            while stream.read_u8().await.is_ok() {}
            ended.fetch_add(1, Ordering::Relaxed);
            return;
        }
        Some("tools/call") => {
            let progress = progress(&first.lock().unwrap());
            let events = format!("{}data: {}\n\n", progress.repeat(300), answer(json!({"content": []})));
            response("Content-Type: text/event-stream\r\n", &events)
        }
        Some(_) => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
        None => "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
    };
    // The client may have disconnected.
    let _ = stream.write_all(whole.as_bytes()).await;
}

/// Sends a call of `hang` with these arguments on its own pipe, and reads nothing.
async fn hanging(bridge: &McpServer, arguments: Value) -> UnixStream {
    let (mut near, far) = UnixStream::pair().unwrap();
    let bridge = bridge.clone();
    tokio::spawn(async move { bridge.serve_unix_stream(far).await });
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": "silent",
    });
    let params = json!({"name": "hang", "arguments": arguments, "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    near.write_all(format!("{call}\n").as_bytes()).await.unwrap();
    near
}

/// Regression test: a server may report the progress of one call in the response to another. The reader of
/// that response waited without limit for the client of the first call, until the second call timed out.
#[tokio::test]
async fn response_is_not_blocked_by_client_of_another_call() {
    let url = reporting(Arc::default()).await;
    let bridge = over_http(&url, options(EraChoice::Legacy)).await;
    let _silent = hanging(&bridge, json!({})).await;
    let other = McpClient::builder().era(EraChoice::Modern).server(&bridge);
    let calling = async {
        // The first of them may arrive before the call of `hang`.
        while bridge.dropped_messages() == 0 {
            other.call_tool("any", json!({})).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_mins(1), calling).await.expect("the call should not wait");
    bridge.close().await;
}

/// The wait for a client that does not read has no limit of its own, so the timeout of the call must end it.
/// Regression test: the timeout was not checked while the connection to that client was full.
#[tokio::test]
async fn call_times_out_if_client_does_not_read_its_response() {
    for arguments in [json!({}), json!({"endless": true})] {
        let ended = Arc::new(AtomicUsize::new(0));
        let url = reporting(ended.clone()).await;
        let mut options = options(EraChoice::Legacy);
        options.client.timeout = Duration::from_millis(300);
        options.client.timeout_max = Duration::from_millis(600);
        let bridge = over_http(&url, options).await;
        let _silent = hanging(&bridge, arguments.clone()).await;
        let ending = async {
            while ended.load(Ordering::Relaxed) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let ends = tokio::time::timeout(Duration::from_mins(1), ending).await;
        assert!(ends.is_ok(), "the call should end: {arguments}");
        bridge.close().await;
    }
}
