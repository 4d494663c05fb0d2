//! State and visibility that belong to one session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use thruway_mcp_sdk::schema::{Prompt, Resource, ResourceTemplate, Tool};
use thruway_mcp_sdk::testing::{TestClient, TestError};
use thruway_mcp_sdk::{
    Call, CompletionInput, Context, HandlerError, LegacySessions, McpServer, McpServerOptions, Revision,
    UriParameters, schema, tool,
};
use tokio::sync::Notify;

use crate::http::Site;

#[derive(Default)]
struct Counter(AtomicU32);

impl Counter {
    fn next(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Counts the calls of a session.
#[tool]
async fn count(context: Context) -> Result<u32, HandlerError> {
    tokio::task::yield_now().await;
    Ok(context.session()?.state::<Counter>().next())
}

/// Counts the calls of a session, without `async`.
#[tool]
fn count_at_once(call: &Call<'_>) -> Result<u32, HandlerError> {
    Ok(call.session()?.state::<Counter>().next())
}

/// Forgets the count.
#[tool]
fn reset(call: &Call<'_>) -> Result<bool, HandlerError> {
    Ok(call.session()?.remove_state::<Counter>().is_some())
}

fn counting() -> McpServer {
    McpServer::new("counter", "1").with(count {}).with(count_at_once {}).with(reset {})
}

fn legacy(server: &McpServer) -> TestClient {
    TestClient::new(server).with_revision(Revision::R20250618)
}

#[tokio::test(start_paused = true)]
async fn each_session_has_its_own_state() {
    let server = counting();
    let (mut one, mut other) = (legacy(&server), legacy(&server));
    assert_eq!(one.call::<u32>("count", ()).await, Ok(1));
    assert_eq!(one.call::<u32>("count_at_once", ()).await, Ok(2));
    assert_eq!(other.call::<bool>("reset", ()).await, Ok(false));
    assert_eq!(other.call::<u32>("count", ()).await, Ok(1));
    assert_eq!(one.call::<bool>("reset", ()).await, Ok(true));
    assert_eq!(one.call::<u32>("count", ()).await, Ok(1));
    assert_eq!(other.call::<u32>("count", ()).await, Ok(2));
}

#[tokio::test(start_paused = true)]
async fn request_without_session_gets_an_error() {
    let mut client = TestClient::new(&counting());
    let expected = "the operation needs a session, but requests of MCP revision 2026-07-28 have no sessions";
    for name in ["count", "count_at_once"] {
        assert_eq!(client.call::<u32>(name, ()).await, Err(TestError::Tool(expected.to_owned())));
    }
}

/// Signals its end.
struct Signal(Arc<Notify>);

impl Drop for Signal {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test(start_paused = true)]
async fn state_ends_with_its_session() {
    let dropped = Arc::new(Notify::new());
    let ours = dropped.clone();
    let server = McpServer::new("signal", "1").tool(
        Tool::new("keep"),
        move |_: serde_json::Value, call: &Call<'_>| {
            let ours = ours.clone();
            call.session().map(|session| drop(session.state_or_insert_with(|| Signal(ours))))
        },
    );
    let mut client = legacy(&server);
    client.call::<()>("keep", ()).await.unwrap();
    client.call::<()>("keep", ()).await.unwrap();
    drop(client);
    dropped.notified().await;

    let site = Site::new(&server);
    let session = site.initialize("2025-11-25").await;
    let call = session.request(1, "tools/call", &json!({"name": "keep", "arguments": {}}));
    assert_eq!(site.send(&call).await.status, 200);
    assert_eq!(site.send(&session.delete()).await.status, 204);
    dropped.notified().await;
}

#[tokio::test(start_paused = true)]
async fn server_without_sessions_has_no_state() {
    let options =
        McpServerOptions { legacy_sessions: LegacySessions::Stateless, ..McpServerOptions::default() };
    let server = McpServer::with_options(schema::Implementation::new("counter", "1"), options).with(count {});
    let site = Site::new(&server);
    let session = site.initialize("2025-11-25").await;
    let call = session.request(1, "tools/call", &json!({"name": "count", "arguments": {}}));
    let answer = site.send(&call).await.message();
    assert_eq!(
        answer["result"]["content"][0]["text"],
        "the operation needs a session, but the request has none"
    );
}

/// Shows or hides an item in the session of the caller.
fn changing(server: McpServer) -> McpServer {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Change {
        kind: String,
        name: String,
        is_visible: bool,
    }
    server.tool(Tool::new("change"), |Change { kind, name, is_visible }: Change, call: &Call<'_>| {
        let session = call.session()?;
        match (&*kind, is_visible) {
            ("tool", true) => session.show_tool(name),
            ("tool", false) => session.hide_tool(name),
            ("prompt", true) => session.show_prompt(name),
            ("prompt", false) => session.hide_prompt(name),
            (_, true) => session.show_resource(name),
            (_, false) => session.hide_resource(name),
        }
        Ok::<_, HandlerError>(())
    })
}

async fn change(client: &mut TestClient, kind: &str, name: &str, is_visible: bool) {
    let arguments = json!({"kind": kind, "name": name, "is_visible": is_visible});
    client.call::<()>("change", arguments).await.unwrap();
}

async fn tools(client: &mut TestClient) -> Vec<String> {
    client.tools().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

async fn next_change(client: &mut TestClient) -> String {
    client.next_notification().await.unwrap().unwrap().method
}

#[tokio::test(start_paused = true)]
async fn hidden_tool_is_visible_only_in_a_session_that_shows_it() {
    let server = changing(McpServer::new("admin", "1"))
        .hide_tool("delete")
        .tool(Tool::new("delete"), || "deleted")
        .prompt(Prompt::new("help"), || "help");
    let (mut admin, mut other, mut modern) = (legacy(&server), legacy(&server), TestClient::new(&server));
    for client in [&mut admin, &mut other, &mut modern] {
        assert_eq!(tools(client).await, ["change"]);
        let refused = client.call::<String>("delete", ()).await.unwrap_err().to_string();
        assert_eq!(refused, "the server has answered with an error: there is no such tool (-32602)");
    }
    change(&mut admin, "tool", "delete", true).await;
    assert_eq!(next_change(&mut admin).await, "notifications/tools/list_changed");
    assert_eq!(tools(&mut admin).await, ["change", "delete"]);
    assert_eq!(admin.call::<String>("delete", ()).await.as_deref(), Ok("deleted"));
    assert_eq!(
        (tools(&mut other).await, tools(&mut modern).await),
        (vec!["change".into()], vec!["change".into()])
    );

    // The same visibility again is no change, and the other clients get no notification of the first change.
    change(&mut admin, "tool", "delete", true).await;
    assert!(server.remove_prompt("help"));
    for client in [&mut admin, &mut other, &mut modern] {
        assert_eq!(next_change(client).await, "notifications/prompts/list_changed");
    }
    change(&mut admin, "tool", "delete", false).await;
    assert_eq!(next_change(&mut admin).await, "notifications/tools/list_changed");
    assert_eq!(tools(&mut admin).await, ["change"]);
    assert!(admin.call::<String>("delete", ()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn view_of_a_session_follows_changes_of_the_server() {
    let server = changing(McpServer::new("admin", "1")).hide_tool("delete").hide_tool("restore");
    let mut admin = legacy(&server);
    change(&mut admin, "tool", "delete", true).await;
    assert_eq!(tools(&mut admin).await, ["change"]);
    server.add_tool(Tool::new("delete"), || "old").unwrap();
    server.add_tool(Tool::new("restore"), || "restored").unwrap();
    server.add_tool(Tool::new("delete"), || "new").unwrap();
    assert_eq!(tools(&mut admin).await, ["change", "delete"]);
    assert_eq!(admin.call::<String>("delete", ()).await.as_deref(), Ok("new"));
    assert!(server.remove_tool("delete") && !server.remove_tool("delete"));
    assert_eq!(tools(&mut admin).await, ["change"]);
}

#[tokio::test(start_paused = true)]
async fn prompts_and_resources_are_hidden_like_tools() {
    let server = changing(McpServer::new("library", "1"))
        .prompt(Prompt::new("review"), |_: serde_json::Value| "Review.")
        .completion("review", "book", |_: CompletionInput| vec!["Emma"])
        .resource(Resource::new("book://1", "book"), || "Emma")
        .resource_template(ResourceTemplate::new("page://{n}", "page"), |page: UriParameters| {
            page.parameter("n").to_owned()
        })
        .hide_resource("page://{n}");
    let (mut client, mut other) = (legacy(&server), legacy(&server));
    assert_eq!(client.resource_templates().await, Ok(Vec::new()));
    assert!(client.read::<String>("page://7").await.is_err());
    change(&mut client, "resource", "page://{n}", true).await;
    assert_eq!(next_change(&mut client).await, "notifications/resources/list_changed");
    assert_eq!(client.read::<String>("page://7").await.as_deref(), Ok("7"));
    client.subscribe("page://7").await.unwrap();
    assert!(other.subscribe("page://7").await.is_err());

    change(&mut client, "resource", "book://1", false).await;
    assert_eq!(client.resources().await, Ok(Vec::new()));
    assert!(client.read::<String>("book://1").await.is_err() && client.subscribe("book://1").await.is_err());
    assert_eq!(other.read::<String>("book://1").await.as_deref(), Ok("Emma"));

    assert_eq!(client.complete_prompt("review", "book", "").await, Ok(vec!["Emma".to_owned()]));
    change(&mut client, "prompt", "review", false).await;
    assert_eq!(client.prompts().await, Ok(Vec::new()));
    assert!(client.prompt("review", ()).await.is_err());
    assert!(client.complete_prompt("review", "book", "").await.is_err());
    assert_eq!(other.prompts().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn hiding_a_resource_ends_the_subscriptions_of_the_session() {
    let server = changing(McpServer::new("library", "1"))
        .resource(Resource::new("book://1", "book"), || "Emma")
        .resource(Resource::new("shelf://1", "shelf"), || "full")
        .resource_template(ResourceTemplate::new("page://{n}", "page"), |page: UriParameters| {
            page.parameter("n").to_owned()
        });
    let updated = async |client: &mut TestClient| {
        let notification = client.next_notification().await.unwrap().unwrap();
        assert_eq!(notification.method, "notifications/resources/updated");
        notification.params["uri"].as_str().unwrap().to_owned()
    };
    let (mut client, mut other) = (legacy(&server), legacy(&server));
    for uri in ["book://1", "page://7", "shelf://1"] {
        client.subscribe(uri).await.unwrap();
        other.subscribe(uri).await.unwrap();
    }
    // The subscriptions do not start again if the session shows the resources again.
    for is_visible in [false, true] {
        for uri in ["book://1", "page://{n}"] {
            change(&mut client, "resource", uri, is_visible).await;
            assert_eq!(next_change(&mut client).await, "notifications/resources/list_changed");
        }
        for uri in ["book://1", "page://7", "shelf://1"] {
            server.resource_updated(uri);
        }
        assert_eq!(updated(&mut client).await, "shelf://1");
        for uri in ["book://1", "page://7", "shelf://1"] {
            assert_eq!(updated(&mut other).await, uri);
        }
    }
    client.subscribe("book://1").await.unwrap();
    server.resource_updated("book://1");
    assert_eq!(updated(&mut client).await, "book://1");
}
