//! Servers that support only HTTP with SSE, the transport of 2024-11-05.

use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientError, Revision};
use thruway_server::Router;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use super::calls::text;
use super::sites::{Recorder, Site, answering};
use crate::fixtures::{server, with_hanging};

/// A server without Streamable HTTP. The client gets the URL of the stream.
fn site(server: &thruway_mcp_sdk::McpServer) -> Site {
    let sse = server.endpoint().sse_endpoints("/message");
    Site::of(Router::new().get("/mcp", sse.stream()).post("/message", sse.messages()))
}

#[tokio::test]
async fn client_supports_server_with_only_http_and_sse() {
    let site = site(&server());
    for era in [EraChoice::Auto, EraChoice::Legacy, EraChoice::Revision(Revision::R20241105)] {
        let recorder = Recorder::new();
        let record = recorder.callback();
        let client = answering(McpClient::builder().era(era)).http(&site.url);
        let result = client.call_tool("echo", json!({"message": "hü"})).await.unwrap();
        assert!(text(&result).contains("hü"), "{era:?}");
        let reporting = client.clone().with_progress(move |progress| record(progress.progress));
        assert_eq!(text(&reporting.call_tool("progress", json!({})).await.unwrap()), "done");
        assert!(recorder.take().starts_with(&[1.0, 2.0]));
        if era != EraChoice::Revision(Revision::R20241105) {
            assert_eq!(text(&client.call_tool("ask", json!({})).await.unwrap()), "Ada", "{era:?}");
        }
        let calls = (0..8).map(|n| client.call_tool("echo", json!({"message": format!("m{n}")})));
        let calls: Vec<_> = calls.collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert!(text(&call.await.unwrap()).contains(&format!("m{n}")));
        }
        client.close().await;
    }
}

#[tokio::test]
async fn dropped_call_is_canceled_at_server() {
    let (server, running) = with_hanging(server());
    let site = site(&server);
    let client = McpClient::http(&site.url);
    client.revision().await.unwrap();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("hang", json!({})).await }
    });
    while running.count() == 0 {
        tokio::task::yield_now().await;
    }
    call.abort();
    while running.count() > 0 {
        tokio::task::yield_now().await;
    }
    client.ping().await.unwrap();
}

#[tokio::test]
async fn url_without_mcp_server_fails_with_status_error() {
    let site = Site::of(Router::new().get("/mcp", || "hello"));
    let refused = McpClient::http(&site.url).ping().await;
    assert!(matches!(refused, Err(McpClientError::Status(_))), "{refused:?}");
}

/// A server that answers each POST with an event on the stream: `event(message)`.
async fn scripted(event: impl Fn(&Value) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut stream = None;
        while let Ok((connection, _)) = listener.accept().await {
            let mut connection = BufReader::new(connection);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && connection.read_line(&mut head).await.unwrap() > 0 {}
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let mut content = vec![0; length.map_or(0, |length| length.parse().unwrap())];
            connection.read_exact(&mut content).await.unwrap();
            if head.starts_with("GET ") {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
                let first = "event: endpoint\ndata: /message\n\n";
                connection.write_all(format!("{head}{first}").as_bytes()).await.unwrap();
                stream = Some(connection);
                continue;
            }
            let status =
                if head.starts_with("POST /message ") { "202 Accepted" } else { "405 Method Not Allowed" };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            connection.write_all(answer.as_bytes()).await.unwrap();
            if let Some(stream) = &mut stream {
                let message = serde_json::from_slice(&content).unwrap();
                stream.write_all(event(&message).as_bytes()).await.unwrap();
            }
        }
    });
    url
}

/// Regression test: an invalid event was not logged, and the call that it should have answered waited for its
/// timeout.
#[tokio::test]
async fn invalid_sse_event_fails_its_call_at_once() {
    let url = scripted(|message| {
        let id = &message["id"];
        let initialized = json!({"protocolVersion": "2024-11-05", "capabilities": {},
            "serverInfo": {"name": "s", "version": "1"}});
        let answer = |result: &Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
        match (message["method"].as_str(), message["params"]["name"].as_str()) {
            (Some("initialize"), _) => format!("data: {}\n\n", answer(&initialized)),
            (_, Some("cut")) => format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\n\n"),
            (_, Some("lines")) => format!("{}\n", answer(&json!({}))),
            _ => String::new(),
        }
    })
    .await;
    let client = McpClient::builder().era(EraChoice::Legacy).http(&url);
    for (tool, expected) in [("cut", McpClientError::LineInvalid), ("lines", McpClientError::FramingInvalid)]
    {
        let called = tokio::time::timeout(Duration::from_secs(20), client.call_tool(tool, json!({}))).await;
        assert_eq!(called.expect("the call should fail at once").map(drop), Err(expected), "{tool}");
    }
}
