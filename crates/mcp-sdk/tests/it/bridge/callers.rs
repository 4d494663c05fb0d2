//! Tasks and `requestState` of a server of 2026-07-28 are for the caller that received them.

use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{Authorization, Context, EraChoice, McpClientBuilder, McpServer, TaskSupport};
use tokio::time::sleep;

use super::sites::{in_memory, options, over_http};
use crate::authorization::Plain;
use crate::client::misbehaving::on_stream_with;
use crate::client::sites::{self, Told};
use crate::fixtures::{ask, server};
use crate::http::{Message, Site};

/// A server whose tool `work` becomes a task that takes an hour, and whose tool `approve` becomes one that
/// asks.
fn working() -> McpServer {
    server()
        .task_tool(Tool::new("work"), TaskSupport::OPTIONAL, |_: Context| async {
            sleep(Duration::from_hours(1)).await;
            "worked"
        })
        .task_tool(Tool::new("approve"), TaskSupport::OPTIONAL, |context: Context| async move {
            ask(&context, "name").await
        })
}

fn site_of(bridge: &McpServer) -> Site {
    let authorization = Authorization::new("https://mcp.example/mcp", ["https://login.example"], Plain);
    Site::of(bridge.endpoint().authorize(authorization))
}

/// Sends a request of `caller`, and returns its answer.
async fn send(site: &Site, caller: &str, method: &str, params: Value) -> Value {
    let capabilities = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let message = Message::modern_with(method, params, &capabilities);
    site.send(&message.with_field("Authorization", &format!("Bearer {caller}/use"))).await.message()
}

async fn begin(site: &Site, caller: &str, tool: &str) -> String {
    let created = send(site, caller, "tools/call", json!({"name": tool, "arguments": {}})).await;
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    created["result"]["taskId"].as_str().unwrap().to_owned()
}

async fn bridges() -> Vec<(&'static str, McpServer, sites::Site)> {
    let server = working();
    let site = sites::Site::new(&server);
    let over_http = over_http(&site.url, options(EraChoice::Modern)).await;
    vec![
        ("in memory", in_memory(&server, options(EraChoice::Modern)).await, sites::Site::new(&server)),
        ("over HTTP", over_http, site),
    ]
}

/// The server takes a bridge for one client, so the bridge forwarded the `requestState` of one caller for
/// another one.
#[tokio::test]
async fn a_request_state_is_accepted_from_its_caller_only() {
    for (way, bridge, _server) in bridges().await {
        let site = site_of(&bridge);
        let params = json!({"name": "ask", "arguments": {}});
        let asked = send(&site, "ada", "tools/call", params.clone()).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{way}: {asked}");
        let (name, _) = asked["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
        let mut again = params.clone();
        again["requestState"] = asked["result"]["requestState"].clone();
        again["inputResponses"] = json!({name: {"action": "accept", "content": {"name": "Ada"}}});
        let foreign = send(&site, "bob", "tools/call", again.clone()).await;
        assert_eq!(foreign["error"]["code"], -32602, "{way}: {foreign}");
        let mut other = again.clone();
        other["name"] = json!("ask_twice");
        let other = send(&site, "ada", "tools/call", other).await;
        assert_eq!(other["error"]["code"], -32602, "{way}: {other}");
        let answered = send(&site, "ada", "tools/call", again).await;
        assert_eq!(answered["result"]["content"][0]["text"], "Ada", "{way}: {answered}");
    }
}

/// So it was with tasks: each caller could read, answer and cancel those of all others.
#[tokio::test]
async fn a_task_is_accepted_from_its_caller_only() {
    for (way, bridge, _server) in bridges().await {
        let site = site_of(&bridge);
        let id = begin(&site, "ada", "approve").await;
        let answers = json!({"name": {"action": "accept", "content": {"name": "Eve"}}});
        for (method, params) in [
            ("tasks/get", json!({"taskId": id})),
            ("tasks/update", json!({"taskId": id, "inputResponses": answers})),
            ("tasks/cancel", json!({"taskId": id})),
        ] {
            let foreign = send(&site, "bob", method, params).await;
            assert_eq!(foreign["error"]["code"], -32602, "{way}: {foreign}");
        }
        let shown = loop {
            let shown = send(&site, "ada", "tasks/get", json!({"taskId": id})).await;
            assert_eq!(shown["result"]["taskId"], id, "{way}: {shown}");
            if shown["result"]["status"] != "working" {
                break shown;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(shown["result"]["status"], "input_required", "{way}: {shown}");
        let (question, _) = shown["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
        let answers = json!({question: {"action": "accept", "content": {"name": "Ada"}}});
        let updated =
            send(&site, "ada", "tasks/update", json!({"taskId": id, "inputResponses": answers})).await;
        assert!(updated["result"].is_object(), "{way}: {updated}");
        let done = loop {
            let shown = send(&site, "ada", "tasks/get", json!({"taskId": id})).await;
            if shown["result"]["status"] == "completed" {
                break shown;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(done["result"]["result"]["content"][0]["text"], "Ada", "{way}: {done}");
    }
}

#[tokio::test]
async fn task_ids_of_the_server_itself_and_made_up_ones_are_refused() {
    let server = working();
    let direct = Site::new(&server);
    let site = site_of(&in_memory(&server, options(EraChoice::Modern)).await);
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let call = Message::modern_with("tools/call", json!({"name": "work", "arguments": {}}), &capabilities);
    let id = direct.send(&call).await.message()["result"]["taskId"].clone();
    let sealed = begin(&site, "ada", "work").await;
    let (text, mac) = sealed.split_once('.').unwrap();
    for id in [id, json!(text), json!(format!("{text}.")), json!(format!("x{text}.{mac}")), json!("")] {
        let refused = send(&site, "ada", "tasks/get", json!({"taskId": id})).await;
        assert_eq!(refused["error"]["code"], -32602, "{id}: {refused}");
    }
    // 2026-07-28 has no such requests, and a server of both eras might answer with the tasks of all callers.
    for method in ["tasks/list", "tasks/result"] {
        let refused = send(&site, "ada", method, json!({"taskId": sealed})).await;
        assert_eq!(refused["error"]["code"], -32601, "{method}: {refused}");
    }
}

/// A server that counts its tasks begins again when it is started again: the old id is then that of another
/// caller's task.
#[tokio::test]
async fn a_task_does_not_outlive_the_process_that_works_at_it() {
    for (way, bridge, _server) in bridges().await {
        let site = site_of(&bridge);
        let id = begin(&site, "ada", "work").await;
        bridge.close_bridge().await;
        let shown = send(&site, "ada", "tasks/get", json!({"taskId": id})).await;
        // Over HTTP the server goes on, whoever is connected to it.
        assert_eq!(shown["result"].is_object(), way == "over HTTP", "{way}: {shown}");
    }
}

/// A client of the legacy era has no rounds, but its `requestState` was forwarded to a server that has.
#[tokio::test]
async fn a_legacy_client_sends_no_request_state_across() {
    let seen = Told::new();
    let teller = std::sync::Arc::new(seen.teller());
    let connect = move |builder: McpClientBuilder| {
        let teller = teller.clone();
        Ok(on_stream_with(builder, move |message| {
            let result = match message["method"].as_str() {
                Some("server/discover") => {
                    json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                    "serverInfo": {"name": "seeing", "version": "1"}, "ttlMs": 0, "cacheScope": "private"})
                }
                Some("tools/call") => {
                    teller(message["params"].clone());
                    json!({"content": []})
                }
                _ => return Vec::new(),
            };
            let mut answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            answer["result"]["resultType"] = json!("complete");
            format!("{answer}\n").into_bytes()
        }))
    };
    let bridge = McpServer::bridge(options(EraChoice::Modern), connect).await.unwrap();
    let site = Site::new(&bridge);
    let session = site.initialize_with("2025-11-25", &json!({})).await;
    let params =
        json!({"name": "any", "arguments": {}, "requestState": "foreign", "inputResponses": {"a": 1}});
    session.call(&site, "tools/call", params).await;
    let seen = seen.take();
    assert_eq!(seen.len(), 1);
    assert!(seen[0]["requestState"].is_null() && seen[0]["inputResponses"].is_null(), "{}", seen[0]);
    assert_eq!(seen[0]["name"], "any");
}
