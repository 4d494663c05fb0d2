//! Prompts, and the completion of arguments.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::{GetPromptResult, JsonObject, Prompt, PromptArgument};

use super::list::{Named, start_of};
use crate::handlers::{AsyncInput, Call, Handler, HandlerError, IntoAnswer, Outcome};
use crate::json_schema;

type PromptHandler = Box<dyn Fn(&str, &Call<'_>) -> Outcome<GetPromptResult> + Send + Sync>;

type CompleteArgument = Box<dyn Fn(CompletionInput, &Call<'_>) -> Outcome<Vec<String>> + Send + Sync>;

/// A prompt and its handler.
pub(crate) struct PromptEntry {
    definition: Prompt,
    handler: PromptHandler,
}

impl PromptEntry {
    pub(crate) fn new<I, M, H>(mut definition: Prompt, handler: H) -> Self
    where
        I: DeserializeOwned + JsonSchema + 'static,
        H: Handler<I, GetPromptResult, M>,
    {
        if definition.arguments.is_empty() {
            definition.arguments = arguments_of(&json_schema::of::<I>());
        }
        let handler: PromptHandler = Box::new(move |arguments, call| match serde_json::from_str(arguments) {
            Ok(input) => handler.call(input, call),
            Err(error) => {
                let reason = format!("invalid arguments: {}", start_of(&error.to_string()));
                Outcome::Now(Err(Error::invalid_params(reason).into()))
            }
        });
        Self { definition, handler }
    }

    pub(crate) fn get(&self, arguments: Option<&RawValue>, call: &Call<'_>) -> Outcome<GetPromptResult> {
        let arguments = arguments.map_or("{}", RawValue::get);
        if !arguments.starts_with('{') {
            return Outcome::Now(Err(Error::invalid_params("`arguments` must be an object").into()));
        }
        (self.handler)(arguments, call)
    }
}

/// Returns the arguments of a prompt: the properties of its input type. Unlike tool arguments, prompt
/// arguments have no types.
fn arguments_of(schema: &JsonObject) -> Vec<PromptArgument> {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &String| required.is_some_and(|required| required.iter().any(|other| other == name));
    let properties = schema.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flatten()
        .map(|(name, property)| {
            let mut argument = PromptArgument::new(name).with_required(is_required(name));
            argument.description = property.get("description").and_then(Value::as_str).map(str::to_owned);
            argument
        })
        .collect()
}

impl Named for PromptEntry {
    const MEMBER: &'static str = "prompts";
    type Definition = Prompt;

    fn key(&self) -> &str {
        &self.definition.name
    }

    fn definition(&self) -> &Prompt {
        &self.definition
    }
}

/// The input of a completion handler.
#[derive(Clone, Debug)]
pub struct CompletionInput {
    /// The text that the user has typed so far.
    pub value: String,
    /// The values of other arguments that the client already knows, by name.
    pub arguments: HashMap<String, String>,
}

/// The handler that completes one argument of one prompt or resource template.
pub(crate) struct CompletionHandler {
    /// The name of the prompt, or the URI template of the resources.
    pub(crate) of: String,
    pub(crate) argument: String,
    pub(crate) handler: CompleteArgument,
}

impl AsyncInput for CompletionInput {}

impl<T: Into<String>> IntoAnswer<Vec<String>> for Vec<T> {
    fn into_answer(self) -> Result<Vec<String>, HandlerError> {
        Ok(self.into_iter().map(Into::into).collect())
    }
}
