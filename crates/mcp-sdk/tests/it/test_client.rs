//! The typed client for tests of applications.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{ContentBlock, ElicitAction, ElicitRequestURLParams, ResourceContents};
use thruway_mcp_sdk::testing::{FormAnswer, TestClient, TestError};
use thruway_mcp_sdk::{Context, HandlerError, McpServer, McpServerOptions, Revision, schema, tool};

use crate::fixtures::{server, server_with};

const REVISIONS: [Revision; 3] = [Revision::R20250618, Revision::R20251125, Revision::R20260728];

#[derive(Serialize)]
struct Numbers {
    a: i64,
    b: i64,
}

/// Adds two numbers.
#[tool]
fn add(a: i64, b: i64) -> Result<i64, &'static str> {
    a.checked_add(b).ok_or("the sum is too large")
}

/// Splits a text into words.
#[tool]
fn split(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns nothing.
#[tool]
fn nothing() {}

/// Waits for an hour.
#[tool]
async fn wait() -> &'static str {
    tokio::time::sleep(Duration::from_hours(1)).await;
    "waited"
}

/// Asks the user to visit a page.
#[tool]
async fn visit(context: Context) -> Result<&'static str, HandlerError> {
    let (message, url) = ("Sign in".to_owned(), "https://example.com/login".to_owned());
    let elicitation_id = Some("1".to_owned());
    let page = ElicitRequestURLParams { message, url, elicitation_id };
    Ok(context.elicit_url("page", page).await?.action.as_str())
}

fn tools() -> McpServer {
    let options =
        McpServerOptions { handler_timeout: Duration::from_hours(2), ..McpServerOptions::default() };
    let server = McpServer::with_options(schema::Implementation::new("tools", "1"), options);
    server.with(add {}).with(split {}).with(nothing {}).with(wait {}).with(visit {})
}

#[tokio::test(start_paused = true)]
async fn results_have_the_types_of_the_test() {
    for revision in REVISIONS {
        let mut client = TestClient::new(&tools()).with_revision(revision);
        assert_eq!(client.call::<i64>("add", Numbers { a: 1, b: 2 }).await, Ok(3));
        assert_eq!(client.call::<Value>("add", json!({"a": 1, "b": 2})).await, Ok(json!({"result": 3})));
        let words = client.call::<Vec<String>>("split", json!({"text": "one two"})).await;
        assert_eq!(words, Ok(vec!["one".to_owned(), "two".to_owned()]));
        assert_eq!(client.call::<()>("nothing", ()).await, Ok(()));
        // Virtual time: the hour passes at once.
        assert_eq!(client.call::<String>("wait", ()).await.as_deref(), Ok("waited"));
        let result = client.call_tool("add", Numbers { a: 1, b: 2 }).await.unwrap();
        assert_eq!(result.content, [ContentBlock::text("3")]);
    }
}

#[tokio::test(start_paused = true)]
async fn errors_name_their_cause() {
    for revision in REVISIONS {
        let mut client = TestClient::new(&tools()).with_revision(revision);
        let failed = client.call::<i64>("add", Numbers { a: i64::MAX, b: 1 }).await.unwrap_err();
        assert_eq!(failed.to_string(), "the tool has failed: the sum is too large");
        let invalid = client.call::<i64>("add", json!({"a": 1})).await.unwrap_err().to_string();
        assert!(
            invalid.starts_with("the tool has failed: invalid arguments: missing field `b`"),
            "{invalid}"
        );
        let result = client.call_tool("add", json!({"a": 1})).await.unwrap();
        assert_eq!(result.is_error, Some(true));
        let unknown = client.call::<i64>("subtract", ()).await.unwrap_err();
        assert!(matches!(unknown, TestError::Protocol(_)));
        assert_eq!(
            unknown.to_string(),
            "the server has answered with an error: there is no such tool (-32602)"
        );
        let other = client.call::<bool>("add", Numbers { a: 1, b: 2 }).await.unwrap_err().to_string();
        assert!(other.starts_with("the result does not have the expected type: "), "{other}");
        assert!(other.ends_with(r#"{"result":3}"#), "{other}");
        let key: std::collections::BTreeMap<(u8, u8), u8> = [((1, 2), 3)].into();
        let unwritten = client.call::<i64>("add", key).await.unwrap_err().to_string();
        assert_eq!(unwritten, "cannot write the arguments as JSON: key must be a string");
    }
}

#[tokio::test(start_paused = true)]
async fn questions_get_the_answers_of_the_test() {
    for revision in REVISIONS {
        let mut client = TestClient::new(&server())
            .with_revision(revision)
            .on_elicit(|form| {
                assert_eq!(form.message, "Who are you?");
                FormAnswer::accept(json!({"name": "Ada"}))
            })
            .on_sample(|request| {
                assert_eq!(request.max_tokens, 10);
                "42"
            })
            .with_roots(["file:///home"]);
        let answer = client.call::<String>("ask_all", ()).await;
        assert_eq!(answer.as_deref(), Ok("Ada 42 file:///home"), "{revision}");
        let twice = client.call::<String>("ask_twice", json!({"message": ""})).await;
        assert_eq!(twice.as_deref(), Ok("Ada and Ada"));
        for (answer, expected) in [(FormAnswer::Decline, "nobody"), (FormAnswer::Cancel, "nobody")] {
            let mut client =
                TestClient::new(&server()).with_revision(revision).on_elicit(move |_| answer.clone());
            assert_eq!(client.call::<String>("ask", ()).await.as_deref(), Ok(expected));
        }
        let mut client = TestClient::new(&tools()).with_revision(revision).on_elicit_url(|page| {
            assert_eq!(page.url, "https://example.com/login");
            ElicitAction::Decline
        });
        assert_eq!(client.call::<String>("visit", ()).await.as_deref(), Ok("decline"));
        let mut client = TestClient::new(&server()).with_revision(revision);
        let error = client.call::<String>("ask", ()).await.unwrap_err().to_string();
        assert!(error.contains("the client lacks a required capability"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn prompts_resources_and_lists_are_typed() {
    let options = McpServerOptions { page_entries: 2, ..McpServerOptions::default() };
    for revision in REVISIONS {
        let mut client = TestClient::new(&server_with(options.clone())).with_revision(revision);
        let prompt = client.prompt("greeting", json!({"message": 5})).await.unwrap();
        assert_eq!(prompt.messages[0].content, ContentBlock::text("Say 5."));
        let resource = client.resource("test://text").await.unwrap();
        assert!(matches!(&resource.contents[0], ResourceContents::Text(text) if text.text == "some text"));
        assert_eq!(client.read::<String>("test://text").await.as_deref(), Ok("some text"));
        assert_eq!(client.read::<String>("test://item/7").await.as_deref(), Ok("item 7"));
        let blob = client.read::<String>("test://blob").await.unwrap_err().to_string();
        assert!(blob.starts_with("the result does not have the expected type: not one text: "), "{blob}");
        assert!(matches!(client.read::<String>("test://other").await, Err(TestError::Protocol(_))));

        let tools = client.tools().await.unwrap();
        assert!(tools.len() > 2 && tools.iter().any(|tool| tool.name == "panic_later"));
        let names: Vec<_> = client.prompts().await.unwrap().into_iter().map(|prompt| prompt.name).collect();
        assert_eq!(names, ["asks", "greeting"]);
        assert_eq!(client.resources().await.unwrap().len(), 4);
        assert_eq!(client.resource_templates().await.unwrap()[0].uri_template, "test://item/{id}");
        let suggestions = client.complete_prompt("greeting", "message", "a").await.unwrap();
        assert_eq!((suggestions.len(), &*suggestions[1]), (100, "a1"));
        assert_eq!(client.complete_resource("test://item/{id}", "id", "").await, Ok(Vec::new()));
    }
}

#[tokio::test(start_paused = true)]
async fn notifications_are_collected_in_all_revisions() {
    for revision in REVISIONS {
        let server = server();
        let mut client = TestClient::new(&server).with_revision(revision);
        client.call::<String>("progress", ()).await.unwrap();
        client.call::<String>("log", ()).await.unwrap();
        let received = client.notifications();
        let progress: Vec<_> =
            received.iter().filter_map(|notification| notification.params["progress"].as_f64()).collect();
        assert_eq!(progress, [1.0, 2.0, 3.0], "{revision}");
        let logs = received.iter().filter(|received| received.method == "notifications/message");
        assert_eq!(logs.map(|log| log.params["level"].as_str().unwrap()).collect::<Vec<_>>().len(), 8);
        assert_eq!(client.notifications(), []);

        client.subscribe("test://text").await.unwrap();
        server.resource_updated("test://text");
        let updated = client.next_notification().await.unwrap().unwrap();
        assert_eq!(
            (&*updated.method, &updated.params),
            ("notifications/resources/updated", &json!({"uri": "test://text"}))
        );
        assert!(server.remove_tool("echo"));
        let changed = client.next_notification().await.unwrap().unwrap();
        assert_eq!(&*changed.method, "notifications/tools/list_changed");
    }
}
