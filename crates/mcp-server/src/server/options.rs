//! Options of a server.

use std::time::Duration;

use thruway_mcp::schema::{CacheHint, CacheScope};

use crate::session::SessionLimits;
use crate::tasks::TaskOptions;

/// Options of a server. The defaults suit most servers.
///
/// ```
/// use std::time::Duration;
///
/// use thruway_mcp_server::schema::Implementation;
/// use thruway_mcp_server::{McpServer, McpServerOptions};
///
/// let options = McpServerOptions {
///     instructions: Some("Search before you read.".to_owned()),
///     handler_timeout: Duration::from_secs(30),
///     ..McpServerOptions::default()
/// };
/// let server = McpServer::with_options(Implementation::new("files", "1.0.0"), options);
/// ```
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the options are independent")]
pub struct McpServerOptions {
    /// Instructions for the model about the use of the server. Default: none.
    pub instructions: Option<String>,
    /// Maximum number of entries in one page of a list, at least 1. Default: 1000. Smaller pages need more
    /// requests, larger ones need more memory.
    pub page_entries: usize,
    /// Time for which clients may cache lists and resources, and permission for shared caches. Default: no
    /// caching.
    pub cache: CacheHint,
    /// Maximum duration of a handler. Default: 5 minutes. Then the call ends with an internal error.
    pub handler_timeout: Duration,
    /// Limits on the duration, the retention and the number of tasks.
    pub tasks: TaskOptions,
    /// The key that authenticates the state which clients keep between the rounds of a request. Default: a
    /// random key. Servers behind one load balancer need the same key.
    pub state_key: Option<[u8; 32]>,
    /// Storage of clients of the legacy era over HTTP. Default: in sessions.
    pub legacy_sessions: LegacySessions,
    /// Time until an unused session over HTTP ends. Default: 30 minutes. An open stream and a running call
    /// use a session.
    pub session_idle: Duration,
    /// Maximum number of sessions over HTTP. Default: 10,000.
    ///
    /// Each session needs up to 2 KiB of memory, plus the client's description of itself (64 KiB at most),
    /// plus the events that its client may request again. These events need up to 64 KiB, and more within
    /// [`in_flight_bytes_max`](Self::in_flight_bytes_max).
    ///
    /// Beyond the maximum, a new session evicts another one. Sessions without any message after `initialize`
    /// go first, then the idle session with the oldest last use. A session in use is never evicted: if all
    /// are in use, `initialize` gets 503 with `Retry-After`. Streams of [`SseEndpoints`](crate::SseEndpoints)
    /// count separately, with the same limits; they are always in use.
    pub sessions_max: usize,
    /// Maximum number of sessions of one caller with a token (see
    /// [`authorize`](crate::McpEndpoint::authorize)). Default: 1000. Beyond it, a new session evicts sessions
    /// of the same caller. Increase it for a token that many users share, such as the token of another
    /// service.
    pub sessions_per_principal_max: usize,
    /// Maximum number of sessions of all callers without a token at one IPv4 address, or in one IPv6 network
    /// of 64 bits. Default: 5000. With this default, one address never uses up
    /// [`sessions_max`](Self::sessions_max), and users behind the NAT of an organization rarely reach the
    /// limit. Beyond it, a new session evicts sessions of the same address.
    ///
    /// Behind a gateway, all clients appear to have the gateway's address, and share its quota. Configure the
    /// gateway as a trusted proxy ([`trusted_proxies`](thruway_server::Config::trusted_proxies)), or set this
    /// option to `sessions_max`. Unix sockets have no quota. A [tower
    /// service](crate::McpEndpoint::tower_service) without the addresses of its clients has none either.
    pub sessions_per_address_max: usize,
    /// Maximum size of a message of a client in bytes, over every transport. Default: 4 MiB. Increase it for
    /// tools with large arguments, such as files. Each connection can make the server buffer as many bytes. A
    /// larger message gets an error: with the `id` of the request over stdio, with status 413 over HTTP.
    pub message_bytes_max: usize,
    /// Maximum total size of all requests in progress, in bytes of their parameters, over every transport.
    /// Default: 128 MiB. Beyond it, a request gets an error, over HTTP with status 503 and `Retry-After`.
    ///
    /// Running [tasks](Self::tasks) count too, and so do calls of disconnected clients that may reconnect.
    /// Calls of a bridge (`thruway_mcp_gateway::Bridge`) count while they wait for answers of their clients,
    /// and messages while they wait in a stream of [`SseEndpoints`](crate::SseEndpoints). Requests smaller
    /// than 4 KiB do not count.
    ///
    /// A caller may use as many bytes as it leaves free for others: half of them if it is the only caller.
    /// Callers are the same as for sessions: a token, an address or a network (see
    /// [`sessions_per_address_max`](Self::sessions_per_address_max)). Programs on the same machine may use
    /// all bytes.
    ///
    /// A second limit of the same size applies to the events that sessions remember for clients that
    /// reconnect (`Last-Event-ID`). Requests and events together may have twice as many bytes. Callers have
    /// the same shares. Beyond the limit, a connected client still gets every event, but the server does not
    /// remember the stream: a client that reconnects to it gets status 400. The first 4 KiB of each stream do
    /// not count.
    ///
    /// Increase it for tools with large arguments that many clients call at the same time. The server may
    /// need several times as much memory, because handlers and bridges copy and parse arguments. A value
    /// below [`message_bytes_max`](Self::message_bytes_max) has the effect of that value.
    pub in_flight_bytes_max: usize,
    /// Answers every request over HTTP with an event stream, even if one JSON message is enough. Default: no.
    /// Enable it for clients and intermediaries that support only event streams; it costs about 50 bytes for
    /// each answer. A client that accepts only one of the formats gets that format in any case, unless the
    /// handler sends messages before its answer.
    pub prefers_event_streams: bool,
    /// Announces tools even if the server has none at the start. Default: no. Enable it if the server adds
    /// its first tool later; otherwise earlier clients conclude that it never has tools.
    pub may_add_tools: bool,
    /// Announces resources even if the server has none at the start. Default: no.
    pub may_add_resources: bool,
    /// Announces prompts even if the server has none at the start. Default: no.
    pub may_add_prompts: bool,
}

/// Storage of clients of the legacy era over HTTP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LegacySessions {
    /// The server keeps a session for each client. Handlers can ask the client, and the client can subscribe.
    Stateful,
    /// The server keeps nothing. Each request is independent, and any of several servers may answer it.
    Stateless,
}

impl McpServerOptions {
    pub(crate) const fn session_limits(&self) -> SessionLimits {
        SessionLimits {
            idle: self.session_idle,
            max: self.sessions_max,
            per_principal_max: self.sessions_per_principal_max,
            per_address_max: self.sessions_per_address_max,
        }
    }
}

impl Default for McpServerOptions {
    fn default() -> Self {
        Self {
            instructions: None,
            page_entries: 1000,
            cache: CacheHint { ttl_ms: 0, cache_scope: CacheScope::Private },
            handler_timeout: Duration::from_mins(5),
            tasks: TaskOptions::default(),
            state_key: None,
            legacy_sessions: LegacySessions::Stateful,
            session_idle: Duration::from_mins(30),
            sessions_max: 10_000,
            sessions_per_principal_max: 1000,
            sessions_per_address_max: 5000,
            message_bytes_max: 4 << 20,
            in_flight_bytes_max: 128 << 20,
            prefers_event_streams: false,
            may_add_tools: false,
            may_add_resources: false,
            may_add_prompts: false,
        }
    }
}
