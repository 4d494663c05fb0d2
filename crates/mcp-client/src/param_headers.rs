//! Headers `Mcp-Param-*` of forwarded calls, which must match the arguments (2026-07-28, Streamable HTTP).
//!
//! The bridge compares them itself: a server of the legacy era, or one on a stream, never sees the headers,
//! and for a server over HTTP the client writes new ones from the arguments.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use serde::Deserialize;
use serde_json::Value;
use thruway_mcp::json_rpc::{Error, ErrorCode};
use thruway_mcp::modern::check_param_headers;
use thruway_mcp::param_headers::{self, PREFIX, ParamHeader};
use thruway_mcp::params::Params;
use thruway_mcp::schema::{JsonObject, methods};
use thruway_message::{FieldLineSpan, FieldLines};
use thruway_net::{Admitted, LogLimit};
use tokio::time::{Instant, timeout};

use super::McpClient;
use super::error::McpClientError;
use super::forward::Onward;
use super::handlers::ServerNotification;

/// The headers `Mcp-Param-*` of a request that is to be forwarded.
#[derive(Default, Debug)]
pub struct ReceivedParamHeaders {
    bytes: Vec<u8>,
    spans: Vec<FieldLineSpan>,
}

impl ReceivedParamHeaders {
    /// Copies them from all headers of the request.
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

    fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    fn as_field_lines(&self) -> FieldLines<'_> {
        FieldLines::from_parsed(&self.bytes, &self.spans)
    }
}

/// The last list of tools, for the headers that their arguments require. Empty until the first call that has
/// to be checked.
#[derive(Default, Debug)]
pub(super) struct ListedParamHeaders {
    listed: ArcSwapOption<Listed>,
    /// The last list, even if it was declared invalid since: better than none if the server does not list.
    last: ArcSwapOption<Listed>,
    /// Held while the tools are being listed, so that concurrent calls share one list.
    listing: tokio::sync::Mutex<()>,
    /// Counts how often the list was declared invalid.
    invalidations: AtomicU64,
}

#[derive(Debug)]
struct Listed {
    at: Instant,
    /// Only tools with such headers.
    tools: HashMap<String, Vec<ParamHeader>>,
}

/// One page of a list of tools. Reads only what is needed here, so that an invalid member elsewhere does not
/// matter.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    #[serde(default)]
    tools: Vec<Value>,
    #[serde(default)]
    next_cursor: Option<String>,
}

impl ListedParamHeaders {
    /// Forgets the list: the tools have changed, or the server was replaced.
    pub(super) fn invalidate(&self) {
        self.invalidations.fetch_add(1, Ordering::AcqRel);
        self.listed.store(None);
    }
}

impl Listed {
    fn of(tools: Vec<Value>) -> Self {
        let with_headers = tools.into_iter().filter_map(|mut tool| {
            let schema: JsonObject = serde_json::from_value(tool.get_mut("inputSchema")?.take()).ok()?;
            // Clients leave out a tool with an invalid annotation, so that nobody has to send headers for it.
            let headers = param_headers::find(&schema).ok().filter(|headers| !headers.is_empty())?;
            Some((tool.get("name")?.as_str()?.to_owned(), headers))
        });
        Self { at: Instant::now(), tools: with_headers.collect() }
    }

    fn check(&self, tool: &str, received: &ReceivedParamHeaders, onward: &Onward) -> Result<(), Error> {
        let Some(headers) = self.tools.get(tool) else { return Ok(()) };
        let params = Params::parse(Some(&onward.params)).unwrap_or_default();
        let arguments = match params.arguments {
            Some(raw) => serde_json::from_str(raw.get()).map_err(|_| {
                Error::invalid_params("`arguments` that are mirrored in headers cannot be read")
            })?,
            None => Value::Null,
        };
        check_param_headers(received.as_field_lines(), headers, &arguments)
    }
}

impl McpClient {
    /// Compares the headers `Mcp-Param-*` of a request with its arguments, as the server of the tool must
    /// (2026-07-28, server validation of headers). A header that is missing is refused too, so the tools have
    /// to be listed even for a request without such headers, unless none of its arguments can be mirrored.
    /// Does nothing for a request that did not come over HTTP in the modern era.
    ///
    /// # Errors
    /// A header is missing or contradicts its argument, or there is one and the tools cannot be listed.
    pub async fn check_param_headers(&self, onward: &Onward) -> Result<(), McpClientError> {
        let (Some(received), Some(tool)) = (&onward.param_headers, &onward.name) else { return Ok(()) };
        let listed = match self.known_param_headers() {
            Some(listed) => listed,
            None if received.is_empty() && !onward.may_be_mirrored() => return Ok(()),
            None => match self.param_headers_of_tools().await {
                Ok(listed) => listed,
                // The server has never listed its tools, so its clients cannot know that it wants headers.
                Err(error) if received.is_empty() => {
                    note_unlisted(&error);
                    return Ok(());
                }
                Err(error) => return Err(error),
            },
        };
        let Err(error) = listed.check(tool, received, onward) else { return Ok(()) };
        if listed.at.elapsed() < RELIST_PAUSE {
            return Err(McpClientError::Server(error));
        }
        // The tool may have changed without a notification.
        match self.list_param_headers(Some(&listed)).await {
            Ok(listed) => listed.check(tool, received, onward).map_err(McpClientError::Server),
            Err(unlisted) => {
                note_unlisted(&unlisted);
                Err(McpClientError::Server(error))
            }
        }
    }

    /// Returns the last list of tools, unless it is too old; also if it is too old but being replaced.
    fn known_param_headers(&self) -> Option<Arc<Listed>> {
        let known = &self.conversation.param_headers;
        let listed = known.listed.load_full()?;
        (listed.at.elapsed() < LIST_AGE_MAX || known.listing.try_lock().is_err()).then_some(listed)
    }

    /// Lists the tools. If that fails, returns the last list that there was.
    async fn param_headers_of_tools(&self) -> Result<Arc<Listed>, McpClientError> {
        let known = &self.conversation.param_headers;
        let outdated = known.listed.load_full();
        let listed = self.list_param_headers(outdated.as_ref()).await;
        listed.or_else(|error| {
            let last = known.last.load_full().ok_or_else(|| error.clone())?;
            note_unlisted(&error);
            Ok(last)
        })
    }

    /// Lists the tools, unless another call has done so since `outdated` was listed.
    async fn list_param_headers(
        &self,
        outdated: Option<&Arc<Listed>>,
    ) -> Result<Arc<Listed>, McpClientError> {
        let known = &self.conversation.param_headers;
        let listing = async {
            let _guard = known.listing.lock().await;
            let is_outdated = |listed: &Arc<Listed>| outdated.is_some_and(|old| Arc::ptr_eq(old, listed));
            if let Some(listed) = known.listed.load_full().filter(|listed| !is_outdated(listed)) {
                return Ok(listed);
            }
            if outdated.is_some() {
                self.conversation.cache.forget(&ServerNotification::ToolsListChanged);
            }
            let invalidations = known.invalidations.load(Ordering::Acquire);
            let tools = self.list(methods::TOOLS_LIST, |page: Page| (page.tools, page.next_cursor)).await;
            let tools = match tools {
                // A server without a list has announced no headers.
                Err(McpClientError::Server(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => Vec::new(),
                tools => tools?,
            };
            let listed = Arc::new(Listed::of(tools));
            known.last.store(Some(listed.clone()));
            if known.invalidations.load(Ordering::Acquire) == invalidations {
                known.listed.store(Some(listed.clone()));
            }
            Ok(listed)
        };
        timeout(self.options.patience.timeout, listing).await.map_err(|_| McpClientError::TimedOut)?
    }
}

impl Onward {
    /// Returns `true` if a header may mirror an argument: a string, a number or a boolean that is reachable
    /// through objects (2026-07-28, `x-mcp-header`).
    fn may_be_mirrored(&self) -> bool {
        fn has_primitive(value: &Value) -> bool {
            match value {
                Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
                Value::Object(members) => members.values().any(has_primitive),
                Value::Null | Value::Array(_) => false,
            }
        }
        let params = Params::parse(Some(&self.params)).unwrap_or_default();
        let Some(arguments) = params.arguments else { return false };
        // Arguments that cannot be read as a value may have anything in them.
        serde_json::from_str(arguments.get()).map_or(true, |arguments: Value| has_primitive(&arguments))
    }
}

fn note_unlisted(error: &McpClientError) {
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(Admitted { suppressed }) = LIMIT.admit() {
        tracing::warn!(
            suppressed,
            "cannot list the tools of the server to compare headers `Mcp-Param-*`: {error}"
        );
    }
}

/// Minimum time between two lists because of headers that do not match: a client must not cause a list by
/// each request.
const RELIST_PAUSE: Duration = Duration::from_secs(1);

/// Time after which the tools are listed again, for servers that change them without a notification.
const LIST_AGE_MAX: Duration = Duration::from_mins(5);
