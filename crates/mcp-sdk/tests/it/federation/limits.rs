//! Limits for the calls of each caller.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{
    CallLimit, CallRate, Context, EraChoice, McpClient, McpGateway, McpServer, Member, MemberState, Revision,
    TaskSupport,
};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::callers::{TestCaller, guarded, rule, texts};
use super::sites::{in_memory, wait_for};
use super::tasks;
use crate::bridge::task_server::TaskServer;
use crate::client::calls::text;
use crate::fixtures::Nothing;
use crate::http::Site;

fn gateway(limit: CallLimit) -> McpGateway {
    let server = McpServer::new("docs", "1.0")
        .tool(Tool::new("read"), || "text")
        .tool(Tool::new("list"), || "list")
        .tool(Tool::new("hang"), |_: Context| async { std::future::pending::<String>().await });
    let builder = McpGateway::builder("gateway", "1.0").limits(vec![limit]);
    builder.rules(vec![rule(&[], &["docs__*"])]).member(in_memory("docs", &server)).build().unwrap()
}

fn call(name: &str) -> Value {
    json!({"name": name, "arguments": {}})
}

#[tokio::test(start_paused = true)]
async fn caller_above_the_rate_gets_an_error_with_the_time_until_the_next_attempt() {
    let rate = Some(CallRate { calls: 2, per: Duration::from_mins(1), burst: 2 });
    let gateway = gateway(CallLimit { tools: texts(&["docs__read", "x__*"]), rate, ..CallLimit::default() });
    let site = guarded(&gateway);
    for token in ["ada:eng", "bob:eng"] {
        // Both eras share the counter, because the caller is the same.
        let [legacy, modern] = TestCaller::in_both_eras(&site, Some(token)).await;
        for caller in [&legacy, &modern] {
            let answer = caller.request("tools/call", call("docs__read")).await;
            assert_eq!(answer["result"]["content"][0]["text"], "text", "{answer}");
        }
        for (caller, status) in [(&legacy, 200), (&modern, 429)] {
            let response = site.send(&caller.message("tools/call", call("docs__read"))).await;
            assert_eq!(response.status, status);
            let message = response.message();
            assert_eq!(message["error"]["code"], -32603, "{message}");
            let retry_after = message["error"]["data"]["retryAfterMs"].as_u64().unwrap();
            assert!((29_000..=30_000).contains(&retry_after), "{message}");
        }
        // Other tools and unknown tools are not limited.
        let answer = modern.request("tools/call", call("docs__list")).await;
        assert_eq!(answer["result"]["content"][0]["text"], "list", "{answer}");
        let answer = modern.request("tools/call", call("x__hidden")).await;
        assert_eq!(answer["error"]["message"], "Unknown tool: x__hidden", "{answer}");
    }
    gateway.close().await;
}

#[tokio::test(start_paused = true)]
async fn canceled_call_is_no_longer_in_flight() {
    let gateway = gateway(CallLimit { concurrent: Some(1), ..CallLimit::default() });
    let site = guarded(&gateway);
    let [_, ada] = TestCaller::in_both_eras(&site, Some("ada:eng")).await;
    let [_, bob] = TestCaller::in_both_eras(&site, Some("bob:eng")).await;
    let mut hanging = site.open(&ada.message("tools/call", call("docs__hang")));
    while !is_limited(&ada).await {
        assert!(hanging.is_pending());
        Site::settle().await;
    }
    assert!(!is_limited(&bob).await);
    drop(hanging);
    while is_limited(&ada).await {
        Site::settle().await;
    }
    gateway.close().await;
}

/// Returns `true` if the endpoint refuses a call because of the limit.
async fn is_limited(caller: &TestCaller<'_>) -> bool {
    let answer = caller.request("tools/call", call("docs__read")).await;
    answer["error"]["data"]["retryAfterMs"] == 1000
}

fn one_call_at_a_time(member: Member) -> McpGateway {
    let limit = CallLimit { concurrent: Some(1), ..CallLimit::default() };
    McpGateway::builder("gateway", "1.0").limits(vec![limit]).member(member).build().unwrap()
}

async fn assert_limited(client: &McpClient, tool: &str) {
    let error = client.call_tool(tool, json!({})).await.unwrap_err();
    let error = error.server_error().unwrap();
    assert_eq!(error.data, Some(json!({"retryAfterMs": 1000})), "{error}");
}

/// Regression test: a call was no longer in flight as soon as it had become a task.
#[tokio::test(start_paused = true)]
async fn task_counts_as_a_call_in_flight_until_it_ends() {
    for client_asks in [true, false] {
        let gate = Arc::new(Notify::new());
        let end = gate.clone();
        let work = move |_: Nothing, _: Context| {
            let end = end.clone();
            async move {
                end.notified().await;
                "done"
            }
        };
        let server = McpServer::new("docs", "1.0").tool(Tool::new("read"), || "text").task_tool(
            Tool::new("work"),
            TaskSupport::REQUIRED,
            work,
        );
        let gateway = one_call_at_a_time(in_memory("docs", &server));
        let client = tasks::builder(EraChoice::Modern).server(&gateway);
        let id = tasks::begin(&client, "docs__work").await;
        for _ in 0..10 {
            assert_limited(&client, "docs__read").await;
            sleep(Duration::from_secs(10)).await;
        }
        gate.notify_one();
        if client_asks {
            assert_eq!(text(&client.wait_for_task(&id).await.unwrap()), "done");
        } else {
            sleep(Duration::from_secs(2)).await;
        }
        assert_eq!(text(&client.call_tool("docs__read", json!({})).await.unwrap()), "text");
        gateway.close().await;
    }
}

#[tokio::test]
async fn task_of_a_legacy_session_counts_as_a_call_in_flight_until_it_ends() {
    let server = TaskServer::new();
    let gateway = one_call_at_a_time(tasks::legacy_member("one", &server));
    wait_for(&gateway, "one", MemberState::Connected).await;
    let client = tasks::builder(EraChoice::Revision(Revision::R20251125)).server(&gateway);
    let id = tasks::begin(&client, "one__slow").await;
    assert_limited(&client, "one__slow").await;
    server.end("task-1", "completed");
    assert_eq!(text(&client.wait_for_task(&id).await.unwrap()), "done alone");
    tasks::begin(&client, "one__slow").await;
    gateway.close().await;
}
