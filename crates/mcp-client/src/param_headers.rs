//! Headers `Mcp-Param-*` of forwarded tool calls. These headers must match the arguments of the call (MCP
//! revision 2026-07-28, section Streamable HTTP).
//!
//! The bridge checks the headers that it receives, because it does not forward them. If the server is modern
//! and uses HTTP, the client creates new headers from the arguments. Other servers receive no such headers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::modern::check_param_headers;
use thruway_mcp::param_headers::{self, PREFIX, ParamHeader};
use thruway_mcp::params::Params;
use thruway_mcp::schema::JsonObject;
use thruway_message::{FieldLineSpan, FieldLines};
use tokio::time::Instant;

/// The headers `Mcp-Param-*` of a forwarded request.
#[derive(Default, Debug)]
pub struct ReceivedParamHeaders {
    bytes: Vec<u8>,
    spans: Vec<FieldLineSpan>,
}

impl ReceivedParamHeaders {
    /// Copies the headers `Mcp-Param-*` from the headers of a request.
    pub fn of(headers: FieldLines<'_>) -> Self {
        let mut copied = Self::default();
        let mut start = 0;
        for (line, span) in headers.iter().zip(headers.spans()) {
            let is_param = line.name.as_bytes().get(..PREFIX.len());
            if !is_param.is_some_and(|prefix| prefix.eq_ignore_ascii_case(PREFIX.as_bytes())) {
                continue;
            }
            copied.bytes.extend_from_slice(line.name.as_bytes());
            copied.bytes.extend_from_slice(line.value.as_bytes());
            let name_end = start + (span.name_end - span.name_start);
            let value_end = name_end + (span.value_end - span.value_start);
            copied.spans.push(FieldLineSpan {
                name_start: start,
                name_end,
                value_start: name_end,
                value_end,
            });
            start = value_end;
        }
        copied
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    fn as_field_lines(&self) -> FieldLines<'_> {
        FieldLines::from_parsed(&self.bytes, &self.spans)
    }
}

/// The last list of tools, with the headers that the arguments of each tool require. Empty until the first
/// forwarded call that needs a check.
#[derive(Default, Debug)]
pub(super) struct ListedParamHeaders {
    pub(super) listed: ArcSwapOption<Listed>,
    /// The last list of tools, even if it is no longer valid. The client uses this list if the server fails
    /// to list its tools.
    pub(super) last: ArcSwapOption<Listed>,
    /// Held while the client lists the tools, so that concurrent calls share one list.
    pub(super) listing: tokio::sync::Mutex<()>,
    /// Number of times that the list of tools became invalid.
    pub(super) invalidations: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Listed {
    pub(super) at: Instant,
    /// The declared headers of each tool. Tools without such headers have no entry.
    tools: HashMap<String, Vec<ParamHeader>>,
}

/// One page of a list of tools. The client does not parse other members, so an invalid member causes no
/// error.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page {
    #[serde(default)]
    pub(super) tools: Vec<Value>,
    #[serde(default)]
    pub(super) next_cursor: Option<String>,
}

impl ListedParamHeaders {
    /// Marks the list of tools as invalid, after the tools have changed or the server has restarted.
    pub(super) fn invalidate(&self) {
        self.invalidations.fetch_add(1, Ordering::AcqRel);
        self.listed.store(None);
    }
}

impl Listed {
    pub(super) fn of(tools: Vec<Value>) -> Self {
        let with_headers = tools.into_iter().filter_map(|mut tool| {
            let schema: JsonObject = serde_json::from_value(tool.get_mut("inputSchema")?.take()).ok()?;
            // Clients omit a tool with an invalid `x-mcp-header`, so no client sends headers for such a
            // tool.
            let headers = param_headers::find(&schema).ok().filter(|headers| !headers.is_empty())?;
            Some((tool.get("name")?.as_str()?.to_owned(), headers))
        });
        Self { at: Instant::now(), tools: with_headers.collect() }
    }

    pub(super) fn check(
        &self,
        tool: &str,
        received: &ReceivedParamHeaders,
        params: &RawValue,
    ) -> Result<(), Error> {
        let Some(headers) = self.tools.get(tool) else { return Ok(()) };
        let params = Params::parse(Some(params)).unwrap_or_default();
        let arguments = match params.arguments {
            Some(raw) => serde_json::from_str(raw.get()).map_err(|_| {
                Error::invalid_params("cannot parse `arguments` to compare them with the headers")
            })?,
            None => Value::Null,
        };
        check_param_headers(received.as_field_lines(), headers, &arguments)
    }
}
