//! Tools from functions with `#[tool]`, from the view of clients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{CallToolResult, ClientCapabilities, Tool};
use thruway_mcp_sdk::{
    Authorization, BoxError, Call, Context, HandlerError, IntoAnswer, McpServer, Offer, RegistrationError,
    Structured, TaskSupport, tool,
};

use crate::authorization::Plain;
use crate::fixtures::{Echo, answer, ask, capabilities, text};
use crate::http::{Message, Site};

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: f64,
}

/// Adds two numbers.
///
/// And nothing else:
///
///     a + b
#[tool(title = "Addition", read_only, idempotent)]
fn add(
    /// The first summand.
    a: f64,
    /// The second.
    #[serde(default)]
    #[schemars(range(min = -10, max = 10))]
    b: f64,
) -> Structured<Sum> {
    Structured(Sum { sum: a + b })
}

const NAME: &str = "words.join";

/// For readers of the source only.
#[tool(name = NAME, description = "Joins words.", destructive = false, open_world = false)]
fn join(words: &[String], #[serde(rename = "with")] between: Option<String>) -> String {
    words.join(&between.unwrap_or_else(|| " ".to_owned()))
}

#[doc = concat!("Says what time it is", ".")]
#[tool]
fn r#type() -> &'static str {
    "now"
}

#[tool]
async fn wait() -> impl IntoAnswer<CallToolResult> {
    tokio::task::yield_now().await;
    "waited"
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Range {
    from: u32,
    to: u32,
}

#[tool]
fn length(#[tool(input)] range: &Range) -> Result<String, &'static str> {
    let length = range.to.checked_sub(range.from).ok_or("it ends before it begins")?;
    Ok(length.to_string())
}

#[tool]
fn revision(prefix: &str, call: &Call<'_>) -> String {
    format!("{prefix}{}", call.revision().as_str())
}

/// Its parameter has the same name as the function, which is common.
#[tool]
async fn count(count: u32, context: Context) -> Result<String, BoxError> {
    for step in 1..=count {
        context.progress(f64::from(step), Some(f64::from(count)), None).await;
    }
    if count == 0 { Err("nothing to count".into()) } else { Ok(format!("counted to {count}")) }
}

#[tool]
async fn greet(greeting: &str, context: Context) -> Result<String, HandlerError> {
    Ok(format!("{greeting}, {}", ask(&context, "name").await?))
}

fn server() -> McpServer {
    McpServer::new("functions", "1")
        .with(add {})
        .with(join {})
        .with(r#type {})
        .with(wait {})
        .with(length {})
        .with(revision {})
        .with(count {})
        .with(greet {})
}

async fn call(name: &str, arguments: Value) -> Value {
    let capabilities = serde_json::from_value(capabilities()).unwrap();
    let mut client = server().connect().with_capabilities(&capabilities).with_answers(answer);
    client.request("tools/call", json!({"name": name, "arguments": arguments})).await.unwrap()
}

/// Returns the listed definition of a tool.
async fn definition(name: &str) -> Tool {
    let list = server().connect().request("tools/list", json!({})).await.unwrap();
    let mut tools: Vec<Tool> = serde_json::from_value(list["tools"].clone()).unwrap();
    tools.retain(|tool| tool.name == name);
    tools.pop().unwrap()
}

#[tokio::test(start_paused = true)]
async fn tool_definition_has_title_description_and_annotations() {
    let add = definition("add").await;
    assert_eq!(add.title.as_deref(), Some("Addition"));
    let description = "Adds two numbers.\n\nAnd nothing else:\n\n    a + b";
    assert_eq!(add.description.as_deref(), Some(description));
    let annotations = serde_json::to_value(add.annotations).unwrap();
    assert_eq!(annotations, json!({"readOnlyHint": true, "idempotentHint": true}));
    assert_eq!(add.output_schema.unwrap()["properties"], json!({"sum": {"type": "number"}}));

    let join = definition("words.join").await;
    assert_eq!((join.title, join.description.as_deref()), (None, Some("Joins words.")));
    let annotations = serde_json::to_value(join.annotations).unwrap();
    assert_eq!(annotations, json!({"destructiveHint": false, "openWorldHint": false}));

    let silent = definition("count").await;
    assert_eq!((silent.annotations, silent.output_schema), (None, None));
    assert_eq!(definition("type").await.description.as_deref(), Some("Says what time it is."));
    assert_eq!(definition("wait").await.description, None);
}

#[tokio::test(start_paused = true)]
async fn input_schema_is_built_from_function_parameters() {
    let add = definition("add").await.input_schema;
    assert_eq!((&add["type"], &add["title"]), (&json!("object"), &json!("add")));
    assert_eq!(add["required"], json!(["a"]));
    let a = json!({"description": "The first summand.", "type": "number"});
    let b = json!({"description": "The second.", "type": "number", "default": 0.0, "minimum": -10, "maximum": 10});
    assert_eq!(add["properties"], json!({"a": a, "b": b}));

    let join = definition("words.join").await.input_schema;
    assert_eq!(join["required"], json!(["words"]));
    assert_eq!(join["properties"]["words"], json!({"type": "array", "items": {"type": "string"}}));
    assert_eq!(join["properties"]["with"]["type"], json!(["string", "null"]));

    assert_eq!(
        definition("revision").await.input_schema["properties"],
        json!({"prefix": {"type": "string"}})
    );
    for without in ["type", "wait"] {
        let schema = definition(without).await.input_schema;
        assert_eq!((&schema["type"], schema.get("properties")), (&json!("object"), None), "{without}");
    }
    let length = definition("length").await.input_schema;
    assert_eq!(
        (&length["required"], &length["additionalProperties"]),
        (&json!(["from", "to"]), &json!(false))
    );
}

#[tokio::test(start_paused = true)]
async fn tool_calls_return_function_results() {
    assert_eq!(call("add", json!({"a": 1, "b": 2.5})).await["structuredContent"], json!({"sum": 3.5}));
    for (name, arguments, expected) in [
        ("add", json!({"a": 1}), "{\"sum\":1.0}"),
        ("words.join", json!({"words": ["a", "b"]}), "a b"),
        ("words.join", json!({"words": ["a", "b"], "with": "-"}), "a-b"),
        ("type", json!({}), "now"),
        ("wait", json!({"anything": "else"}), "waited"),
        ("length", json!({"from": 1, "to": 3}), "2"),
        ("revision", json!({"prefix": "MCP "}), "MCP 2026-07-28"),
        ("count", json!({"count": 3}), "counted to 3"),
        ("greet", json!({"greeting": "Hello"}), "Hello, Ada"),
    ] {
        let result = call(name, arguments).await;
        assert_eq!((text(&result), result.get("isError")), (expected, None), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_arguments_and_function_errors_are_error_results() {
    for (name, arguments, expected) in [
        ("add", json!({"a": "one"}), "invalid arguments"),
        ("add", json!({"a": 1, "b": 11}), "invalid arguments"),
        ("words.join", json!({"words": "a"}), "invalid arguments"),
        ("length", json!({"from": 1, "to": 3, "by": 1}), "invalid arguments"),
        ("length", json!({"from": 3, "to": 1}), "it ends before it begins"),
        ("count", json!({"count": 0}), "nothing to count"),
        ("count", json!({}), "invalid arguments"),
    ] {
        let result = call(name, arguments).await;
        assert!(result["isError"] == true && text(&result).starts_with(expected), "{name}: {result}");
    }
}

#[tokio::test(start_paused = true)]
async fn async_function_reports_progress() {
    let mut client = server().connect();
    let params = json!({"name": "count", "arguments": {"count": 2}, "_meta": {"progressToken": 1}});
    assert_eq!(text(&client.request("tools/call", params).await.unwrap()), "counted to 2");
    for progress in [1.0, 2.0] {
        assert_eq!(client.receive().await.unwrap()["params"]["progress"], progress);
    }
}

/// Here, and in the parameters of `count`, a type without braces and with the same name would be parsed as a
/// pattern.
#[tokio::test]
async fn annotated_functions_can_still_be_called() {
    let add = add(1.0, 2.0).0.sum + add(3.0, 4.0).0.sum;
    assert_eq!(json!(add), 10.0);
    assert_eq!(join(&["a".to_owned()], None), "a");
    assert_eq!(length(&Range { from: 2, to: 1 }), Err("it ends before it begins"));
    let waited = wait().await.into_answer().unwrap();
    assert_eq!(waited, CallToolResult::text("waited"));
}

#[tool(name = "erase", scopes("admin", ERASE))]
fn erase() -> &'static str {
    "erased"
}

const ERASE: &str = "erase";

#[tokio::test(start_paused = true)]
async fn tool_scopes_are_required_over_http() {
    let server = server().with(erase {});
    let authorization = Authorization::new("https://mcp.example/mcp", ["https://login.example"], Plain);
    let site = Site::of(server.endpoint().authorize(authorization));
    for (token, status) in [("ada/use", 403), ("ada/admin", 403), ("ada/admin,erase", 200)] {
        let message = Message::modern("tools/call", json!({"name": "erase", "arguments": {}}));
        let message = message.with_field("Authorization", &format!("Bearer {token}"));
        assert_eq!(site.send(&message).await.status, status, "{token}");
    }
}

#[tool(task_support = TaskSupport::REQUIRED)]
async fn report(context: Context) {
    context.progress(1.0, None, None).await;
}

#[tokio::test(start_paused = true)]
async fn tool_with_task_support_returns_task() {
    let server = server().with(report {});
    let params = json!({"name": "report", "arguments": {}});
    let refused = server.connect().request("tools/call", params.clone()).await.unwrap_err();
    assert_eq!(refused.code.0, -32021, "clients without task support should get an error");
    let mut client = server.connect().with_capabilities(&ClientCapabilities::default().with_tasks());
    let task = client.request("tools/call", params).await.unwrap();
    assert_eq!(task["resultType"], "task", "{task}");
}

/// Several tools with shared state.
struct Counter(&'static str);

impl Offer for Counter {
    fn offer(self, server: &McpServer) -> Result<(), RegistrationError> {
        server.add(add {})?;
        server.add_tool(Tool::new(self.0), move || self.0)
    }
}

/// A tool with an invalid schema.
struct Remote;

impl Offer for Remote {
    fn offer(self, server: &McpServer) -> Result<(), RegistrationError> {
        let schema =
            [("type".to_owned(), json!("object")), ("$ref".to_owned(), json!("https://localhost:1/"))];
        server.add_tool(Tool::new("remote").with_input_schema(schema.into_iter().collect()), |echo: Echo| {
            echo.message
        })
    }
}

#[tokio::test(start_paused = true)]
async fn one_offer_can_register_several_tools() {
    let mut client = McpServer::new("counter", "1").with(Counter("shared")).connect();
    let list = client.request("tools/list", json!({})).await.unwrap();
    let names: Vec<_> = list["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["add", "shared"]);
}

#[test]
fn add_returns_error_for_invalid_tool_schema() {
    let error = McpServer::new("remote", "1").add(Remote).unwrap_err().to_string();
    assert!(error.starts_with("cannot register `remote`"), "{error}");
}

#[test]
#[should_panic(expected = "cannot register `remote`")]
fn with_panics_for_invalid_tool_schema() {
    drop(McpServer::new("remote", "1").with(Remote));
}

macro_rules! number {
    ($name:ident, $kind:ty, $answer:ty) => {
        /// A number.
        #[tool]
        fn $name(value: $kind, _call: &Call<'_>) -> $answer {
            value.to_string()
        }
    };
}

#[tokio::test(start_paused = true)]
async fn tool_can_be_local_and_generated_by_macro() {
    number!(local, &u8, String);
    let mut client = McpServer::new("local", "1").with(local {}).connect();
    let params = json!({"name": "local", "arguments": {"value": 255}});
    assert_eq!(text(&client.request("tools/call", params).await.unwrap()), "255");
}
