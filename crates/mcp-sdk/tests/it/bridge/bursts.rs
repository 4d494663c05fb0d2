//! Many messages at once, for clients that read and for clients that do not.

use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{LoggingLevel, Tool};
use thruway_mcp_sdk::{Context, EraChoice, McpClient, McpServer, ServerNotification};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::sites::{bridges, clients, in_memory, options};
use crate::client::calls::text;
use crate::client::sites::{Site, Told, answering};
use crate::fixtures::{Nothing, server};

const MESSAGES: u32 = 1000;

/// A server whose tool `burst` logs and reports progress as fast as it can.
fn bursting() -> McpServer {
    server().tool(Tool::new("burst"), |_: Nothing, context: Context| async move {
        for n in 1..=MESSAGES {
            context.log(LoggingLevel::Info, None, n).await;
            context.progress(f64::from(n), None, None).await;
        }
        "done"
    })
}

/// Of 1,000 messages 128 arrived: each place where messages wait dropped those for which it had no capacity.
#[tokio::test]
async fn a_burst_of_messages_arrives_completely() {
    let server = bursting();
    let site = Site::new(&server);
    for (far, bridge) in bridges(&server, &site).await {
        let near = Site::new(&bridge);
        for prepare in [|builder| builder, answering] {
            let logged = Told::new();
            for (way, client) in
                clients(&bridge, &near, |builder| prepare(builder).on_notification(logged.teller()))
            {
                let way = format!("{way} {far}");
                client.set_logging_level(LoggingLevel::Info).await.unwrap();
                let reported = Told::new();
                let teller = reported.teller();
                let reporting = client.clone().with_progress(move |progress| teller(progress.progress));
                assert_eq!(text(&reporting.call_tool("burst", json!({})).await.unwrap()), "done", "{way}");
                let steps: Vec<_> = (1..=MESSAGES).map(f64::from).collect();
                assert_eq!(reported.take(), steps, "{way}");
                let messages = logged.take().into_iter().filter_map(|told| match told {
                    ServerNotification::Message(message) => message.data.as_u64(),
                    _ => None,
                });
                assert_eq!(messages.count(), MESSAGES as usize, "{way}");
                client.close().await;
            }
        }
        bridge.close_bridge().await;
    }
}

/// A client on a pipe of its own that sends a call and reads nothing.
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

/// Both clients share one stream to the server. Messages that cannot be delivered are counted, and the answer
/// comes.
#[tokio::test]
async fn a_client_that_does_not_read_does_not_stop_the_others() {
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
        while bridge.bridge_dropped_messages() == 0 {
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
    bridge.close_bridge().await;
}
