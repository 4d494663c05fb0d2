//! What is known of tools from their lists: the arguments that are mirrored in headers (2026-07-28,
//! Streamable HTTP), what their results promise to be, and whether to call them twice does no harm.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::Value;
use serde_json::value::RawValue;
use thruway_client::ClientError;
use thruway_mcp::header_value;
use thruway_mcp::json_schema::CompiledSchema;
use thruway_mcp::param_headers::{self, ParamHeader};
use thruway_mcp::schema::{CallToolResult, JsonObject, TaskSupport, Tool};
use thruway_message::FieldLinesBuf;
use thruway_net::{Admitted, LogLimit};

use super::error::McpClientError;
use super::schema_cost::SchemaCost;

/// What is known of tools: those of which there is nothing to know are not in it.
#[derive(Default, Debug)]
pub(super) struct KnownTools {
    tools: Mutex<HashMap<String, Arc<KnownTool>>>,
    are_listed: AtomicBool,
}

/// What is known of one.
#[derive(Debug)]
struct KnownTool {
    headers: Vec<ParamHeader>,
    output: Option<OutputSchema>,
    may_be_repeated: bool,
    /// Whether it may be called as a task (2025-11-25).
    task_support: TaskSupport,
}

/// What results promise to be. It is compiled for the first of them.
#[derive(Debug)]
struct OutputSchema {
    schema: JsonObject,
    /// `None` if it cannot be checked against.
    compiled: OnceLock<Option<(CompiledSchema, SchemaCost)>>,
}

impl KnownTools {
    /// Remembers what there is to know of `tools`, which are all that there are. If arguments `are_mirrored`,
    /// leaves those out that cannot be called for what they want.
    pub(super) fn learn(&self, tools: &mut Vec<Tool>, are_mirrored: bool) {
        self.are_listed.store(true, Ordering::Relaxed);
        let mut known = HashMap::new();
        tools.retain(|tool| {
            let headers = if are_mirrored { param_headers::find(&tool.input_schema) } else { Ok(Vec::new()) };
            match headers {
                Ok(headers) => {
                    let known_tool = KnownTool::new(tool, headers);
                    if !known_tool.is_empty() {
                        known.insert(tool.name.clone(), Arc::new(known_tool));
                    }
                    true
                }
                Err(invalid) => {
                    static LIMIT: LogLimit = LogLimit::new();
                    let name = &tool.name;
                    if let Some(Admitted { suppressed }) = LIMIT.admit() {
                        let reason = "its `x-mcp-header` is invalid";
                        tracing::warn!(suppressed, "left out the tool `{name}`: {reason}: {invalid:?}");
                    }
                    false
                }
            }
        });
        // What is not there any more is forgotten: names could change for ever.
        *self.known() = known;
    }

    /// The headers of a call of `tool` that mirror its arguments.
    ///
    /// # Errors
    /// One of them cannot be sent.
    pub(super) fn mirrored(&self, tool: &str, arguments: &RawValue) -> Result<FieldLinesBuf, McpClientError> {
        let mut field_lines = FieldLinesBuf::new();
        let Some(tool) = self.find(tool).filter(|tool| !tool.headers.is_empty()) else {
            return Ok(field_lines);
        };
        let arguments: Value = serde_json::from_str(arguments.get()).unwrap_or_default();
        for header in &tool.headers {
            if let Some(value) = header.expected(&arguments) {
                let appended =
                    field_lines.append(&header.field_name, header_value::encode(&value).as_bytes());
                appended.map_err(ClientError::FieldInvalid)?;
            }
        }
        Ok(field_lines)
    }

    /// Whether arguments of `tool` are mirrored.
    pub(super) fn are_mirrored(&self, tool: &str) -> bool {
        self.find(tool).is_some_and(|tool| !tool.headers.is_empty())
    }

    /// Whether any were listed.
    pub(super) fn are_listed(&self) -> bool {
        self.are_listed.load(Ordering::Relaxed)
    }

    /// Whether `tool` may be called as a task (2025-11-25).
    pub(super) fn task_support(&self, tool: &str) -> TaskSupport {
        self.find(tool).map_or(TaskSupport::Forbidden, |tool| tool.task_support)
    }

    /// Whether it does not matter how often `tool` is called, as its server says.
    pub(super) fn may_be_repeated(&self, tool: &str) -> bool {
        self.find(tool).is_some_and(|tool| tool.may_be_repeated)
    }

    /// Checks what `tool` has answered against what it promises, if that is known.
    ///
    /// # Errors
    /// The result is another one.
    pub(super) fn check(&self, tool: &str, result: &CallToolResult) -> Result<(), McpClientError> {
        if result.is_error == Some(true) {
            return Ok(());
        }
        let Some(known) = self.find(tool) else { return Ok(()) };
        let Some((schema, cost)) = known.output.as_ref().and_then(|output| output.compiled(tool)) else {
            return Ok(());
        };
        let Some(structured) = &result.structured_content else {
            return Err(McpClientError::result_invalid(
                &"it has no `structuredContent`, which its tool promises",
            ));
        };
        let structured = serde_json::from_str(structured.as_str())
            .map_err(|error| McpClientError::result_invalid(&error))?;
        if !cost.is_affordable(&structured) {
            static LIMIT: LogLimit = LogLimit::new();
            if let Some(Admitted { suppressed }) = LIMIT.admit() {
                let reason = "that would take too long";
                tracing::warn!(suppressed, "did not check a result of the tool `{tool}`: {reason}");
            }
            return Ok(());
        }
        match schema.violations(&structured) {
            None => Ok(()),
            Some(violations) => Err(McpClientError::result_invalid(&violations)),
        }
    }

    fn find(&self, tool: &str) -> Option<Arc<KnownTool>> {
        if self.are_listed() { self.known().get(tool).cloned() } else { None }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<KnownTool>>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownTool {
    fn new(tool: &Tool, headers: Vec<ParamHeader>) -> Self {
        let says = tool.annotations.as_ref();
        let may_be_repeated =
            says.is_some_and(|says| says.read_only_hint == Some(true) || says.idempotent_hint == Some(true));
        let schema = tool.output_schema.clone();
        let output = schema.map(|schema| OutputSchema { schema, compiled: OnceLock::new() });
        let task_support = tool.execution.as_ref().and_then(|execution| execution.task_support);
        let task_support = task_support.unwrap_or(TaskSupport::Forbidden);
        Self { headers, output, may_be_repeated, task_support }
    }

    fn is_empty(&self) -> bool {
        self.headers.is_empty()
            && self.output.is_none()
            && !self.may_be_repeated
            && self.task_support == TaskSupport::Forbidden
    }
}

impl OutputSchema {
    fn compiled(&self, tool: &str) -> Option<&(CompiledSchema, SchemaCost)> {
        let unchecked = |reason: &str| {
            static LIMIT: LogLimit = LogLimit::new();
            if let Some(Admitted { suppressed }) = LIMIT.admit() {
                tracing::warn!(suppressed, "cannot check results of the tool `{tool}`: its schema {reason}");
            }
        };
        let compile = || {
            let cost = SchemaCost::of(&self.schema);
            if cost.is_endless() {
                unchecked("refers to itself or elsewhere");
                return None;
            }
            let checked = CompiledSchema::compile_untrusted(&self.schema);
            let checked = checked.inspect_err(|invalid| unchecked(&format!("is invalid: {}", invalid.0)));
            Some((checked.ok()?, cost))
        };
        self.compiled.get_or_init(compile).as_ref()
    }
}
