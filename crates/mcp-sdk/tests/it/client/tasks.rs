//! Calls that become tasks.

use std::time::Duration;

use serde_json::json;
use thruway_mcp_sdk::json_rpc::Error;
use thruway_mcp_sdk::schema::{ClientCapabilities, DetailedTask, Tool};
use thruway_mcp_sdk::{
    Context, Direction, EraChoice, HandlerError, McpClient, McpClientBuilder, McpClientError, McpServer,
    TaskSupport, ToolOutcome,
};

use super::calls::text;
use super::sites::{Site, Told, response};
use crate::fixtures::{Nothing, Running, ask};

/// A server whose tools become tasks, and how many of them hang.
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

/// A client that knows tasks.
fn builder() -> McpClientBuilder {
    let capabilities: ClientCapabilities = serde_json::from_value(crate::fixtures::capabilities()).unwrap();
    McpClient::builder()
        .era(EraChoice::Modern)
        .answers(capabilities.with_tasks(), |question| async move { Ok::<_, Error>(response(&question)) })
}

#[tokio::test(start_paused = true)]
async fn a_call_that_becomes_a_task_is_waited_for_and_answered() {
    let (server, _) = server();
    let client = builder().server(&server);
    assert_eq!(text(&client.call_tool("ask", json!({})).await.unwrap()), "Ada and Ada");
    let failed = client.call_tool("fail", json!({})).await.unwrap_err();
    assert!(failed.server_error().is_some_and(|error| error.message == "it does not work"), "{failed}");
    // Who does not know tasks gets none.
    let other = McpClient::builder().era(EraChoice::Modern).server(&server);
    assert!(matches!(other.begin_tool("ask", json!({})).await, Err(McpClientError::Server(_))));
}

#[tokio::test]
async fn a_task_can_be_left_and_come_back_to() {
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
async fn who_drops_a_call_gives_its_task_up() {
    let (server, running) = server();
    let sent = Told::new();
    let teller = sent.teller();
    let client = builder().on_message(move |direction, octets| {
        if direction == Direction::Sent {
            teller(String::from_utf8_lossy(octets).into_owned());
        }
    });
    let client = client.server(&server);
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("hang", json!({})).await }
    });
    // By then it is known which task it is.
    while !sent.take().iter().any(|message| message.contains("tasks/get")) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    call.abort();
    let ended = async {
        while running.count() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended).await.unwrap();
    let ToolOutcome::Task(task) = client.begin_tool("hang", json!({})).await.unwrap() else {
        panic!("it should become a task");
    };
    client.cancel_task(&task.state.task_id).await.unwrap();
    assert_eq!(client.wait_for_task(&task.state.task_id).await, Err(McpClientError::TaskCancelled));
}
