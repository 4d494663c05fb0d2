//! Federations: several MCP servers, the *members*, behind one MCP server.
//!
//! A federation selects the member for a request, replaces the public name with the member's own name, and
//! leaves the rest to the code of the bridge. Each member has the same state as the server behind a bridge.

// configuration
mod builder;

// access control
mod rules;
mod limits;
mod confirm;
mod visible_members;

// the lists of the members
mod catalog;
mod class_lists;
mod listing;
mod audience;
mod member_lists;
mod fetch;
mod tool_traits;
#[cfg(test)]
mod catalog_tests;

// the connections to the members
mod member;

// requests
mod gateway_core;
mod references;
mod relay;
mod relayed_response;
mod member_answers;
mod request;
mod route;
mod subscriptions;
mod tasks;
mod durable;
mod durable_requests;

// tool search
mod search;
mod search_tools;
mod call_tool;

// reports
mod status;
mod audit;
mod call_stats;
mod audit_log;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use thruway_mcp::Revision;
use thruway_mcp::federated::ListKind;
use thruway_mcp::json_rpc::{Error, write_error};
use thruway_mcp::params::Params;
use thruway_mcp::schema::{Implementation, ServerCapabilities};
use thruway_mcp_server::McpServer;
use thruway_mcp_server::backend::{
    Backend, LegacyRequest, Listening, ModernRequest, NewSession, Reply, ServerCore, SharedChanges, Status,
    WantedNotifications,
};
use thruway_message::FieldLines;
use thruway_net::InProcessServer;
use tokio::io::DuplexStream;

use crate::bridge::MemberSessions;
use gateway_core::GatewayCore;

pub use audit::{AuditEvent, AuditOutcome, AuditSink};
pub use audit_log::AuditLog;
pub use builder::{McpGatewayBuilder, McpGatewayError, McpGatewayOptions, Member};
pub use call_stats::{CallCounts, MemberCalls};
pub use durable::{ArchiveError, ArchiveFuture, TaskArchive};
pub use limits::{CallLimit, CallRate, InvalidLimit, LimitBy};
pub use relay::RelayedCall;
pub use relayed_response::RelayedResponse;
pub use rules::{InvalidRule, Rule, UnmatchedPattern};
pub use search::ToolSearch;
pub use status::{MemberState, MemberStatus, WithheldItem};
pub use thruway_mcp::federated::{InvalidFilter, InvalidGlob, InvalidMemberName, NameStyle, ToolFilter};

/// An MCP server that offers the tools, prompts and resources of several MCP servers, its *members*. Clones
/// of an `McpGateway` share all connections and all state.
///
/// ```
/// # use thruway_mcp_client::McpClient;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use thruway_mcp_gateway::{McpGateway, Member, ToolFilter};
/// use thruway_mcp_server::McpServer;
/// use thruway_mcp_server::schema::Tool;
///
/// let files = McpServer::new("files", "1.0").tool(Tool::new("list"), || "a.txt");
/// let issues = McpServer::new("issues", "1.0")
///     .tool(Tool::new("list"), || "issue 1")
///     .tool(Tool::new("delete"), || "deleted");
/// let no_deletion = ToolFilter { deny: vec!["delete*".into()], ..ToolFilter::default() };
///
/// let gateway = McpGateway::builder("my endpoint", "1.0")
///     .member(Member::new("files", move |builder| Ok(builder.server(&files))))
///     .member(Member::new("issues", move |builder| Ok(builder.server(&issues))).tools(no_deletion))
///     .build()?;
///
/// let client = McpClient::builder().server(&gateway);
/// let names: Vec<_> = client.list_tools().await?.into_iter().map(|tool| tool.name).collect();
/// assert_eq!(names, ["files__list", "issues__list"]);
/// # Ok(()) }
/// ```
///
/// The gateway connects to its members in the background, and again after it has lost a member. While a
/// member is missing, the other members work.
///
/// Clients and members may use different eras of the protocol. A member can ask the client questions:
/// requests for elicitation, for sampling, or for the client's roots. See [`Bridge`](crate::Bridge::connect).
#[derive(Clone, Debug)]
pub struct McpGateway {
    server: McpServer,
    core: Arc<GatewayCore>,
}

impl McpGateway {
    /// Returns a builder for a gateway that reports this name and version to its clients.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> McpGatewayBuilder {
        McpGatewayBuilder::new(Implementation::new(name, version))
    }

    /// Returns the MCP server that clients connect to.
    pub const fn server(&self) -> &McpServer {
        &self.server
    }

    /// Returns the state of each member.
    pub fn members(&self) -> Vec<MemberStatus> {
        status::of_members(&self.core)
    }

    /// Returns the number of sessions of clients of the legacy era.
    pub fn session_count(&self) -> usize {
        self.server.core().session_count()
    }

    /// Returns the number of calls that wait until their clients answer questions.
    pub fn pending_call_count(&self) -> usize {
        let of_modern_clients: usize = self.core.bridges().map(|bridge| bridge.pending_call_count()).sum();
        of_modern_clients + self.server.core().unanswered_count()
    }

    /// Returns the number of tasks of the members that clients know.
    pub fn task_count(&self) -> usize {
        self.core.bridges().map(|bridge| bridge.task_count()).sum()
    }

    /// Returns the number of open subscriptions of clients of the modern era.
    pub fn subscription_count(&self) -> usize {
        self.server.core().subscription_count()
    }

    /// Returns the names of all tools that clients can use, each with the name of its member. Ignores the
    /// access rules. With tool search, also returns the tools that the list for clients lacks.
    ///
    /// # Errors
    /// A required member is missing.
    pub async fn tools(&self) -> Result<Vec<(String, String)>, Error> {
        let listing = self.core.catalog.list(ListKind::Tools, Revision::LATEST, None).await?;
        let name_of = |member| self.core.names.member_name(member).as_str().to_owned();
        Ok(listing.entries().map(|entry| (entry.key.as_ref().to_owned(), name_of(entry.member))).collect())
    }

    /// Returns the patterns of the access rules that match no tool, resource or prompt of the connected members.
    ///
    /// # Errors
    /// A required member is missing.
    pub async fn unmatched_patterns(&self) -> Result<Vec<UnmatchedPattern>, Error> {
        self.core.unmatched_patterns().await
    }

    /// Returns the number of messages of members that the gateway has dropped, because a client did not read
    /// them or because their recipient is unknown. The gateway logs the reasons.
    pub fn dropped_messages(&self) -> u64 {
        self.core.dropped.count()
    }

    /// Ends the subscriptions of modern clients, so that their connections can end.
    pub fn end_subscriptions(&self) {
        self.server.core().end_subscriptions();
    }

    /// Ends the sessions of legacy clients over HTTP that have no call in progress, so that these clients begin new
    /// sessions elsewhere. Call this method repeatedly while the gateway shuts down.
    pub fn end_sessions_without_calls(&self) {
        self.server.core().end_sessions_without_requests();
    }

    /// Waits until no call is in progress, or until the timeout `within`. New calls may follow.
    pub async fn calls_ended(&self, within: Duration) {
        self.core.calls_ended(within).await;
    }

    /// Ends the subscriptions of modern clients. Waits until all calls have ended, or until the timeout
    /// `within`. Then disconnects from all members permanently, ends the sessions and event streams of legacy clients
    /// over HTTP, and rejects further requests.
    pub async fn drain(&self, within: Duration) {
        self.end_subscriptions();
        self.core.drain(within).await;
        self.server.core().end_sessions();
    }

    /// Cancels all calls and disconnects from all members permanently. Ends the sessions of legacy clients over HTTP.
    pub async fn close(&self) {
        self.core.drain(Duration::ZERO).await;
        self.server.core().end_sessions();
    }
}

impl McpGatewayBuilder {
    /// Creates the gateway. The gateway connects to its members in the background.
    ///
    /// # Errors
    /// Returns the first error in the configuration.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime, and if the operating system provides no random bytes.
    pub fn build(self) -> Result<McpGateway, McpGatewayError> {
        let (names, rules, limits) = (self.names()?, self.access_rules()?, self.call_limits()?);
        let (info, mut server_options) = (self.info.clone(), self.options.bridge.server.clone());
        // A client can use a state for only one confirmed call, so one replica must see all its uses.
        let pins_states = self.options.confirm_destructive;
        server_options.replica_ids = server_options.replica_ids.map(|ids| ids.pin_states(pins_states));
        let core = GatewayCore::start(self, names, rules, limits);
        let server = McpServer::with_backend(info, server_options, Arc::new(GatewayBackend(core.clone())));
        core.announce_to(&server);
        Ok(McpGateway { server, core })
    }
}

impl Deref for McpGateway {
    type Target = McpServer;

    fn deref(&self) -> &McpServer {
        &self.server
    }
}

impl InProcessServer for McpGateway {
    fn serve_pipe(&self, pipe: DuplexStream) {
        self.server.serve_pipe(pipe);
    }
}

/// Handles the requests that the MCP server of a gateway receives.
#[derive(Debug)]
struct GatewayBackend(Arc<GatewayCore>);

impl Backend for GatewayBackend {
    fn capabilities(&self, _: &ServerCore, revision: Revision) -> ServerCapabilities {
        self.0.capabilities(revision)
    }

    fn begin_session(&self, _: &ServerCore, revision: Revision) -> NewSession {
        let number = self.0.next_session_number();
        let sessions = MemberSessions::new(self.0.members.len(), number, self.0.dropped.clone());
        NewSession { capabilities: self.0.capabilities(revision), state: Some(Box::new(sessions)) }
    }

    /// Rejects requests with `Mcp-Param-*` headers. Legacy clients do not send such headers.
    fn check_legacy_param_headers(&self, headers: FieldLines<'_>, _: &Params<'_>) -> Result<(), Error> {
        thruway_mcp::modern::refuse_param_headers(headers)
    }

    fn handle_legacy(&self, request: &LegacyRequest<'_>, output: &mut Vec<u8>) -> Option<Reply> {
        if let Err(error) = references::check(request.request) {
            write_error(output, Some(&request.request.id), &error);
            return Some(Reply::Now(Status::Ok));
        }
        call_tool::handle_legacy(&self.0, request, output)
    }

    fn handle_modern(&self, request: &ModernRequest<'_>, output: &mut Vec<u8>) -> Option<Reply> {
        if let Err(error) = references::check(request.request) {
            return Some(Reply::error(output, &request.request.id, &error));
        }
        Some(call_tool::handle_modern(&self.0, request, output))
    }

    fn listen(&self, request: &ModernRequest<'_>, wanted: WantedNotifications) -> Result<Listening, Error> {
        subscriptions::listen(&self.0, request, wanted)
    }

    fn needs_params_text(&self) -> bool {
        true
    }

    fn note_shared_changes(&self, changes: &SharedChanges) {
        self.0.note_shared_changes(changes);
    }

    fn may_share_resources(&self) -> bool {
        self.0.members.iter().any(|member| member.is_of_replica())
    }
}
