//! Tasks of 2025-11-25: the client requests them and fetches their results.

use std::sync::Mutex;

use serde_json::{Value, json};
use thruway_mcp_sdk::json_rpc::Error;
use thruway_mcp_sdk::schema::{ClientCapabilities, DetailedTask, TaskStatus};
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientBuilder, Revision, ToolOutcome};

use super::calls::text;
use super::misbehaving::on_stream_with;
use super::sites::{Recorder, response};

/// A server with the tools `must`, which is always a task, `may`, which can be one, and `fail`, which fails.
/// The task asks before it ends.
struct Server {
    polls: Mutex<u32>,
    /// The request for the result, which is waiting.
    waiting: Mutex<Value>,
    offers: Value,
}

impl Server {
    fn answer(&self, message: &Value) -> Vec<Value> {
        let (id, name) = (&message["id"], &message["params"]["name"]);
        let result = |result: Value| vec![json!({"jsonrpc": "2.0", "id": id, "result": result})];
        let is_task = message["params"].get("task").is_some();
        let tools = ["must", "may", "fail", "never"].map(tool);
        match message["method"].as_str() {
            Some("initialize") => result(json!({"protocolVersion": message["params"]["protocolVersion"],
                "capabilities": self.offers, "serverInfo": {"name": "tasks", "version": "1"}})),
            Some("tools/list") => result(json!({"tools": tools})),
            Some("tools/call") if is_task => result(json!({"task": task(name.as_str().unwrap(), "working")})),
            Some("tools/call") => result(json!({"content": [{"type": "text", "text": "at once"}]})),
            Some("tasks/get") => {
                let mut polls = self.polls.lock().unwrap();
                *polls += 1;
                let status = match (*polls, message["params"]["taskId"].as_str().unwrap()) {
                    (1, _) => "working",
                    (2, _) => "input_required",
                    (_, "fail" | "wrong") => "failed",
                    _ => "completed",
                };
                result(task(message["params"]["taskId"].as_str().unwrap(), status))
            }
            Some("tasks/result") if message["params"]["taskId"] == "fail" => {
                let error = json!({"code": -32000, "message": "it does not work"});
                vec![json!({"jsonrpc": "2.0", "id": id, "error": error})]
            }
            Some("tasks/result") if message["params"]["taskId"] == "wrong" => {
                result(json!({"content": [{"type": "text", "text": "it does not work"}], "isError": true}))
            }
            Some("tasks/result") => {
                *self.waiting.lock().unwrap() = id.clone();
                vec![json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
                    "params": {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}})]
            }
            Some("tasks/list") => {
                let is_first = message["params"].get("cursor").is_none();
                let page = if is_first {
                    json!({"tasks": [task("a", "working")], "nextCursor": "2"})
                } else {
                    json!({"tasks": [task("b", "completed")]})
                };
                result(page)
            }
            Some("tasks/cancel") => result(task("may", "cancelled")),
            None if message["id"] == "q" => {
                let name = &message["result"]["content"]["name"];
                let content = json!([{"type": "text", "text": format!("hello {}", name.as_str().unwrap())}]);
                let waiting = self.waiting.lock().unwrap().clone();
                vec![json!({"jsonrpc": "2.0", "id": waiting, "result": {"content": content,
                    "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "must"}}}})]
            }
            _ => Vec::new(),
        }
    }
}

fn tool(name: &str) -> Value {
    let support = match name {
        "may" => "optional",
        "never" => "forbidden",
        _ => "required",
    };
    json!({"name": name, "inputSchema": {"type": "object"}, "execution": {"taskSupport": support}})
}

fn task(id: &str, status: &str) -> Value {
    json!({"taskId": id, "status": status, "createdAt": "then", "lastUpdatedAt": "now", "ttl": null, "pollInterval": 10})
}

/// A client that supports tasks. Returns its sent messages too.
fn client(revision: Revision, offers: Value) -> (McpClient, Recorder<String>) {
    let sent = Recorder::new();
    let record = sent.callback();
    let capabilities = ClientCapabilities::default().with_elicitation().with_tasks();
    let builder: McpClientBuilder = McpClient::builder()
        .era(EraChoice::Revision(revision))
        .answers(capabilities, |question| async move { Ok::<_, Error>(response(&question)) });
    let server = Server { polls: Mutex::default(), waiting: Mutex::default(), offers };
    let client = on_stream_with(builder, move |message| {
        let method = message["method"].as_str().unwrap_or("an answer");
        let is_task = message["params"].get("task").is_some();
        record(format!("{method}{}", if is_task { " as task" } else { "" }));
        server.answer(&message).iter().flat_map(|answer| format!("{answer}\n").into_bytes()).collect()
    });
    (client, sent)
}

fn offers() -> Value {
    json!({"tools": {}, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}})
}

#[tokio::test]
async fn tool_that_requires_task_is_called_as_task_and_awaited() {
    let (client, sent) = client(Revision::R20251125, offers());
    let result = client.call_tool("must", json!({})).await.unwrap();
    assert_eq!(text(&result), "hello Ada");
    let sent = sent.take();
    assert_eq!(
        sent[2..].join(", "),
        "tools/list, tools/call as task, tasks/get, tasks/get, tasks/result, an answer"
    );
    // An optional task is not requested.
    assert_eq!(text(&client.call_tool("may", json!({})).await.unwrap()), "at once");
}

#[tokio::test]
async fn client_can_start_poll_list_and_cancel_optional_task() {
    let (client, _) = client(Revision::R20251125, offers());
    let ToolOutcome::Task(task) = client.begin_tool("may", json!({})).await.unwrap() else {
        panic!("it should become a task");
    };
    assert_eq!((task.status, &*task.state.task_id), (TaskStatus::Working, "may"));
    assert!(matches!(client.get_task("may").await.unwrap(), DetailedTask::Working(_)));
    assert!(matches!(client.get_task("may").await.unwrap(), DetailedTask::InputRequired(_)));
    let DetailedTask::Completed(completed) = client.get_task("may").await.unwrap() else {
        panic!("it should have ended");
    };
    assert!(completed.result["content"].to_string().contains("hello Ada"));
    let ids: Vec<_> = client.list_tasks().await.unwrap().into_iter().map(|task| task.state.task_id).collect();
    assert_eq!(ids, ["a", "b"]);
    client.cancel_task("may").await.unwrap();
    let ToolOutcome::Result(result) = client.begin_tool("never", json!({})).await.unwrap() else {
        panic!("it should not become a task");
    };
    assert_eq!(text(&result), "at once");
}

#[tokio::test]
async fn failed_task_fails_its_call() {
    let (client, _) = client(Revision::R20251125, offers());
    let failed = client.call_tool("fail", json!({})).await.unwrap_err();
    assert!(failed.server_error().is_some_and(|error| error.message == "it does not work"), "{failed}");
    assert!(matches!(client.get_task("fail").await.unwrap(), DetailedTask::Failed(_)));
}

/// Regression test: the client treated the result of a failed task as success.
#[tokio::test]
async fn task_with_tool_error_result_has_failed_status() {
    let (client, _) = client(Revision::R20251125, offers());
    for _ in 0..2 {
        client.get_task("wrong").await.unwrap();
    }
    let task = client.get_task("wrong").await.unwrap();
    assert!(matches!(task, DetailedTask::Failed(_)), "{task:?}");
}

#[tokio::test]
async fn call_is_not_a_task_if_server_does_not_offer_tasks() {
    for (revision, offers) in [(Revision::R20251125, json!({"tools": {}})), (Revision::R20250618, offers())] {
        let (client, sent) = client(revision, offers);
        let outcome = client.begin_tool("must", json!({})).await;
        assert!(matches!(outcome, Ok(ToolOutcome::Result(_))), "{revision}");
        assert!(sent.take().iter().all(|sent| !sent.contains("task") && sent != "tools/list"), "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_call_cancels_its_task() {
    let (client, sent) = client(Revision::R20251125, offers());
    let call = client.call_tool("must", json!({}));
    let is_begun = async {
        while !sent.take().iter().any(|sent| sent == "tasks/get") {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        biased;
        () = is_begun => {}
        outcome = call => panic!("{outcome:?}"),
    }
    while !sent.take().iter().any(|sent| sent == "tasks/cancel") {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}
