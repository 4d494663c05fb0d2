//! The client in the same process, and connections over Unix domain sockets.

use serde_json::json;
use thruway_mcp_sdk::{McpServer, Revision};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::fixtures::{answer, capabilities, server, text, tool};
use crate::http::{request, with_meta};

#[tokio::test(start_paused = true)]
async fn client_answers_server_requests_alike_in_both_eras() {
    let server = server();
    let capabilities = serde_json::from_value(capabilities()).unwrap();
    let mut modern = server.connect().with_capabilities(&capabilities).with_answers(answer);
    let mut legacy = server.connect().with_capabilities(&capabilities).with_answers(answer);
    legacy.initialize(Revision::R20250618).await.unwrap();
    for client in [&mut modern, &mut legacy] {
        for (name, expected) in
            [("ask", "Ada"), ("ask_all", "Ada 42 file:///home"), ("ask_twice", "Ada and Ada")]
        {
            let params = json!({"name": name, "arguments": {"message": ""}});
            assert_eq!(text(&client.request("tools/call", params).await.unwrap()), expected);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn local_client_returns_server_errors() {
    let mut client = server().connect();
    assert_eq!(client.request("nothing", json!(null)).await.unwrap_err().code.0, -32601);
    let error = client.request("tools/call", tool("ask")).await.unwrap_err();
    assert_eq!(
        (error.code.0, error.data.unwrap()),
        (-32021, json!({"requiredCapabilities": {"elicitation": {"form": {}}}}))
    );
}

#[tokio::test(start_paused = true)]
async fn local_client_keeps_notifications_sent_before_result() {
    let mut client = server().connect();
    let mut params = tool("progress");
    params["_meta"] = json!({"progressToken": 5});
    assert_eq!(text(&client.request("tools/call", params).await.unwrap()), "done");
    for progress in [1.0, 2.0, 3.0] {
        let message = client.receive().await.unwrap();
        assert_eq!(message["params"]["progress"], progress);
    }
}

#[tokio::test(start_paused = true)]
async fn finished_connection_releases_server_and_handlers() {
    let server = server();
    let before = std::sync::Arc::new(());
    let held = before.clone();
    let server = server.resource(thruway_mcp_sdk::schema::Resource::new("test://held", "held"), move || {
        let _ = &held;
        "held"
    });
    for revision in [None, Some(Revision::R20250618)] {
        let mut client = server.connect();
        if let Some(revision) = revision {
            client.initialize(revision).await.unwrap();
        }
        client.finish().await;
        assert_eq!(client.receive().await, None);
    }
    // No connection holds the server or its handlers any more.
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    drop(server);
    assert_eq!(std::sync::Arc::strong_count(&before), 1);
}

async fn converse(server: McpServer, lines: &[String]) -> Vec<String> {
    let (near, far) = UnixStream::pair().unwrap();
    let serving = tokio::spawn(async move { server.serve_unix_stream(far).await });
    let (input, mut output) = near.into_split();
    for line in lines {
        output.write_all(line.as_bytes()).await.unwrap();
    }
    drop(output);
    let mut answers = BufReader::new(input).lines();
    let mut received = Vec::new();
    while let Some(line) = answers.next_line().await.unwrap() {
        received.push(line);
    }
    serving.await.unwrap().unwrap();
    received
}

#[tokio::test]
async fn unix_stream_requests_are_answered_until_end_of_input() {
    let discover = request(1, "server/discover", &with_meta(json!({}), &json!({})));
    let slow = request(2, "tools/call", &with_meta(tool("progress"), &json!({})));
    let answers = converse(server(), &[format!("{slow}\n"), discover.to_string()]).await;
    let mut ids: Vec<_> = answers
        .iter()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_i64().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2]);
}
