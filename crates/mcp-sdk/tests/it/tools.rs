//! Arguments and results of tools, and their schemas.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use thruway_mcp_sdk::schema::{CallToolResult, JsonObject, Prompt, StructuredContent, Tool};
use thruway_mcp_sdk::{Context, HandlerError, McpServer, Structured};

use crate::fixtures::{Echo, Nothing, text, tool};
use crate::http::{Message, Site};

fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(object) => object,
        other => panic!("{other} is not an object"),
    }
}

fn weather() -> JsonObject {
    object(json!({
        "type": "object",
        "properties": {"celsius": {"type": "number", "minimum": -273}},
        "required": ["celsius"],
    }))
}

/// A tool with a handwritten output schema. It returns its argument.
fn server() -> McpServer {
    let definition = Tool::new("weather").with_output_schema(weather());
    McpServer::new("tools", "1").tool(definition, |result: Value| {
        let Some(structured) = result.get("structured") else { return Ok(CallToolResult::text("nothing")) };
        if structured == "error" {
            return Err(HandlerError::failed("no weather today"));
        }
        let structured = StructuredContent::from_value(structured).unwrap();
        Ok(CallToolResult { structured_content: Some(structured), ..CallToolResult::text("weather") })
    })
}

#[tokio::test(start_paused = true)]
async fn structured_content_must_match_handwritten_output_schema() {
    let site = Site::new(&server());
    let call = |structured: Value| json!({"name": "weather", "arguments": {"structured": structured}});
    let result = site.call("tools/call", call(json!({"celsius": 21.5}))).await;
    assert_eq!(result["structuredContent"], json!({"celsius": 21.5}));
    for wrong in [json!({}), json!({"celsius": "warm"}), json!({"celsius": -300}), json!(5), json!(null)] {
        let refused = site.refused(&Message::modern("tools/call", call(wrong.clone()))).await;
        assert_eq!(refused, (200, -32603), "{wrong}");
    }
    assert_eq!(site.refused(&Message::modern("tools/call", tool("weather"))).await, (200, -32603));
    let failed = site.call("tools/call", call(json!("error"))).await;
    assert_eq!((&failed["isError"], text(&failed)), (&json!(true), "no weather today"));
}

#[derive(serde::Serialize, JsonSchema)]
struct Ratios {
    of_none: Option<f64>,
    ratios: Vec<Ratio>,
}

#[derive(serde::Serialize, JsonSchema)]
struct Ratio {
    value: f64,
}

/// Regression test: a number that is not finite became `null`, which the schema of the tool forbids.
#[tokio::test(start_paused = true)]
async fn non_finite_number_in_result_is_an_error_that_names_its_member() {
    let server = McpServer::new("tools", "1").tool(Tool::new("divide"), |Division { by }: Division| {
        Structured(Ratios { of_none: None, ratios: vec![Ratio { value: 1.0 }, Ratio { value: 1.0 / by }] })
    });
    let site = Site::new(&server);
    let divide =
        async |by: f64| site.call("tools/call", json!({"name": "divide", "arguments": {"by": by}})).await;
    let failed = divide(0.0).await;
    let reason = "the server cannot write the tool's result as JSON: `ratios[1].value` is inf, \
        which JSON cannot express";
    assert_eq!((&failed["isError"], text(&failed)), (&json!(true), reason));
    let result = divide(4.0).await;
    let expected = json!({"of_none": null, "ratios": [{"value": 1.0}, {"value": 0.25}]});
    assert_eq!(result["structuredContent"], expected);
}

#[derive(Deserialize, JsonSchema)]
struct Division {
    by: f64,
}

/// Regression test: a progress of NaN was sent as `null`, which clients do not accept.
#[tokio::test(start_paused = true)]
async fn non_finite_progress_is_not_sent() {
    let server =
        McpServer::new("tools", "1").tool(Tool::new("work"), |_: Nothing, context: Context| async move {
            for (progress, total) in
                [(f64::NAN, None), (1.0, Some(f64::INFINITY)), (f64::INFINITY, None), (2.0, None)]
            {
                context.progress(progress, total, None).await;
            }
            "done"
        });
    let mut params = tool("work");
    params["_meta"] = json!({"progressToken": 1});
    let messages = Site::new(&server).send(&Message::modern("tools/call", params)).await.messages();
    let progress: Vec<_> = messages.iter().map(|message| &message["params"]).collect();
    assert_eq!(progress[0], &json!({"progressToken": 1, "progress": 1.0}));
    assert_eq!((&progress[1]["progress"], messages.len()), (&json!(2.0), 3));
}

#[derive(Deserialize, JsonSchema)]
struct Booking {
    #[schemars(range(min = 1, max = 9))]
    guests: u8,
    #[schemars(length(max = 5))]
    name: String,
}

#[tokio::test(start_paused = true)]
async fn arguments_are_validated_against_the_whole_schema() {
    let server = McpServer::new("tools", "1")
        .tool(Tool::new("book"), |Booking { guests, name }: Booking| format!("{name} {guests}"));
    let site = Site::new(&server);
    let call = |arguments: Value| json!({"name": "book", "arguments": arguments});
    assert_eq!(text(&site.call("tools/call", call(json!({"guests": 9, "name": "Ada"}))).await), "Ada 9");
    for wrong in [
        json!({"guests": 0, "name": "Ada"}),
        json!({"guests": 10, "name": "Ada"}),
        json!({"guests": 1, "name": "Augusta"}),
        json!({"guests": 1.5, "name": "Ada"}),
        json!({"guests": 1}),
        json!([]),
        json!("x"),
    ] {
        let result = site.call("tools/call", call(wrong.clone())).await;
        assert!(
            result["isError"] == true && text(&result).contains("invalid arguments"),
            "{wrong}: {result}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn arguments_must_be_an_object() {
    // Serde also deserializes structs from arrays.
    let site = Site::new(&crate::fixtures::server());
    for wrong in [json!(["m"]), json!("m"), json!(5)] {
        let params = json!({"name": "echo", "arguments": wrong});
        assert_eq!(site.call("tools/call", params).await["isError"], true, "{wrong}");
        let params = json!({"name": "greeting", "arguments": wrong});
        assert_eq!(site.refused(&Message::modern("prompts/get", params)).await, (200, -32602), "{wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn too_deep_arguments_and_duplicate_members_are_rejected() {
    let site = Site::new(&crate::fixtures::server());
    let deep = format!(r#"{{"message":"m","x":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    for arguments in [r#"{"message":"m","message":"n"}"#, &deep.replace("\"x\"", "\"message\"")] {
        let message = Message::modern("tools/call", json!({"name": "echo", "arguments": "here"}));
        let content = String::from_utf8(message.content.clone()).unwrap().replace("\"here\"", arguments);
        let response = site.send(&Message { content: content.into(), ..message }).await;
        assert_eq!((response.status, &response.message()["result"]["isError"]), (200, &json!(true)));
    }
    // Unknown members are skipped at any depth.
    let message = Message::modern("tools/call", json!({"name": "echo", "arguments": "here"}));
    let content = String::from_utf8(message.content.clone()).unwrap().replace("\"here\"", &deep);
    let response = site.send(&Message { content: content.into(), ..message }).await;
    assert_eq!(response.message()["result"]["structuredContent"], json!({"message": "m"}));
}

#[tokio::test(start_paused = true)]
async fn tool_argument_error_text_is_bounded() {
    let server = McpServer::new("tools", "1")
        .tool(Tool::new("book"), |Booking { guests, name }: Booking| format!("{name} {guests}"))
        .tool(Tool::new("echo"), |echo: Echo| echo.message);
    let site = Site::new(&server);
    let long = "ü".repeat(100_000);
    let params = json!({"name": "book", "arguments": {"guests": long, "name": long}});
    assert!(text(&site.call("tools/call", params).await).len() < 2000);
    let params = json!({"name": "echo", "arguments": {"message": [long]}});
    assert!(text(&site.call("tools/call", params).await).len() < 2000);
}

/// Regression test: a refused prompt quoted the whole argument.
#[tokio::test(start_paused = true)]
async fn prompt_argument_error_text_is_bounded() {
    #[derive(Deserialize, JsonSchema)]
    enum Tone {
        Warm,
    }
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "the test only sends arguments that do not match")]
    struct Greeting {
        tone: Tone,
    }
    let server = McpServer::new("test", "1").prompt(Prompt::new("greeting"), |_: Greeting| "Greet me.");
    let mut client = server.connect();
    let params = json!({"name": "greeting", "arguments": {"tone": "x".repeat(10_000)}});
    let error = client.request("prompts/get", params).await.unwrap_err();
    assert!(error.message.len() < 1100, "{}", error.message.len());
}

/// Regression test: models received the documentation of this library about handlers.
#[tokio::test(start_paused = true)]
async fn schema_of_tool_without_input_has_no_description() {
    let server = McpServer::new("test", "1").tool(Tool::new("now"), || "now");
    let list = server.connect().request("tools/list", json!({})).await.unwrap();
    let schema = &list["tools"][0]["inputSchema"];
    assert_eq!((&schema["type"], &schema["description"]), (&json!("object"), &json!(null)));
}

#[tokio::test(start_paused = true)]
async fn schema_with_remote_reference_is_rejected() {
    let schema = object(json!({"type": "object", "$ref": "https://localhost:1/schema.json"}));
    let server = McpServer::new("tools", "1");
    let refused = server.add_tool(Tool::new("remote").with_input_schema(schema.clone()), |_: Value| "");
    assert!(refused.unwrap_err().to_string().contains("remote"));
    let refused = server.add_tool(Tool::new("remote").with_output_schema(schema), |_: Nothing| "");
    assert!(refused.is_err());
}

#[tokio::test(start_paused = true)]
async fn tool_schemas_are_generated_from_rust_types() {
    let server = McpServer::new("tools", "1").tool(Tool::new("echo"), |echo: Echo| Structured(echo));
    let site = Site::new(&server);
    let tools = site.call("tools/list", json!({})).await;
    let tool = &tools["tools"][0];
    for schema in [&tool["inputSchema"], &tool["outputSchema"]] {
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["properties"]["message"]["type"], "string");
        assert_eq!(schema["required"], json!(["message"]));
    }
}
