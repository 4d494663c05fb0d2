//! Tools, and the checks of their arguments and results.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::json_schema::CompiledSchema;
use thruway_mcp::legacy;
use thruway_mcp::param_headers::{self, ParamHeader};
use thruway_mcp::schema::{CallToolResult, StructuredContent, Tool};
use thruway_net::{Admitted, LogLimit};

use super::list::{Named, RegistrationError, start_of};
use crate::handlers::{Call, Handler, HandlerError, Outcome};
use crate::json_schema;
use crate::tasks::TaskSupport;

/// Function that calls the handler of a tool. The first argument of the function is the JSON text of the
/// tool's arguments.
pub(crate) type ToolHandler = Box<dyn Fn(&str, &Call<'_>) -> Outcome<CallToolResult> + Send + Sync>;

/// A tool and its handler.
pub(crate) struct ToolEntry {
    definition: Tool,
    handler: ToolHandler,
    /// The schema against which the server checks the arguments. `None` if serde checks all constraints when
    /// it deserializes the arguments.
    input: Option<CompiledSchema>,
    /// The schema against which the server checks structured content. `None` if the schema was generated from
    /// the type of the content.
    output: Option<Arc<CompiledSchema>>,
    /// `true` if the structured content of results must be put into an object.
    is_wrapped: bool,
    param_headers: Vec<ParamHeader>,
    task_support: Option<TaskSupport>,
}

impl ToolEntry {
    pub(crate) fn new<I, M, H>(mut definition: Tool, handler: H) -> Result<Self, RegistrationError>
    where
        I: DeserializeOwned + JsonSchema + 'static,
        H: Handler<I, CallToolResult, M>,
    {
        let invalid = |reason: String| RegistrationError::new(&definition.name, reason);
        let is_schema_given = definition.input_schema != Tool::new("").input_schema;
        let mut is_to_be_checked = true;
        if !is_schema_given {
            (definition.input_schema, is_to_be_checked) = json_schema::of_arguments::<I>();
        }
        let input = if is_to_be_checked {
            Some(CompiledSchema::compile(&definition.input_schema).map_err(|error| invalid(error.0))?)
        } else {
            None
        };
        let output = match &definition.output_schema {
            Some(schema) => {
                Some(Arc::new(CompiledSchema::compile(schema).map_err(|error| invalid(error.0))?))
            }
            None => None,
        };
        let param_headers = param_headers::find(&definition.input_schema)
            .map_err(|error| invalid(format!("an annotation `x-mcp-header` is invalid: {error:?}")))?;
        if definition.output_schema.is_none() {
            definition.output_schema = H::output_schema();
        }
        let handler: ToolHandler = Box::new(move |arguments, call| match serde_json::from_str(arguments) {
            Ok(input) => handler.call(input, call),
            Err(error) => Outcome::Now(Err(invalid_arguments(&error.to_string()))),
        });
        let is_wrapped = H::is_wrapped();
        Ok(Self { definition, handler, input, output, is_wrapped, param_headers, task_support: None })
    }

    /// Lets calls of the tool become tasks.
    pub(crate) fn with_task_support(self, support: TaskSupport) -> Self {
        Self { task_support: Some(support), ..self }
    }

    /// Returns the settings for tasks, if calls of the tool can become tasks.
    pub(crate) const fn task_support(&self) -> Option<TaskSupport> {
        self.task_support
    }

    /// Returns the HTTP headers in which clients must repeat arguments of the tool.
    pub(crate) fn param_headers(&self) -> &[ParamHeader] {
        &self.param_headers
    }

    /// Checks the arguments before serde deserializes them. Returns a text with the first violations, or
    /// `None` if the arguments are valid. Rejects all JSON values except objects, because serde would accept
    /// an array in place of a struct.
    fn violations(&self, arguments: &str) -> Option<String> {
        if !arguments.starts_with('{') {
            return Some("`arguments` must be an object".to_owned());
        }
        let checked = self.input.as_ref()?;
        match serde_json::from_str(arguments) {
            Ok(value) => checked.violations(&value),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Calls the tool. If the arguments are invalid or the handler fails, returns a result with `is_error`.
    pub(crate) fn call(&self, arguments: Option<&RawValue>, call: &Call<'_>) -> Outcome<CallToolResult> {
        let arguments = arguments.map_or("{}", RawValue::get);
        let outcome = match self.violations(arguments) {
            Some(violations) => Outcome::Now(Err(invalid_arguments(&violations))),
            None => (self.handler)(arguments, call),
        };
        let is_wrapped = self.is_wrapped;
        match (outcome, &self.output) {
            (Outcome::Now(outcome), None) => Outcome::Now(settle(outcome, is_wrapped, None)),
            (outcome, output) => {
                let output = output.clone();
                outcome.map(move |outcome| settle(outcome, is_wrapped, output.as_deref()))
            }
        }
    }
}

/// Structured content of a result that is not an object.
#[derive(Serialize)]
struct Wrapped {
    result: StructuredContent,
}

fn invalid_arguments(reason: &str) -> HandlerError {
    HandlerError::Failed(format!("invalid arguments: {}", start_of(reason)))
}

/// Converts [`HandlerError::Failed`] to a tool result. If `is_wrapped` is `true`, puts structured content into
/// an object. If structured content violates the output schema,
/// returns an internal error, because the tool has a bug.
fn settle(
    outcome: Result<CallToolResult, HandlerError>,
    is_wrapped: bool,
    output: Option<&CompiledSchema>,
) -> Result<CallToolResult, HandlerError> {
    let mut result = match outcome {
        Ok(result) => result,
        Err(error) => return error.into_tool_result(),
    };
    if is_wrapped && let Some(result_content) = result.structured_content.take() {
        // Writing JSON that has been written before cannot fail.
        result.structured_content = StructuredContent::from_value(&Wrapped { result: result_content }).ok();
    }
    if let Some(checked) = output
        && result.is_error != Some(true)
    {
        let structured = result.structured_content.as_ref();
        let value: Value =
            structured.and_then(|content| serde_json::from_str(content.as_str()).ok()).unwrap_or_default();
        if let Some(violations) = checked.violations(&value) {
            static LIMIT: LogLimit = LogLimit::new();
            if let Some(Admitted { suppressed }) = LIMIT.admit() {
                tracing::error!(
                    %violations,
                    suppressed,
                    "the result of a tool does not match its output schema"
                );
            }
            return Err(Error::internal("the result of the tool does not match its output schema").into());
        }
    }
    Ok(result)
}

impl Named for ToolEntry {
    const MEMBER: &'static str = "tools";
    type Definition = Tool;

    fn key(&self) -> &str {
        &self.definition.name
    }

    fn definition(&self) -> &Tool {
        &self.definition
    }

    fn legacy_definition(&self) -> Cow<'_, Tool> {
        let mut tool = self.definition.clone();
        legacy::downgrade_tool(&mut tool);
        Cow::Owned(tool)
    }
}
