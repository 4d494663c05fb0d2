//! Tasks of 2025-11-25 cross a bridge and reach only their owners.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::json_rpc::Error;
use thruway_mcp_sdk::schema::{ClientCapabilities, DetailedTask, TaskStatus};
use thruway_mcp_sdk::{
    Bridge, BridgeOptions, EraChoice, McpClient, McpClientError, McpServer, Revision, ServerNotification,
    ToolOutcome,
};
use tokio::time::timeout;

use super::sites::{options, over_http};
use super::task_server::{TaskServer, related};
use crate::client::calls::text;
use crate::client::sites::{self, Recorder};
use crate::http::{Exchange, Message, Session, Site};

const REVISION: &str = "2025-11-25";

/// A client that supports tasks and cannot answer questions. Returns its notifications too.
fn client(bridge: &McpServer) -> (McpClient, Recorder<ServerNotification>) {
    let recorder = Recorder::new();
    let capabilities = ClientCapabilities::default().with_tasks();
    let builder = McpClient::builder()
        .era(EraChoice::Revision(Revision::R20251125))
        .answers(capabilities, |_| async { Err::<_, Error>(Error::internal("no user")) })
        .on_notification(recorder.callback());
    (builder.server(bridge), recorder)
}

async fn begin(client: &McpClient, tool: &str) -> String {
    match client.begin_tool(tool, json!({})).await.unwrap() {
        ToolOutcome::Task(task) => task.state.task_id,
        ToolOutcome::Result(result) => panic!("it should become a task: {result:?}"),
    }
}

/// Returns the answer to a request of a session.
async fn ask(site: &Site, session: &Session, method: &str, params: Value) -> Value {
    let response = site.send(&session.request(7, method, &params)).await;
    let is_stream = response.head.contains("text/event-stream");
    if is_stream { response.messages().pop().unwrap() } else { response.message() }
}

/// Calls a tool as a task, and returns the id of the task.
async fn begin_task(site: &Site, session: &Session, tool: &str) -> String {
    let answer = ask(site, session, "tools/call", json!({"name": tool, "arguments": {}, "task": {}})).await;
    let id = answer["result"]["task"]["taskId"].as_str();
    id.unwrap_or_else(|| panic!("it should become a task: {answer}")).to_owned()
}

/// Returns the next notification with this method.
async fn next_notification(recorder: &Recorder<ServerNotification>, expected: &str) -> Value {
    let receiving = async {
        loop {
            for one in recorder.take() {
                if let ServerNotification::Other { method, params } = one
                    && method == expected
                {
                    return Value::Object(params);
                }
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_mins(1), receiving).await.unwrap_or_else(|_| panic!("no notification: {expected}"))
}

/// Returns a bridge to a server, and a bridge to that bridge over HTTP.
async fn bridges(server: &TaskServer) -> (Vec<(&'static str, Bridge)>, sites::Site) {
    let near = server.bridge().await;
    let site = sites::Site::new(&near);
    let second_bridge = over_http(&site.url, options(EraChoice::Legacy)).await;
    (vec![("on a stream", near), ("over HTTP", second_bridge)], site)
}

#[tokio::test]
async fn client_can_start_poll_await_list_and_cancel_tasks() {
    let server = TaskServer::new();
    let (bridges, _site) = bridges(&server).await;
    for (n, (way, bridge)) in bridges.into_iter().enumerate() {
        let (client, _) = client(&bridge);
        let id = begin(&client, "slow").await;
        assert!(id.len() >= 32, "{way}: {id} could be guessed");
        assert!(matches!(client.get_task(&id).await.unwrap(), DetailedTask::Working(_)), "{way}");
        let waiting = tokio::spawn({
            let (client, id) = (client.clone(), id.clone());
            async move { client.wait_for_task(&id).await }
        });
        server.until_seen("tasks/get", server.seen("tasks/get").len() + 1).await;
        server.end(&format!("task-{}", 3 * n + 1), "completed");
        assert_eq!(text(&waiting.await.unwrap().unwrap()), "done alone", "{way}");
        let second = begin(&client, "slow").await;
        let listed = client.list_tasks().await.unwrap();
        let ids: Vec<_> = listed.iter().map(|task| task.state.task_id.as_str()).collect();
        assert_eq!(ids, [&*id, &*second], "{way}");
        client.cancel_task(&second).await.unwrap();
        let task = client.get_task(&second).await.unwrap();
        assert!(matches!(task, DetailedTask::Cancelled(_)), "{way}: {task:?}");
        let failing = begin(&client, "fails").await;
        let error = client.wait_for_task(&failing).await.unwrap_err();
        assert_eq!(error.server_error().unwrap().message, "it does not work", "{way}");
        client.cancel_task(&failing).await.unwrap();
        // A call without a task stays a call.
        assert_eq!(text(&client.call_tool("slow", json!({})).await.unwrap()), "at once", "{way}");
        drop(client);
    }
}

#[tokio::test]
async fn tasks_are_offered_only_if_server_and_client_support_them() {
    let offered = async |bridge: &McpServer, revision: &str| {
        let answer = Site::new(bridge).send(&Session::initialize(revision, &json!({}))).await.message();
        answer["result"]["capabilities"]["tasks"].clone()
    };
    let bridge = TaskServer::new().bridge().await;
    assert!(offered(&bridge, REVISION).await["requests"]["tools"]["call"].is_object());
    assert!(offered(&bridge, REVISION).await["list"].is_object());
    assert_eq!(offered(&bridge, "2025-06-18").await, Value::Null);
    let without_list = json!({"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}});
    let bridge = TaskServer::offering(without_list).bridge().await;
    assert_eq!(offered(&bridge, REVISION).await, json!({"requests": {"tools": {"call": {}}}}));
    for capabilities in [json!({"tools": {}}), json!({"tools": {}, "tasks": {"list": {}}})] {
        let server = TaskServer::offering(capabilities.clone());
        assert_eq!(offered(server.bridge().await.server(), REVISION).await, Value::Null, "{capabilities}");
    }
    let older = options(EraChoice::Revision(Revision::R20250618));
    assert_eq!(offered(TaskServer::new().bridge_with(older).await.server(), REVISION).await, Value::Null);
}

/// Regression test: the server created a task, although its client had not been offered tasks.
#[tokio::test]
async fn client_that_was_not_offered_tasks_cannot_use_them() {
    let server = TaskServer::new();
    let bridge = server.bridge().await;
    let site = Site::new(&bridge);
    let session = site.initialize_with("2025-06-18", &json!({})).await;
    let call = json!({"name": "slow", "arguments": {}, "task": {"ttl": 1}});
    let answer = ask(&site, &session, "tools/call", call.clone()).await;
    assert_eq!(answer["result"]["content"][0]["text"], "at once", "{answer}");
    assert!(server.seen("tools/call")[0]["params"].get("task").is_none());
    let modern = Message::modern("tools/call", call);
    let answer = site.send(&modern).await.message();
    assert_eq!(answer["result"]["content"][0]["text"], "at once", "{answer}");
    // A task of another client, which the server itself would reveal.
    let with_tasks = site.initialize_with(REVISION, &json!({})).await;
    begin_task(&site, &with_tasks, "slow").await;
    for method in ["tasks/get", "tasks/result", "tasks/update", "tasks/cancel", "tasks/list"] {
        let params = json!({"taskId": "task-1"});
        let extension = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let modern = Message::modern_with(method, params.clone(), &extension);
        for answer in [ask(&site, &session, method, params).await, site.send(&modern).await.message()] {
            assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(message.contains("does not support this request about tasks"), "{message}");
        }
        assert_eq!(server.seen(method), [] as [Value; 0]);
    }
}

#[tokio::test]
async fn client_cannot_list_poll_await_or_cancel_task_of_another_client() {
    let server = TaskServer::new();
    let bridge = server.bridge().await;
    let site = Site::new(&bridge);
    let (ada, bob) =
        (site.initialize_with(REVISION, &json!({})).await, site.initialize_with(REVISION, &json!({})).await);
    let of_ada = begin_task(&site, &ada, "slow").await;
    let of_bob = begin_task(&site, &bob, "slow").await;
    assert_eq!(server.connections(), 1, "they share the server");
    // Ids of other clients, ids of the server, and invalid ids.
    for id in [json!(of_ada), json!("task-1"), json!("task-2"), json!(""), json!("x".repeat(100_000))] {
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            let answer = ask(&site, &bob, method, json!({ "taskId": id })).await;
            assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
            assert_eq!(answer["error"]["message"], "there is no such task");
            assert_eq!(server.seen(method), [] as [Value; 0]);
        }
    }
    for params in [json!({}), json!({"taskId": null}), json!({"taskId": 1}), json!({"taskId": ["a"]})] {
        let answer = ask(&site, &bob, "tasks/get", params).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    for (session, own) in [(&ada, &of_ada), (&bob, &of_bob)] {
        let page = ask(&site, session, "tasks/list", json!({})).await;
        let tasks = page["result"]["tasks"].as_array().unwrap();
        assert_eq!(tasks.len(), 1, "{page}");
        assert_eq!(tasks[0]["taskId"], json!(own), "{page}");
        assert_eq!(page["result"]["_meta"]["x"], 1);
    }
    let shown = ask(&site, &ada, "tasks/get", json!({"taskId": of_ada})).await;
    assert_eq!(shown["result"]["taskId"], json!(of_ada));
    assert_eq!(server.seen("tasks/get")[0]["params"]["taskId"], "task-1");
}

#[tokio::test]
async fn task_status_notifications_reach_only_its_client() {
    let server = TaskServer::new();
    let bridge = server.bridge().await;
    let ((ada, ada_recorder), (bob, bob_recorder)) = (client(&bridge), client(&bridge));
    let id = begin(&ada, "slow").await;
    begin(&bob, "slow").await;
    server.end("task-1", "completed");
    let status = next_notification(&ada_recorder, "notifications/tasks/status").await;
    assert_eq!((&status["taskId"], &status["status"]), (&json!(id), &json!("completed")));
    // Directly after the answer that announces the task.
    let quick = begin(&ada, "quick").await;
    assert_eq!(next_notification(&ada_recorder, "notifications/tasks/status").await["taskId"], json!(quick));
    bob.ping().await.unwrap();
    assert_eq!(bob_recorder.take(), []);
}

#[tokio::test]
async fn notifications_for_unknown_tasks_are_ignored() {
    let server = TaskServer::new();
    let bridge = server.bridge().await;
    let (client, recorder) = client(&bridge);
    let id = begin(&client, "slow").await;
    let status =
        |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": params});
    for params in [
        json!({"taskId": "task-9", "status": "completed"}),
        json!({"taskId": id, "status": "completed"}),
        json!({"taskId": "task-1", "status": "exploded"}),
        json!({"taskId": "task-1"}),
        json!({"taskId": 1, "status": "completed"}),
        json!({"taskId": "x".repeat(2000), "status": "completed"}),
        json!([]),
    ] {
        server.say(status(params));
    }
    server.say(json!({"jsonrpc": "2.0", "method": "notifications/tasks/status"}));
    for token in [json!("task-1"), json!("unknown"), json!(77)] {
        server.say(json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": token, "progress": 1}}));
    }
    server.end("task-1", "cancelled");
    let status = next_notification(&recorder, "notifications/tasks/status").await;
    assert_eq!(
        (&status["taskId"], &status["status"]),
        (&json!(id), &json!("cancelled")),
        "the first notification"
    );
}

/// The notifications use the stream of the `tasks/result` request. A client without another stream would
/// otherwise miss them.
#[tokio::test]
async fn tasks_result_stream_carries_notifications_of_its_task() {
    let server = TaskServer::new();
    let bridge = server.bridge().await;
    let site = Site::new(&bridge);
    let session = site.initialize_with(REVISION, &json!({"elicitation": {}})).await;
    let call = json!({"name": "slow", "arguments": {}, "task": {}, "_meta": {"progressToken": "mine"}});
    let answer = ask(&site, &session, "tools/call", call).await;
    let id = answer["result"]["task"]["taskId"].clone();
    let mut waiting = site.open(&session.request(8, "tasks/result", &json!({ "taskId": id })));
    server.until_seen("tasks/result", 1).await;
    let token = server.seen("tools/call")[0]["params"]["_meta"]["progressToken"].clone();
    server.say(json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": token, "progress": 0.5, "_meta": related("task-1")}}));
    let progress = waiting.next_message().await;
    assert_eq!(progress["params"]["progressToken"], "mine", "{progress}");
    assert_eq!(progress["params"]["_meta"], related(id.as_str().unwrap()));
    server.say(json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "error", "data": "hm", "_meta": related("task-1")}}));
    let logged = waiting.next_message().await;
    assert_eq!(logged["params"]["_meta"], related(id.as_str().unwrap()), "{logged}");
    server.end("task-1", "completed");
    assert_eq!(waiting.next_message().await["params"]["status"], "completed");
    let result = waiting.next_message().await;
    assert_eq!(result["result"]["_meta"], related(id.as_str().unwrap()), "{result}");
    assert_eq!(result["result"]["content"][0]["text"], "done alone");
}

/// Answers a question on a stream, with a reference to a task.
async fn answer_question(
    site: &Site,
    session: &Session,
    stream: &mut Exchange,
    task: &str,
    related_to: &str,
) {
    let question = stream.next_message().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    assert_eq!(question["params"]["_meta"], related(task), "{question}");
    assert!(question["params"].get("task").is_none(), "the bridge should remove the task parameter");
    let answer = json!({"action": "accept", "content": {"name": "Ada"}, "_meta": related(related_to)});
    assert_eq!(site.send(&session.respond(&question["id"], &answer)).await.status, 202);
}

#[tokio::test]
async fn task_elicitation_reaches_only_its_client() {
    let server = TaskServer::new();
    let bridge = server.bridge().await;
    let site = Site::new(&bridge);
    let capabilities = json!({"elicitation": {}, "tasks": {"requests": {"elicitation": {"create": {}}}}});
    let other = site.initialize_with(REVISION, &capabilities).await;
    let of_other = begin_task(&site, &other, "slow").await;
    for foreign in [false, true] {
        let session = site.initialize_with(REVISION, &capabilities).await;
        // The task asks directly after the answer, when no request is open.
        let mut stream = site.open(&session.get());
        stream.head().await;
        let id = begin_task(&site, &session, "asks").await;
        let named = if foreign { &of_other } else { &id };
        answer_question(&site, &session, &mut stream, &id, named).await;
        let result = ask(&site, &session, "tasks/result", json!({ "taskId": id })).await;
        assert_eq!(result["result"]["content"][0]["text"], "done Ada", "{result}");
        // The data that the server has received.
        let received = &result["result"]["structuredContent"]["_meta"];
        assert_eq!(*received, if foreign { json!({}) } else { related("task-1") });
    }
    let initialized = server.seen("initialize");
    let capabilities = &initialized.last().unwrap()["params"]["capabilities"];
    assert!(capabilities["elicitation"].is_object() && capabilities.get("tasks").is_none(), "{capabilities}");
}

#[tokio::test]
async fn tasks_of_one_client_are_limited_so_others_can_create_tasks() {
    let server = TaskServer::new();
    let bridge = server.bridge().await;
    let site = Site::new(&bridge);
    let greedy = site.initialize_with(REVISION, &json!({})).await;
    let call = json!({"name": "slow", "arguments": {}, "task": {}});
    let mut ids = Vec::new();
    for n in 0..1000 {
        let answer = ask(&site, &greedy, "tools/call", call.clone()).await;
        match answer["result"]["task"]["taskId"].as_str() {
            Some(id) => ids.push(id.to_owned()),
            None => assert!(
                answer["error"]["message"].as_str().unwrap().contains("too many tasks"),
                "{n}: {answer}"
            ),
        }
    }
    assert_eq!(ids.len(), 100);
    assert_eq!(server.seen("tools/call").len(), 100, "a refused call starts no task");
    let other = site.initialize_with(REVISION, &json!({})).await;
    begin_task(&site, &other, "slow").await;
    // A finished task makes space for another, and is forgotten then.
    ask(&site, &greedy, "tasks/cancel", json!({"taskId": ids[5]})).await;
    begin_task(&site, &greedy, "slow").await;
    let answer = ask(&site, &greedy, "tasks/get", json!({"taskId": ids[5]})).await;
    assert_eq!(answer["error"]["message"], "there is no such task", "{answer}");
    let answer = ask(&site, &greedy, "tools/call", call).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("too many tasks"), "{answer}");
}

#[tokio::test]
async fn tasks_of_one_caller_are_limited_by_tasks_max() {
    // All sessions belong to one caller, which may use half of the limit.
    let options = BridgeOptions { tasks_max: 6, ..options(EraChoice::Legacy) };
    let bridge = TaskServer::new().bridge_with(options).await;
    let site = Site::new(&bridge);
    let call = json!({"name": "slow", "arguments": {}, "task": {}});
    let mut sessions = Vec::new();
    for n in 0..5 {
        let session = site.initialize_with(REVISION, &json!({})).await;
        let answer = ask(&site, &session, "tools/call", call.clone()).await;
        assert_eq!(answer["result"].is_object(), n < 3, "{n}: {answer}");
        sessions.push(session);
    }
    // The end of a session frees its tasks.
    assert_eq!(site.send(&sessions[0].delete()).await.status, 204);
    begin_task(&site, &sessions[4], "slow").await;
}

#[tokio::test(start_paused = true)]
async fn task_is_removed_after_its_ttl() {
    let options = BridgeOptions { tasks_max: 1, ..options(EraChoice::Legacy) };
    let bridge = TaskServer::new().bridge_with(options).await;
    let site = Site::new(&bridge);
    let session = site.initialize_with(REVISION, &json!({})).await;
    let id = begin_task(&site, &session, "slow").await;
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert!(ask(&site, &session, "tasks/get", json!({ "taskId": id })).await["result"].is_object());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let answer = ask(&site, &session, "tasks/get", json!({ "taskId": id })).await;
    assert_eq!(answer["error"]["message"], "there is no such task", "{answer}");
    begin_task(&site, &session, "slow").await;
}

/// Regression test: the server continued to work on tasks without a client.
#[tokio::test]
async fn running_tasks_of_ended_session_are_canceled() {
    // Clients of a shared server, and clients with their own server.
    for capabilities in [json!({}), json!({"elicitation": {}})] {
        let server = TaskServer::new();
        let bridge = server.bridge().await;
        let site = Site::new(&bridge);
        let bob = site.initialize_with(REVISION, &capabilities).await;
        begin_task(&site, &bob, "slow").await;
        let ada = site.initialize_with(REVISION, &capabilities).await;
        begin_task(&site, &ada, "quick").await;
        let ended = ask(&site, &ada, "tasks/list", json!({})).await;
        assert_eq!(ended["result"]["tasks"].as_array().unwrap().len(), 1, "{ended}");
        begin_task(&site, &ada, "slow").await;
        assert_eq!(site.send(&ada.delete()).await.status, 204);
        let cancelled = server.until_seen("tasks/cancel", 1).await;
        assert_eq!(cancelled.len(), 1);
        // Not the finished task, and not the task of another client.
        let expected = if server.connections() == 1 { "task-3" } else { "task-2" };
        assert_eq!(cancelled[0]["params"]["taskId"], expected);
    }
}

#[tokio::test]
async fn failed_task_creation_does_not_count_toward_tasks_max() {
    let options = BridgeOptions { tasks_max: 1, ..options(EraChoice::Legacy) };
    let capabilities = json!({"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}});
    let answers = std::sync::Mutex::new(vec![
        json!({"result": {"task": {"taskId": "a", "status": "working", "ttl": null}}}),
        json!({"result": {"task": {"taskId": "x".repeat(2000), "status": "working", "ttl": null}}}),
        json!({"result": {"task": {"taskId": 7, "status": "working", "ttl": null}}}),
        json!({"result": {"task": {"taskId": "a", "status": "exploded", "ttl": null}}}),
        json!({"result": {"task": 1}}),
        json!({"result": []}),
        json!({"error": {"code": -32000, "message": "no"}}),
        json!({"result": {"content": []}}),
    ]);
    let connect = move |builder| {
        let (answers, capabilities) = (std::mem::take(&mut *answers.lock().unwrap()), capabilities.clone());
        let answers = std::sync::Mutex::new(answers);
        Ok(crate::client::misbehaving::on_stream_with(builder, move |message: Value| {
            let mut answer = match message["method"].as_str() {
                Some("initialize") => json!({"result": {"protocolVersion": REVISION,
                    "capabilities": capabilities, "serverInfo": {"name": "odd", "version": "1"}}}),
                Some("tools/call") => answers.lock().unwrap().pop().unwrap(),
                _ => return Vec::new(),
            };
            answer["jsonrpc"] = "2.0".into();
            answer["id"] = message["id"].clone();
            format!("{answer}\n").into_bytes()
        }))
    };
    let bridge = Bridge::connect(options, connect).await.unwrap();
    let site = Site::new(&bridge);
    let session = site.initialize_with(REVISION, &json!({})).await;
    let call = json!({"name": "any", "arguments": {}, "task": {}});
    let answer = ask(&site, &session, "tools/call", call.clone()).await;
    assert_eq!(answer["result"]["content"], json!([]), "servers may answer at once: {answer}");
    let answer = ask(&site, &session, "tools/call", call.clone()).await;
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    for _ in 0..5 {
        let answer = ask(&site, &session, "tools/call", call.clone()).await;
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().len() < 300, "{answer}");
    }
    begin_task(&site, &session, "any").await;
}

/// Regression test: the replacement server started its ids again, so the bridge took its first task for
/// the previous one.
#[tokio::test]
async fn task_of_crashed_server_is_reported_as_lost() {
    let tasks = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    let task = r#"{\"taskId\":\"task-1\",\"status\":\"working\",\"createdAt\":\"t\",\"lastUpdatedAt\":\"t\",\"ttl\":null}"#;
    let answer = |result: &str| format!(r#"echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{result}}}""#);
    let script = super::faults::script(&answer(&format!(r#"{{\"task\":{task}}}"#)));
    let script = script.replace("2025-06-18", REVISION);
    let script = script.replace(
        r#"\"tools\":{}"#,
        &format!(r#"\"tools\":{{}},\"tasks\":{}"#, tasks.to_string().replace('"', "\\\"")),
    );
    let cases = format!("*tasks/get*) {} ;; *tasks/result*) exit 1 ;; *tools/call*)", answer(task));
    let script = script.replace("*tools/call*)", &cases);
    let connect = move |builder: thruway_mcp_sdk::McpClientBuilder| {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        builder.command(command)
    };
    let options = BridgeOptions { tasks_per_client_max: 2, ..options(EraChoice::Legacy) };
    let bridge = Bridge::connect(options, connect).await.unwrap();
    let site = Site::new(&bridge);
    let session = site.initialize_with(REVISION, &json!({})).await;
    let lost = begin_task(&site, &session, "any").await;
    let shown = ask(&site, &session, "tasks/get", json!({ "taskId": lost })).await;
    assert_eq!(shown["result"]["status"], "working", "{shown}");
    // A client that waits when the server dies gets an error, and the request is not repeated.
    let expected = "the task is lost: its server has exited";
    for method in ["tasks/result", "tasks/get", "tasks/cancel", "tasks/result"] {
        let answer = ask(&site, &session, method, json!({ "taskId": lost })).await;
        assert_eq!(answer["error"]["message"], expected, "{method}: {answer}");
    }
    let next = begin_task(&site, &session, "any").await;
    let shown = ask(&site, &session, "tasks/get", json!({ "taskId": next })).await;
    assert_eq!(shown["result"]["taskId"], json!(next), "{shown}");
    let answer = ask(&site, &session, "tasks/get", json!({ "taskId": lost })).await;
    assert_eq!(answer["error"]["message"], expected, "{answer}");
    // The lost task makes space for another. The server accepts the call, but it knows only one id.
    let call = json!({"name": "any", "arguments": {}, "task": {}});
    let answer = ask(&site, &session, "tools/call", call).await;
    assert!(answer["error"]["message"].as_str().unwrap().ends_with("the id of another task"), "{answer}");
    let answer = ask(&site, &session, "tasks/get", json!({ "taskId": lost })).await;
    assert_eq!(answer["error"]["message"], "there is no such task", "{answer}");
    bridge.close().await;
    let answer = ask(&site, &session, "tasks/get", json!({ "taskId": next })).await;
    assert_eq!(answer["error"]["message"], expected, "{answer}");
}

/// Regression test: two clients would share one task of such a server.
#[tokio::test]
async fn duplicate_task_id_from_server_is_rejected() {
    let capabilities = json!({"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}});
    let connect = move |builder| {
        let capabilities = capabilities.clone();
        Ok(crate::client::misbehaving::on_stream_with(builder, move |message: Value| {
            let result = match message["method"].as_str() {
                Some("initialize") => json!({"protocolVersion": REVISION, "capabilities": capabilities,
                    "serverInfo": {"name": "odd", "version": "1"}}),
                Some("tools/call") => json!({"task": {"taskId": "same", "status": "working", "ttl": null}}),
                Some("tasks/get") => json!({"taskId": "other", "status": "working", "ttl": null}),
                _ => return Vec::new(),
            };
            format!("{}\n", json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_bytes()
        }))
    };
    let bridge = Bridge::connect(options(EraChoice::Legacy), connect).await.unwrap();
    let site = Site::new(&bridge);
    let (ada, bob) =
        (site.initialize_with(REVISION, &json!({})).await, site.initialize_with(REVISION, &json!({})).await);
    let id = begin_task(&site, &ada, "any").await;
    let call = json!({"name": "any", "arguments": {}, "task": {}});
    let answer = ask(&site, &bob, "tools/call", call).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("the id of another task"), "{answer}");
    let answer = ask(&site, &ada, "tasks/get", json!({ "taskId": id })).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("another task"), "{answer}");
}

#[tokio::test]
async fn waiting_client_gets_error_when_task_is_canceled() {
    let server = TaskServer::new();
    let bridge = server.bridge().await;
    let (client, _) = client(&bridge);
    let id = begin(&client, "slow").await;
    let waiting = tokio::spawn({
        let (client, id) = (client.clone(), id.clone());
        async move { client.wait_for_task(&id).await }
    });
    server.until_seen("tasks/get", 1).await;
    client.cancel_task(&id).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err(), McpClientError::TaskCancelled);
    let status = client.list_tasks().await.unwrap()[0].status;
    assert_eq!(status, TaskStatus::Cancelled);
}
