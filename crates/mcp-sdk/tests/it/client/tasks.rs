//! Calls that become tasks.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::json_rpc::Error;
use thruway_mcp_sdk::schema::{ClientCapabilities, DetailedTask, Tool};
use thruway_mcp_sdk::{
    Context, Direction, EraChoice, HandlerError, McpClient, McpClientBuilder, McpClientError,
    McpClientOptions, McpServer, TaskSupport, ToolOutcome,
};

use super::calls::text;
use super::misbehaving::{response as response_of_http, scripted};
use super::sites::{Recorder, Site, response};
use crate::fixtures::{Nothing, Running, ask};

/// A server with tools that become tasks. Also returns the counter of hanging tools.
fn server() -> (McpServer, Running) {
    let running = Running::default();
    let ours = running.clone();
    let server = McpServer::new("tasks", "1")
        .task_tool(Tool::new("ask"), TaskSupport::OPTIONAL, |_: Nothing, context: Context| async move {
            let first = ask(&context, "first").await?;
            let second = ask(&context, "second").await?;
            Ok::<_, HandlerError>(format!("{first} and {second}"))
        })
        .task_tool(Tool::new("fail"), TaskSupport::OPTIONAL, |_: Nothing, _: Context| async move {
            tokio::task::yield_now().await;
            Err::<(), _>(HandlerError::Protocol(Error::internal("it does not work")))
        })
        .task_tool(Tool::new("hang"), TaskSupport::OPTIONAL, move |_: Nothing, _: Context| {
            let running = ours.begin();
            async move {
                let _running = running;
                std::future::pending::<()>().await;
            }
        });
    (server, running)
}

/// A client that supports tasks.
fn builder() -> McpClientBuilder {
    let capabilities: ClientCapabilities = serde_json::from_value(crate::fixtures::capabilities()).unwrap();
    McpClient::builder()
        .era(EraChoice::Modern)
        .answers(capabilities.with_tasks(), |question| async move { Ok::<_, Error>(response(&question)) })
}

#[tokio::test(start_paused = true)]
async fn call_that_becomes_a_task_returns_its_result() {
    let (server, _) = server();
    let client = builder().server(&server);
    assert_eq!(text(&client.call_tool("ask", json!({})).await.unwrap()), "Ada and Ada");
    let failed = client.call_tool("fail", json!({})).await.unwrap_err();
    assert!(failed.server_error().is_some_and(|error| error.message == "it does not work"), "{failed}");
    // A client without support for tasks gets none.
    let other = McpClient::builder().era(EraChoice::Modern).server(&server);
    assert!(matches!(other.begin_tool("ask", json!({})).await, Err(McpClientError::Server(_))));
}

#[tokio::test]
async fn another_client_can_wait_for_the_task() {
    let (server, _) = server();
    let site = Site::new(&server);
    let client = builder().http(&site.url);
    let ToolOutcome::Task(task) = client.begin_tool("ask", json!({})).await.unwrap() else {
        panic!("it should become a task");
    };
    let id = task.state.task_id;
    assert!(matches!(
        client.get_task(&id).await.unwrap(),
        DetailedTask::InputRequired(_) | DetailedTask::Working(_)
    ));
    let other = builder().http(&site.url);
    assert_eq!(text(&other.wait_for_task(&id).await.unwrap()), "Ada and Ada");
    let refused = client.get_task("no such task").await.unwrap_err();
    assert_eq!(refused.server_error().unwrap().code.0, -32602);
}

#[tokio::test]
async fn dropped_call_cancels_its_task() {
    let (server, running) = server();
    let sent = Recorder::new();
    let record = sent.callback();
    let client = builder().on_message(move |direction, bytes| {
        if direction == Direction::Sent {
            record(String::from_utf8_lossy(bytes).into_owned());
        }
    });
    let client = client.server(&server);
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("hang", json!({})).await }
    });
    // The client then knows the id of the task.
    while !sent.take().iter().any(|message| message.contains("tasks/get")) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    call.abort();
    let ended = async {
        while running.count() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), ended).await.unwrap();
    let ToolOutcome::Task(task) = client.begin_tool("hang", json!({})).await.unwrap() else {
        panic!("it should become a task");
    };
    client.cancel_task(&task.state.task_id).await.unwrap();
    assert_eq!(client.wait_for_task(&task.state.task_id).await, Err(McpClientError::TaskCancelled));
}

/// A server with a tool that becomes a task, which asks before it ends. `misbehaves(method, count)` replaces
/// an answer. Also returns the requests.
async fn failing(
    misbehaves: impl Fn(&str, usize) -> Option<&'static str> + Send + 'static,
) -> (String, Recorder<String>) {
    let methods = Recorder::new();
    let (record, counts) = (methods.callback(), Mutex::new(HashMap::new()));
    let (has_answer, is_legacy) = (Mutex::new(false), Mutex::new(false));
    let url = scripted(move |_, message| {
        let Some(method) = message["method"].as_str() else { return refusal("405 Method Not Allowed") };
        *is_legacy.lock().unwrap() |= method == "initialize";
        let times = *counts.lock().unwrap().entry(method.to_owned()).and_modify(|n| *n += 1).or_insert(0);
        record(method.to_owned());
        if let Some(status) = misbehaves(method, times) {
            return if status.is_empty() { String::new() } else { refusal(status) };
        }
        *has_answer.lock().unwrap() |= method == "tasks/update";
        let has_answer = *has_answer.lock().unwrap();
        let result = result_of(method, has_answer, *is_legacy.lock().unwrap());
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        response_of_http("Content-Type: application/json\r\nMcp-Session-Id: s\r\n", &answer.to_string())
    });
    (url.await, methods)
}

fn refusal(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

fn result_of(method: &str, has_answer: bool, is_legacy: bool) -> Value {
    let done = json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]});
    let task = |status: &str| {
        json!({"resultType": "complete", "taskId": "t", "status": status, "createdAt": "then", "lastUpdatedAt": "now",
            "ttlMs": null, "ttl": null, "pollIntervalMs": 10, "pollInterval": 10})
    };
    match (method, is_legacy) {
        ("initialize", _) => {
            json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "failing", "version": "1"},
            "capabilities": {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}})
        }
        ("tools/list", _) => json!({"tools": [{"name": "do", "inputSchema": {"type": "object"},
            "execution": {"taskSupport": "required"}}]}),
        ("tools/call", true) => json!({"task": task("working")}),
        ("tools/call", false) => {
            let mut created = task("working");
            created["resultType"] = "task".into();
            created
        }
        ("tasks/get", true) => task("completed"),
        ("tasks/get", false) if has_answer => {
            let mut completed = task("completed");
            completed["result"] = done;
            completed
        }
        ("tasks/get", false) => {
            let mut asking = task("input_required");
            asking["inputRequests"] = json!({"who": {"method": "roots/list"}});
            asking
        }
        ("tasks/result", _) => done,
        _ => json!({"resultType": "complete"}),
    }
}

fn builder_with_timeout_max(era: EraChoice, timeout_max: Duration) -> McpClientBuilder {
    let options = McpClientOptions { era, timeout_max, ..McpClientOptions::default() };
    let capabilities: ClientCapabilities = serde_json::from_value(crate::fixtures::capabilities()).unwrap();
    let answer = |question| async move { Ok::<_, Error>(response(&question)) };
    McpClient::builder().options(options).answers(capabilities.with_tasks(), answer)
}

/// Regression test: one missing answer canceled a task of half an hour.
#[tokio::test]
async fn task_survives_temporary_server_errors() {
    for era in [EraChoice::Modern, EraChoice::Legacy] {
        let (url, methods) = failing(|method, times| match (method, times) {
            ("tasks/get", 0) | ("tasks/update" | "tasks/result", 1) => Some("502 Bad Gateway"),
            // The server closes the connection.
            ("tasks/get", 1) | ("tasks/update" | "tasks/result", 0) => Some(""),
            ("tasks/get", 4) => Some("429 Too Many Requests"),
            _ => None,
        })
        .await;
        let client = builder_with_timeout_max(era, Duration::from_mins(1)).http(&url);
        assert_eq!(text(&client.call_tool("do", json!({})).await.unwrap()), "done", "{era:?}");
        let methods = methods.take();
        assert!(!methods.iter().any(|method| method == "tasks/cancel"), "{era:?}: {methods:?}");
        let retried_requests =
            methods.iter().filter(|method| matches!(&***method, "tasks/update" | "tasks/result")).count();
        assert_eq!(retried_requests, 3, "{era:?}: {methods:?}");
    }
}

#[tokio::test]
async fn task_polling_stops_at_403_and_at_call_timeout() {
    for era in [EraChoice::Modern, EraChoice::Legacy] {
        // A refusal is final. After a server error, the client polls until the timeout of the call.
        for (status, is_polled_again) in [("403 Forbidden", false), ("503 Service Unavailable", true)] {
            let (url, methods) = failing(move |method, _| (method == "tasks/get").then_some(status)).await;
            let client = builder_with_timeout_max(era, Duration::from_millis(1500)).http(&url);
            let failed = client.call_tool("do", json!({})).await.unwrap_err();
            let code: u16 = status[..3].parse().unwrap();
            assert!(matches!(failed, McpClientError::Status(status) if status.as_u16() == code), "{failed}");
            let polls = methods.take().iter().filter(|method| *method == "tasks/get").count();
            assert_eq!(polls > 1, is_polled_again, "{era:?}: {polls} for {status}");
        }
    }
}

/// Regression test: the limit also counted requests that the client had already answered. The server repeats
/// a request until it has received the answer.
#[tokio::test]
async fn task_may_send_100_input_requests() {
    for (count, is_allowed) in [(100, true), (101, false)] {
        let polls = Mutex::new(0);
        let url = scripted(move |_, message| {
            let Some(method) = message["method"].as_str() else { return refusal("405 Method Not Allowed") };
            let mut polls = polls.lock().unwrap();
            *polls += usize::from(method == "tasks/get");
            let mut result = result_of(method, *polls > 2, false);
            if let Some(requests) = result.get_mut("inputRequests") {
                *requests = (0..count).map(|n| (n.to_string(), json!({"method": "roots/list"}))).collect();
            }
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            response_of_http("Content-Type: application/json\r\n", &answer.to_string())
        });
        let client = builder_with_timeout_max(EraChoice::Modern, Duration::from_mins(1)).http(&url.await);
        let outcome = client.call_tool("do", json!({})).await;
        match outcome {
            Ok(result) => assert!(is_allowed && text(&result) == "done", "{count}"),
            Err(error) => assert!(!is_allowed && error == McpClientError::TooManyRounds, "{count}: {error}"),
        }
    }
}
