//! Data from the lists of tools: the output schemas, the tools that the client may call twice, and the
//! arguments that tool calls repeat in headers (MCP revision 2026-07-28, section Streamable HTTP).

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

/// Data about the tools of the server. A tool without relevant data has no entry.
#[derive(Default, Debug)]
pub(super) struct KnownTools {
    tools: Mutex<HashMap<String, Arc<KnownTool>>>,
    are_listed: AtomicBool,
}

#[derive(Debug)]
struct KnownTool {
    headers: Vec<ParamHeader>,
    output: Option<OutputSchema>,
    may_be_repeated: bool,
    /// Declares whether calls of the tool may, must or cannot become tasks (MCP revision 2025-11-25).
    task_support: TaskSupport,
}

/// The output schema of a tool. The client compiles the schema when the first result of the tool arrives.
#[derive(Debug)]
struct OutputSchema {
    schema: JsonObject,
    /// `None` if the schema is invalid, or if the cost of a check has no upper bound.
    compiled: OnceLock<Option<(CompiledSchema, SchemaCost)>>,
}

impl KnownTools {
    /// Replaces the stored data with the data of `tools`, the complete list of tools. If `are_mirrored` is
    /// set, removes tools with an invalid `x-mcp-header` from `tools`.
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
        // Removes the data of tools that the server no longer lists. Otherwise a server that keeps renaming
        // its tools would fill the memory.
        *self.known() = known;
    }

    /// Returns the `Mcp-Param-*` headers for a call of `tool` with `arguments`.
    ///
    /// # Errors
    /// Fails if a header cannot contain the value of an argument.
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

    /// `true` if calls of `tool` repeat arguments in headers.
    pub(super) fn are_mirrored(&self, tool: &str) -> bool {
        self.find(tool).is_some_and(|tool| !tool.headers.is_empty())
    }

    /// `true` if the client has listed the tools of the server.
    pub(super) fn are_listed(&self) -> bool {
        self.are_listed.load(Ordering::Relaxed)
    }

    /// Returns whether calls of `tool` may, must or cannot become tasks (MCP revision 2025-11-25).
    pub(super) fn task_support(&self, tool: &str) -> TaskSupport {
        self.find(tool).map_or(TaskSupport::Forbidden, |tool| tool.task_support)
    }

    /// `true` if the server declares `tool` read-only or idempotent.
    pub(super) fn may_be_repeated(&self, tool: &str) -> bool {
        self.find(tool).is_some_and(|tool| tool.may_be_repeated)
    }

    /// Checks a result of `tool` against the output schema of the tool. Skips the check if the schema is
    /// unknown or unusable, or if the check would take too long.
    ///
    /// # Errors
    /// Fails if the result does not match the schema.
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
