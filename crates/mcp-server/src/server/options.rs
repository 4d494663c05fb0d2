//! What can be chosen about a server.

use std::time::Duration;

use thruway_mcp::schema::{CacheHint, CacheScope};

use crate::session::SessionLimits;
use crate::tasks::TaskOptions;

/// Options of a server, with defaults that suit most.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct McpServerOptions {
    /// What a model should know of the server.
    pub instructions: Option<String>,
    /// Entries of a list that are sent at once, at least 1. Default: 1000. Smaller pages cost clients more
    /// requests, larger ones more memory.
    pub page_entries: usize,
    /// How long clients may keep lists and resources, and for whom. Default: not at all, for nobody else.
    pub cache: CacheHint,
    /// The longest time a handler may take. Default: 5 minutes; then the call ends with an internal error.
    pub handler_timeout: Duration,
    /// How long tasks may take and are kept, and how many.
    pub tasks: TaskOptions,
    /// The key that authenticates what clients keep between the rounds of a request. Default: a random one.
    /// Servers that stand in for each other need the same.
    pub state_key: Option<[u8; 32]>,
    /// How clients of the legacy era are remembered over HTTP. Default: in sessions.
    pub legacy_sessions: LegacySessions,
    /// Time until an unused session over HTTP ends. Default: 30 minutes. An open stream and a running call
    /// use a session.
    pub session_idle: Duration,
    /// Maximum number of sessions over HTTP. Default: 10,000. Each needs up to 2 KiB of memory, plus what its
    /// client says about itself (64 KiB at most), plus events that its client may ask for again (up to 64
    /// KiB, and more within [`in_flight_bytes_max`](Self::in_flight_bytes_max)). Beyond the maximum, a new
    /// session evicts another: first one whose client sent nothing but `initialize`, then the idle one that
    /// was unused for longest. A session in use is never evicted: if all are in use, `initialize` gets 503
    /// with `Retry-After`. Streams of [`SseEndpoints`](crate::SseEndpoints) count separately, with the same
    /// maxima; they are always in use.
    pub sessions_max: usize,
    /// Maximum number of sessions of one caller with a token (see
    /// [`authorize`](crate::McpEndpoint::authorize)). Default: 1000. Beyond it, the caller's own sessions are
    /// evicted. Increase it for tokens that many users share, as those of another service do.
    pub sessions_per_principal_max: usize,
    /// Maximum number of sessions of all callers without a token at one IPv4 address, or in one IPv6 network
    /// of 64 bits. Default: 5000, so that one address never gets all of [`sessions_max`](Self::sessions_max),
    /// and users behind the NAT of an organization rarely notice. Beyond it, sessions of the same address are
    /// evicted.
    ///
    /// Behind a gateway, all clients seem to have its address, and share its quota. Tell the engine about the
    /// gateway ([`trusted_proxies`](thruway_server::Config::trusted_proxies)), or set this to `sessions_max`.
    /// Unix sockets have no quota, nor has a [tower service](crate::McpEndpoint::tower_service) that is not
    /// told the addresses of its clients.
    pub sessions_per_address_max: usize,
    /// Maximum size of a message of a client in bytes, over every transport. Default: 4 MiB. Increase it for
    /// tools with large arguments, such as files. Each connection can make the server buffer as much. Larger
    /// messages get an error: with the `id` of the request over stdio, with status 413 over HTTP.
    pub message_bytes_max: usize,
    /// Maximum size of all requests in progress together, in bytes of their parameters, over every transport.
    /// Default: 128 MiB. Beyond it, a request gets an error, over HTTP with status 503 and `Retry-After`.
    ///
    /// These count too: calls whose clients have left and may come back, running [tasks](Self::tasks), calls
    /// of a [bridge](crate::McpServer::bridge) that wait for answers of their clients, and messages that wait
    /// in a stream of [`SseEndpoints`](crate::SseEndpoints). Requests smaller than 4 KiB do not count.
    ///
    /// A caller may use as much as it leaves free for others: half if it is the only one. Callers are the
    /// same as for sessions: a token, an address or a network (see
    /// [`sessions_per_address_max`](Self::sessions_per_address_max)). Programs on the same machine may use
    /// everything.
    ///
    /// The same number also limits the events that sessions remember for clients that come back
    /// (`Last-Event-ID`), separately from requests: both together may have twice as many bytes. Callers have
    /// the same shares. Beyond the limit, a connected client still gets every event, but the server forgets
    /// the stream: a client that comes back for it gets status 400. Of each stream, up to 4 KiB do not count.
    ///
    /// Increase it for tools with large arguments that many clients call at the same time. The server may
    /// need several times as much memory, because handlers and bridges copy and parse arguments. A value
    /// below [`message_bytes_max`](Self::message_bytes_max) has the effect of that value.
    pub in_flight_bytes_max: usize,
    /// Answers every request over HTTP with an event stream, even where one JSON message is enough. Default:
    /// no. Useful for clients and intermediaries that only handle event streams; costs about 50 bytes for
    /// each answer. A client that accepts only one of both formats gets that format in any case, unless the
    /// handler has more than its answer to send.
    pub prefers_event_streams: bool,
    /// Whether tools may be added later when there are none at the start. Default: no; clients that come
    /// before are told that there will never be any.
    pub may_add_tools: bool,
    /// The same of resources.
    pub may_add_resources: bool,
    /// The same of prompts.
    pub may_add_prompts: bool,
}

/// How clients of the legacy era are remembered over HTTP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LegacySessions {
    /// In sessions, so that handlers can ask them, and they can subscribe.
    Stateful,
    /// Not at all: each request stands for itself, and any of several servers may answer it.
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
