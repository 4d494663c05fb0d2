//! Servers of 2025-11-25 that refuse calls until the user has visited pages, with direct clients and behind
//! bridges.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use thruway_mcp_sdk::json_rpc::{Error, ErrorCode};
use thruway_mcp_sdk::schema::{ClientCapabilities, ElicitRequest, ElicitRequestParams, InputRequest};
use thruway_mcp_sdk::{
    Bridge, BridgeOptions, EraChoice, McpClient, McpClientBuilder, McpClientError, McpClientOptions,
};

use crate::client::misbehaving::on_stream_with;
use crate::client::sites::Recorder;

const PAGES: [&str; 2] = ["https://example.com/a", "https://example.com/b"];

/// A server that refuses the first `refusals` calls, and counts all calls.
fn server_refusing_calls(builder: McpClientBuilder, refusals: usize, calls: &Arc<AtomicUsize>) -> McpClient {
    let calls = calls.clone();
    on_stream_with(builder, move |message| {
        let mut answer = match message["method"].as_str() {
            Some("initialize") => {
                json!({"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "refusing", "version": "1"}}})
            }
            Some("tools/call") if calls.fetch_add(1, Ordering::Relaxed) < refusals => {
                let page =
                    |url| json!({"mode": "url", "elicitationId": url, "url": url, "message": "Log in."});
                let data = json!({"elicitations": PAGES.map(page)});
                json!({"error": {"code": -32042, "message": "not logged in", "data": data}})
            }
            Some("tools/call") => json!({"result": {"content": []}}),
            _ => return Vec::new(),
        };
        answer["jsonrpc"] = "2.0".into();
        answer["id"] = message["id"].clone();
        format!("{answer}\n").into_bytes()
    })
}

/// A client. Its user answers each page with `action`. Collects the URLs in `visited`.
fn client_visiting_pages(
    builder: McpClientBuilder,
    action: &'static str,
    visited: &Recorder<String>,
) -> McpClientBuilder {
    let capabilities = ClientCapabilities::default().with_elicitation().with_url_elicitation();
    let record = visited.callback();
    builder.answers(capabilities, move |question| {
        let InputRequest::Elicit(ElicitRequest { params: ElicitRequestParams::Url(page) }) = question else {
            panic!("{question:?}")
        };
        record(page.url);
        async move { Ok::<_, Error>(serde_json::from_value(json!({"action": action})).unwrap()) }
    })
}

/// Returns the error code of the call, if it is refused.
async fn call(client: &McpClient) -> Result<(), ErrorCode> {
    match client.call_tool("any", json!({})).await {
        Ok(_) => Ok(()),
        Err(McpClientError::Server(error)) => Err(error.code),
        Err(other) => panic!("{other:?}"),
    }
}

/// Regression test: the caller got the error, and the client did not request that the user visit the pages.
#[tokio::test]
async fn client_visits_required_pages_and_retries_call_once() {
    for (refusals, action, expected) in [
        (1, "accept", (Ok(()), &PAGES[..], 2)),
        (2, "accept", (Err(ErrorCode::URL_ELICITATION_REQUIRED), &PAGES[..], 2)),
        (1, "decline", (Err(ErrorCode::URL_ELICITATION_REQUIRED), &PAGES[..1], 1)),
    ] {
        let (visited, calls) = (Recorder::new(), Arc::default());
        let builder = client_visiting_pages(McpClient::builder().era(EraChoice::Legacy), action, &visited);
        let outcome = call(&server_refusing_calls(builder, refusals, &calls)).await;
        let visited = visited.take();
        let visited: Vec<_> = visited.iter().map(String::as_str).collect();
        let calls = calls.load(Ordering::Relaxed);
        assert_eq!((outcome, &*visited, calls), expected, "{refusals} {action}");
    }
}

async fn bridge(refusals: usize, calls: &Arc<AtomicUsize>) -> Bridge {
    let client = McpClientOptions { era: EraChoice::Legacy, ..McpClientOptions::default() };
    let options = BridgeOptions { client, ..BridgeOptions::default() };
    let calls = calls.clone();
    Bridge::connect(options, move |builder| Ok(server_refusing_calls(builder, refusals, &calls)))
        .await
        .unwrap()
}

/// Regression test: 2026-07-28 clients got an error code that their revision does not have.
#[tokio::test]
async fn bridge_forwards_url_elicitation_to_its_clients() {
    for near in [EraChoice::Legacy, EraChoice::Modern] {
        let (visited, calls) = (Recorder::new(), Arc::default());
        let bridge = bridge(1, &calls).await;
        let client =
            client_visiting_pages(McpClient::builder().era(near), "accept", &visited).server(&bridge);
        assert_eq!(call(&client).await, Ok(()), "{near:?}");
        assert_eq!((visited.take(), calls.load(Ordering::Relaxed)), (PAGES.map(str::to_owned).into(), 2));
    }
    let (visited, calls) = (Recorder::new(), Arc::default());
    let bridge = bridge(usize::MAX, &calls).await;
    let modern = || McpClient::builder().era(EraChoice::Modern);
    for client in [
        modern().server(&bridge),
        client_visiting_pages(modern(), "decline", &visited).server(&bridge),
        client_visiting_pages(modern(), "accept", &visited).server(&bridge),
    ] {
        assert_eq!(call(&client).await, Err(ErrorCode::INTERNAL_ERROR));
    }
    assert_eq!((visited.take().len(), calls.load(Ordering::Relaxed)), (3, 4));
}
