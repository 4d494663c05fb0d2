//! Tests of inspections: complete servers, hostile servers, and servers that fail.

use std::time::Duration;

use serde_json::{Value, json};
use thruway_mcp_dev::{InspectError, Inspection};
use thruway_mcp_sdk::schema::{Prompt, PromptArgument, Resource, ResourceTemplate, Tool};
use thruway_mcp_sdk::{EraChoice, McpClient, McpClientOptions, McpServer, UriParameters};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

const LIMIT: Duration = Duration::from_secs(20);

fn server() -> McpServer {
    let schema = json!({"type": "object", "required": ["size"], "properties": {
        "size": {"type": "integer", "description": "Size in bytes"},
        "color": {"enum": ["red", "blue"]},
    }});
    let mut tool = Tool::new("paint").with_description("Paints a wall.\nIn one color.");
    tool.input_schema.clone_from(schema.as_object().unwrap());
    let mut prompt = Prompt::new("review").with_description("Reviews a text");
    prompt.arguments =
        vec![PromptArgument { name: "text".into(), required: Some(true), ..PromptArgument::default() }];
    McpServer::new("painter", "1.2.3")
        .tool(tool, |_: Value| "done")
        .prompt(prompt, |_: Value| "Review this.".to_owned())
        .resource(Resource::new("wall://all", "walls").with_mime_type("text/plain"), || "one wall")
        .resource_template(ResourceTemplate::new("wall://{number}", "wall"), |_: UriParameters| "a wall")
}

/// Returns a client of a server that answers each request with the result of `answer` for its method. If
/// `answer` returns `None`, the server does not answer.
fn scripted(answer: impl Fn(&str, &Value) -> Option<Value> + Send + 'static) -> McpClient {
    let (near, far) = UnixStream::pair().unwrap();
    tokio::spawn(async move {
        let (input, mut output) = far.into_split();
        let mut lines = BufReader::new(input).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let request: Value = serde_json::from_str(&line).unwrap();
            let Some(result) = answer(request["method"].as_str().unwrap(), &request["params"]) else {
                continue;
            };
            let mut answer = json!({"jsonrpc": "2.0", "id": request["id"]});
            let member = if result.get("code").is_some() { "error" } else { "result" };
            answer[member] = result;
            if output.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
                return;
            }
        }
    });
    let options = McpClientOptions { message_bytes_max: 256 << 10, ..McpClientOptions::default() };
    McpClient::builder().options(options).era(EraChoice::Modern).unix_stream(near)
}

fn discovered(capabilities: &Value) -> Value {
    json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities})
}

#[tokio::test]
async fn document_contains_everything_that_the_server_offers() {
    for era in [EraChoice::Modern, EraChoice::Legacy] {
        let client = McpClient::builder().era(era).server(&server());
        let document = Inspection::collect(&client, LIMIT).await.unwrap().to_json();
        let members: Vec<_> = document.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            members,
            [
                "inspectionFormat",
                "server",
                "revision",
                "supportedVersions",
                "capabilities",
                "tools",
                "prompts",
                "resources",
                "resourceTemplates",
                "errors"
            ]
        );
        assert_eq!(document["inspectionFormat"], 1);
        assert_eq!(document["server"]["name"], "painter", "{document}");
        let revision = if era == EraChoice::Modern { "2026-07-28" } else { "2025-11-25" };
        assert_eq!(document["revision"], revision);
        assert_eq!(document["tools"][0]["inputSchema"]["properties"]["size"]["type"], "integer");
        assert_eq!(document["prompts"][0]["arguments"][0]["name"], "text");
        assert_eq!(document["resources"][0]["uri"], "wall://all");
        assert_eq!(document["resourceTemplates"][0]["uriTemplate"], "wall://{number}");
        assert_eq!(document["errors"], json!([]));
    }
}

#[tokio::test]
async fn report_shows_names_arguments_and_types() {
    let client = McpClient::builder().server(&server());
    let text = Inspection::collect(&client, LIMIT).await.unwrap().to_text();
    for part in [
        "Server        painter 1.2.3\n",
        "\nTools (1)\n  paint\n      Paints a wall.\n      In one color.\n      size: integer  Size in bytes\n",
        "      color?: \"red\" | \"blue\"\n",
        "\nPrompts (1)\n  review\n      Reviews a text\n      text\n",
        "\nResources (1)\n  wall://all  walls  text/plain\n",
        "\nResource templates (1)\n  wall://{number}  wall\n",
    ] {
        assert!(text.contains(part), "{part:?}: {text}");
    }
}

#[tokio::test]
async fn lists_are_requested_only_if_the_server_declares_them() {
    let client = scripted(|method, _| {
        assert_eq!(method, "server/discover");
        Some(discovered(&json!({})))
    });
    let inspection = Inspection::collect(&client, LIMIT).await.unwrap();
    assert_eq!((&inspection.to_json()["tools"], inspection.errors().len()), (&json!([]), 0));
    assert!(inspection.to_text().contains("Capabilities  none"), "{}", inspection.to_text());
}

#[tokio::test]
async fn failed_list_leaves_the_other_lists() {
    let client = scripted(|method, _| {
        Some(match method {
            "server/discover" => discovered(&json!({"tools": {}, "prompts": {}, "resources": {}})),
            "tools/list" => json!({"code": -32603, "message": "the disk is\u{1b}[31m full"}),
            "prompts/list" => json!({"resultType": "complete", "prompts": [{"name": "a"}]}),
            "resources/list" => json!({"resultType": "complete", "resources": []}),
            _ => json!({"code": -32601, "message": "no such method"}),
        })
    });
    let inspection = Inspection::collect(&client, LIMIT).await.unwrap();
    let document = inspection.to_json();
    assert_eq!(document["prompts"][0]["name"], "a");
    assert_eq!(
        (&document["errors"][0]["list"], inspection.errors().len()),
        (&json!("tools"), 1),
        "{document}"
    );
    let text = inspection.to_text();
    assert!(
        text.contains("did not send its list `tools`: ") && text.contains("the disk is\\u{1b}"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn silent_server_ends_the_inspection_at_the_limit() {
    let client =
        scripted(|method, _| (method == "server/discover").then(|| discovered(&json!({"tools": {}}))));
    let inspection = Inspection::collect(&client, Duration::from_secs(3)).await.unwrap();
    assert_eq!(inspection.errors()[0].error, InspectError::TimedOut(Duration::from_secs(3)));
    let client = scripted(|_, _| None);
    let error = Inspection::collect(&client, Duration::from_secs(3)).await.unwrap_err();
    assert_eq!(error.to_string(), "the server did not send a complete answer within 3s");
}

#[tokio::test]
async fn hostile_lists_are_bounded_and_escaped() {
    let client = scripted(|method, params| {
        Some(match method {
            "server/discover" => discovered(&json!({"tools": {}, "prompts": {}})),
            "tools/list" => {
                let evil = json!({"name": "\u{1b}]0;evil\u{7}\u{202e}", "description": "x".repeat(100_000),
                    "inputSchema": {"type": ["a\u{9b}", 5], "properties": {"p\n": {"type": []}}}});
                let more = (0..1_500).map(|n| json!({"name": format!("t{n}"), "inputSchema": {}}));
                let tools: Vec<_> = [evil].into_iter().chain(more).collect();
                json!({"resultType": "complete", "tools": tools})
            }
            // The list never ends.
            _ => {
                let next = params["cursor"].as_str().map_or(0, str::len) + 1;
                let prompt = json!({"name": "p", "description": "x".repeat(100_000)});
                json!({"resultType": "complete", "prompts": [prompt], "nextCursor": "c".repeat(next)})
            }
        })
    });
    let inspection = Inspection::collect(&client, LIMIT).await.unwrap();
    let text = inspection.to_text();
    assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}', '\u{9b}']), "control characters are escaped");
    assert!(
        text.contains("\\u{1b}]0;evil\\u{7}\\u{202e}") && text.contains("  p\\n?: "),
        "{}",
        &text[..9_000]
    );
    assert!(text.contains("… and 501 more; the JSON output contains all of them"));
    assert!(text.contains("(95904 more bytes)"), "the description is cut");
    assert_eq!(inspection.errors()[0].list, "prompts");
    assert_eq!(inspection.to_json()["tools"].as_array().unwrap().len(), 1_501);
}
