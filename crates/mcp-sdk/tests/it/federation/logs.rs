//! Access rules apply to log messages that belong to no call.

use serde_json::{Value, json};
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientBuilder, McpGateway, Member, MemberState};

use super::callers::{TestCaller, guarded, rule};
use super::sites::wait_for;
use crate::client::misbehaving::on_stream_with;
use crate::http::{Exchange, Site};

/// A legacy server with the tool `log`. After the answer to a call, the server logs its own name.
fn logging(name: &'static str, builder: McpClientBuilder) -> McpClient {
    on_stream_with(builder.era(EraChoice::Legacy), move |message| {
        let line = |message: &Value| format!("{message}\n").into_bytes();
        let (mut result, mut after) = (json!({}), Vec::new());
        match message["method"].as_str() {
            _ if message["id"].is_null() => return Vec::new(),
            Some("initialize") => {
                result = json!({"protocolVersion": "2025-11-25", "capabilities": {"logging": {}, "tools": {}},
                    "serverInfo": {"name": name, "version": "1"}});
            }
            Some("tools/list") => {
                result = json!({"tools": [{"name": "log", "inputSchema": {"type": "object"}}]});
            }
            Some("tools/call") => {
                result = json!({"content": []});
                let params = json!({"level": "info", "data": name});
                after = line(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}));
            }
            _ => {}
        }
        [line(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result})), after].concat()
    })
}

/// Returns the data of the next log message.
async fn next_log(stream: &mut Exchange) -> String {
    loop {
        let message = stream.next_message().await;
        if message["method"] == "notifications/message" {
            return message["params"]["data"].as_str().unwrap().to_owned();
        }
    }
}

/// Opens a stream on which the caller receives log messages.
async fn listen(caller: &TestCaller<'_>) -> Exchange {
    if caller.is_legacy() {
        let answer = caller.request("logging/setLevel", json!({"level": "debug"})).await;
        assert_eq!(answer["result"], json!({}), "{answer}");
        return caller.stream();
    }
    let meta = json!({"io.modelcontextprotocol/logLevel": "debug"});
    let params = json!({"notifications": {}, "_meta": meta});
    let mut stream = caller.site().open(&caller.message("subscriptions/listen", params));
    assert_eq!(stream.next_message().await["method"], "notifications/subscriptions/acknowledged");
    stream
}

#[tokio::test]
async fn caller_gets_no_log_messages_of_members_that_it_cannot_use() {
    for later in 0..2 {
        let rules = vec![rule(&[], &["public__*"]), rule(&["eng"], &["secret__log"])];
        let builder = McpGateway::builder("gateway", "1.0").rules(rules);
        let member = |name| Member::new(name, move |builder| Ok(logging(name, builder)));
        let gateway = builder.member(member("public")).member(member("secret")).build().unwrap();
        for member in ["public", "secret"] {
            wait_for(&gateway, member, MemberState::Connected).await;
        }
        let site = guarded(&gateway);
        let engineers = TestCaller::in_both_eras(&site, Some("ada:eng")).await;
        let others = TestCaller::in_both_eras(&site, Some("bob:sales")).await;
        let mut streams = Vec::new();
        for (caller, expected) in [
            (&engineers[0], "secret"),
            (&engineers[1], "secret"),
            (&others[0], "public"),
            (&others[1], "public"),
        ] {
            // Requests about tasks must not begin a session at a member that the caller cannot use.
            if caller.is_legacy() && later == 1 {
                for id in ["secret.1", "public.1"] {
                    caller.request("tasks/get", json!({"taskId": id})).await;
                }
                caller.request("tasks/list", json!({})).await;
            }
            streams.push((listen(caller).await, expected));
        }
        for (member, caller) in [("secret", &engineers[1]), ("public", &others[1])] {
            let answer = caller.request("tools/call", json!({"name": format!("{member}__log")})).await;
            assert_eq!(answer["result"]["content"], json!([]), "{answer}");
            Site::settle().await;
        }
        for (stream, expected) in &mut streams {
            assert_eq!(next_log(stream).await, *expected);
        }
        gateway.close().await;
    }
}
