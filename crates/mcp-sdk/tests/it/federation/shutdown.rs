//! Shutdown of gateways.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{McpClient, McpGatewayOptions, McpServer, Member};
use thruway_net::InProcessServer;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::callers::{TestCaller, guarded};
use super::sites::{in_memory, with_options};
use crate::client::calls::text;

fn greeter() -> McpServer {
    McpServer::new("greeter", "1.0").tool(Tool::new("greet"), || "Hello!")
}

/// A member whose connections carry no data until `gate` has a permit.
fn gated(name: &str, gate: &Arc<Semaphore>) -> Member {
    let gate = gate.clone();
    Member::new(name, move |builder| {
        let (near, mut far) = UnixStream::pair().unwrap();
        let gate = gate.clone();
        tokio::spawn(async move {
            let _permit = gate.acquire().await.unwrap();
            let (mut pipe, other_end) = tokio::io::duplex(1 << 16);
            greeter().serve_pipe(other_end);
            let _ = tokio::io::copy_bidirectional(&mut far, &mut pipe).await;
        });
        Ok(builder.unix_stream(near))
    })
}

/// Regression test: the drain stopped the attempts to connect at once, so that waiting calls failed.
#[tokio::test(start_paused = true)]
async fn drain_waits_for_requests_that_wait_for_a_member() {
    let gate = Arc::new(Semaphore::new(0));
    let options = McpGatewayOptions { list_wait: Duration::from_secs(20), ..McpGatewayOptions::default() };
    let gateway = with_options(options, [in_memory("one", &greeter()), gated("two", &gate)]);
    let client = McpClient::builder().server(&gateway);
    client.discover().await.unwrap();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("two__greet", json!({})).await }
    });
    let list = tokio::spawn(async move { client.list_tools().await });
    sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    let draining = tokio::spawn({
        let gateway = gateway.clone();
        async move { gateway.drain(Duration::from_mins(1)).await }
    });
    sleep(Duration::from_secs(1)).await;
    gate.add_permits(10);
    assert_eq!(text(&call.await.unwrap().unwrap()), "Hello!");
    assert_eq!(list.await.unwrap().unwrap().len(), 2);
    draining.await.unwrap();
    assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn drain_ends_at_its_timeout_although_requests_wait_for_a_member() {
    let options = McpGatewayOptions { list_wait: Duration::from_mins(5), ..McpGatewayOptions::default() };
    let gateway = with_options(options, [gated("one", &Arc::new(Semaphore::new(0)))]);
    let client = McpClient::builder().server(&gateway);
    client.discover().await.unwrap();
    let call = tokio::spawn(async move { client.call_tool("one__greet", json!({})).await });
    sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    gateway.drain(Duration::from_secs(10)).await;
    assert_eq!(began.elapsed().as_secs(), 10);
    call.abort();
}

/// Regression test: the gateway panicked, because these times exceed the range of the clock.
#[tokio::test]
async fn gateway_accepts_unlimited_times() {
    let options = McpGatewayOptions {
        list_wait: Duration::MAX,
        list_ttl_max: Duration::MAX,
        ..McpGatewayOptions::default()
    };
    let gateway = with_options(options, [in_memory("one", &greeter())]);
    let client = McpClient::builder().server(&gateway);
    assert_eq!(client.list_tools().await.unwrap().len(), 1);
    assert_eq!(text(&client.call_tool("one__greet", json!({})).await.unwrap()), "Hello!");
    gateway.drain(Duration::MAX).await;
}

/// Regression test: the event stream of a legacy client stayed open after the end of its endpoint, so the client did
/// not learn that it needs a new session.
#[tokio::test]
async fn event_streams_of_legacy_clients_end_with_the_gateway() {
    for is_drained in [true, false] {
        let gateway = with_options(McpGatewayOptions::default(), [in_memory("one", &greeter())]);
        let site = guarded(&gateway);
        let [ada, _] = TestCaller::in_both_eras(&site, Some("ada:eng")).await;
        let stream = ada.stream();
        if is_drained {
            gateway.drain(Duration::from_secs(1)).await;
        } else {
            gateway.close().await;
        }
        assert_eq!(stream.response().await.status, 200);
        assert_eq!(site.send(&ada.message("tools/list", json!({}))).await.status, 404);
    }
}
