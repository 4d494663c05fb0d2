//! Tools that return plain values, such as numbers, lists and structs, from the view of clients of both eras.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thruway_mcp_sdk::json_rpc::Error;
use thruway_mcp_sdk::schema::{ContentBlock, Tool};
use thruway_mcp_sdk::{BoxError, Context, McpServer, Revision, TaskSupport, offer, tool};

use crate::fixtures::text;

#[tool]
fn add(a: i32, b: i32) -> i32 {
    a + b
}

#[tool]
async fn half(of: f64) -> f64 {
    tokio::task::yield_now().await;
    of / 2.0
}

#[tool]
fn inverse(of: f64) -> f64 {
    1.0 / of
}

#[tool]
fn is_even(number: u64, call: &thruway_mcp_sdk::Call<'_>) -> bool {
    let _ = call;
    number.is_multiple_of(2)
}

#[tool]
fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[tool]
fn first_word(text: &str) -> Option<String> {
    text.split_whitespace().next().map(str::to_owned)
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug)]
struct Point {
    x: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
}

/// A schema without attributes of serde would require `label`.
#[tool]
async fn point(x: f64) -> Point {
    tokio::task::yield_now().await;
    Point { x, label: None }
}

#[tool]
fn points(count: u8) -> Result<Vec<Point>, BoxError> {
    if count == 0 {
        return Err("there is no point".into());
    }
    Ok((0..count).map(|number| Point { x: f64::from(number), label: None }).collect())
}

#[derive(Serialize, JsonSchema)]
enum Color {
    Red,
}

#[tool]
fn color() -> Color {
    Color::Red
}

#[tool]
fn lengths(text: &str) -> BTreeMap<String, usize> {
    text.split_whitespace().map(|word| (word.to_owned(), word.len())).collect()
}

/// An error without a conversion to `HandlerError`.
#[derive(Debug, Serialize, JsonSchema)]
struct NoRoot(f64);

impl fmt::Display for NoRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has no root", self.0)
    }
}

type RootResult = Result<f64, NoRoot>;

#[tool]
async fn root(of: f64, _context: Context) -> RootResult {
    tokio::task::yield_now().await;
    if of < 0.0 { Err(NoRoot(of)) } else { Ok(of.sqrt()) }
}

#[tool]
fn refuse() -> Result<u8, Error> {
    Err(Error::invalid_params("refused"))
}

#[tool]
fn save(number: f64) -> Result<(), NoRoot> {
    if number < 0.0 { Err(NoRoot(number)) } else { Ok(()) }
}

#[tool]
fn blocks(number: f64) -> Result<Vec<ContentBlock>, NoRoot> {
    save(number)?;
    Ok(vec![ContentBlock::text("one"), ContentBlock::text("two")])
}

#[tool(task_support = TaskSupport::OPTIONAL)]
async fn slow() -> u8 {
    tokio::task::yield_now().await;
    7
}

struct Named(String);

#[offer]
impl Named {
    #[tool]
    fn name(&self) -> &str {
        &self.0
    }

    #[tool]
    async fn name_later(&self) -> &str {
        tokio::task::yield_now().await;
        &self.0
    }

    #[tool]
    async fn letters(&self) -> Vec<char> {
        tokio::task::yield_now().await;
        self.0.chars().collect()
    }
}

fn server() -> McpServer {
    let server = McpServer::new("plain", "1")
        .with(add {})
        .with(half {})
        .with(inverse {})
        .with(is_even {})
        .with(words {});
    let server = server.with(first_word {}).with(point {}).with(points {}).with(color {}).with(lengths {});
    let server = server.with(root {}).with(refuse {}).with(save {}).with(blocks {}).with(slow {});
    server.with(Named("Ada".to_owned()))
}

/// Calls a tool as a client of each era, and returns the result if the clients get the same.
async fn call(name: &str, arguments: Value) -> Value {
    let server = server();
    let mut legacy = server.connect();
    legacy.initialize(Revision::R20250618).await.unwrap();
    let params = json!({"name": name, "arguments": arguments});
    let [modern, legacy] = [
        server.connect().request("tools/call", params.clone()).await.unwrap(),
        legacy.request("tools/call", params).await.unwrap(),
    ];
    for member in ["content", "structuredContent", "isError"] {
        assert_eq!(modern.get(member), legacy.get(member), "{name}");
    }
    modern
}

#[tokio::test(start_paused = true)]
async fn plain_results_are_structured_content_and_text() {
    let points = json!([{"x": 0.0}, {"x": 1.0}]);
    for (name, arguments, structured, expected) in [
        ("add", json!({"a": 1, "b": 2}), json!({"result": 3}), "3"),
        ("half", json!({"of": 3}), json!({"result": 1.5}), "1.5"),
        ("is_even", json!({"number": 3}), json!({"result": false}), "false"),
        ("words", json!({"text": "a \"b\""}), json!({"result": ["a", "\"b\""]}), r#"["a","\"b\""]"#),
        ("first_word", json!({"text": "\"a\" b"}), json!({"result": "\"a\""}), "\"a\""),
        ("first_word", json!({"text": ""}), json!({"result": null}), "null"),
        ("point", json!({"x": 2}), json!({"x": 2.0}), r#"{"x":2.0}"#),
        ("points", json!({"count": 2}), json!({"result": points}), r#"[{"x":0.0},{"x":1.0}]"#),
        ("color", json!({}), json!({"result": "Red"}), "Red"),
        ("lengths", json!({"text": "a bc"}), json!({"a": 1, "bc": 2}), r#"{"a":1,"bc":2}"#),
        ("root", json!({"of": 4}), json!({"result": 2.0}), "2.0"),
        ("slow", json!({}), json!({"result": 7}), "7"),
        ("letters", json!({}), json!({"result": ["A", "d", "a"]}), r#"["A","d","a"]"#),
    ] {
        let result = call(name, arguments).await;
        assert_eq!((&result["structuredContent"], text(&result)), (&structured, expected), "{name}");
        assert_eq!((result.get("isError"), result["content"].as_array().unwrap().len()), (None, 1), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn texts_and_content_have_no_structured_content() {
    for (name, expected) in [("name", json!(["Ada"])), ("name_later", json!(["Ada"])), ("save", json!([]))] {
        let result = call(name, json!({"number": 1})).await;
        let texts: Vec<_> =
            result["content"].as_array().unwrap().iter().map(|block| &block["text"]).collect();
        assert_eq!((json!(texts), result.get("structuredContent")), (expected, None), "{name}");
    }
    assert_eq!(call("blocks", json!({"number": 1})).await["content"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn displayed_errors_are_error_results() {
    for (name, arguments, expected) in
        [("root", json!({"of": -1}), "-1 has no root"), ("points", json!({"count": 0}), "there is no point")]
    {
        let result = call(name, arguments).await;
        assert_eq!((&result["isError"], text(&result)), (&json!(true), expected), "{name}");
        assert_eq!(result.get("structuredContent"), None, "{name}");
    }
    // JSON has no infinite numbers.
    let result = call("inverse", json!({"of": 0})).await;
    assert!(result["isError"] == true && text(&result).contains("as JSON"), "{result}");
    let refused = server().connect().request("tools/call", json!({"name": "refuse"})).await.unwrap_err();
    assert_eq!((refused.code.0, &*refused.message), (-32602, "refused"), "protocol errors are unchanged");
}

#[tokio::test(start_paused = true)]
async fn output_schemas_are_objects_in_all_revisions() {
    let server = server();
    for revision in [None, Some(Revision::R20250618), Some(Revision::R20251125)] {
        let mut client = server.connect();
        if let Some(revision) = revision {
            client.initialize(revision).await.unwrap();
        }
        let list = client.request("tools/list", json!({})).await.unwrap();
        let schema = |name: &str| {
            let tools = list["tools"].as_array().unwrap();
            tools.iter().find(|tool| tool["name"] == name).unwrap().get("outputSchema").cloned()
        };
        for (name, result) in [
            ("add", json!({"type": "integer"})),
            ("half", json!({"type": "number"})),
            ("root", json!({"type": "number"})),
            ("words", json!({"type": "array", "items": {"type": "string"}})),
            ("first_word", json!({"type": ["string", "null"]})),
            ("points", json!({"type": "array", "items": {"$ref": "#/$defs/Point"}})),
        ] {
            let schema = schema(name).unwrap();
            assert_eq!(
                (&schema["type"], &schema["required"]),
                (&json!("object"), &json!(["result"])),
                "{name}"
            );
            assert_eq!(schema["properties"], json!({ "result": result }), "{name}");
        }
        assert_eq!(schema("points").unwrap()["$defs"]["Point"]["required"], json!(["x"]));
        assert_eq!(schema("point").unwrap()["required"], json!(["x"]));
        assert_eq!(schema("lengths").unwrap()["type"], "object");
        for name in ["name", "name_later", "save", "blocks"] {
            assert_eq!(schema(name), None, "{name}");
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Length {
    text: String,
}

async fn length(Length { text }: Length) -> usize {
    tokio::task::yield_now().await;
    text.len()
}

/// Handlers without an attribute: `async` without a `Context`, and with plain numbers as results.
#[tokio::test(start_paused = true)]
async fn async_handlers_need_no_context() {
    let server = McpServer::new("handlers", "1")
        .tool(Tool::new("length"), length)
        .tool(Tool::new("pi"), async || 3.0)
        .tool(Tool::new("closure"), |Length { text }: Length| async move { text })
        .tool(Tool::new("now"), |Length { text }: Length| text.len() > 1);
    for (name, structured, expected) in [
        ("length", json!({"result": 3}), "3"),
        ("pi", json!({"result": 3.0}), "3.0"),
        ("closure", Value::Null, "abc"),
        ("now", json!({"result": true}), "true"),
    ] {
        let params = json!({"name": name, "arguments": {"text": "abc"}});
        let result = server.connect().request("tools/call", params).await.unwrap();
        assert_eq!((&result["structuredContent"], text(&result)), (&structured, expected), "{name}");
    }
}
