//! Limits for the calls of each caller.

use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{CallLimit, CallRate, Context, McpGateway, McpServer};

use super::callers::{TestCaller, guarded, rule, texts};
use super::sites::in_memory;
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
