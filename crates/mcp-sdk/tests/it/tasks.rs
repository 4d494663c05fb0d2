//! Calls that become tasks (SEP-2663).

use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::json_rpc::Error;
use thruway_mcp_sdk::schema::{ClientCapabilities, Implementation, Tool};
use thruway_mcp_sdk::{
    Authorization, Context, HandlerError, Identity, InvalidToken, LocalClient, McpServer, McpServerOptions,
    Revision, TaskOptions, TaskSupport, VerifyToken,
};
use tokio::time::sleep;

use crate::fixtures::{Nothing, Running, ask, capabilities, server as server_without, text, tool};
use crate::http::{Exchange, Message, Site};

const OPTIONAL: TaskSupport = TaskSupport::OPTIONAL;
const REQUIRED: TaskSupport = TaskSupport::REQUIRED;
const SECOND: Duration = Duration::from_secs(1);

fn server() -> McpServer {
    server_with(TaskOptions::default())
}

fn server_with(tasks: TaskOptions) -> McpServer {
    let options = McpServerOptions { tasks, ..McpServerOptions::default() };
    McpServer::with_options(Implementation::new("tasks", "1"), options)
        .task_tool(Tool::new("work"), OPTIONAL, work)
        .task_tool(Tool::new("now"), REQUIRED, |_: Nothing| "at once")
        .task_tool(Tool::new("fail"), REQUIRED, |_: Context| async {
            Err::<(), _>(HandlerError::failed("no"))
        })
        .task_tool(Tool::new("break_off"), REQUIRED, |_: Context| async {
            Err::<(), HandlerError>(Error::invalid_params("why").into())
        })
        .task_tool(Tool::new("panic"), REQUIRED, |_: Context| async {
            tokio::task::yield_now().await;
            panic!("intended panic");
            #[expect(unreachable_code, reason = "gives the block its type")]
            ""
        })
        .task_tool(Tool::new("endless"), OPTIONAL, |context: Context| async move {
            context.progress(1.0, Some(f64::INFINITY), None).await;
            std::future::pending::<()>().await;
        })
        .task_tool(Tool::new("long"), OPTIONAL, |_: Context| async { "x".repeat(1000) })
        .task_tool(Tool::new("ask_twice"), OPTIONAL, ask_twice)
        .task_tool(Tool::new("ask_both"), OPTIONAL, |context: Context| async move {
            let (one, other) = tokio::try_join!(ask(&context, "one"), ask(&context, "other"))?;
            Ok::<_, HandlerError>(format!("{one} and {other}"))
        })
        .task_tool(Tool::new("ask_first"), OPTIONAL.begun_by_handler(), ask_first)
}

async fn work(_: Nothing, context: Context) -> &'static str {
    context.progress(1.0, Some(2.0), Some("half")).await;
    sleep(10 * SECOND).await;
    "worked"
}

async fn ask_twice(context: Context) -> Result<String, HandlerError> {
    Ok(format!("{} and {}", ask(&context, "name").await?, ask(&context, "name").await?))
}

async fn ask_first(context: Context) -> Result<String, HandlerError> {
    let first = ask(&context, "name").await?;
    context.begin_task().await;
    context.begin_task().await;
    let second = ask(&context, "name").await?;
    // The request has been answered, and the task continues.
    assert!(!context.is_cancelled());
    Ok(format!("{first} and {second}"))
}

/// A tool that never returns. Also returns the counter of running handlers.
fn with_hanging(server: McpServer) -> (McpServer, Running) {
    let running = Running::default();
    let ours = running.clone();
    let server = server.task_tool(Tool::new("hang"), REQUIRED, move |_: Nothing, context: Context| {
        let running = ours.begin();
        let elsewhere = ours.begin();
        tokio::spawn(async move {
            context.cancelled().await;
            assert!(context.is_cancelled());
            drop(elsewhere);
        });
        async move {
            let _running = running;
            std::future::pending::<()>().await;
        }
    });
    (server, running)
}

fn task_capabilities() -> ClientCapabilities {
    serde_json::from_value::<ClientCapabilities>(capabilities()).unwrap().with_tasks()
}

fn connect(server: &McpServer) -> LocalClient {
    server.connect().with_capabilities(&task_capabilities())
}

/// Calls a tool that becomes a task. Returns the id of the task.
async fn begin(client: &mut LocalClient, name: &str) -> String {
    let created = client.request("tools/call", tool(name)).await.unwrap();
    assert_eq!(
        (&created["resultType"], &created["status"]),
        (&json!("task"), &json!("working")),
        "{created}"
    );
    assert!(created.get("requestState").is_none() && created.get("result").is_none());
    created["taskId"].as_str().unwrap().to_owned()
}

async fn fetch_task(client: &mut LocalClient, id: &str) -> Value {
    client.request("tasks/get", json!({"taskId": id})).await.unwrap()
}

/// Polls a task until it has ended or requests input.
async fn settled(client: &mut LocalClient, id: &str) -> Value {
    loop {
        let task = fetch_task(client, id).await;
        if task["status"] != "working" {
            return task;
        }
        sleep(SECOND).await;
    }
}

async fn answer(client: &mut LocalClient, id: &str, key: &str, name: &str) {
    let answers = json!({key: {"action": "accept", "content": {"name": name}}});
    let update = json!({"taskId": id, "inputResponses": answers});
    assert_eq!(client.request("tasks/update", update).await.unwrap()["resultType"], "complete");
}

#[tokio::test(start_paused = true)]
async fn task_status_message_omits_infinite_total() {
    let mut client = connect(&server());
    let id = begin(&mut client, "endless").await;
    sleep(SECOND).await;
    assert_eq!(fetch_task(&mut client, &id).await["statusMessage"], "1");
}

#[tokio::test(start_paused = true)]
async fn call_returns_task_that_completes_with_tool_result() {
    let mut client = connect(&server());
    let id = begin(&mut client, "work").await;
    sleep(SECOND).await;
    let task = fetch_task(&mut client, &id).await;
    assert_eq!((&task["resultType"], &task["status"]), (&json!("complete"), &json!("working")));
    assert_eq!((&task["taskId"], &task["statusMessage"]), (&json!(id), &json!("half")));
    assert_eq!((&task["ttlMs"], &task["pollIntervalMs"]), (&json!(3_600_000), &json!(1000)));
    assert!(task["createdAt"].as_str().unwrap().ends_with('Z') && task.get("result").is_none());
    let task = settled(&mut client, &id).await;
    assert_eq!((&task["status"], text(&task["result"])), (&json!("completed"), "worked"));
    assert!(task.get("statusMessage").is_none() && task["result"].get("resultType").is_none());
}

#[tokio::test(start_paused = true)]
async fn handler_with_immediate_result_needs_no_task() {
    let mut client = connect(&server());
    let result = client.request("tools/call", tool("now")).await.unwrap();
    assert_eq!((&result["resultType"], text(&result)), (&json!("complete"), "at once"));
}

#[tokio::test(start_paused = true)]
async fn client_without_task_support_waits_or_gets_error() {
    let required = json!({"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let server = server();
    let mut client = server.connect();
    let result = client.request("tools/call", tool("work")).await.unwrap();
    assert_eq!((&result["resultType"], text(&result)), (&json!("complete"), "worked"));
    for (method, params) in [
        ("tools/call", tool("fail")),
        ("tasks/get", json!({"taskId": "any"})),
        ("tasks/update", json!({"taskId": "any", "inputResponses": {}})),
        ("tasks/cancel", json!({"taskId": "any"})),
        ("subscriptions/listen", json!({"notifications": {"taskIds": ["any"]}})),
    ] {
        let error = client.request(method, params).await.unwrap_err();
        assert_eq!((error.code.0, error.data.as_ref()), (-32021, Some(&required)), "{method}");
    }
    let mut legacy = connect(&server);
    legacy.initialize(Revision::R20251125).await.unwrap();
    assert_eq!(text(&legacy.request("tools/call", tool("work")).await.unwrap()), "worked");
    assert_eq!(legacy.request("tools/call", tool("fail")).await.unwrap_err().code.0, -32600);
    assert_eq!(legacy.request("tasks/get", json!({"taskId": "any"})).await.unwrap_err().code.0, -32601);
}

#[tokio::test(start_paused = true)]
async fn tasks_extension_is_advertised_after_first_task_tool() {
    let server = server_without();
    let mut client = connect(&server);
    let tasks = "/capabilities/extensions/io.modelcontextprotocol~1tasks";
    let discovered = client.request("server/discover", json!({})).await.unwrap();
    assert_eq!(discovered.pointer(tasks), None);
    let get = json!({"taskId": "any"});
    assert_eq!(client.request("tasks/get", get.clone()).await.unwrap_err().code.0, -32601);
    server.add_task_tool(Tool::new("work"), OPTIONAL, work).unwrap();
    let discovered = client.request("server/discover", json!({})).await.unwrap();
    assert_eq!(discovered.pointer(tasks), Some(&json!({})));
    assert_eq!(client.request("tasks/get", get).await.unwrap_err().code.0, -32602);
    for method in ["tasks/list", "tasks/result"] {
        assert_eq!(client.request(method, json!({"taskId": "any"})).await.unwrap_err().code.0, -32601);
    }
    // A task can be found after its tool was removed.
    let id = begin(&mut client, "work").await;
    assert!(server.remove_tool("work"));
    assert_eq!(settled(&mut client, &id).await["status"], "completed");
}

#[tokio::test(start_paused = true)]
async fn task_handler_continues_after_client_answers_elicitation() {
    let mut client = connect(&server());
    let id = begin(&mut client, "ask_twice").await;
    let task = settled(&mut client, &id).await;
    assert_eq!((&task["status"], &task["resultType"]), (&json!("input_required"), &json!("complete")));
    assert_eq!(task["inputRequests"]["name"]["method"], "elicitation/create");
    answer(&mut client, &id, "unknown", "nobody").await;
    assert_eq!(fetch_task(&mut client, &id).await["status"], "input_required");
    answer(&mut client, &id, "name", "Ada").await;
    let task = settled(&mut client, &id).await;
    // The server never uses a name for two input requests.
    let names: Vec<_> = task["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["name-2"]);
    answer(&mut client, &id, "name", "nobody").await;
    answer(&mut client, &id, "name-2", "Grace").await;
    assert_eq!(text(&settled(&mut client, &id).await["result"]), "Ada and Grace");
    answer(&mut client, &id, "name-2", "nobody").await;
}

#[tokio::test(start_paused = true)]
async fn concurrent_task_elicitations_can_be_answered_separately() {
    let mut client = connect(&server());
    let id = begin(&mut client, "ask_both").await;
    assert_eq!(settled(&mut client, &id).await["inputRequests"].as_object().unwrap().len(), 2);
    answer(&mut client, &id, "other", "Grace").await;
    let task = fetch_task(&mut client, &id).await;
    assert_eq!(task["status"], "input_required");
    assert_eq!(task["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["one"]);
    answer(&mut client, &id, "one", "Ada").await;
    assert_eq!(text(&settled(&mut client, &id).await["result"]), "Ada and Grace");
}

#[tokio::test(start_paused = true)]
async fn invalid_task_updates_are_rejected_or_fail_the_task() {
    let mut client = connect(&server());
    let id = begin(&mut client, "ask_twice").await;
    settled(&mut client, &id).await;
    for update in [json!({"taskId": id}), json!({"taskId": id, "inputResponses": []}), json!({})] {
        assert_eq!(client.request("tasks/update", update).await.unwrap_err().code.0, -32602);
    }
    let update = json!({"taskId": id, "inputResponses": {"name": 5}});
    client.request("tasks/update", update).await.unwrap();
    let task = settled(&mut client, &id).await;
    assert_eq!((&task["status"], &task["error"]["code"]), (&json!("failed"), &json!(-32603)));
}

#[tokio::test(start_paused = true)]
async fn task_fails_if_client_lacks_elicitation_capability() {
    let mut client = server().connect().with_capabilities(&ClientCapabilities::default().with_tasks());
    let id = begin(&mut client, "ask_twice").await;
    let task = settled(&mut client, &id).await;
    assert_eq!((&task["status"], &task["error"]["code"]), (&json!("failed"), &json!(-32021)));
}

#[tokio::test(start_paused = true)]
async fn canceling_task_drops_its_handler() {
    let (server, running) = with_hanging(server());
    let mut client = connect(&server);
    let id = begin(&mut client, "hang").await;
    sleep(SECOND).await;
    assert_eq!(running.count(), 2);
    for _ in 0..2 {
        let ack = client.request("tasks/cancel", json!({"taskId": id})).await.unwrap();
        assert_eq!((&ack["resultType"], ack.get("status")), (&json!("complete"), None));
        let task = fetch_task(&mut client, &id).await;
        assert_eq!((&task["status"], task.get("result")), (&json!("cancelled"), None));
        sleep(SECOND).await;
        assert_eq!(running.count(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn task_continues_after_client_disconnects() {
    let server = server();
    let mut client = connect(&server);
    let id = begin(&mut client, "work").await;
    drop(client);
    sleep(SECOND).await;
    assert_eq!(settled(&mut connect(&server), &id).await["status"], "completed");
}

#[tokio::test(start_paused = true)]
async fn tool_error_completes_task_and_protocol_error_fails_it() {
    let mut client = connect(&server());
    let id = begin(&mut client, "fail").await;
    let task = settled(&mut client, &id).await;
    assert_eq!((&task["status"], &task["result"]["isError"]), (&json!("completed"), &json!(true)));
    for (name, code) in [("break_off", -32602), ("panic", -32603)] {
        let id = begin(&mut client, name).await;
        let task = settled(&mut client, &id).await;
        assert_eq!((&task["status"], &task["error"]["code"]), (&json!("failed"), &json!(code)));
        assert_eq!((task.get("result"), &task["statusMessage"]), (None, &task["error"]["message"]));
    }
}

#[tokio::test(start_paused = true)]
async fn task_fails_after_timeout_and_is_removed_after_ttl() {
    let options = TaskOptions { timeout: 5 * SECOND, ttl: 60 * SECOND, ..TaskOptions::default() };
    let (server, running) = with_hanging(server_with(options));
    let mut client = connect(&server);
    let id = begin(&mut client, "hang").await;
    sleep(6 * SECOND).await;
    let task = fetch_task(&mut client, &id).await;
    assert_eq!((&task["status"], &task["error"]["code"]), (&json!("failed"), &json!(-32603)));
    assert_eq!(running.count(), 0);
    sleep(53 * SECOND).await;
    fetch_task(&mut client, &id).await;
    sleep(2 * SECOND).await;
    for method in ["tasks/get", "tasks/cancel"] {
        assert_eq!(client.request(method, json!({"taskId": id})).await.unwrap_err().code.0, -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn number_of_tasks_is_limited() {
    let options = TaskOptions { tasks_max: 2, ttl: 60 * SECOND, ..TaskOptions::default() };
    let (server, running) = with_hanging(server_with(options));
    let mut client = connect(&server);
    begin(&mut client, "hang").await;
    begin(&mut client, "work").await;
    for _ in 0..2 {
        // A finished task still counts.
        assert_eq!(client.request("tools/call", tool("hang")).await.unwrap_err().code.0, -32603);
        sleep(29 * SECOND).await;
    }
    assert_eq!(running.count(), 2, "a rejected call should not start its handler");
    sleep(3 * SECOND).await;
    begin(&mut client, "hang").await;
}

/// Regression test: callers without a token were treated as one, so one address could occupy all tasks of a
/// server. The arguments of tasks were limited only by the number of tasks.
#[tokio::test(start_paused = true)]
async fn address_cannot_exceed_its_share_of_tasks() {
    let tasks = TaskOptions { tasks_max: 4, ..TaskOptions::default() };
    let options = McpServerOptions {
        tasks,
        in_flight_bytes_max: 1 << 20,
        message_bytes_max: 1 << 20,
        ..McpServerOptions::default()
    };
    let server = McpServer::with_options(Implementation::new("tasks", "1"), options).task_tool(
        Tool::new("work"),
        OPTIONAL,
        |_: Value, context: Context| work(Nothing {}, context),
    );
    let site = Site::new(&server);
    let call = |arguments: Value| {
        let params = json!({"name": "work", "arguments": arguments});
        Message::modern_with(
            "tools/call",
            params,
            &json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}),
        )
    };
    let large = call(json!({"text": "x".repeat(400 << 10)}));
    assert_eq!(site.send(&large).await.message()["result"]["resultType"], "task");
    let refused = site.send(&large).await.message();
    assert!(refused["error"]["message"].as_str().unwrap().contains("limit on their total size"), "{refused}");
    assert_eq!(site.send(&call(json!({}))).await.message()["result"]["resultType"], "task");
    let refused = site.send(&call(json!({}))).await.message();
    assert!(refused["error"]["message"].as_str().unwrap().contains("this caller"), "{refused}");
    // A program on this machine has no share per caller. Only the limits of the server apply.
    let mut local = connect(&server);
    let huge = json!({"name": "work", "arguments": {"text": "x".repeat(900 << 10)}});
    let refused = local.request("tools/call", huge.clone()).await.unwrap_err();
    assert!(refused.message.contains("all requests in progress"), "{refused}");
    begin(&mut local, "work").await;
    // The handlers have ended, so their arguments no longer count.
    sleep(11 * SECOND).await;
    assert_eq!(local.request("tools/call", huge).await.unwrap()["resultType"], "task");
}

#[tokio::test(start_paused = true)]
async fn oversized_result_fails_the_task() {
    let options = TaskOptions { result_bytes_max: 1000, ..TaskOptions::default() };
    let mut client = connect(&server_with(options));
    let id = begin(&mut client, "long").await;
    let task = settled(&mut client, &id).await;
    assert_eq!((&task["status"], &task["error"]["code"]), (&json!("failed"), &json!(-32603)));
}

#[tokio::test(start_paused = true)]
async fn handler_can_elicit_in_rounds_before_call_becomes_task() {
    let server = server();
    let mut client = connect(&server);
    let first = client.request("tools/call", tool("ask_first")).await.unwrap();
    assert_eq!((&first["resultType"], first.get("taskId")), (&json!("input_required"), None));
    let mut params = tool("ask_first");
    params["requestState"] = first["requestState"].clone();
    params["inputResponses"] = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    let created = client.request("tools/call", params).await.unwrap();
    assert_eq!((&created["resultType"], created.get("requestState")), (&json!("task"), None), "{created}");
    let id = created["taskId"].as_str().unwrap();
    assert_eq!(settled(&mut client, id).await["status"], "input_required");
    answer(&mut client, id, "name", "Grace").await;
    assert_eq!(text(&settled(&mut client, id).await["result"]), "Ada and Grace");
    // Clients without task support get all input requests in rounds.
    let capabilities = serde_json::from_value(capabilities()).unwrap();
    let mut client = server.connect().with_capabilities(&capabilities).with_answers(crate::fixtures::answer);
    let result = client.request("tools/call", tool("ask_first")).await.unwrap();
    assert_eq!(text(&result), "Ada and Ada");
}

fn message(method: &str, params: Value) -> Message {
    Message::modern_with(method, params, &serde_json::to_value(task_capabilities()).unwrap())
}

async fn begin_at(site: &Site, call: Message) -> String {
    let created = site.send(&call).await.message();
    created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("no task: {created}")).to_owned()
}

/// Waits for the notification that a task has ended or requests input.
async fn settled_notification(exchange: &mut Exchange) -> Value {
    loop {
        let notification = exchange.next_message().await;
        if notification["params"]["status"] != "working" {
            return notification;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn subscriber_receives_task_status_notifications() {
    let site = Site::new(&server());
    let id = begin_at(&site, message("tools/call", tool("ask_twice"))).await;
    let filter = json!({"notifications": {"taskIds": ["foreign", id]}});
    let mut exchange = site.open(&message("subscriptions/listen", filter));
    let acknowledged = exchange.next_message().await;
    assert_eq!(acknowledged["params"]["notifications"], json!({"taskIds": [id]}));
    for (key, name) in [("name", "Ada"), ("name-2", "Grace")] {
        let notification = settled_notification(&mut exchange).await;
        assert_eq!(
            (&notification["method"], &notification["params"]["taskId"]),
            (&json!("notifications/tasks"), &json!(id))
        );
        assert_eq!(notification["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
        assert_eq!(notification["params"]["status"], "input_required");
        let answers = json!({key: {"action": "accept", "content": {"name": name}}});
        let update = json!({"taskId": id, "inputResponses": answers});
        assert_eq!(site.send(&message("tasks/update", update)).await.status, 200);
    }
    let notification = settled_notification(&mut exchange).await;
    assert_eq!(text(&notification["params"]["result"]), "Ada and Grace");
}

#[tokio::test(start_paused = true)]
async fn task_request_requires_matching_name_header() {
    let site = Site::new(&server());
    let id = begin_at(&site, message("tools/call", tool("work"))).await;
    let get = message("tasks/get", json!({"taskId": id}));
    assert_eq!(site.send(&get).await.message()["result"]["status"], "working");
    for wrong in [get.clone().without_field("Mcp-Name"), get.with_field("Mcp-Name", "other")] {
        assert_eq!(site.refused(&wrong).await, (400, -32020));
    }
}

/// Accepts any token and uses it as the subject.
struct Named;

impl VerifyToken for Named {
    fn verify(&self, token: &str) -> Result<Identity, InvalidToken> {
        Ok(Identity { subject: token.to_owned(), ..Identity::default() })
    }
}

fn message_from(caller: &str, method: &str, params: Value) -> Message {
    message(method, params).with_field("Authorization", &format!("Bearer {caller}"))
}

fn authorized_site(options: TaskOptions) -> Site {
    let authorization = Authorization::new("https://mcp.example/mcp", ["https://login.example"], Named);
    Site::of(server_with(options).endpoint().authorize(authorization))
}

#[tokio::test(start_paused = true)]
async fn caller_cannot_access_task_of_another_caller() {
    let site = authorized_site(TaskOptions::default());
    let id = begin_at(&site, message_from("ada", "tools/call", tool("work"))).await;
    for (method, params) in [
        ("tasks/get", json!({"taskId": id})),
        ("tasks/update", json!({"taskId": id, "inputResponses": {}})),
        ("tasks/cancel", json!({"taskId": id})),
    ] {
        assert_eq!(site.refused(&message_from("eve", method, params)).await, (200, -32602));
    }
    let filter = json!({"notifications": {"taskIds": [id]}});
    let mut exchange = site.open(&message_from("eve", "subscriptions/listen", filter));
    assert_eq!(exchange.next_message().await["params"]["notifications"], json!({}));
    let task = site.send(&message_from("ada", "tasks/get", json!({"taskId": id}))).await.message();
    assert_eq!(task["result"]["status"], "working");
}

#[tokio::test(start_paused = true)]
async fn caller_over_task_limit_does_not_block_other_callers() {
    let site = authorized_site(TaskOptions { tasks_per_caller_max: 1, ..TaskOptions::default() });
    begin_at(&site, message_from("ada", "tools/call", tool("work"))).await;
    assert_eq!(site.refused(&message_from("ada", "tools/call", tool("work"))).await, (200, -32603));
    begin_at(&site, message_from("eve", "tools/call", tool("work"))).await;
}
