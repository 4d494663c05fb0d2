//! Handlers that are slow, fail, or never return.

use std::time::Duration;

use serde_json::json;
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{Context, McpServer, McpServerOptions};

use crate::fixtures::{Nothing, server, server_with, text, tool, with_hanging, with_waiting};
use crate::http::{Message, Site};

#[tokio::test(start_paused = true)]
async fn client_disconnect_drops_handler() {
    let (server, running) = with_hanging(server());
    let site = Site::new(&server);
    let mut quiet = site.open(&Message::modern("tools/call", tool("hang")));
    Site::settle().await;
    assert!(quiet.is_pending() && running.count() == 1);
    quiet.leave();
    assert_eq!(running.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn client_disconnect_during_event_stream_drops_handler() {
    let (server, gate) = with_waiting(server());
    let site = Site::new(&server);
    let mut params = tool("wait");
    params["_meta"] = json!({"progressToken": 1});
    let mut exchange = site.open(&Message::modern("tools/call", params.clone()));
    assert_eq!(exchange.next_message().await["method"], "notifications/progress");
    exchange.leave();
    // No call has used this notification of the gate, so the next one does.
    gate.notify_one();
    let messages = site.send(&Message::modern("tools/call", params)).await.messages();
    assert_eq!(text(&messages[1]["result"]), "waited");
}

#[tokio::test(start_paused = true)]
async fn handler_panic_returns_internal_error_and_server_keeps_serving() {
    let site = Site::new(&server());
    for name in ["panic", "panic_later"] {
        let refused = site.refused(&Message::modern("tools/call", tool(name))).await;
        assert_eq!(refused, (200, -32603), "{name}");
    }
    assert_eq!(text(&site.call("tools/call", tool("progress")).await), "done");
}

#[tokio::test(start_paused = true)]
async fn handler_timeout_returns_internal_error_and_drops_handler() {
    let options = McpServerOptions { handler_timeout: Duration::from_secs(5), ..McpServerOptions::default() };
    let (server, running) = with_hanging(server_with(options));
    let site = Site::new(&server);
    let began = tokio::time::Instant::now();
    let refused = site.refused(&Message::modern("tools/call", tool("hang"))).await;
    assert_eq!(refused, (200, -32603));
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(6), "{took:?}");
    assert_eq!(running.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn notifications_sent_before_result_are_never_lost() {
    // Regression test: tokio limits the work of a task. A handler that had used up this budget lost its last
    // message.
    let server =
        McpServer::new("busy", "1").tool(Tool::new("busy"), |_: Nothing, context: Context| async move {
            for step in 0..10 {
                context.progress(f64::from(step), None, None).await;
            }
            let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
            while tokio::task::coop::has_budget_remaining() {
                sender.send(()).unwrap();
                receiver.recv().await.unwrap();
            }
            "done"
        });
    let site = Site::new(&server);
    let mut params = tool("busy");
    params["_meta"] = json!({"progressToken": 1});
    assert_eq!(site.send(&Message::modern("tools/call", params)).await.messages().len(), 11);
}

#[tokio::test(start_paused = true)]
async fn progress_sent_after_result_is_discarded() {
    let server =
        McpServer::new("late", "1").tool(Tool::new("late"), |_: Nothing, context: Context| async move {
            tokio::spawn(async move {
                context.cancelled().await;
                assert!(context.is_cancelled());
                context.progress(1.0, None, None).await;
            });
            "done"
        });
    let site = Site::new(&server);
    let mut params = tool("late");
    params["_meta"] = json!({"progressToken": 1});
    let response = site.send(&Message::modern("tools/call", params)).await;
    assert_eq!(text(&response.message()["result"]), "done");
    Site::settle().await;
}

#[tokio::test(start_paused = true)]
async fn handler_waits_while_client_does_not_read() {
    let server =
        McpServer::new("talks", "1").tool(Tool::new("talk"), |_: Nothing, context: Context| async move {
            let mut step = 0;
            loop {
                step += 1;
                context.progress(f64::from(step), None, Some(&"x".repeat(1000))).await;
                assert!(step < 10_000, "the handler did not wait for the client");
            }
            #[expect(unreachable_code, reason = "gives the block its type")]
            ""
        });
    let site = Site::new(&server);
    let mut params = tool("talk");
    params["_meta"] = json!({"progressToken": 1});
    let mut exchange = site.open(&Message::modern("tools/call", params));
    exchange.client().set_receive_capacity(1 << 20);
    for _ in 0..100 {
        Site::settle().await;
        exchange.client().run();
    }
    exchange.leave();
}
