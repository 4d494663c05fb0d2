//! Forms that are derived from types, in all revisions with elicitation.

use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use thruway_mcp_sdk::{Context, ElicitForm, Elicited, HandlerError, LocalClient, McpServer, Revision, tool};

use crate::fixtures::{capabilities, text};

#[derive(Deserialize, JsonSchema, ElicitForm)]
struct Stay {
    /// The number of nights.
    #[schemars(range(min = 1, max = 30))]
    nights: u8,
    room: Option<Room>,
}

#[derive(Deserialize, JsonSchema, ElicitForm, Debug)]
#[serde(rename_all = "lowercase")]
enum Room {
    Single,
    Double,
}

#[derive(Deserialize, JsonSchema, ElicitForm)]
struct Confirmation {}

/// Asks twice with the same message, and then for a confirmation.
#[tool]
async fn book(context: Context) -> Result<String, HandlerError> {
    let first: Stay = context.elicit("How long?").await?.or_fail()?;
    let second: Stay = context.elicit("How long?").await?.or_fail()?;
    let total = first.nights + second.nights;
    Ok(match context.elicit::<Confirmation>(format!("Book {total} nights?")).await? {
        Elicited::Accepted(Confirmation {}) => format!("booked {total} nights, {:?}", second.room),
        Elicited::Declined => "declined".to_owned(),
        Elicited::Cancelled => "cancelled".to_owned(),
    })
}

/// Returns a client that answers with `answers`, and the messages and forms that it received.
async fn client(revision: Revision, answers: Vec<Value>) -> (LocalClient, Arc<Mutex<Vec<Value>>>) {
    let capabilities = serde_json::from_value(capabilities()).unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (noted, mut answers) = (asked.clone(), answers.into_iter());
    let client = McpServer::new("hotel", "1.0.0").with(book {}).connect().with_capabilities(&capabilities);
    let mut client = client.with_answers(move |_, params| {
        noted.lock().unwrap().push(params.clone());
        answers.next().expect("the server asked too often")
    });
    if revision < Revision::LATEST {
        client.initialize(revision).await.unwrap();
    }
    (client, asked)
}

fn accept(content: &Value) -> Value {
    json!({"action": "accept", "content": content})
}

const REVISIONS: [Revision; 3] = [Revision::R20250618, Revision::R20251125, Revision::R20260728];

#[tokio::test(start_paused = true)]
async fn forms_with_the_same_message_are_separate_questions() {
    for revision in REVISIONS {
        let answers = vec![
            accept(&json!({"nights": 2})),
            accept(&json!({"nights": 3, "room": "double"})),
            accept(&json!({})),
        ];
        let (mut client, asked) = client(revision, answers).await;
        let result = client.request("tools/call", json!({"name": "book"})).await.unwrap();
        assert_eq!(text(&result), "booked 5 nights, Some(Double)", "{revision}");
        let asked = asked.lock().unwrap();
        let messages: Vec<_> = asked.iter().map(|question| question["message"].as_str().unwrap()).collect();
        assert_eq!(messages, ["How long?", "How long?", "Book 5 nights?"]);
        assert_eq!(
            asked[0]["requestedSchema"],
            json!({"type": "object", "required": ["nights"], "properties": {
                "nights": {
                    "type": "integer", "minimum": 1.0, "maximum": 30.0, "description": "The number of nights.",
                },
                "room": {"type": "string", "enum": ["single", "double"]},
            }})
        );
    }
}

#[tokio::test(start_paused = true)]
async fn refused_and_invalid_forms_end_the_tool() {
    for revision in REVISIONS {
        for (answer, expected) in [
            (json!({"action": "decline"}), "the user has declined the form"),
            (json!({"action": "cancel"}), "the user has closed the form"),
            (
                accept(&json!({"nights": 31})),
                "the client's answer does not match the form: /nights: 31 is greater than the maximum of 30",
            ),
        ] {
            let (mut client, _) = client(revision, vec![answer]).await;
            let result = client.request("tools/call", json!({"name": "book"})).await.unwrap();
            assert_eq!((text(&result), &result["isError"]), (expected, &json!(true)), "{revision}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn client_without_forms_gets_an_error_that_names_them() {
    let mut modern = McpServer::new("hotel", "1.0.0").with(book {}).connect();
    let error = modern.request("tools/call", json!({"name": "book"})).await.unwrap_err();
    assert_eq!(error.data, Some(json!({"requiredCapabilities": {"elicitation": {"form": {}}}})));
    let mut legacy = McpServer::new("hotel", "1.0.0").with(book {}).connect();
    legacy.initialize(Revision::R20250618).await.unwrap();
    let error = legacy.request("tools/call", json!({"name": "book"})).await.unwrap_err();
    assert_eq!(&*error.message, "the client lacks a required capability: forms (elicitation)");
}
