//! A caller of a bridge cannot use or change the state of another: tasks, `requestState`, and the state of
//! the shared server.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::Tool;
use thruway_mcp_sdk::{
    Authorization, Bridge, Context, EraChoice, McpClient, McpClientBuilder, McpServer, TaskSupport,
};
use tokio::time::sleep;

use super::sites::{in_memory, options, over_http};
use crate::authorization::Plain;
use crate::client::misbehaving::on_stream_with;
use crate::client::sites::{self, Recorder};
use crate::fixtures::{ask, server};
use crate::http::{Message, Site, request, with_meta};
use crate::stream::next;

/// A server with the tools `work`, which becomes a task of one hour, and `approve`, which becomes a task that
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

/// Sends a request of `caller` and returns its answer.
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

async fn bridges() -> Vec<(&'static str, Bridge, sites::Site)> {
    let server = working();
    let site = sites::Site::new(&server);
    let over_http = over_http(&site.url, options(EraChoice::Modern)).await;
    vec![
        ("in memory", in_memory(&server, options(EraChoice::Modern)).await, sites::Site::new(&server)),
        ("over HTTP", over_http, site),
    ]
}

/// Regression test: a server sees a bridge as one client, so the bridge forwarded the `requestState` of one
/// caller for another.
#[tokio::test]
async fn request_state_is_accepted_only_from_its_caller() {
    for (way, bridge, _server) in bridges().await {
        let site = site_of(&bridge);
        let params = json!({"name": "ask", "arguments": {}});
        let input_required = send(&site, "ada", "tools/call", params.clone()).await;
        assert_eq!(input_required["result"]["resultType"], "input_required", "{way}: {input_required}");
        let (name, _) = input_required["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
        let mut again = params.clone();
        again["requestState"] = input_required["result"]["requestState"].clone();
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

/// Regression test: each caller could read, answer and cancel the tasks of all others.
#[tokio::test]
async fn task_is_accessible_only_to_its_caller() {
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
async fn unsealed_and_forged_task_ids_are_rejected() {
    let server = working();
    let direct = Site::new(&server);
    let site = site_of(in_memory(&server, options(EraChoice::Modern)).await.server());
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let call = Message::modern_with("tools/call", json!({"name": "work", "arguments": {}}), &capabilities);
    let id = direct.send(&call).await.message()["result"]["taskId"].clone();
    let sealed = begin(&site, "ada", "work").await;
    let (text, mac) = sealed.split_once('.').unwrap();
    for id in [id, json!(text), json!(format!("{text}.")), json!(format!("x{text}.{mac}")), json!("")] {
        let refused = send(&site, "ada", "tasks/get", json!({"taskId": id})).await;
        assert_eq!(refused["error"]["code"], -32602, "{id}: {refused}");
    }
    // 2026-07-28 has no such requests. A server of both eras might answer with the tasks of all callers.
    for method in ["tasks/list", "tasks/result"] {
        let refused = send(&site, "ada", method, json!({"taskId": sealed})).await;
        assert_eq!(refused["error"]["code"], -32601, "{method}: {refused}");
    }
}

/// A server with sequential task ids starts again after a restart. The old id then belongs to the task of
/// another caller.
#[tokio::test]
async fn task_is_gone_after_its_server_process_ends() {
    for (way, bridge, _server) in bridges().await {
        let site = site_of(&bridge);
        let id = begin(&site, "ada", "work").await;
        bridge.close().await;
        let shown = send(&site, "ada", "tasks/get", json!({"taskId": id})).await;
        // Over HTTP, the server continues, because it does not depend on the connection.
        assert_eq!(shown["result"].is_object(), way == "over HTTP", "{way}: {shown}");
    }
}

/// Regression test: the bridge forwarded the `requestState` of a legacy client to a modern server, although
/// legacy clients have none.
#[tokio::test]
async fn bridge_drops_request_state_of_legacy_client() {
    let seen = Recorder::new();
    let record = Arc::new(seen.callback());
    let connect = move |builder: McpClientBuilder| {
        let record = record.clone();
        Ok(on_stream_with(builder, move |message| {
            let result = match message["method"].as_str() {
                Some("server/discover") => {
                    json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                    "serverInfo": {"name": "seeing", "version": "1"}, "ttlMs": 0, "cacheScope": "private"})
                }
                Some("tools/call") => {
                    record(message["params"].clone());
                    json!({"content": []})
                }
                _ => return Vec::new(),
            };
            let mut answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            answer["result"]["resultType"] = json!("complete");
            format!("{answer}\n").into_bytes()
        }))
    };
    let bridge = Bridge::connect(options(EraChoice::Modern), connect).await.unwrap();
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

/// A legacy server that answers every request, and passes the method of each request to `record`.
fn recording(builder: McpClientBuilder, record: impl Fn(String) + Send + 'static) -> McpClient {
    on_stream_with(builder, move |message| {
        if message["id"].is_null() {
            return Vec::new();
        }
        let method = message["method"].as_str().unwrap_or_default();
        record(method.to_owned());
        let result = match method {
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "serverInfo": {"name": "recording", "version": "1"},
                "capabilities": {"tools": {}, "logging": {}, "resources": {"subscribe": true}},
            }),
            _ => json!({}),
        };
        format!("{}\n", json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_bytes()
    })
}

async fn bridge_to_recording(seen: &Recorder<String>) -> Bridge {
    let record = Arc::new(seen.callback());
    let connect = move |builder: McpClientBuilder| {
        let record = record.clone();
        Ok(recording(builder, move |method| record(method)))
    };
    let bridge = Bridge::connect(options(EraChoice::Legacy), connect).await.unwrap();
    assert!(seen.take().contains(&"initialize".to_owned()), "the bridge itself begins a session");
    bridge
}

const LEGACY_REQUESTS: [&str; 5] =
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

const NOTIFICATIONS: [&str; 4] = [
    "notifications/cancelled",
    "notifications/initialized",
    "notifications/roots/list_changed",
    "notifications/custom",
];

/// Regression test: the bridge forwarded every method of a 2026-07-28 client. One client could unsubscribe
/// all others from a resource, disable the log, or restart the session of the shared server.
#[tokio::test]
async fn modern_client_cannot_change_session_of_shared_legacy_server() {
    let seen = Recorder::new();
    let bridge = bridge_to_recording(&seen).await;
    let site = Site::new(&bridge);
    let mut stream = bridge.connect();
    let params = json!({"uri": "test://a", "level": "emergency", "requestId": 7});
    for method in LEGACY_REQUESTS.into_iter().chain(NOTIFICATIONS) {
        // A client that can answer questions gets its own server, which other clients use later.
        for capabilities in [json!({}), json!({"elicitation": {}})] {
            let message = Message::modern_with(method, params.clone(), &capabilities);
            assert_eq!(site.refused(&message).await, (404, -32601), "{method}");
        }
        stream.send(&request(1, method, &with_meta(params.clone(), &json!({})))).await;
        let refused = next(&mut stream).await;
        assert_eq!(refused["error"]["code"], -32601, "{method}: {refused}");
    }
    assert_eq!(seen.take(), [] as [&str; 0]);
    // Subscriptions and methods of extensions still cross.
    let filter = json!({"notifications": {"resourceSubscriptions": ["test://a"]}});
    let mut listening = site.open(&Message::modern("subscriptions/listen", filter));
    let acknowledged = listening.next_message().await;
    assert_eq!(acknowledged["params"]["notifications"]["resourceSubscriptions"], json!(["test://a"]));
    site.call("custom/method", json!({})).await;
    assert_eq!(seen.take(), ["resources/subscribe", "custom/method"]);
    bridge.close().await;
}

/// Regression test: a notification with an id crossed as a request. A server that checked only the method
/// canceled the call of another client.
#[tokio::test]
async fn legacy_client_cannot_send_notification_as_request() {
    let seen = Recorder::new();
    let bridge = bridge_to_recording(&seen).await;
    let site = Site::new(&bridge);
    let mut stream = bridge.connect();
    let session = site.initialize_with("2025-11-25", &json!({})).await;
    for method in NOTIFICATIONS {
        let params = json!({"requestId": 7});
        assert_eq!(site.refused(&session.request(1, method, &params)).await, (200, -32601), "{method}");
        stream.send(&request(1, method, &params)).await;
        let refused = next(&mut stream).await;
        assert_eq!(refused["error"]["code"], -32601, "{method}: {refused}");
    }
    let seen = seen.take();
    assert!(NOTIFICATIONS.iter().all(|method| !seen.iter().any(|other| other == method)), "{seen:?}");
    bridge.close().await;
}

/// Regression test: messages of a batch count as legacy. A `subscriptions/listen` in a batch crossed to a
/// 2026-07-28 server, and the call never ended.
#[tokio::test(start_paused = true)]
async fn modern_methods_in_legacy_batch_are_rejected() {
    let site = Site::new(in_memory(&server(), options(EraChoice::Modern)).await.server());
    let session = site.initialize_with("2025-03-26", &json!({})).await;
    let methods = ["server/discover", "subscriptions/listen", "tasks/update", "notifications/cancelled"];
    let params = json!({"notifications": {}, "taskId": "task"});
    let batch: Vec<_> = methods.iter().map(|method| request(*method, method, &params)).collect();
    let answers = site.send(&session.post(&json!(batch))).await.message();
    for (method, answer) in methods.iter().zip(answers.as_array().unwrap()) {
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(method), &json!(-32601)), "{answer}");
    }
    assert_eq!(answers.as_array().unwrap().len(), methods.len());
}

/// Regression test: an unknown method got status 404. A legacy client treats that as the end of its session.
#[tokio::test]
async fn rejected_method_does_not_end_session_of_legacy_client() {
    let bridge = bridge_to_recording(&Recorder::new()).await;
    let site = Site::new(&bridge);
    let session = site.initialize_with("2025-06-18", &json!({})).await;
    for method in ["tasks/list", "tasks/get", "notifications/cancelled"] {
        let refused = site.refused(&session.request(1, method, &json!({"taskId": "task"}))).await;
        assert_eq!(refused, (200, -32601), "{method}");
    }
    bridge.close().await;
}
