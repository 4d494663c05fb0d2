//! What can be chosen about a server.

use std::time::Duration;

use thruway_mcp::schema::{CacheHint, CacheScope};

use crate::tasks::TaskOptions;

/// Options of a server, with defaults that suit most.
#[derive(Clone, Debug)]
pub struct McpServerOptions {
    /// What a model should know of the server.
    pub instructions: Option<String>,
    /// Entries of a list that are sent at once, at least 1. Default: 1000. Smaller pages cost clients more requests, larger
    /// ones more memory.
    pub page_entries: usize,
    /// How long clients may keep lists and resources, and for whom. Default: not at all, for nobody else.
    pub cache: CacheHint,
    /// The longest time a handler may take. Default: 5 minutes; then the call ends with an internal error.
    pub handler_timeout: Duration,
    /// How long tasks may take and are kept, and how many.
    pub tasks: TaskOptions,
    /// The key that authenticates what clients keep between the rounds of a request. Default: a random one. Servers that
    /// stand in for each other need the same.
    pub state_key: Option<[u8; 32]>,
    /// How clients of the legacy era are remembered over HTTP. Default: in sessions.
    pub legacy_sessions: LegacySessions,
    /// The longest time a session is kept that is not used. Default: 30 minutes.
    pub session_idle: Duration,
    /// Sessions kept at one time; beyond, the one that has not been used for longest ends. Default: 10,000. As many streams
    /// of [`SseEndpoints`](crate::SseEndpoints), each of them a session, may be open besides; beyond, the answer is 503.
    pub sessions_max: usize,
    /// Whether tools may be added later when there are none at the start. Default: no; clients that come before are told that
    /// there will never be any.
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
            may_add_tools: false,
            may_add_resources: false,
            may_add_prompts: false,
        }
    }
}
