//! Clients that are created in one runtime and used in another. No answer is lost, and no call hangs.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use serde_json::json;
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientError};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::sites::Site;
use crate::fixtures::server;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A call that changes state, so it is sent once. It must not wait for its timeout.
async fn call(client: &McpClient) -> Result<(), McpClientError> {
    let call = client.call_tool("echo", json!({"message": "m"}));
    timeout(Duration::from_mins(1), call).await.expect("the call should end").map(drop)
}

/// Regression test: the runtime that created the client ran the handshake, and its connections were used in
/// other runtimes. Calls failed if that runtime had ended, and hung if it was idle.
#[test]
fn http_client_works_in_several_runtimes_in_turn() {
    let site = Site::new(&server());
    for era in [EraChoice::Auto, EraChoice::Modern, EraChoice::Legacy] {
        for is_ended in [true, false] {
            let first = runtime();
            let client = first.block_on(async { McpClient::builder().era(era).http(&site.url) });
            let mut idle_runtimes = vec![first];
            for _ in 0..3 {
                if is_ended {
                    idle_runtimes.clear();
                }
                let next = runtime();
                assert_eq!(next.block_on(call(&client)), Ok(()), "{era:?} {is_ended}");
                assert_eq!(next.block_on(call(&client)), Ok(()), "{era:?} {is_ended}");
                idle_runtimes.push(next);
            }
        }
    }
}

/// Regression test: the handshake started in a runtime that was idle, and all calls waited for it.
#[test]
fn call_does_not_wait_for_handshake_in_idle_runtime() {
    let site = Site::new(&server());
    let (first, next) = (runtime(), runtime());
    let client = first.block_on(async {
        let client = McpClient::builder().era(EraChoice::Legacy).http(&site.url);
        let mut pending_call = Box::pin(call(&client));
        assert!(poll_fn(|cx| Poll::Ready(pending_call.as_mut().poll(cx).is_pending())).await);
        drop(pending_call);
        client
    });
    assert_eq!(next.block_on(call(&client)), Ok(()));
}

/// Regression test: the error said that the connection had ended, as if the server had closed it.
#[test]
fn stream_client_reports_that_its_runtime_has_ended() {
    for was_used in [true, false] {
        let (first, next) = (runtime(), runtime());
        let client = first.block_on(async {
            let client = McpClient::builder().server(&server());
            if was_used {
                assert_eq!(call(&client).await, Ok(()));
            }
            client
        });
        drop(first);
        assert_eq!(next.block_on(call(&client)), Err(McpClientError::RuntimeEnded), "{was_used}");
    }
}
