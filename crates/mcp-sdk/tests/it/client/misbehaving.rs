//! Servers that misbehave: every call ends in bounded time with an error that names the failure.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{LoggingLevel, SubscriptionFilter};
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientBuilder, McpClientError, McpClientOptions};
use thruway_testkit::upstream::{AfterResponse, Upstream};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::sites::Recorder;

fn builder() -> McpClientBuilder {
    let options = McpClientOptions {
        era: EraChoice::Modern,
        timeout: Duration::from_secs(30),
        message_bytes_max: 64 << 10,
        ..McpClientOptions::default()
    };
    McpClient::builder().options(options)
}

/// A server that sends `answer(line)` for each line. The client reads until the server has sent everything.
fn on_stream(answer: impl Fn(Value) -> Vec<u8> + Send + 'static) -> McpClient {
    on_stream_with(builder(), answer)
}

pub(crate) fn on_stream_with(
    builder: McpClientBuilder,
    answer: impl Fn(Value) -> Vec<u8> + Send + 'static,
) -> McpClient {
    let (near, far) = UnixStream::pair().unwrap();
    tokio::spawn(async move {
        let (input, mut output) = far.into_split();
        let mut lines = BufReader::new(input).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if output.write_all(&answer(serde_json::from_str(&line).unwrap())).await.is_err() {
                return;
            }
        }
    });
    builder.unix_stream(near)
}

/// A server that answers an HTTP request with `answer(head, message)` and closes the connection.
pub(crate) async fn scripted(answer: impl Fn(&str, &Value) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            let (head, message) = read_request(&mut stream).await;
            stream.write_all(answer(&head, &message).as_bytes()).await.unwrap();
        }
    });
    url
}

/// Reads a request: its head, and the message in its body.
pub(crate) async fn read_request(stream: &mut BufReader<TcpStream>) -> (String, Value) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).await.unwrap() > 0 {}
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.unwrap();
    (head, serde_json::from_slice(&body).unwrap_or_default())
}

pub(crate) fn response(fields: &str, content: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{fields}\r\n{content}")
}

#[tokio::test]
async fn broken_legacy_stream_resumes_at_last_event_id() {
    let url = scripted(|head, message| {
        let id = &message["id"];
        match message["method"].as_str() {
            Some("initialize") => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {},
                    "serverInfo": {"name": "breaking", "version": "1"}});
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
                response("Content-Type: application/json\r\nMcp-Session-Id: s\r\n", &answer.to_string())
            }
            Some("tools/call") => {
                response("Content-Type: text/event-stream\r\n", "id: first\nretry: 10\ndata:\n\n")
            }
            Some(_) => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
            None if head.contains("Last-Event-ID: first\r\n") && head.contains("Mcp-Session-Id: s\r\n") => {
                // The stream breaks once more, and continues.
                response("Content-Type: text/event-stream\r\n", "id: second\nretry: 10\ndata:\n\n")
            }
            None if head.contains("Last-Event-ID: second\r\n") => {
                let answer = format!("id: third\ndata: {}\n\n", result(&json!(2)));
                response("Content-Type: text/event-stream\r\n", &answer)
            }
            None => "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n".into(),
        }
    })
    .await;
    let client = McpClient::builder().era(EraChoice::Legacy).http(&url);
    assert_eq!(call(&client).await, Ok(()));
}

/// Regression test: the log level was not set again in a new session.
#[tokio::test]
async fn log_level_is_set_again_in_next_session() {
    let (seen, sessions) = (Recorder::new(), AtomicUsize::new(0));
    let record = seen.callback();
    let url = scripted(move |_, message| {
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let answer = |result: Value| {
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            response("Content-Type: application/json\r\nMcp-Session-Id: s\r\n", &answer.to_string())
        };
        record(method.clone());
        match method.as_str() {
            "initialize" => {
                sessions.fetch_add(1, Ordering::Relaxed);
                answer(json!({"protocolVersion": "2025-11-25", "capabilities": {"logging": {}},
                    "serverInfo": {"name": "forgetting", "version": "1"}}))
            }
            "tools/call" if sessions.load(Ordering::Relaxed) == 1 => {
                "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into()
            }
            _ if message.get("id").is_some() => answer(json!({"content": []})),
            _ => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
        }
    })
    .await;
    let client = McpClient::builder().era(EraChoice::Legacy).http(&url);
    client.set_logging_level(LoggingLevel::Debug).await.unwrap();
    assert_eq!(call(&client).await, Ok(()));
    let seen = seen.take().join(" ");
    let session = "initialize notifications/initialized logging/setLevel tools/call";
    assert_eq!(seen, format!("{session} {session}"));
}

#[tokio::test]
async fn call_fails_if_server_ends_every_session() {
    let url = scripted(|_, message| match message["method"].as_str() {
        Some("initialize") => {
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": {},
                "serverInfo": {"name": "forgetting", "version": "1"}});
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            response("Content-Type: application/json\r\nMcp-Session-Id: s\r\n", &answer.to_string())
        }
        Some("tools/call") => {
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into()
        }
        _ => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
    })
    .await;
    let client = McpClient::builder().era(EraChoice::Legacy).http(&url);
    assert_eq!(call(&client).await, Err(McpClientError::SessionEnded));
}

/// A server that answers every HTTP request in the same way.
async fn over_http(
    content_type: &str,
    content: impl AsRef<[u8]>,
    after_response: AfterResponse,
) -> McpClientError {
    let content = content.as_ref();
    let length = match after_response {
        AfterResponse::KeepOpen => content.len(),
        AfterResponse::Close => content.len() + 1,
        _ => 10 << 20,
    };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n");
    let upstream =
        Upstream { response: [head.as_bytes(), content].concat(), after_response, ok_responses_first: 0 };
    failure_of(upstream).await
}

async fn failure_of(upstream: Upstream) -> McpClientError {
    let listening = upstream.listen();
    let client = builder().http(&format!("http://{}/mcp", listening.address));
    call(&client).await.unwrap_err()
}

/// Returns the error of a call to a server that never completes its answer.
async fn failure_of_endless(upstream: Upstream) -> McpClientError {
    let listening = upstream.listen();
    let client = builder().http(&format!("http://{}/mcp", listening.address)).with_timeout(SHORT);
    call(&client).await.unwrap_err()
}

/// Timeout of calls that must time out. All others have a timeout that is long enough for a busy machine.
const SHORT: Duration = Duration::from_millis(300);

async fn call(client: &McpClient) -> Result<(), McpClientError> {
    let call = client.call_tool("echo", json!({"message": "m"}));
    tokio::time::timeout(Duration::from_mins(1), call).await.expect("the call should end").map(drop)
}

fn result(id: &Value) -> String {
    let result = json!({"resultType": "complete", "content": []});
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

#[tokio::test]
async fn unanswered_call_times_out() {
    let client = on_stream(|_| Vec::new()).with_timeout(SHORT);
    assert_eq!(call(&client).await, Err(McpClientError::TimedOut));
    let silent =
        Upstream { response: Vec::new(), after_response: AfterResponse::Hang, ok_responses_first: 0 };
    assert_eq!(failure_of_endless(silent).await, McpClientError::TimedOut);
}

#[tokio::test]
async fn duplicate_answer_is_ignored() {
    let client = on_stream(|request| format!("{0}\n{0}\n", result(&request["id"])).into_bytes());
    for _ in 0..3 {
        assert_eq!(call(&client).await, Ok(()));
    }
}

/// Regression test: a subscription to a stream of JSON lines waited for its first event, or for the end of
/// its body: 5 minutes, until the stream was considered dead.
#[tokio::test]
async fn json_lines_response_to_listen_fails_at_once() {
    for content_type in ["text/event-stream", "application/json", "application/x-ndjson"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !String::from_utf8_lossy(&request).contains("subscriptions/listen") {
                stream.read_buf(&mut request).await.unwrap();
            }
            let notification =
                json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged"});
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n");
            stream.write_all(format!("{head}{notification}\n").as_bytes()).await.unwrap();
            // No more data follows, and the connection stays open.
            std::future::pending::<()>().await;
        });
        let client = McpClient::builder().era(EraChoice::Modern).http(&url);
        let filter = SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() };
        let listening = tokio::time::timeout(Duration::from_secs(20), client.listen(filter));
        let error = listening.await.expect("it should fail at once").unwrap_err();
        assert_eq!(error, McpClientError::FramingInvalid, "{content_type}");
        serving.abort();
    }
}

#[tokio::test]
async fn answer_with_wrong_id_is_not_accepted() {
    let client = on_stream(|_| format!("{}\n", result(&json!(99))).into_bytes()).with_timeout(SHORT);
    assert_eq!(call(&client).await, Err(McpClientError::TimedOut));
    let other = result(&json!("1"));
    assert_eq!(
        over_http("application/json", &other, AfterResponse::KeepOpen).await,
        McpClientError::MessageInvalid
    );
    let event = format!("data: {other}\n\n");
    assert_eq!(
        over_http("text/event-stream", event, AfterResponse::KeepOpen).await,
        McpClientError::MessageInvalid
    );
}

#[tokio::test]
async fn invalid_result_fails_call_with_short_reason() {
    for invalid in [
        json!([]),
        json!(null),
        json!({"resultType": "soon"}),
        json!({"resultType": "task"}),
        json!({"resultType": "input_required"}),
        json!({"content": [{"type": "smell"}]}),
        json!({"content": "x".repeat(10_000)}),
    ] {
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": invalid}).to_string();
        let sent = answer.clone();
        let client = on_stream(move |_| format!("{sent}\n").into_bytes());
        assert!(matches!(call(&client).await, Err(McpClientError::ResultInvalid(_))), "{answer}");
        let error = over_http("application/json", answer, AfterResponse::KeepOpen).await;
        assert!(matches!(&error, McpClientError::ResultInvalid(reason) if reason.len() <= 300), "{error}");
    }
}

#[tokio::test]
async fn endless_input_required_rounds_end_with_error() {
    let client = on_stream(|request| {
        let result = json!({"resultType": "input_required", "requestState": "again"});
        format!("{}\n", json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).into_bytes()
    });
    assert_eq!(call(&client).await, Err(McpClientError::TooManyRounds));
}

#[tokio::test]
async fn list_that_repeats_its_cursor_fails() {
    let client = on_stream(|request| {
        let result = json!({"resultType": "complete", "tools": [], "nextCursor": "again"});
        format!("{}\n", json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).into_bytes()
    });
    assert!(matches!(client.list_tools().await, Err(McpClientError::ResultInvalid(_))));
}

#[tokio::test]
async fn oversized_message_is_rejected_and_next_one_is_read() {
    let oversized = "x".repeat(1 << 20);
    let sent = oversized.clone();
    let client = on_stream(move |request| match request["params"]["name"].as_str() {
        Some("echo") => format!("{sent}\n").into_bytes(),
        _ => format!("{}\n", result(&request["id"])).into_bytes(),
    });
    assert_eq!(call(&client).await, Err(McpClientError::AnswerLost));
    client.call_tool("other", json!({})).await.unwrap();
    for content_type in ["application/json", "text/event-stream"] {
        let error =
            over_http(content_type, format!("data: {oversized}"), AfterResponse::RepeatResponse).await;
        assert_eq!(error, McpClientError::MessageTooLarge, "{content_type}");
    }
}

/// Regression test: all calls on the stream failed.
#[tokio::test]
async fn oversized_answer_fails_only_its_own_call() {
    let client = on_stream(|request| {
        let id = &request["id"];
        match request["params"]["name"].as_str() {
            // Some servers write the id at the end.
            Some("oversized") => {
                let text = "x".repeat(1 << 20);
                format!("{{\"result\":{{\"text\":\"{text}\"}},\"jsonrpc\":\"2.0\",\"id\":{id}}}\n")
                    .into_bytes()
            }
            Some("chatty") => {
                let text = "x".repeat(1 << 20);
                let message =
                    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": text}});
                format!("{message}\n{}\n", result(id)).into_bytes()
            }
            _ => format!("{}\n", result(id)).into_bytes(),
        }
    });
    let call = async |name: &str| client.call_tool(name, json!({})).await.map(drop);
    let outcomes = tokio::join!(call("oversized"), call("other"), call("chatty"));
    assert_eq!(outcomes, (Err(McpClientError::MessageTooLarge), Ok(()), Ok(())));
}

#[tokio::test]
async fn event_stream_without_answer_ends_with_call_timeout() {
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "info", "data": "x"}});
    let event = format!("data: {notification}\n\n");
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n".to_owned();
    let answer = head + &event.repeat(1000);
    let endless = Upstream {
        response: answer.into_bytes(),
        after_response: AfterResponse::Hang,
        ok_responses_first: 0,
    };
    assert_eq!(failure_of_endless(endless).await, McpClientError::TimedOut);
}

#[tokio::test]
async fn truncated_or_empty_response_fails_the_call() {
    let half = "{\"jsonrpc\":\"2.0\",";
    for (content_type, content) in
        [("application/json", half.to_owned()), ("text/event-stream", format!("data: {half}"))]
    {
        let error = over_http(content_type, content, AfterResponse::Close).await;
        assert!(matches!(error, McpClientError::Http(_)), "{content_type}: {error}");
    }
    let comment = ": nothing\n\n";
    assert_eq!(
        over_http("text/event-stream", comment, AfterResponse::KeepOpen).await,
        McpClientError::Closed
    );
}

#[tokio::test]
async fn response_that_is_not_json_rpc_fails_the_call() {
    for content in ["", "rubbish", "{}", "[]", "{\"jsonrpc\":\"2.0\",\"id\":1}", "\u{0}"] {
        let error = over_http("application/json", content, AfterResponse::KeepOpen).await;
        assert_eq!(error, McpClientError::MessageInvalid, "{content:?}");
    }
    assert!(matches!(
        over_http("text/html", "<html>", AfterResponse::KeepOpen).await,
        McpClientError::Status(_)
    ));
    let client = on_stream(|_| b"rubbish\n".repeat(5000));
    assert_eq!(call(&client).await, Err(McpClientError::MessageInvalid));
    assert_eq!(call(&client).await, Err(McpClientError::MessageInvalid), "the stream stays unusable");
}

#[tokio::test]
async fn call_to_unreachable_server_fails() {
    let address = thruway_testkit::upstream::unused_address();
    let client = builder().http(&format!("http://{address}/mcp"));
    assert!(matches!(call(&client).await, Err(McpClientError::Http(_))));
    let client = builder().http("nonsense");
    assert!(matches!(call(&client).await, Err(McpClientError::Http(_))));
    let (near, far) = UnixStream::pair().unwrap();
    drop(far);
    let client = builder().unix_stream(near);
    assert_eq!(call(&client).await, Err(McpClientError::Closed));
}

#[tokio::test]
async fn client_does_not_follow_redirect() {
    let answer =
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://other.example/\r\nContent-Length: 0\r\n\r\n";
    let redirecting =
        Upstream { response: answer.into(), after_response: AfterResponse::KeepOpen, ok_responses_first: 0 };
    assert!(
        matches!(failure_of(redirecting).await, McpClientError::Status(status) if status.as_u16() == 307)
    );
}
