//! The fast path: tool calls that a program relays to a member without the MCP client of the gateway. The
//! gateway selects the member and replaces the name of the tool, and does not parse the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thruway_mcp::Revision;
use thruway_mcp::federated::{ListKind, ScannedCall};
use thruway_mcp::json_rpc::{Id, write_error};
use thruway_mcp::schema::methods;
use thruway_mcp_server::backend::Caller;
use thruway_message::{FieldLines, FieldValue};
use tokio::time::Instant;

use super::McpGateway;
use super::call_stats::CallCounters;
use super::member::MemberConnection;

/// A tool call in the form that its member expects.
#[derive(Debug)]
pub struct RelayedCall {
    member: Arc<MemberConnection>,
    /// The member's own name of the tool.
    name: String,
    content: Vec<u8>,
    /// The JSON-RPC id.
    id: Box<str>,
    /// The counters of the tool.
    counters: Arc<CallCounters>,
    began: Instant,
    has_failed: AtomicBool,
}

impl McpGateway {
    /// Returns the tool call of an HTTP request if a program can relay it to the member. `content` is the body
    /// of the request. `has_relay` returns `true` if the program can send HTTP requests to the member with this
    /// name. The member must get the headers of the client that belong to MCP, with the new value of `Mcp-Name`.
    /// The gateway counts each returned call.
    ///
    /// Returns `None` if the MCP server of the gateway must handle the request. It handles all requests that
    /// are unusual, invalid or forbidden, and all requests of clients or members with an earlier revision. It
    /// also handles calls with limits, and all calls if the gateway has an audit sink or asks for confirmations.
    /// See [`ScannedCall::scan`] for the conditions on the body.
    pub fn relayed_call(
        &self,
        fields: FieldLines<'_>,
        content: &[u8],
        caller: &Caller,
        has_relay: impl Fn(&str) -> bool,
    ) -> Option<RelayedCall> {
        let is_method = single(fields, "Mcp-Method")? == methods::TOOLS_CALL.as_bytes();
        let is_observed = self.core.is_audited() || self.core.confirmations.is_some();
        if !is_method || is_observed || content.len() > CONTENT_BYTES_MAX || !is_json(fields) {
            return None;
        }
        let call = ScannedCall::scan(content)?;
        let has_name = single(fields, "Mcp-Name")? == call.name().as_bytes();
        let has_version = single(fields, "MCP-Protocol-Version")? == call.version().as_bytes();
        if !has_name || !has_version || call.version() != Revision::LATEST.as_str() {
            return None;
        }
        if self.core.limits.apply_to(call.name()) {
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
        // A program that relays a call does not know the access tokens for the member.
        if member.has_credentials() || !has_relay(member.name.as_str()) {
            return None;
        }
        if member.connected_revision()? != Revision::LATEST || FieldValue::new(name.as_bytes()).is_err() {
            return None;
        }
        let content = call.with_name(&name)?;
        let counters = member.counters.of_tool(call.name(), || catalog.lists_tool(index, call.name()));
        Some(RelayedCall {
            member: member.clone(),
            name,
            content,
            id: call.id().into(),
            counters,
            began: Instant::now(),
            has_failed: AtomicBool::new(false),
        })
    }
}

impl RelayedCall {
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

    /// Counts the call as failed in the statistics of the member and of the tool. The call ends when this value
    /// is dropped.
    pub fn note_error(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Returns the JSON-RPC response for a call without a usable response of the member, with the reason. Makes
    /// the gateway check its connection to the member. Counts the call as failed.
    pub fn failure(&self, reason: &str) -> Vec<u8> {
        self.note_error();
        let mut output = Vec::new();
        let id: Option<Id<'_>> = serde_json::from_str(&self.id).ok();
        write_error(&mut output, id.as_ref(), &self.member.relay_failed(&reason));
        output
    }
}

impl Drop for RelayedCall {
    fn drop(&mut self) {
        let is_error = self.has_failed.load(Ordering::Relaxed);
        self.member.counters.record(Some(&self.counters), is_error, self.began.elapsed());
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
const CONTENT_BYTES_MAX: usize = 16 << 10;
