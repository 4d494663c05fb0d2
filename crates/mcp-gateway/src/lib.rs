//! Gateways between MCP clients and MCP servers. A [`Bridge`] is an MCP server that forwards all requests to
//! another MCP server. An [`McpGateway`] is an MCP server that offers the tools, prompts and resources of
//! several MCP servers.
//!
//! Both consist of two parts. An MCP server with a special [backend](thruway_mcp_server::backend::Backend)
//! accepts the requests. An MCP client sends these requests to another server.
#![forbid(unsafe_code)]

mod bridge;
mod federation;
mod jwks;

pub use bridge::{Bridge, BridgeOptions};
pub use federation::{
    ArchiveError, ArchiveFuture, AuditEvent, AuditLog, AuditOutcome, AuditSink, CallCounts, CallLimit,
    CallRate, InvalidFilter, InvalidGlob, InvalidLimit, InvalidMemberName, InvalidRule, LimitBy, McpGateway,
    McpGatewayBuilder, McpGatewayError, McpGatewayOptions, Member, MemberCalls, MemberState, MemberStatus,
    NameStyle, RelayedCall, RelayedResponse, Rule, TaskArchive, ToolFilter, ToolSearch, UnmatchedPattern,
    WithheldItem,
};
pub use jwks::JwksVerifier;
