//! Tools with input schemas that a derived schema cannot express.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use thruway_mcp_sdk::McpServer;
use thruway_mcp_sdk::schema::JsonObject;

use super::tool::tool;

pub(super) fn register(server: McpServer) -> McpServer {
    server
        .tool(
            tool("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features")
                .with_input_schema(contact_schema()),
            |contact: JsonObject| Value::Object(contact).to_string(),
        )
        .tool(
            tool("test_mirrored_arguments", "Has arguments that clients mirror in headers"),
            |Mirrored { region, priority }: Mirrored| format!("region: {region}, priority: {priority:?}"),
        )
}

/// Returns a schema. The suite expects the server to list it unchanged.
fn contact_schema() -> JsonObject {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    });
    match schema {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    }
}

#[derive(Deserialize, JsonSchema)]
struct Mirrored {
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
    #[schemars(extend("x-mcp-header" = "Priority"))]
    priority: Option<i64>,
}
