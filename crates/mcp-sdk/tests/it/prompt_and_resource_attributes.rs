//! Functions and methods with `#[prompt]` and `#[resource]`, from the view of clients.

use std::sync::Mutex;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thruway_mcp_sdk::json_rpc::Error;
use thruway_mcp_sdk::schema::{ContentBlock, PromptMessage};
use thruway_mcp_sdk::{Call, Context, HandlerError, McpServer, Revision, offer, prompt, resource, tool};

use crate::fixtures::{answer, ask, capabilities};

#[derive(Deserialize, JsonSchema, Clone, Copy, Debug)]
#[serde(rename_all = "lowercase")]
enum Tone {
    Formal,
    Friendly,
}

/// Writes a letter.
///
/// Without a signature.
#[prompt(title = "Letter")]
fn letter(
    /// The name of the reader.
    to: &str,
    tone: Tone,
    /// Maximum number of lines.
    #[serde(default)]
    lines: u8,
    languages: Option<Vec<String>>,
) -> Result<String, std::fmt::Error> {
    let languages = languages.map_or_else(|| "any".to_owned(), |languages| languages.join("+"));
    if lines == 13 { Err(std::fmt::Error) } else { Ok(format!("{to} {tone:?} {lines} {languages}")) }
}

const NAME: &str = "greet.user";

#[prompt(name = NAME, description = "Greets the user.")]
async fn greet(context: Context) -> Result<Vec<PromptMessage>, HandlerError> {
    let name = ask(&context, "name").await?;
    Ok(vec![
        PromptMessage::user(ContentBlock::text(format!("Hello, {name}"))),
        PromptMessage::user(ContentBlock::text("!")),
    ])
}

#[derive(Deserialize, JsonSchema)]
struct Sum {
    a: i64,
    b: i64,
}

#[prompt]
fn sum(#[prompt(input)] of: &Sum, call: &Call<'_>) -> String {
    format!("{} {}", of.a + of.b, call.revision().as_str())
}

/// The settings.
#[resource("config://app", title = "Settings", mime_type = "text/plain")]
fn settings() -> &'static str {
    "dark"
}

#[resource("logo://app", name = "logo", mime_type = "image/png", description = "The logo.")]
async fn bytes() -> Vec<u8> {
    tokio::task::yield_now().await;
    vec![1, 2, 3]
}

#[derive(Serialize)]
struct Page {
    book: String,
    number: u16,
}

/// A page of a book.
#[resource("book://{book}/pages/{number}", title = "Page", mime_type = "application/json")]
fn page(book: &str, number: u16) -> Result<Page, String> {
    if number == 0 {
        Err("the first page is 1".to_owned())
    } else {
        Ok(Page { book: book.to_owned(), number })
    }
}

#[resource("file:///{+path}")]
async fn file(path: String, context: Context) -> Result<String, Error> {
    context.progress(1.0, None, None).await;
    if path.contains("..") { Err(Error::invalid_params("outside of the directory")) } else { Ok(path) }
}

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

#[offer]
impl Notes {
    #[tool]
    fn write(&self, text: String) -> usize {
        let mut notes = self.0.lock().unwrap();
        notes.push(text);
        notes.len()
    }

    /// A note.
    #[resource("note://{number}")]
    fn note(&self, number: usize, call: &Call<'_>) -> Result<String, String> {
        let notes = self.0.lock().unwrap();
        let note = number.checked_sub(1).and_then(|place| notes.get(place));
        note.cloned().ok_or_else(|| format!("no note {number} in {}", call.revision().as_str()))
    }

    #[resource("notes://all")]
    async fn all(&self) -> Vec<String> {
        tokio::task::yield_now().await;
        self.0.lock().unwrap().clone()
    }

    /// Summarizes the notes.
    #[prompt]
    async fn summary(&self, words: u32) -> String {
        tokio::task::yield_now().await;
        format!("Summarize in {words} words: {}", self.0.lock().unwrap().join(", "))
    }

    #[resource("notes://version")]
    fn version() -> &'static str {
        "1"
    }
}

fn server() -> McpServer {
    let server = McpServer::new("attributes", "1").with(letter {}).with(greet {}).with(sum {});
    let server = server.with(settings {}).with(bytes {}).with(page {}).with(file {});
    server.with(Notes::default())
}

async fn request(method: &str, params: Value) -> Result<Value, Error> {
    let capabilities = serde_json::from_value(capabilities()).unwrap();
    let mut client = server().connect().with_capabilities(&capabilities).with_answers(answer);
    client.request(method, params).await
}

async fn texts_of_prompt(name: &str, arguments: Value) -> Vec<String> {
    let result = request("prompts/get", json!({"name": name, "arguments": arguments})).await.unwrap();
    let messages = result["messages"].as_array().unwrap().iter();
    messages.map(|message| message["content"]["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn prompts_are_listed_with_their_arguments() {
    let list = request("prompts/list", json!({})).await.unwrap();
    let letter = json!({
        "name": "letter",
        "title": "Letter",
        "description": "Writes a letter.\n\nWithout a signature.",
        "arguments": [
            {"name": "to", "description": "The name of the reader.", "required": true},
            {"name": "tone", "required": true},
            {"name": "lines", "description": "Maximum number of lines.", "required": false},
            {"name": "languages", "required": false},
        ],
    });
    assert_eq!(list["prompts"][0], letter);
    assert_eq!(list["prompts"][1], json!({"name": "greet.user", "description": "Greets the user."}));
    let sum = json!([{"name": "a", "required": true}, {"name": "b", "required": true}]);
    assert_eq!(list["prompts"][2], json!({"name": "sum", "arguments": sum}));
    assert_eq!(list["prompts"][3]["name"], "summary");
}

#[tokio::test(start_paused = true)]
async fn prompts_convert_texts_to_parameters() {
    for (name, arguments, expected) in [
        ("letter", json!({"to": "7", "tone": "formal"}), &["7 Formal 0 any"][..]),
        (
            "letter",
            json!({"to": "Ada", "tone": "friendly", "lines": "9", "languages": "[\"en\", \"de\"]"}),
            &["Ada Friendly 9 en+de"],
        ),
        ("greet.user", json!({}), &["Hello, Ada", "!"]),
        ("sum", json!({"a": "1", "b": "-3"}), &["-2 2026-07-28"]),
        ("summary", json!({"words": "10"}), &["Summarize in 10 words: "]),
    ] {
        assert_eq!(texts_of_prompt(name, arguments).await, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn prompt_errors_are_protocol_errors() {
    for (arguments, code, expected) in [
        (json!({"to": "Ada"}), -32602, "invalid arguments: missing field `tone`"),
        (json!({"to": "Ada", "tone": "rude"}), -32602, "invalid arguments: `tone`: unknown variant `rude`"),
        (
            json!({"to": "Ada", "tone": "formal", "lines": "256"}),
            -32602,
            "invalid arguments: `lines`: expected `u8`",
        ),
        (json!([]), -32602, "`arguments` must be an object"),
        (json!({"to": "Ada", "tone": "formal", "lines": "13"}), -32603, "an error occurred"),
    ] {
        let error =
            request("prompts/get", json!({"name": "letter", "arguments": arguments})).await.unwrap_err();
        assert!(error.code.0 == code && error.message.starts_with(expected), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn resources_and_templates_are_listed() {
    let list = request("resources/list", json!({})).await.unwrap();
    let settings = json!({
        "uri": "config://app", "name": "settings", "title": "Settings", "description": "The settings.",
        "mimeType": "text/plain",
    });
    let logo = json!({
        "uri": "logo://app", "name": "logo", "description": "The logo.", "mimeType": "image/png",
    });
    let all = json!({"uri": "notes://all", "name": "all"});
    let version = json!({"uri": "notes://version", "name": "version"});
    assert_eq!(list["resources"], json!([settings, logo, all, version]));
    let list = request("resources/templates/list", json!({})).await.unwrap();
    let page = json!({
        "uriTemplate": "book://{book}/pages/{number}", "name": "page", "title": "Page",
        "description": "A page of a book.", "mimeType": "application/json",
    });
    let file = json!({"uriTemplate": "file:///{+path}", "name": "file"});
    let note = json!({"uriTemplate": "note://{number}", "name": "note", "description": "A note."});
    assert_eq!(list["resourceTemplates"], json!([page, file, note]));
}

#[tokio::test(start_paused = true)]
async fn reads_return_content_of_functions() {
    for (uri, mime_type, member, expected) in [
        ("config://app", json!("text/plain"), "text", "dark"),
        ("logo://app", json!("image/png"), "blob", "AQID"),
        (
            "book://moby%20dick/pages/7",
            json!("application/json"),
            "text",
            r#"{"book":"moby dick","number":7}"#,
        ),
        ("file:///a/b.txt", Value::Null, "text", "a/b.txt"),
        ("notes://all", Value::Null, "text", "[]"),
        ("notes://version", Value::Null, "text", "1"),
    ] {
        let result = request("resources/read", json!({"uri": uri})).await.unwrap();
        let content = &result["contents"][0];
        assert_eq!((&content["uri"], &content["mimeType"]), (&json!(uri), &mime_type), "{uri}");
        assert_eq!(content[member], expected, "{uri}");
    }
}

#[tokio::test(start_paused = true)]
async fn resource_errors_are_protocol_errors() {
    for (uri, code, expected) in [
        ("book://emma/pages/one", -32602, "the URI is invalid: `number`: expected `u16`"),
        ("book://emma/pages/65536", -32602, "the URI is invalid: `number`: expected `u16`"),
        ("book://emma/pages/0", -32603, "the first page is 1"),
        ("book://emma/pages/1/2", -32602, "there is no such resource"),
        ("file:///../x", -32602, "outside of the directory"),
        ("note://1", -32603, "no note 1 in 2026-07-28"),
    ] {
        let error = request("resources/read", json!({"uri": uri})).await.unwrap_err();
        assert!(error.code.0 == code && error.message.starts_with(expected), "{uri}: {error:?}");
    }
    let error = request("resources/read", json!({"uri": "note://x"})).await.unwrap_err();
    assert_eq!(error.data, Some(json!({"uri": "note://x"})));
}

#[tokio::test(start_paused = true)]
async fn items_of_one_type_share_its_value_in_both_eras() {
    let server = server();
    let mut legacy = server.connect();
    legacy.initialize(Revision::R20241105).await.unwrap();
    for (mut client, number) in [(server.connect(), 1), (legacy, 2)] {
        let params = json!({"name": "write", "arguments": {"text": format!("note {number}")}});
        client.request("tools/call", params).await.unwrap();
        let params = json!({"uri": format!("note://{number}")});
        let note = client.request("resources/read", params).await.unwrap();
        assert_eq!(note["contents"][0]["text"], format!("note {number}"));
    }
    let mut client = server.connect();
    let all = client.request("resources/read", json!({"uri": "notes://all"})).await.unwrap();
    assert_eq!(all["contents"][0]["text"], r#"["note 1","note 2"]"#);
    let params = json!({"name": "summary", "arguments": {"words": "5"}});
    let summary = client.request("prompts/get", params).await.unwrap();
    assert_eq!(summary["messages"][0]["content"]["text"], "Summarize in 5 words: note 1, note 2");
}

#[test]
fn functions_can_still_be_called() {
    assert_eq!(settings(), "dark");
    assert_eq!(page("emma", 2).map(|page| page.number), Ok(2));
    assert_eq!(letter("Ada", Tone::Formal, 1, None).unwrap(), "Ada Formal 1 any");
    assert_eq!(Notes::default().write("a".to_owned()), 1);
}
