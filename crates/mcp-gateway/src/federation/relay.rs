//! The fast path: tool calls that a program relays to a member without the MCP client of the gateway. The
//! gateway selects the member and replaces the name of the tool, and does not parse the rest.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use memchr::memmem;
use thruway_mcp::Revision;
use thruway_mcp::federated::{ListKind, ScannedCall};
use thruway_mcp::json_rpc::Id;
use thruway_mcp::schema::methods;
use thruway_mcp_client::oauth::AccessToken;
use thruway_mcp_server::backend::{Caller, Status};
use thruway_message::{FieldLines, FieldValue, StatusCode};
use thruway_telemetry::TraceParent;

use super::McpGateway;
use super::audit::{AuditOutcome, AuditedCall};
use super::member::MemberConnection;
use super::member_answers::MemberAnswers;
use super::relayed_response::{HeldLimits, RelayedResponse};

/// A tool call in the form that its member expects.
pub struct RelayedCall {
    member: Arc<MemberConnection>,
    /// The member's own name of the tool.
    name: String,
    content: Vec<u8>,
    /// The JSON-RPC id.
    id: Box<str>,
    /// The access token for the member, if the member needs one.
    token: Option<AccessToken>,
    answers: MemberAnswers,
    audited: AuditedCall,
    held: HeldLimits,
}

impl McpGateway {
    /// Returns the tool call of an HTTP request if a program can relay it to the member. `content` is the body
    /// of the request. `has_relay` returns `true` if the program can send HTTP requests to the member with this
    /// name. The member must get the headers of the client that belong to MCP, with the new value of `Mcp-Name`.
    /// The gateway counts each returned call.
    ///
    /// Returns `None` if the MCP server of the gateway must handle the request. It handles all requests that
    /// are unusual, invalid or forbidden, and all requests of clients or members with an earlier revision. It
    /// also handles calls above a limit, calls that can create tasks, calls that need a confirmation, and calls whose
    /// arguments need headers `Mcp-Param-*`.
    /// See [`ScannedCall::scan`] for the conditions on the body.
    pub fn relayed_call(
        &self,
        fields: FieldLines<'_>,
        content: &[u8],
        caller: &Caller,
        has_relay: impl Fn(&str) -> bool,
    ) -> Option<RelayedCall> {
        let is_method = single(fields, "Mcp-Method")? == methods::TOOLS_CALL.as_bytes();
        if !is_method || content.len() > CONTENT_BYTES_MAX || !is_json(fields) {
            return None;
        }
        let call = ScannedCall::scan(content)?;
        let has_name = single(fields, "Mcp-Name")? == call.name().as_bytes();
        let has_version = single(fields, "MCP-Protocol-Version")? == call.version().as_bytes();
        if !has_name || !has_version || call.version() != Revision::LATEST.as_str() {
            return None;
        }
        let access = self.core.access_of(caller);
        if access.is_some_and(|access| !access.allows(ListKind::Tools, call.name())) {
            return None;
        }
        let catalog = &self.core.catalog;
        let (index, name) = catalog.owner_at_once(ListKind::Tools, call.name())?;
        if self.core.names.uris_of(index).is_some() {
            // The result may contain URIs that the gateway must rewrite.
            return None;
        }
        let member = &self.core.members[index];
        if !has_relay(member.name.as_str()) {
            return None;
        }
        let token = match member.credentials() {
            // The slow path obtains a token that is not in the cache.
            Some(credentials) => Some(credentials.cached_token(caller)?),
            None => None,
        };
        if member.connected_revision()? != Revision::LATEST || FieldValue::new(name.as_bytes()).is_err() {
            return None;
        }
        if !self.may_relay_tool(index, &name) {
            return None;
        }
        let bridge = member.bridge()?;
        if call.declares_tasks() && bridge.capabilities(Revision::LATEST).has_tasks_extension() {
            // The bridge translates the ids of tasks.
            return None;
        }
        let server_core = self.server.core();
        let answers = MemberAnswers::new(server_core, bridge, caller);
        let content = answers.content_for_member(&call, &name)?;
        // The slow path has the response to a call above a limit.
        let bytes = server_core.hold_bytes(caller, content.len()).ok()?;
        let permits = self.core.limits.admit(caller, call.name()).ok()?;
        let held = HeldLimits::new(permits, bytes);
        let tool = member.counters.of_tool(call.name(), || catalog.lists_tool(index, call.name()));
        let counted = (&member.name, &member.counters);
        let audited = AuditedCall::begin_relayed(self.core.audit_sink(), caller, &call, counted, tool);
        Some(RelayedCall {
            member: member.clone(),
            name,
            content,
            id: call.id().into(),
            token,
            answers,
            audited,
            held,
        })
    }
}

impl McpGateway {
    /// Returns `true` if a call of the tool with the own name `name` needs neither a confirmation nor a check of
    /// headers `Mcp-Param-*`. Returns `false` while the gateway does not know the tools of the member.
    fn may_relay_tool(&self, member: usize, name: &str) -> bool {
        let catalog = &self.core.catalog;
        if self.core.confirmations.is_none() {
            // The member checks the headers too, so the list need not be current.
            let tools = catalog.last_of(member, ListKind::Tools);
            return tools
                .is_some_and(|tools| tools.tool_traits(name).is_none_or(|traits| !traits.has_param_headers));
        }
        let tools = catalog.current_of(member, ListKind::Tools);
        let traits = tools.and_then(|tools| tools.tool_traits(name));
        traits.is_some_and(|traits| !traits.is_destructive && !traits.has_param_headers)
    }
}

impl RelayedCall {
    /// Sets the span of the call. If its trace is sampled, the statistics of the member get an exemplar.
    pub fn set_trace(&mut self, trace: TraceParent) {
        self.audited.set_trace(trace);
    }

    /// Returns the name of the member.
    pub fn member(&self) -> &str {
        self.member.name.as_str()
    }

    /// Returns the member's own name of the tool, for the header `Mcp-Name`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the body for the member.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Returns the value of the header `Authorization` for the member, if the member needs a token. No configured
    /// header replaces it.
    pub fn authorization(&self) -> Option<&str> {
        self.token.as_ref().map(AccessToken::header)
    }

    /// Sets a function that gets the outcome of the call. A call with a refused token has no outcome.
    #[must_use]
    pub fn on_outcome(mut self, observe: impl FnOnce(AuditOutcome) + Send + 'static) -> Self {
        self.audited.on_outcome(observe);
        self
    }

    /// Ends the call, because the member has refused its token (status 401) and has not run the tool. The MCP server
    /// of the gateway must handle the same request again: it obtains another token. The gateway does not count this
    /// call.
    pub fn refuse_token(self) {
        if let (Some(credentials), Some(token)) = (self.member.credentials(), &self.token) {
            credentials.reject(token);
        }
        self.audited.withdraw();
    }

    /// Records the outcome of the call. `content` is the complete response body, which must be one JSON message.
    /// Returns the body for the client, if it differs.
    pub fn finish(self, content: &[u8]) -> Option<Vec<u8>> {
        let has_state = memmem::find(content, b"\"requestState\"").is_some();
        // Most responses are results without a state. A search in the text is faster for them than a scan.
        if !has_state && content.ends_with(b"}") && memmem::find(content, b"\"result\"").is_some() {
            self.audited.finish(content);
            return None;
        }
        let mut response = self.into_response(false);
        let for_client = match response.read(content) {
            Cow::Owned(changed) => Some(changed),
            Cow::Borrowed(_) => None,
        };
        response.end();
        for_client
    }

    /// Begins to read the response of the member. `is_event_stream` is `true` if the response is an event stream,
    /// and `false` if it is one JSON message.
    pub fn into_response(self, is_event_stream: bool) -> RelayedResponse {
        let Self { content, answers, audited, held, .. } = self;
        RelayedResponse::new(is_event_stream, answers, content, audited, held)
    }

    /// Returns the JSON-RPC message for the client and its status, if the response of the member has no usable body or
    /// the status of an error. `status` and `content` are the status and the body of this response. An empty body is
    /// possible. Counts the call, and makes the gateway check its connection to the member if necessary.
    pub fn failure(self, status: StatusCode, content: &[u8]) -> (Vec<u8>, Status) {
        // The scan has checked the id.
        let id: Id<'_> = serde_json::from_str(&self.id).unwrap_or(Id::Integer(0));
        let (message, status) = self.answers.answer_to_failure(status, content, &id);
        self.audited.finish(&message);
        (message, status)
    }
}

impl fmt::Debug for RelayedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayedCall")
            .field("member", &self.member())
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Returns the value of the only header with this name.
fn single<'f>(fields: FieldLines<'f>, name: &'f str) -> Option<&'f [u8]> {
    let mut values = fields.all(name);
    let value = values.next()?;
    values.next().is_none().then_some(value.as_bytes())
}

fn is_json(fields: FieldLines<'_>) -> bool {
    let value = single(fields, "Content-Type").unwrap_or_default();
    let media_type = value.split(|byte| *byte == b';').next().unwrap_or_default();
    media_type.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// Maximum length of a body on the fast path, in bytes. The slow path handles longer bodies.
const CONTENT_BYTES_MAX: usize = 256 << 10;
