//! Servers that support both eras, and can do more in the legacy era.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::{
    Bridge, BridgeOptions, EraChoice, McpClient, McpClientBuilder, McpClientError, Revision,
};

use crate::client::calls::text;
use crate::client::misbehaving::on_stream_with;
use crate::client::sites::{Site, answering};

/// A server with the tool `ask`, which asks the client with a request, like `ctx.elicit` of `FastMCP`. That
/// is possible only in the legacy era. `server/discover` lists only 2026-07-28.
fn both_eras(builder: McpClientBuilder) -> McpClient {
    let call = Mutex::new(Value::Null);
    on_stream_with(builder, move |message| {
        let is_modern = message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_string();
        let result = match message["method"].as_str() {
            Some("tools/call") if is_modern => json!({"resultType": "complete", "isError": true,
                "content": [{"type": "text", "text": "this era has no requests to the client"}]}),
            Some("tools/call") => {
                *call.lock().unwrap() = message["id"].clone();
                let params =
                    json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}});
                return line(
                    &json!({"jsonrpc": "2.0", "id": 900, "method": "elicitation/create", "params": params}),
                );
            }
            None if message["id"] == 900 => {
                let content = json!([{"type": "text", "text": message["result"]["content"]["name"]}]);
                return line(
                    &json!({"jsonrpc": "2.0", "id": *call.lock().unwrap(), "result": {"content": content}}),
                );
            }
            _ => return described(&message, true),
        };
        line(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    })
}

/// Returns the answer of such a server to `server/discover`, and to `initialize` if it supports the legacy
/// era.
fn described(message: &Value, is_legacy: bool) -> Vec<u8> {
    let info = json!({"name": "both", "version": "1"});
    let result = match message["method"].as_str() {
        Some("server/discover") => json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}}, "serverInfo": info, "ttlMs": 0, "cacheScope": "private"}),
        Some("initialize") if is_legacy => {
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
        }
        _ if message["id"].is_null() => return Vec::new(),
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            return line(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
        }
    };
    line(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

fn line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}

async fn ask(client: &McpClient) -> String {
    text(&client.call_tool("ask", json!({})).await.unwrap()).to_owned()
}

/// Regression test: the bridge used 2026-07-28 for all clients of such a server. The server then could not
/// ask a legacy client, although it can without a bridge.
#[tokio::test]
async fn legacy_client_gets_elicitation_from_server_of_both_eras() {
    let bridge = Bridge::connect(BridgeOptions::default(), |builder| Ok(both_eras(builder))).await.unwrap();
    let site = Site::new(&bridge);
    for revision in [Revision::R20251125, Revision::R20250618] {
        let builder = || answering(McpClient::builder().era(EraChoice::Revision(revision)));
        for client in [builder().server(&bridge), builder().http(&site.url)] {
            assert_eq!(ask(&client).await, "Ada", "{revision}");
            client.close().await;
        }
    }
    let modern = answering(McpClient::builder().era(EraChoice::Modern)).server(&bridge);
    assert!(ask(&modern).await.starts_with("this era"));
    bridge.close().await;
}

/// The bridge asks the server about the legacy era once, not for each session.
#[tokio::test]
async fn legacy_clients_use_modern_era_if_server_rejects_initialize() {
    let initialize_requests = Arc::new(AtomicUsize::new(0));
    let counter = initialize_requests.clone();
    let connect = move |builder: McpClientBuilder| {
        let initialize_requests = counter.clone();
        Ok(on_stream_with(builder, move |message| match message["method"].as_str() {
            Some("tools/call") => {
                let content = json!([{"type": "text", "text": "called"}]);
                let result = json!({"resultType": "complete", "content": content});
                line(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
            }
            method => {
                initialize_requests.fetch_add(usize::from(method == Some("initialize")), Ordering::Relaxed);
                described(&message, false)
            }
        }))
    };
    let bridge = Bridge::connect(BridgeOptions::default(), connect).await.unwrap();
    for _ in 0..3 {
        let client = answering(McpClient::builder().era(EraChoice::Legacy)).server(&bridge);
        assert_eq!(ask(&client).await, "called");
        client.close().await;
    }
    assert_eq!(initialize_requests.load(Ordering::Relaxed), 1);
    bridge.close().await;
}

/// A temporary failure is not final: later sessions use the legacy era.
#[tokio::test(start_paused = true)]
async fn failed_legacy_era_probe_is_repeated_for_later_sessions() {
    let connected = AtomicUsize::new(0);
    let connect = move |builder: McpClientBuilder| {
        // The first connection uses the modern era. The second one tests for the legacy era.
        if connected.fetch_add(1, Ordering::Relaxed) == 1 {
            return Err(McpClientError::Start(io::ErrorKind::WouldBlock));
        }
        Ok(both_eras(builder))
    };
    let bridge = Bridge::connect(BridgeOptions::default(), connect).await.unwrap();
    let session = || answering(McpClient::builder().era(EraChoice::Legacy)).server(&bridge);
    let early = session();
    assert!(ask(&early).await.starts_with("this era"));
    tokio::time::sleep(Duration::from_secs(11)).await;
    let probed_again = async {
        while ask(&session()).await != "Ada" {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), probed_again)
        .await
        .expect("a later session should use the legacy era");
    assert!(ask(&early).await.starts_with("this era"), "a session keeps the era that it began with");
}
