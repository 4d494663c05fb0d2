//! Data from the lists of tools: arguments that are mirrored in headers (2026-07-28, Streamable HTTP), output
//! schemas, and whether a call may be repeated.

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

/// Data about tools. A tool without relevant data has no entry.
#[derive(Default, Debug)]
pub(super) struct KnownTools {
    tools: Mutex<HashMap<String, Arc<KnownTool>>>,
    are_listed: AtomicBool,
}

/// Data about one tool.
#[derive(Debug)]
struct KnownTool {
    headers: Vec<ParamHeader>,
    output: Option<OutputSchema>,
    may_be_repeated: bool,
    /// Support for calls as tasks (2025-11-25).
    task_support: TaskSupport,
}

/// The output schema of a tool. It is compiled when the first result arrives.
#[derive(Debug)]
struct OutputSchema {
    schema: JsonObject,
    /// `None` if the schema is unusable or too expensive.
    compiled: OnceLock<Option<(CompiledSchema, SchemaCost)>>,
}

impl KnownTools {
    /// Replaces the data with that of `tools`, the complete list. If arguments `are_mirrored`, removes tools
    /// with invalid header declarations from the list.
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
                        tracing::warn!(
                            suppressed,
                            "omitted the tool `{name}` from the list: {reason}: {invalid:?}"
                        );
                    }
                    false
                }
            }
        });
        // Tools that are no longer listed are removed. Otherwise a server with changing names would fill the
        // memory.
        *self.known() = known;
    }

    /// Returns the headers of a call of `tool` that mirror its arguments.
    ///
    /// # Errors
    /// A header value cannot be sent.
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

    /// `true` if arguments of `tool` are mirrored.
    pub(super) fn are_mirrored(&self, tool: &str) -> bool {
        self.find(tool).is_some_and(|tool| !tool.headers.is_empty())
    }

    /// `true` if the tools have been listed.
    pub(super) fn are_listed(&self) -> bool {
        self.are_listed.load(Ordering::Relaxed)
    }

    /// Returns the support of `tool` for calls as tasks (2025-11-25).
    pub(super) fn task_support(&self, tool: &str) -> TaskSupport {
        self.find(tool).map_or(TaskSupport::Forbidden, |tool| tool.task_support)
    }

    /// `true` if the server declares `tool` read-only or idempotent.
    pub(super) fn may_be_repeated(&self, tool: &str) -> bool {
        self.find(tool).is_some_and(|tool| tool.may_be_repeated)
    }

    /// Checks a result of `tool` against the output schema, if known.
    ///
    /// # Errors
    /// The result does not match the schema.
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
                &"the result has no `structuredContent`, although the tool has an output schema",
            ));
        };
        let structured = serde_json::from_str(structured.as_str())
            .map_err(|error| McpClientError::result_invalid(&error))?;
        if !cost.is_affordable(&structured) {
            static LIMIT: LogLimit = LogLimit::new();
            if let Some(Admitted { suppressed }) = LIMIT.admit() {
                let reason = "the check would take too long";
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
                unchecked("recurses without end, is too large, or refers to another document");
                return None;
            }
            let checked = CompiledSchema::compile_untrusted(&self.schema);
            let checked = checked.inspect_err(|invalid| unchecked(&format!("is invalid: {}", invalid.0)));
            Some((checked.ok()?, cost))
        };
        self.compiled.get_or_init(compile).as_ref()
    }
}
