//! A server of 2025-11-25 with tools that are called as tasks. Its task ids are sequential and therefore easy
//! to guess.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use thruway_mcp_sdk::{Bridge, BridgeOptions, EraChoice, McpClient, McpClientBuilder};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use super::sites::options;

/// All connections to the server. Each one behaves like a separate process.
#[derive(Clone)]
pub(crate) struct TaskServer {
    capabilities: Value,
    connections: Arc<Mutex<Vec<mpsc::UnboundedSender<Control>>>>,
    seen: Arc<Mutex<Vec<Value>>>,
}

enum Control {
    /// Ends a task with this status.
    End(String, &'static str),
    /// Sends this message unchanged.
    Say(Value),
}

#[derive(Default)]
struct Process {
    /// The states of the tasks.
    tasks: BTreeMap<String, &'static str>,
    count: usize,
    /// Requests for the result of a task that are waiting.
    waiting: Vec<(String, Value)>,
    /// The answers that a task has received.
    answered: BTreeMap<String, Value>,
}

impl TaskServer {
    pub(crate) fn new() -> Self {
        let tasks = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        Self::offering(json!({"tools": {}, "tasks": tasks}))
    }

    pub(super) fn offering(capabilities: Value) -> Self {
        Self { capabilities, connections: Arc::default(), seen: Arc::default() }
    }

    pub(crate) fn connect(&self, builder: McpClientBuilder) -> McpClient {
        let (near, far) = UnixStream::pair().unwrap();
        let (control, controls) = mpsc::unbounded_channel();
        self.connections.lock().unwrap().push(control);
        tokio::spawn(serve(far, self.clone(), controls));
        builder.unix_stream(near)
    }

    pub(super) async fn bridge(&self) -> Bridge {
        self.bridge_with(options(EraChoice::Legacy)).await
    }

    pub(super) async fn bridge_with(&self, options: BridgeOptions) -> Bridge {
        let server = self.clone();
        Bridge::connect(options, move |builder| Ok(server.connect(builder))).await.unwrap()
    }

    /// Makes the latest connection end a task.
    pub(crate) fn end(&self, task: &str, status: &'static str) {
        self.control(Control::End(task.to_owned(), status));
    }

    pub(super) fn say(&self, message: Value) {
        self.control(Control::Say(message));
    }

    fn control(&self, control: Control) {
        let connections = self.connections.lock().unwrap();
        assert!(connections.last().unwrap().send(control).is_ok(), "the connection should be there");
    }

    /// Returns the number of connections.
    pub(super) fn connections(&self) -> usize {
        self.connections.lock().unwrap().len()
    }

    /// Returns the received messages with this method.
    pub(super) fn seen(&self, method: &str) -> Vec<Value> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|message| message["method"] == method).cloned().collect()
    }

    /// Waits for `count` messages with this method.
    pub(super) async fn until_seen(&self, method: &str, count: usize) -> Vec<Value> {
        let seeing = async {
            loop {
                let seen = self.seen(method);
                if seen.len() >= count {
                    return seen;
                }
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        };
        let seen = tokio::time::timeout(std::time::Duration::from_mins(1), seeing).await;
        seen.unwrap_or_else(|_| panic!("not seen: {method}"))
    }
}

async fn serve(stream: UnixStream, server: TaskServer, mut controls: mpsc::UnboundedReceiver<Control>) {
    let (input, mut output) = stream.into_split();
    let mut lines = BufReader::new(input).lines();
    let mut process = Process::default();
    loop {
        let messages = tokio::select! {
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { return };
                let message: Value = serde_json::from_str(&line).unwrap();
                server.seen.lock().unwrap().push(message.clone());
                process.answer(&message, &server.capabilities)
            }
            Some(control) = controls.recv() => match control {
                Control::End(task, status) => process.end(&task, status),
                Control::Say(message) => vec![message],
            },
        };
        let messages: Vec<u8> =
            messages.iter().flat_map(|message| format!("{message}\n").into_bytes()).collect();
        if output.write_all(&messages).await.is_err() {
            return;
        }
    }
}

impl Process {
    fn answer(&mut self, message: &Value, capabilities: &Value) -> Vec<Value> {
        let (id, params) = (&message["id"], &message["params"]);
        let task = params["taskId"].as_str().unwrap_or_default();
        let result = |result: Value| vec![json!({"jsonrpc": "2.0", "id": id, "result": result})];
        match message["method"].as_str() {
            Some("initialize") => result(json!({"protocolVersion": params["protocolVersion"],
                "capabilities": capabilities, "serverInfo": {"name": "tasks", "version": "1"}})),
            Some("tools/list") => result(json!({ "tools": TOOLS.map(tool) })),
            Some("tools/call") if params["task"].is_object() => self.begin(message),
            Some("tools/call") => result(json!({"content": [{"type": "text", "text": "at once"}]})),
            Some("tasks/list") => result(self.page(params["cursor"].as_str())),
            Some("tasks/get" | "tasks/result" | "tasks/cancel") if !self.tasks.contains_key(task) => {
                vec![error(id, -32602, "Task not found")]
            }
            Some("tasks/get") => result(self.task_state(task)),
            Some("tasks/cancel") => {
                let mut messages = self.end(task, "cancelled");
                messages.extend(result(self.task_state(task)));
                messages
            }
            Some("tasks/result") => {
                self.waiting.push((task.to_owned(), id.clone()));
                self.settle()
            }
            None if message["id"].as_str().is_some_and(|id| id.starts_with("task-")) => {
                let task = message["id"].as_str().unwrap().to_owned();
                self.answered.insert(task.clone(), message["result"].clone());
                self.end(&task, "completed")
            }
            Some(_) if !id.is_null() => vec![error(id, -32601, "no such method")],
            _ => Vec::new(),
        }
    }

    fn begin(&mut self, message: &Value) -> Vec<Value> {
        self.count += 1;
        let task = format!("task-{}", self.count);
        self.tasks.insert(task.clone(), "working");
        let mut messages =
            vec![json!({"jsonrpc": "2.0", "id": message["id"], "result": {"task": self.task_state(&task)}})];
        match message["params"]["name"].as_str() {
            Some("quick") => messages.extend(self.end(&task, "completed")),
            Some("fails") => messages.extend(self.end(&task, "failed")),
            Some("asks") => {
                self.tasks.insert(task.clone(), "input_required");
                messages.push(
                    json!({"jsonrpc": "2.0", "id": task, "method": "elicitation/create", "params": {
                    "message": "who?", "requestedSchema": {"type": "object", "properties": {}}, "task": {},
                    "_meta": related(&task)}}),
                );
            }
            _ => {}
        }
        messages
    }

    fn end(&mut self, task: &str, status: &'static str) -> Vec<Value> {
        self.tasks.insert(task.to_owned(), status);
        let task_state = self.task_state(task);
        let mut messages =
            vec![json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": task_state})];
        messages.extend(self.settle());
        messages
    }

    /// Answers the requests for results of finished tasks.
    fn settle(&mut self) -> Vec<Value> {
        let waiting = std::mem::take(&mut self.waiting);
        let (finished, waiting): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|(task, _)| !matches!(self.tasks[task], "working" | "input_required"));
        self.waiting = waiting;
        finished.iter().map(|(task, id)| self.result(task, id)).collect()
    }

    fn result(&self, task: &str, id: &Value) -> Value {
        match self.tasks[task] {
            "failed" => error(id, -32000, "it does not work"),
            "cancelled" => error(id, -32001, "it was given up"),
            _ => {
                let answered = self.answered.get(task).cloned().unwrap_or_default();
                let text = format!("done {}", answered["content"]["name"].as_str().unwrap_or("alone"));
                json!({"jsonrpc": "2.0", "id": id, "result": {
                    "content": [{"type": "text", "text": text}], "structuredContent": answered,
                    "_meta": related(task)}})
            }
        }
    }

    fn task_state(&self, task: &str) -> Value {
        json!({"taskId": task, "status": self.tasks[task], "createdAt": "2025-11-25T10:30:00Z",
            "lastUpdatedAt": "2025-11-25T10:40:00Z", "ttl": 60000, "pollInterval": 10})
    }

    /// Returns two tasks of any client.
    fn page(&self, cursor: Option<&str>) -> Value {
        let rest = self.tasks.keys().filter(|task| cursor.is_none_or(|cursor| task.as_str() > cursor));
        let page: Vec<_> = rest.take(2).collect();
        let tasks: Vec<_> = page.iter().map(|task| self.task_state(task)).collect();
        let is_last = page.last() == self.tasks.keys().last().as_ref();
        let mut result = json!({"tasks": tasks, "_meta": {"x": 1}});
        if !is_last {
            result["nextCursor"] = json!(page.last());
        }
        result
    }
}

const TOOLS: [&str; 4] = ["slow", "quick", "asks", "fails"];

fn tool(name: &str) -> Value {
    let support = if name == "slow" { "optional" } else { "required" };
    json!({"name": name, "inputSchema": {"type": "object"}, "execution": {"taskSupport": support}})
}

fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

pub(super) fn related(task: &str) -> Value {
    json!({"io.modelcontextprotocol/related-task": {"taskId": task}})
}
