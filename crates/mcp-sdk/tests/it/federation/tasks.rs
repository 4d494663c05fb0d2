//! Tasks of members.

use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_sdk::json_rpc::{Error, ErrorCode};
use thruway_mcp_sdk::schema::{ClientCapabilities, Tool};
use thruway_mcp_sdk::{Context, EraChoice, McpClient, McpServer, Member, Revision, TaskSupport, ToolOutcome};

use super::sites::{gateway, in_memory};
use crate::bridge::task_server::TaskServer;
use crate::client::calls::text;
use crate::fixtures::Nothing;

pub(super) fn builder(era: EraChoice) -> thruway_mcp_sdk::McpClientBuilder {
    let capabilities = ClientCapabilities::default().with_tasks();
    McpClient::builder()
        .era(era)
        .answers(capabilities, |_| async { Err::<_, Error>(Error::internal("no user")) })
}

pub(super) async fn begin(client: &McpClient, tool: &str) -> String {
    match client.begin_tool(tool, json!({})).await.unwrap() {
        ToolOutcome::Task(task) => task.state.task_id,
        ToolOutcome::Result(result) => panic!("it should become a task: {result:?}"),
    }
}

fn working(name: &'static str) -> McpServer {
    let work = move |_: Nothing, _: Context| async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        name
    };
    McpServer::new(name, "1.0").task_tool(Tool::new("work"), TaskSupport::REQUIRED, work)
}

#[tokio::test(start_paused = true)]
async fn modern_task_id_leads_to_its_member() {
    let gateway = gateway(["one", "two"].map(|name| in_memory(name, &working(name))));
    let client = builder(EraChoice::Modern).server(&gateway);
    for member in ["one", "two"] {
        let id = begin(&client, &format!("{member}__work")).await;
        assert!(id.starts_with(&format!("{member}.")), "{id}");
        assert_eq!(text(&client.wait_for_task(&id).await.unwrap()), member);
        let (_, sealed) = id.split_once('.').unwrap();
        let other = if member == "one" { "two" } else { "one" };
        for forged in
            [sealed.to_owned(), format!("{other}.{sealed}"), format!("three.{sealed}"), String::new()]
        {
            let error = client.get_task(&forged).await.unwrap_err();
            assert_eq!(error.server_error().unwrap().code.0, -32602, "{forged}: {error}");
        }
    }
}

#[tokio::test]
async fn modern_client_without_task_support_gets_the_missing_capability() {
    let gateway = gateway(["one", "two"].map(|name| in_memory(name, &working(name))));
    let mut client = gateway.connect();
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for id in ["any", "one.any", ""] {
            let params = json!({"taskId": id, "inputResponses": {}});
            let error = client.request(method, params).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY, "{method} {id}: {error}");
        }
    }
}

pub(super) fn legacy_member(name: &str, server: &TaskServer) -> Member {
    let server = server.clone();
    Member::new(name, move |builder| Ok(server.connect(builder.era(EraChoice::Legacy))))
}

#[tokio::test]
async fn legacy_session_lists_and_cancels_tasks_of_all_members() {
    let (one, two) = (TaskServer::new(), TaskServer::new());
    let gateway = gateway([
        legacy_member("one", &one),
        legacy_member("two", &two),
        in_memory("none", &working("none")),
    ]);
    for member in ["one", "two", "none"] {
        super::sites::wait_for(&gateway, member, thruway_mcp_sdk::MemberState::Connected).await;
    }
    let era = EraChoice::Revision(Revision::R20251125);
    let (client, stranger) = (builder(era).server(&gateway), builder(era).server(&gateway));
    let first = begin(&client, "one__slow").await;
    let second = begin(&client, "two__slow").await;
    assert!(first.starts_with("one.") && second.starts_with("two."), "{first} {second}");
    assert_eq!(ids(&client).await, [&*first, &*second]);
    assert_eq!(ids(&stranger).await, Vec::<String>::new());
    assert!(stranger.get_task(&first).await.is_err());
    client.cancel_task(&second).await.unwrap();
    one.end("task-1", "completed");
    assert_eq!(text(&client.wait_for_task(&first).await.unwrap()), "done alone");
    let forged = first.replace("one.", "two.");
    let error = client.get_task(&forged).await.unwrap_err();
    assert_eq!(error.server_error().unwrap().code.0, -32602, "{error}");
}

async fn ids(client: &McpClient) -> Vec<String> {
    let tasks: Value = json!(client.list_tasks().await.unwrap());
    tasks.as_array().unwrap().iter().map(|task| task["taskId"].as_str().unwrap().to_owned()).collect()
}
