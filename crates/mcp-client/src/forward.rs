//! Forwarding of requests from other MCP clients. This client replaces only the parts that depend on the
//! connection: the request id, the progress token, and the metadata of the protocol era.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{ErrorCode, Id, write_request_with};
use thruway_mcp::members::{NotAnObject, append_line, append_member, append_members};
use thruway_mcp::params::{Params, meta_keys};
use thruway_mcp::schema::methods;
use thruway_mcp::traced_call::{CallSpan, TraceContext, TracedCall};
use thruway_mcp::{Era, Revision};
use thruway_message::FieldLinesBuf;
use thruway_net::{Admitted, LogLimit};
use tokio::time::timeout;

use super::call_trace::{append_trace, append_trace_fields, note_outcome};
use super::client::{McpClient, is_header_mismatch, may_be_again};
use super::conversation::Waiter;
use super::deadline::{OnProgress, Progress};
use super::eras::NegotiatedProtocol;
use super::error::McpClientError;
use super::handlers::ServerNotification;
use super::param_headers::{Listed, Page, ReceivedParamHeaders};
use super::reading::Answer;
use super::requester::Requester;

/// A request from another MCP client, which this client forwards to its server.
#[derive(Debug)]
pub struct ForwardedCall {
    /// The method of the request.
    pub method: Box<str>,
    /// The tool, prompt, resource or task that the request names.
    pub name: Option<Box<str>>,
    /// The parameters of the request, as raw JSON.
    pub params: Box<RawValue>,
    /// `true` if the `_meta` of the parameters has members.
    pub has_meta: bool,
    /// The `Mcp-Param-*` headers of the request, if the request arrived over HTTP in the modern era.
    pub param_headers: Option<ReceivedParamHeaders>,
    /// Data about the sender from its handshake, if the sender is legacy. A modern sender includes these data
    /// in the parameters of each request.
    pub sender: Option<Sender>,
    /// JSON members to add to the parameters if the server has asked questions: the answers to the questions,
    /// and the state that the server returned with the questions. A question is an elicitation, sampling or
    /// roots request.
    pub round: Vec<u8>,
    /// The client that sent the request. This client receives the messages of the server that belong to the
    /// request, including elicitation, sampling and roots requests.
    pub requester: Option<Arc<dyn Requester>>,
    /// Receives the progress reports for the request.
    pub progress: Option<Arc<Progress>>,
    /// Progress token for a request whose progress reports continue after its answer. If `None`, the client
    /// uses the request id as the token.
    pub progress_token: Option<Box<str>>,
    /// Trace context for the request. `None` to keep the trace context in the sender's `_meta`.
    pub trace: Option<Box<TraceContext>>,
    /// `true` if the request refers to state of the current server process. The client does not repeat such
    /// a request after a restart of the server.
    pub is_of_process: bool,
}

/// Data about the sender of a request, as JSON.
#[derive(Debug)]
pub struct Sender {
    /// The capabilities of the sender.
    pub capabilities: Box<str>,
    /// Name and version of the sender.
    pub info: Box<str>,
    /// Minimum level of log messages for the sender.
    pub log_level: Option<&'static str>,
}

/// Creates a progress handler for a forwarded request.
pub fn reporting(on_progress: OnProgress) -> Arc<Progress> {
    Arc::new(Progress::new(on_progress))
}

impl McpClient {
    /// Checks that the headers `Mcp-Param-*` of a request match its arguments, as the specification requires
    /// (MCP revision 2026-07-28, section server validation of headers). A missing header is an error too.
    /// Therefore, the client lists the tools even if the request has no such headers. The list is not
    /// necessary if no argument of the request could have a header. Does nothing for a request that did not
    /// arrive over HTTP in the modern era.
    ///
    /// # Errors
    /// Fails if a header is missing or does not match its argument. Also fails if the request has headers
    /// `Mcp-Param-*` and the client cannot list the tools.
    pub async fn check_param_headers(&self, forwarded_call: &ForwardedCall) -> Result<(), McpClientError> {
        let (Some(received), Some(tool)) = (&forwarded_call.param_headers, &forwarded_call.name) else {
            return Ok(());
        };
        let listed = match self.known_param_headers() {
            Some(listed) => listed,
            None if received.is_empty() && !forwarded_call.may_be_mirrored() => return Ok(()),
            None => match self.param_headers_of_tools().await {
                Ok(listed) => listed,
                // Without a list of tools, the sender of the request cannot know that the server requires
                // headers.
                Err(error) if received.is_empty() => {
                    self.note_unlisted(&error);
                    return Ok(());
                }
                Err(error) => return Err(error),
            },
        };
        let Err(error) = listed.check(tool, received, &forwarded_call.params) else { return Ok(()) };
        if listed.at.elapsed() < RELIST_PAUSE {
            return Err(McpClientError::Server(error));
        }
        // The tool may have changed without a notification.
        match self.list_param_headers(Some(&listed)).await {
            Ok(listed) => {
                listed.check(tool, received, &forwarded_call.params).map_err(McpClientError::Server)
            }
            Err(unlisted) => {
                self.note_unlisted(&unlisted);
                Err(McpClientError::Server(error))
            }
        }
    }

    /// Returns the stored list of tools, unless the list is older than [`LIST_AGE_MAX`]. While another call
    /// requests a new list, returns the stored list regardless of its age.
    fn known_param_headers(&self) -> Option<Arc<Listed>> {
        let known = &self.conversation.param_headers;
        let listed = known.listed.load_full()?;
        (listed.at.elapsed() < LIST_AGE_MAX || known.listing.try_lock().is_err()).then_some(listed)
    }

    fn note_unlisted(&self, error: &McpClientError) {
        static LIMIT: LogLimit = LogLimit::new();
        if let Some(Admitted { suppressed }) = LIMIT.admit() {
            tracing::warn!(
                server = self.conversation.options.log_name(),
                suppressed,
                "cannot list the tools of the server to check headers `Mcp-Param-*`: {error}"
            );
        }
    }

    /// Lists the tools of the server. If this fails, returns the last list that the server has sent.
    async fn param_headers_of_tools(&self) -> Result<Arc<Listed>, McpClientError> {
        let known = &self.conversation.param_headers;
        let outdated = known.listed.load_full();
        let listed = self.list_param_headers(outdated.as_ref()).await;
        listed.or_else(|error| {
            let last = known.last.load_full().ok_or_else(|| error.clone())?;
            self.note_unlisted(&error);
            Ok(last)
        })
    }

    /// Lists the tools of the server, unless another call has already replaced the list `outdated`.
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
                // A server without `tools/list` has declared no headers.
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
        timeout(self.options.request_timeouts.timeout, listing).await.map_err(|_| McpClientError::TimedOut)?
    }

    /// Forwards a request and returns its result as raw JSON.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request and notifies the server.
    ///
    /// # Errors
    /// See [`McpClientError`].
    pub async fn forward(&self, forwarded_call: &ForwardedCall) -> Result<Answer, McpClientError> {
        if forwarded_call.param_headers.is_some() {
            // Boxed to keep the futures of requests without such headers small.
            Box::pin(self.check_param_headers(forwarded_call)).await?;
        }
        let outcome = self.forward_with(forwarded_call, self.mirrored_headers(forwarded_call)?).await;
        // The server rejected the call because of its headers, and did not run the tool. Either the client
        // has never listed the tool, or the tool has changed.
        if is_header_mismatch(&outcome)
            && *forwarded_call.method == *methods::TOOLS_CALL
            && Box::pin(self.list_tools_anew()).await.is_ok()
        {
            self.conversation.param_headers.invalidate();
            Box::pin(self.check_param_headers(forwarded_call)).await?;
            return Box::pin(self.forward_with(forwarded_call, self.mirrored_headers(forwarded_call)?)).await;
        }
        outcome
    }

    async fn forward_with(
        &self,
        forwarded_call: &ForwardedCall,
        mirrored: FieldLinesBuf,
    ) -> Result<Answer, McpClientError> {
        let negotiated = self.negotiated().await?;
        let outcome = self.forward_once(forwarded_call, &mirrored, &negotiated).await;
        let is_lost = forwarded_call.is_of_process && matches!(outcome, Err(McpClientError::Closed));
        if is_lost || !may_be_again(&outcome) {
            return outcome;
        }
        match Box::pin(self.again(
            &negotiated,
            &forwarded_call.method,
            forwarded_call.name.as_deref(),
            &outcome,
        ))
        .await?
        {
            Some(negotiated) => Box::pin(self.forward_once(forwarded_call, &mirrored, &negotiated)).await,
            None => outcome,
        }
    }

    async fn forward_once(
        &self,
        forwarded_call: &ForwardedCall,
        mirrored: &FieldLinesBuf,
        negotiated: &NegotiatedProtocol,
    ) -> Result<Answer, McpClientError> {
        let id = self.conversation.next_id();
        let mut span = self.begin_span(forwarded_call, id, negotiated.revision());
        let trace = forwarded_call.trace.as_deref().cloned().map(|trace| match &span {
            Some(span) => TraceContext { parent: span.trace_parent().into(), ..trace },
            None => trace,
        });
        let outcome = self.send(forwarded_call, mirrored, negotiated, id, trace.as_ref()).await;
        if let Some(span) = &mut span {
            note_outcome(&mut **span, &forwarded_call.method, &outcome);
        }
        outcome
    }

    /// Begins the span of a request. `None` if tracing is off.
    fn begin_span(
        &self,
        forwarded_call: &ForwardedCall,
        id: i64,
        revision: Revision,
    ) -> Option<Box<dyn CallSpan>> {
        let tracer = forwarded_call.trace.as_ref()?.tracer.as_ref()?;
        Some(tracer.begin(&TracedCall {
            method: &forwarded_call.method,
            name: forwarded_call.name.as_deref(),
            id,
            revision: revision.as_str(),
            server: self.conversation.options.log_name(),
            is_on_pipe: self.is_on_stream(),
        }))
    }

    /// Sends the request with the id `id`, and waits for its answer.
    async fn send(
        &self,
        forwarded_call: &ForwardedCall,
        mirrored: &FieldLinesBuf,
        negotiated: &NegotiatedProtocol,
        id: i64,
        trace: Option<&TraceContext>,
    ) -> Result<Answer, McpClientError> {
        let mut bytes = Vec::with_capacity(forwarded_call.params.get().len() + ENVELOPE_BYTES);
        write_request_with(&mut bytes, &Id::Integer(id), &forwarded_call.method, |output| {
            forwarded_call.write_params(output, id, negotiated.revision(), trace)
        })
        .map_err(|NotAnObject| McpClientError::ArgumentsInvalid)?;
        let mut outgoing =
            negotiated.outgoing(bytes, &forwarded_call.method, forwarded_call.name.as_deref(), mirrored)?;
        if let Some(trace) = trace {
            append_trace_fields(&mut outgoing.field_lines, trace);
        }
        let waiter = Waiter {
            request_timeouts: self.options.request_timeouts,
            progress: forwarded_call.progress.clone(),
            queue: None,
            requester: forwarded_call.requester.clone(),
            is_forwarded: true,
            cancels: negotiated.era() == Era::Legacy || self.conversation.binding.has_common_stream(),
        };
        Ok(self.conversation.exchange(id, outgoing, waiter).await?.answer.into_raw())
    }

    /// Returns the `Mcp-Param-*` headers to send to the server.
    fn mirrored_headers(&self, forwarded_call: &ForwardedCall) -> Result<FieldLinesBuf, McpClientError> {
        let tools = &self.conversation.tools;
        let Some(tool) = forwarded_call.name.as_deref().filter(|tool| tools.are_mirrored(tool)) else {
            return Ok(FieldLinesBuf::new());
        };
        let params = Params::parse(Some(&forwarded_call.params)).unwrap_or_default();
        params.arguments.map_or_else(|| Ok(FieldLinesBuf::new()), |arguments| tools.mirrored(tool, arguments))
    }
}

impl ForwardedCall {
    /// Writes the parameters of the request for a server that uses `revision`. `id` is the new id of the
    /// request.
    fn write_params(
        &self,
        output: &mut Vec<u8>,
        id: i64,
        revision: Revision,
        trace: Option<&TraceContext>,
    ) -> Result<(), NotAnObject> {
        let needs_meta = revision.era() == Era::Modern && self.sender.is_some();
        if !self.has_meta && !needs_meta && trace.is_none() && self.round.is_empty() {
            append_line(output, self.params.get());
            return Ok(());
        }
        output.push(b'{');
        let mut meta = None;
        append_members(output, &self.params, |name, value| match name {
            "_meta" => {
                meta = Some(value);
                false
            }
            // In the legacy era, requests do not have these members. If a legacy sender sends them, they may
            // belong to the request of another client, so the client removes them.
            "inputResponses" | "requestState" => self.round.is_empty() && self.sender.is_none(),
            _ => true,
        })?;
        self.append_meta(output, meta, id, revision, trace)?;
        if !self.round.is_empty() {
            if output.last() != Some(&b'{') {
                output.push(b',');
            }
            output.extend_from_slice(&self.round);
        }
        output.push(b'}');
        Ok(())
    }

    fn append_meta(
        &self,
        output: &mut Vec<u8>,
        meta: Option<&RawValue>,
        id: i64,
        revision: Revision,
        trace: Option<&TraceContext>,
    ) -> Result<(), NotAnObject> {
        let mut members = vec![b'{'];
        let (mut has_token, mut has_trace) = (false, false);
        if let Some(meta) = meta {
            let is_modern = revision.era() == Era::Modern;
            append_members(&mut members, meta, |name, _| match name {
                meta_keys::PROGRESS_TOKEN => {
                    has_token = true;
                    false
                }
                meta_keys::PROTOCOL_VERSION
                | meta_keys::CLIENT_CAPABILITIES
                | meta_keys::CLIENT_INFO
                | meta_keys::LOG_LEVEL => is_modern && self.sender.is_none(),
                meta_keys::TRACE_PARENT | meta_keys::TRACE_STATE => {
                    let is_kept = trace.is_none_or(|trace| trace.keeps_meta);
                    has_trace |= is_kept;
                    is_kept
                }
                _ => true,
            })?;
        }
        if let Some(sender) = self.sender.as_ref().filter(|_| revision.era() == Era::Modern) {
            sender.append(&mut members, revision);
        }
        if let Some(trace) = trace.filter(|_| !has_trace) {
            append_trace(&mut members, trace);
        }
        if let Some(token) = self.progress_token.as_ref().filter(|_| has_token) {
            append_member(&mut members, meta_keys::PROGRESS_TOKEN, &format!("\"{token}\""));
        } else if has_token && self.progress.is_some() {
            append_member(&mut members, meta_keys::PROGRESS_TOKEN, &id.to_string());
        }
        if members.len() > 1 {
            members.push(b'}');
            // The bytes are valid UTF-8, because all parts of them are JSON text.
            append_member(output, "_meta", &String::from_utf8(members).unwrap_or_default());
        }
        Ok(())
    }
}

impl Sender {
    fn append(&self, meta: &mut Vec<u8>, revision: Revision) {
        append_member(meta, meta_keys::PROTOCOL_VERSION, &format!("\"{revision}\""));
        append_member(meta, meta_keys::CLIENT_CAPABILITIES, &self.capabilities);
        append_member(meta, meta_keys::CLIENT_INFO, &self.info);
        if let Some(level) = self.log_level {
            append_member(meta, meta_keys::LOG_LEVEL, &format!("\"{level}\""));
        }
    }
}

/// Estimated size of a request without its parameters, in bytes.
const ENVELOPE_BYTES: usize = 256;

impl ForwardedCall {
    /// Returns `true` if an argument could have a header. Such an argument is a string, a number or a
    /// boolean, at the top level or inside objects (MCP revision 2026-07-28, `x-mcp-header`).
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
        // Arguments that cannot be parsed may contain such values.
        serde_json::from_str(arguments.get()).map_or(true, |arguments: Value| has_primitive(&arguments))
    }
}

/// Minimum age of the list of tools at which a request with wrong headers makes the client list the tools
/// again. Without this limit, a sender could cause one `tools/list` request with each of its requests.
const RELIST_PAUSE: Duration = Duration::from_secs(1);

/// Maximum age of the list of tools. Some servers change their tools without a notification.
const LIST_AGE_MAX: Duration = Duration::from_mins(5);
