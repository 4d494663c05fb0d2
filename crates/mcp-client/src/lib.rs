//! MCP clients for both eras of the protocol: the legacy era (MCP revisions up to 2025-11-25) and the modern
//! era (since MCP revision 2026-07-28). A client can use Streamable HTTP, HTTP with SSE, the standard input
//! and output of a child process, or a Unix domain socket. A client can also call a server in its own
//! process.
//!
//! The crate `thruway-mcp` parses and writes messages. The crate `thruway-client` implements HTTP.
#![forbid(unsafe_code)]

// public API
mod client;
mod options;
mod error;
mod handlers;
mod builder;
mod calls;
mod tasks;
mod legacy_tasks;
mod task_polls;
mod subscription;
mod queue;

// a request and its answer
mod conversation;
mod requester;
mod forward;
mod call_trace;
mod deadline;
mod incoming;
mod invalid_lines;
mod reading;
mod receiving;
mod tools;
mod param_headers;
mod schema_cost;
mod cache;

// protocol eras
mod eras;

// OAuth
mod authorization;

// transports
mod binding;

/// Types for OAuth 2.1 authorization: they configure how a client obtains access tokens.
pub mod oauth {
    pub use crate::authorization::{
        AccessToken, IdentityProvider, Locking, LoginFuture, LoopbackRedirect, MemoryTokenStore, OAuth,
        OAuthError, PrivateKey, RegisteredClient, ServerAccess, StoredToken, SubjectToken, SubjectTokenType,
        TokenFuture, TokenIssuer, TokenIssuerOptions, TokenLock, TokenSource, TokenStore, TokenTarget,
        UserAgent,
    };
}

/// Types for a gateway that forwards the requests of other MCP clients.
pub mod forwarding {
    pub use crate::cache::is_cacheable;
    pub use crate::deadline::{OnProgress, Progress};
    pub use crate::eras::{is_refusal_of_era, may_ask};
    pub use crate::forward::{ForwardedCall, Sender, reporting};
    pub use crate::handlers::{LogOrigin, OnLog, OnTask};
    pub use crate::param_headers::ReceivedParamHeaders;
    pub use crate::reading::Answer;
    pub use crate::receiving::{empty_object, required_pages};
    pub use crate::requester::{RawAnswer, Requester};
    pub use crate::requester::{Unsent, UnsentMessage, WAIT_MAX, WaitBudget};
}

pub use builder::McpClientBuilder;
pub use client::McpClient;
pub use error::McpClientError;
pub use handlers::{Direction, ServerNotification};
pub use options::{EraChoice, McpClientOptions};
pub use subscription::Subscription;
pub use tasks::ToolOutcome;
pub use thruway_mcp::{Revision, json_rpc, schema};
