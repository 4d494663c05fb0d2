//! What can be chosen about a client.

use std::time::Duration;

use thruway_mcp::Revision;
use thruway_mcp::schema::{ClientCapabilities, Implementation};

/// Options of a client, with defaults that suit most.
#[derive(Clone, Debug)]
pub struct McpClientOptions {
    /// What the client says it is. Default: this library.
    pub client_info: Implementation,
    /// What the client can be asked. Default: nothing; set by [`answers`](super::McpClientBuilder::answers).
    pub capabilities: ClientCapabilities,
    /// How it speaks. Default: as the server does.
    pub era: EraChoice,
    /// How long to wait for an answer, or after the last report of its progress. Default: 60 s. The time in
    /// which a question of the server is answered is not counted.
    pub timeout: Duration,
    /// How long to wait at most, whatever progress there is. Default: 1 hour.
    pub timeout_max: Duration,
    /// How long a server on a stream may take to say which era it speaks, before it is taken for one of the
    /// legacy era. Default: 5 s, but no longer than half of [`timeout`](Self::timeout).
    pub probe_timeout: Duration,
    /// The largest message of the server. Default: 16 MiB. A larger one ends the call with an error.
    pub message_bytes_max: usize,
    /// How often a server may ask before it answers (2026-07-28). Default: 10 rounds.
    pub rounds_max: usize,
    /// Whether lists and resources are kept for as long as the server allows (2026-07-28), unless it tells of
    /// a change. Default: yes.
    pub keeps_results: bool,
    /// How long a child process may take to end when its input is closed, and again when it is told to.
    /// Default: 2 s; then it is killed.
    pub exit_wait: Duration,
}

/// How a client speaks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum EraChoice {
    /// As the server does: modern if it can. It is asked once, at the first call.
    #[default]
    Auto,
    /// In the latest modern revision, without asking.
    Modern,
    /// In the latest legacy revision that the server speaks.
    Legacy,
    /// In this revision or not at all.
    Revision(Revision),
}

impl Default for McpClientOptions {
    fn default() -> Self {
        Self {
            client_info: Implementation::new("thruway", env!("CARGO_PKG_VERSION")),
            capabilities: ClientCapabilities::default(),
            era: EraChoice::default(),
            timeout: Duration::from_mins(1),
            timeout_max: Duration::from_hours(1),
            probe_timeout: Duration::from_secs(5),
            message_bytes_max: 16 << 20,
            rounds_max: 10,
            keeps_results: true,
            exit_wait: Duration::from_secs(2),
        }
    }
}
