//! MCP servers, clients, bridges and gateways in one crate. Exports `thruway-mcp-server`,
//! `thruway-mcp-client`, `thruway-mcp-gateway` and `thruway-mcp-openapi`.
#![forbid(unsafe_code)]

pub use thruway_mcp::{Revision, json_rpc, schema};
pub use thruway_mcp_client::{
    Direction, EraChoice, McpClient, McpClientBuilder, McpClientError, McpClientOptions, ServerNotification,
    Subscription, ToolOutcome, forwarding, oauth,
};
pub use thruway_mcp_gateway::{
    ArchiveError, ArchiveFuture, AuditEvent, AuditLog, AuditOutcome, AuditSink, Bridge, BridgeOptions,
    CallCounts, CallLimit, CallRate, InvalidFilter, InvalidGlob, InvalidLimit, InvalidMemberName,
    InvalidRule, JwksVerifier, LimitBy, McpGateway, McpGatewayBuilder, McpGatewayError, McpGatewayOptions,
    Member, MemberCalls, MemberState, MemberStatus, NameStyle, RelayedCall, RelayedResponse, Rule,
    TaskArchive, ToolFilter, ToolSearch, UnmatchedPattern, WithheldItem,
};
#[doc = include_str!("elicit_form.md")]
pub use thruway_mcp_macros::ElicitForm;
#[doc = include_str!("offer.md")]
pub use thruway_mcp_macros::offer;
#[doc = include_str!("prompt.md")]
pub use thruway_mcp_macros::prompt;
#[doc = include_str!("resource.md")]
pub use thruway_mcp_macros::resource;
#[doc = include_str!("tool.md")]
pub use thruway_mcp_macros::tool;
pub use thruway_mcp_openapi::{ApiOperation, OpenApiError, OpenApiTools};
#[doc(hidden)]
pub use thruway_mcp_server::expansion;
pub use thruway_mcp_server::expansion::ElicitForm;
pub use thruway_mcp_server::{
    AccessTokenRules, ArchivedEvent, Authorization, BoxError, Call, CallerToken, ChangeSharing,
    ClientSession, CompletionInput, Context, Elicited, EventArchive, FormChoice, FormField, Handler,
    HandlerError, Identity, IntoAnswer, InvalidKeys, InvalidResource, InvalidToken, InvalidUriTemplate,
    JwtVerifier, Later, Layer, LegacySessions, LocalClient, McpBody, McpEndpoint, McpServer,
    McpServerOptions, McpService, Next, NoInput, Offer, Outcome, ProtectedResource, RegistrationError,
    ReplicaId, ReplicaIds, ResourceAnswer, ServerResult, SharedChanges, SseEndpoints, Structured,
    TaskOptions, TaskSupport, UriParameters, VerifyToken, backend, testing,
};
pub use thruway_net::ClientAddr;

/// Makes the doc tests run the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Makes the doc tests run the examples of the user guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/mcp-server.md")]
struct Guide;
