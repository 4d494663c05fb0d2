//! Questions of the server, and their answers.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use thruway_mcp_sdk::json_rpc::{Error, ErrorCode};
use thruway_mcp_sdk::schema::{ClientCapabilities, InputRequest, InputResponse};
use thruway_mcp_sdk::{McpClient, McpClientBuilder};

use super::situation::Situation;
use super::{Outcome, calls};

/// Adds support for all kinds of questions. Forms are filled with their defaults.
pub(crate) fn answer(builder: McpClientBuilder) -> McpClientBuilder {
    builder.answers(capabilities(), |question| async move { respond(&question) })
}

/// Makes another call while the server waits for an answer. Data of one call must not appear in another.
pub(crate) async fn between_rounds(situation: &Situation) -> Outcome {
    let later: Arc<OnceLock<McpClient>> = Arc::default();
    let own = later.clone();
    let builder = situation.builder().answers(capabilities(), move |question| {
        let client = own.get().cloned();
        async move {
            if let Some(client) = client {
                let outcome = client.call_tool("test_mrtr_unrelated", json!({})).await;
                outcome.map_err(|error| Error::internal(error.to_string()))?;
            }
            respond(&question)
        }
    });
    let client = later.get_or_init(|| builder.http(&situation.url));
    calls::everything(client).await
}

fn capabilities() -> ClientCapabilities {
    let capabilities = json!({"elicitation": {"form": {"applyDefaults": true}}, "sampling": {}, "roots": {}});
    serde_json::from_value(capabilities).unwrap_or_default()
}

fn respond(question: &InputRequest) -> Result<InputResponse, Error> {
    let answer = match question {
        InputRequest::Elicit(request) => {
            let params = serde_json::to_value(&request.params).unwrap_or_default();
            json!({"action": "accept", "content": filled(&params["requestedSchema"])})
        }
        InputRequest::CreateMessage(_) => {
            json!({"role": "assistant", "model": "none", "content": {"type": "text", "text": "x"}})
        }
        InputRequest::ListRoots(_) => json!({"roots": []}),
    };
    serde_json::from_value(answer).map_err(|_| Error::new(ErrorCode::INTERNAL_ERROR, "there is no answer"))
}

/// Returns each property with its default, or a value of its type if it is required.
fn filled(schema: &Value) -> Value {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let filled = properties.map(|(name, property)| {
        let value = match (&property["default"], property["type"].as_str()) {
            (Value::Null, Some("boolean")) => json!(true),
            (Value::Null, Some("integer" | "number")) => json!(1),
            (Value::Null, _) => json!("x"),
            (default, _) => default.clone(),
        };
        (name.clone(), value)
    });
    Value::Object(filled.collect())
}
