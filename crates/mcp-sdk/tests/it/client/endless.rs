//! Servers that never stop: every call must end in bounded time and memory, and no call may be repeated.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::json_rpc::Error;
use thruway_mcp_sdk::schema::ClientCapabilities;
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientBuilder, McpClientError, McpClientOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::misbehaving::{on_stream_with, response, scripted};

const SHORT: Duration = Duration::from_millis(300);

fn builder(era: EraChoice) -> McpClientBuilder {
    let options = McpClientOptions {
        era,
        timeout: SHORT,
        timeout_max: 2 * SHORT,
        exit_wait: SHORT,
        message_bytes_max: 64 << 10,
        ..McpClientOptions::default()
    };
    McpClient::builder().options(options)
}

/// A client builder with a long timeout.
fn builder_with_long_timeout(era: EraChoice) -> McpClientBuilder {
    McpClient::builder().options(McpClientOptions {
        era,
        message_bytes_max: 64 << 10,
        ..McpClientOptions::default()
    })
}

async fn call(client: &McpClient) -> Result<(), McpClientError> {
    let call = client.call_tool("any", json!({}));
    timeout(Duration::from_mins(1), call).await.expect("the call should end").map(drop)
}

fn answer(message: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string()
}

/// A legacy server that answers `initialize`, and other messages with `others`.
fn legacy(message: &Value, others: impl Fn(&Value) -> Option<String>) -> Option<String> {
    let initialized = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "e", "version": "1"}});
    if message["method"] == "initialize" { Some(answer(message, &initialized)) } else { others(message) }
}

fn over_http(content: &str) -> String {
    response("Content-Type: application/json\r\n", content)
}

const ACCEPTED: &str = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Regression test: a busy stream used up the whole task budget, so the timeout of the call was never
/// checked.
#[tokio::test]
async fn busy_event_stream_without_pause_ends_with_call_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let event = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\n";
        let events = event.repeat(1000);
        while stream.write_all(events.as_bytes()).is_ok() {}
    });
    let client = builder(EraChoice::Modern).http(&url);
    let began = tokio::time::Instant::now();
    assert_eq!(call(&client).await, Err(McpClientError::TimedOut));
    assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
}

#[tokio::test]
async fn endless_progress_ends_with_timeout_max() {
    let (near, mut far) = UnixStream::pair().unwrap();
    tokio::spawn(async move {
        for progress in 0.. {
            let params = json!({"progressToken": 1, "progress": progress});
            let report = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            if far.write_all(format!("{report}\n").as_bytes()).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let client = builder(EraChoice::Modern).unix_stream(near).with_progress(|_| {});
    assert_eq!(call(&client).await, Err(McpClientError::TimedOut));
}

#[tokio::test]
async fn stream_that_keeps_breaking_ends_with_call_timeout() {
    let url = scripted(|_, message| {
        let events = "id: again\nretry: 10\ndata:\n\n";
        let breaks = || response("Content-Type: text/event-stream\r\n", events);
        match message["method"].as_str() {
            Some("initialize") => over_http(&legacy(message, |_| None).unwrap()),
            Some("tools/call") | None => breaks(),
            Some(_) => ACCEPTED.to_owned(),
        }
    })
    .await;
    assert_eq!(call(&builder(EraChoice::Legacy).http(&url)).await, Err(McpClientError::TimedOut));
}

/// Regression test: a list was limited only by its number of entries, which may have any size.
#[tokio::test]
async fn endless_list_is_limited_in_size() {
    let pages = Arc::new(AtomicUsize::new(0));
    let counted = pages.clone();
    let client = on_stream_with(builder_with_long_timeout(EraChoice::Modern), move |request| {
        let page = counted.fetch_add(1, Ordering::Relaxed);
        let tool = json!({"name": "x".repeat(60 << 10), "inputSchema": {"type": "object"}});
        let result = json!({"resultType": "complete", "tools": [tool], "nextCursor": page.to_string()});
        (answer(&request, &result) + "\n").into_bytes()
    });
    let error = client.list_tools().await.unwrap_err();
    assert!(matches!(error, McpClientError::ResultInvalid(_)), "{error}");
    assert!(pages.load(Ordering::Relaxed) < 20, "{pages:?}");
}

/// Regression test: each request was answered by a separate task, which waited for the server to read.
#[tokio::test]
async fn answers_to_server_that_does_not_read_are_limited() {
    let requests = ["ping", "roots/list", "no/such/method"];
    for method in requests {
        let (near, mut far) = UnixStream::pair().unwrap();
        let capabilities = ClientCapabilities::default().with_roots();
        let builder = builder(EraChoice::Legacy).answers(capabilities, |_| async {
            Ok::<_, Error>(serde_json::from_value(json!({"roots": []})).unwrap())
        });
        let client = builder.unix_stream(near);
        // The answers fill the pipe first, then the queue.
        let calls: Vec<_> = (0..200)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(
                    async move { client.call_tool("any", json!({"text": "x".repeat(8 << 10)})).await },
                )
            })
            .collect();
        let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        for id in 0..5000 {
            let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}});
            far.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        }
        let after = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        assert!(after < before + 200, "{method}: {before} tasks became {after}");
        for call in calls {
            call.abort();
        }
    }
}

/// Reads the head of a request and its body.
async fn request(stream: &mut TcpStream) -> (String, Value) {
    let mut bytes = vec![0; 64 << 10];
    let read = stream.read(&mut bytes).await.unwrap();
    let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
    let (head, content) = text.split_once("\r\n\r\n").unwrap_or_default();
    (head.to_owned(), serde_json::from_str(content).unwrap_or_default())
}

/// Regression test: all calls got the error that the connection had ended.
#[tokio::test]
async fn oversized_event_on_2024_11_05_stream_fails_call_with_answer_lost() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/sse", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut events = None;
        while let Ok((mut stream, _)) = listener.accept().await {
            let (head, message) = request(&mut stream).await;
            if head.starts_with("GET") {
                let answer = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n\
                    event: endpoint\ndata: /message\n\n";
                stream.write_all(answer.as_bytes()).await.unwrap();
                events = Some(stream);
                continue;
            }
            let Some(events) = events.as_mut().filter(|_| head.contains("/message")) else {
                let refusal =
                    "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                stream.write_all(refusal.as_bytes()).await.unwrap();
                continue;
            };
            stream.write_all(ACCEPTED.as_bytes()).await.unwrap();
            let oversized = |_: &Value| (message["method"] == "tools/call").then(|| "x".repeat(1 << 20));
            if let Some(data) = legacy(&message, oversized) {
                // The client may stop reading early.
                let _ = events.write_all(format!("data: {data}\n\n").as_bytes()).await;
            }
        }
    });
    let client = builder_with_long_timeout(EraChoice::Legacy).http(&url);
    assert_eq!(call(&client).await, Err(McpClientError::AnswerLost));
}

/// Regression test: the step after `initialize` had no timeout.
#[tokio::test]
async fn unanswered_initialized_notification_times_out() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let (_, message) = request(&mut stream).await;
            if let Some(answer) = legacy(&message, |_| None) {
                stream.write_all(over_http(&answer).as_bytes()).await.unwrap();
            } else {
                open.push(stream);
            }
        }
    });
    assert_eq!(call(&builder(EraChoice::Legacy).http(&url)).await, Err(McpClientError::TimedOut));
}

/// Regression test: closing waited without limit for the server.
#[tokio::test]
async fn close_does_not_wait_for_server_that_stays_open() {
    let (near, _far) = UnixStream::pair().unwrap();
    let client = builder(EraChoice::Modern).unix_stream(near);
    let other = client.clone();
    timeout(Duration::from_mins(1), client.close()).await.expect("it should be closed");
    assert_eq!(call(&other).await, Err(McpClientError::Closed));
}

#[tokio::test]
async fn call_is_not_repeated_after_broken_connection() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let url = scripted(move |_, message| match message["method"].as_str() {
        Some("tools/call") => {
            counted.fetch_add(1, Ordering::Relaxed);
            String::new()
        }
        Some("initialize") => over_http(&legacy(message, |_| None).unwrap()),
        _ => ACCEPTED.to_owned(),
    })
    .await;
    for era in [EraChoice::Modern, EraChoice::Legacy] {
        let error = call(&builder(era).http(&url)).await.unwrap_err();
        assert!(matches!(error, McpClientError::Http(_)), "{era:?}: {error}");
        assert_eq!(calls.swap(0, Ordering::Relaxed), 1, "{era:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_endless_task_times_out() {
    for era in [EraChoice::Modern, EraChoice::Legacy] {
        let client = on_stream_with(builder(era), move |message| {
            let task = json!({"resultType": "complete", "taskId": "t", "status": "working", "createdAt": "then",
                "lastUpdatedAt": "now", "ttl": null, "ttlMs": null, "pollIntervalMs": 0, "pollInterval": 0});
            let others = |message: &Value| Some(answer(message, &task));
            let answered = legacy(&message, others).filter(|_| message.get("id").is_some());
            answered.map(|line| line + "\n").unwrap_or_default().into_bytes()
        });
        assert_eq!(client.wait_for_task("t").await.map(drop), Err(McpClientError::TimedOut), "{era:?}");
    }
}

/// Regression test: a schema of a few lines occupied a thread for years, or overflowed its stack.
#[tokio::test]
async fn output_schema_that_is_too_expensive_is_not_checked() {
    let doubling: Value = (0..60)
        .map(|n| {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            (format!("d{n}"), json!({"allOf": [next, next]}))
        })
        .chain([("d60".to_owned(), json!({}))])
        .collect();
    for schema in [
        json!({"type": "object", "$ref": "#/$defs/d0", "$defs": doubling}),
        json!({"type": "object", "$ref": "#"}),
        json!({"type": "object", "properties": {"text": {"pattern": "^(a|a)*$"}}}),
        json!({"type": "object", "properties": {"text": {"pattern": "(?=(a+)+b)"}}}),
    ] {
        let listed = schema.clone();
        let client = on_stream_with(builder_with_long_timeout(EraChoice::Modern), move |request| {
            let result = if request["method"] == "tools/list" {
                let tool = json!({"name": "any", "inputSchema": {"type": "object"}, "outputSchema": listed});
                json!({"resultType": "complete", "tools": [tool]})
            } else {
                let structured = json!({"text": "a".repeat(1000)});
                json!({"resultType": "complete", "content": [], "structuredContent": structured})
            };
            (answer(&request, &result) + "\n").into_bytes()
        });
        client.list_tools().await.unwrap();
        assert_eq!(call(&client).await, Ok(()), "{schema}");
    }
}
