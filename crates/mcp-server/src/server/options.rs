//! Options of a server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thruway_mcp::schema::{CacheHint, CacheScope};

use crate::replica_ids::ReplicaIds;
use crate::session::{EventArchive, SessionLimits};
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
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "the options are independent")]
pub struct McpServerOptions {
    /// Instructions for the model on how to use the server. Default: no instructions.
    pub instructions: Option<String>,
    /// Maximum number of entries in one page of a list, at least 1. Default: 1000. Smaller pages need more
    /// requests, and larger pages need more memory.
    pub page_entries: usize,
    /// Time for which clients may cache lists and resources, and the permission for shared caches. Default:
    /// no caching.
    pub cache: CacheHint,
    /// Maximum duration of a handler. Default: 5 minutes. A call that takes longer ends with an internal
    /// error.
    pub handler_timeout: Duration,
    /// Limits on the duration, the retention time and the number of tasks.
    pub tasks: TaskOptions,
    /// Key for the signatures of `requestState`, the state that clients store for the server between the
    /// rounds of a request. Default: a random key. Servers behind one load balancer need the same key.
    pub state_key: Option<[u8; 32]>,
    /// Earlier values of [`state_key`](Self::state_key). The server accepts values with the signatures of these keys,
    /// so that the key can change while clients use the server. Default: none.
    pub older_state_keys: Vec<[u8; 32]>,
    /// Names of the replica in the ids of sessions, pending requests and tasks. A gateway in front of several replicas
    /// forwards requests to the replica that the id names. Set also `state_key`. Default: ids name no replica.
    pub replica_ids: Option<ReplicaIds>,
    /// Stores the events of legacy sessions outside of this process, so that clients can get them after the process has
    /// ended. It requires `replica_ids`. Default: none.
    pub event_archive: Option<Arc<dyn EventArchive>>,
    /// Session mode over HTTP, for clients of the legacy era. Default: one session per client.
    pub legacy_sessions: LegacySessions,
    /// Time until an unused session over HTTP ends. Default: 30 minutes. A session with an open stream or a
    /// running call is in use.
    pub session_idle: Duration,
    /// Maximum number of sessions over HTTP. Default: 10,000.
    ///
    /// Each session needs up to 2 KiB of memory for its state, and up to 64 KiB for the data that the client
    /// sends in `initialize`. A session also stores events, so that its client can reconnect. These events
    /// need up to 64 KiB. Further events count toward a limit (see
    /// [`in_flight_bytes_max`](Self::in_flight_bytes_max)).
    ///
    /// If the maximum is reached, a new session evicts another session. The server first evicts sessions
    /// in which the client has sent nothing after `initialize`. If there are no such sessions, the server
    /// evicts the session that was idle for the longest time. The server never evicts a session in use. If
    /// all sessions are in use, `initialize` gets status 503 with `Retry-After`.
    ///
    /// The same limits apply to streams of [`SseEndpoints`](crate::SseEndpoints), but the server counts
    /// sessions and streams separately. An open stream is always in use.
    pub sessions_max: usize,
    /// Maximum number of sessions of one caller with a token (see
    /// [`authorize`](crate::McpEndpoint::authorize)). Default: 1000. If the maximum is reached, a new session
    /// evicts another session of the same caller. Increase the value if many users share one token, for
    /// example the token of another service.
    pub sessions_per_principal_max: usize,
    /// Maximum number of sessions without a token from one IPv4 address, or from one IPv6 network of 64
    /// bits. Default: 5000. If the maximum is reached, a new session evicts another session of the same
    /// address.
    ///
    /// With the default, one address cannot use up [`sessions_max`](Self::sessions_max). Even if many users
    /// share the address of one NAT, their sessions together rarely reach the default.
    ///
    /// Behind a gateway, all clients appear to have the gateway's address, so this maximum applies to all
    /// clients together. Configure the gateway as a trusted proxy
    /// ([`trusted_proxies`](thruway_server::Config::trusted_proxies)), or set this option to
    /// `sessions_max`. The maximum does not apply to Unix sockets. The maximum also does not apply to a
    /// [tower service](crate::McpEndpoint::tower_service) that does not know the addresses of its clients.
    pub sessions_per_address_max: usize,
    /// Maximum size of a client's message in bytes, over every transport. Default: 4 MiB. Increase the value
    /// for tools with large arguments, such as files. For each connection, the server may have to buffer this
    /// number of bytes. The server rejects a larger message: over stdio with an error that has the request's
    /// `id`, over HTTP with status 413.
    pub message_bytes_max: usize,
    /// Maximum total size of all requests in progress, over every transport. The size of a request is the
    /// length of its parameters in bytes. Default: 128 MiB. The server rejects requests beyond this maximum.
    /// Over HTTP, the response has status 503 and `Retry-After`.
    ///
    /// These requests also count:
    /// - Running [tasks](Self::tasks).
    /// - Calls of disconnected clients that may reconnect.
    /// - Calls of a bridge (`thruway_mcp_gateway::Bridge`) that wait for answers of their clients.
    /// - Messages that wait in a stream of [`SseEndpoints`](crate::SseEndpoints).
    ///
    /// Requests smaller than 4 KiB do not count.
    ///
    /// Each caller may use at most half of the bytes that other callers leave free. For example, a single
    /// caller may use half of the maximum. The server identifies a caller by its token, its address or its
    /// network, as for the limits on sessions (see
    /// [`sessions_per_address_max`](Self::sessions_per_address_max)). Programs on the server's machine may
    /// use all bytes.
    ///
    /// A second limit of the same size applies to stored events: sessions store events for clients that
    /// reconnect (`Last-Event-ID`). So requests and events together may need twice as many bytes. The rule
    /// for the share of one caller applies to both limits.
    ///
    /// If the second limit is reached, the server stops storing the events of a stream. A connected client
    /// still gets every event, but a client that reconnects to this stream gets status 400. The first 4 KiB
    /// of each stream do not count.
    ///
    /// Increase the value for tools with large arguments that many clients call at the same time. The
    /// server may need several times as much memory, because handlers and bridges copy and parse
    /// arguments. For requests, the limit is never smaller than
    /// [`message_bytes_max`](Self::message_bytes_max).
    pub in_flight_bytes_max: usize,
    /// Answers every request over HTTP with an event stream, even if one JSON message is enough. Default:
    /// no. Enable this option for clients and intermediaries that support only event streams. An event
    /// stream costs about 50 more bytes per answer.
    ///
    /// A client that accepts only JSON, or only event streams, gets answers in this format. But if the
    /// handler sends messages before its answer, the answer is always an event stream.
    pub prefers_event_streams: bool,
    /// Announces tools even if the server has no tools at the start. Default: no. Enable this option if the
    /// server adds its first tool later. Otherwise, clients that connected earlier conclude that the server
    /// never has tools.
    pub may_add_tools: bool,
    /// Announces resources even if the server has no resources at the start. Default: no.
    pub may_add_resources: bool,
    /// Announces prompts even if the server has no prompts at the start. Default: no.
    pub may_add_prompts: bool,
}

/// Session mode over HTTP, for clients of the legacy era.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LegacySessions {
    /// The server keeps a session for each client. Handlers can ask the client questions, and the client
    /// can subscribe to changes.
    Stateful,
    /// The server keeps no sessions. Each request is independent, so a load balancer can send the requests of
    /// one client to several servers.
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

/// Omits the keys, because they are secret.
impl fmt::Debug for McpServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServerOptions")
            .field("instructions", &self.instructions)
            .field("handler_timeout", &self.handler_timeout)
            .field("tasks", &self.tasks)
            .field("has_state_key", &self.state_key.is_some())
            .field("replica_ids", &self.replica_ids)
            .field("legacy_sessions", &self.legacy_sessions)
            .field("session_idle", &self.session_idle)
            .field("sessions_max", &self.sessions_max)
            .field("message_bytes_max", &self.message_bytes_max)
            .finish_non_exhaustive()
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
            older_state_keys: Vec::new(),
            replica_ids: None,
            event_archive: None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_contains_no_keys() {
        let options = McpServerOptions {
            state_key: Some([201; 32]),
            older_state_keys: vec![[202; 32]],
            ..McpServerOptions::default()
        };
        let text = format!("{options:?}");
        assert!(!text.contains("201") && !text.contains("202"), "{text}");
    }
}
