//! Responses to input requests of the server: elicitation, sampling and roots.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use thruway_mcp_sdk::json_rpc::{Error, ErrorCode};
use thruway_mcp_sdk::schema::{ClientCapabilities, InputRequest, InputResponse};
use thruway_mcp_sdk::{McpClient, McpClientBuilder};

use super::scenario::Scenario;
use super::{Outcome, calls};

/// Makes the client answer all kinds of input requests. It fills forms with their default values.
pub(crate) fn answer_all(builder: McpClientBuilder) -> McpClientBuilder {
    builder.answers(capabilities(), |question| async move { respond(&question) })
}

/// Makes a second call while the server waits for an answer in the first call. Data of one call must not leak
/// into the other call.
pub(crate) async fn call_between_rounds(scenario: &Scenario) -> Outcome {
    let later: Arc<OnceLock<McpClient>> = Arc::default();
    let own = later.clone();
    let builder = scenario.builder().answers(capabilities(), move |question| {
        let client = own.get().cloned();
        async move {
            if let Some(client) = client {
                let outcome = client.call_tool("test_mrtr_unrelated", json!({})).await;
                outcome.map_err(|error| Error::internal(error.to_string()))?;
            }
            respond(&question)
        }
    });
    let client = later.get_or_init(|| builder.http(&scenario.url));
    calls::use_all_features(client).await
}

fn capabilities() -> ClientCapabilities {
    let capabilities = json!({"elicitation": {"form": {"applyDefaults": true}}, "sampling": {}, "roots": {}});
    serde_json::from_value(capabilities).unwrap_or_default()
}

fn respond(question: &InputRequest) -> Result<InputResponse, Error> {
    let answer = match question {
        InputRequest::Elicit(request) => {
            let params = serde_json::to_value(&request.params).unwrap_or_default();
            json!({"action": "accept", "content": fill_form(&params["requestedSchema"])})
        }
        InputRequest::CreateMessage(_) => {
            json!({"role": "assistant", "model": "none", "content": {"type": "text", "text": "x"}})
        }
        InputRequest::ListRoots(_) => json!({"roots": []}),
    };
    serde_json::from_value(answer)
        .map_err(|_| Error::new(ErrorCode::INTERNAL_ERROR, "the client cannot build a response"))
}

/// Fills the form of `schema`: each property gets its default value, or else a sample value of its type.
fn fill_form(schema: &Value) -> Value {
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
