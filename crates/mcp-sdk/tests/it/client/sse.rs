//! Servers that know HTTP with SSE only, the binding of 2024-11-05.

use serde_json::json;
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientError, Revision};
use thruway_server::Router;

use super::calls::text;
use super::sites::{Site, Told, answering};
use crate::fixtures::{server, with_hanging};

/// A server without an endpoint of Streamable HTTP; the client is told of the stream.
fn site(server: &thruway_mcp_sdk::McpServer) -> Site {
    let sse = server.endpoint().sse_endpoints("/message");
    Site::of(Router::new().get("/mcp", sse.stream()).post("/message", sse.messages()))
}

#[tokio::test]
async fn a_server_that_knows_nothing_newer_is_understood() {
    let site = site(&server());
    for era in [EraChoice::Auto, EraChoice::Legacy, EraChoice::Revision(Revision::R20241105)] {
        let told = Told::new();
        let teller = told.teller();
        let client = answering(McpClient::builder().era(era)).http(&site.url);
        let result = client.call_tool("echo", json!({"message": "hü"})).await.unwrap();
        assert!(text(&result).contains("hü"), "{era:?}");
        let reporting = client.clone().with_progress(move |progress| teller(progress.progress));
        assert_eq!(text(&reporting.call_tool("progress", json!({})).await.unwrap()), "done");
        assert!(told.take().starts_with(&[1.0, 2.0]));
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
async fn who_drops_a_call_cancels_it() {
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
async fn what_is_no_server_of_mcp_is_none() {
    let site = Site::of(Router::new().get("/mcp", || "hello"));
    let refused = McpClient::http(&site.url).ping().await;
    assert!(matches!(refused, Err(McpClientError::Status(_))), "{refused:?}");
}
