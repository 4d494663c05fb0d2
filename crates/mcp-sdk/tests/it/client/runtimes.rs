//! Clients that are created in one runtime and used in another. No answer is lost, and no call waits in vain.

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
fn a_client_over_http_is_used_in_one_runtime_after_another() {
    let site = Site::new(&server());
    for era in [EraChoice::Auto, EraChoice::Modern, EraChoice::Legacy] {
        for is_ended in [true, false] {
            let first = runtime();
            let client = first.block_on(async { McpClient::builder().era(era).http(&site.url) });
            let mut standing_still = vec![first];
            for _ in 0..3 {
                if is_ended {
                    standing_still.clear();
                }
                let next = runtime();
                assert_eq!(next.block_on(call(&client)), Ok(()), "{era:?} {is_ended}");
                assert_eq!(next.block_on(call(&client)), Ok(()), "{era:?} {is_ended}");
                standing_still.push(next);
            }
        }
    }
}

/// Regression test: the handshake started in a runtime that was idle, and all calls waited for it.
#[test]
fn a_handshake_in_a_runtime_that_stands_still_is_not_waited_for() {
    let site = Site::new(&server());
    let (first, next) = (runtime(), runtime());
    let client = first.block_on(async {
        let client = McpClient::builder().era(EraChoice::Legacy).http(&site.url);
        let mut begun = Box::pin(call(&client));
        assert!(poll_fn(|cx| Poll::Ready(begun.as_mut().poll(cx).is_pending())).await);
        drop(begun);
        client
    });
    assert_eq!(next.block_on(call(&client)), Ok(()));
}

/// Regression test: the error said that the connection had ended, as if the server had closed it.
#[test]
fn a_client_of_a_stream_says_that_its_runtime_has_ended() {
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
