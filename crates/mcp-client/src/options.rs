//! The options of a client.

use std::time::Duration;

use thruway_mcp::Revision;
use thruway_mcp::schema::{ClientCapabilities, Implementation};

/// Options of a client. The defaults suit most uses.
#[derive(Clone, Debug)]
pub struct McpClientOptions {
    /// Name and version that the client reports to the server. Default: this library.
    pub client_info: Implementation,
    /// Kinds of questions that the server may ask. Default: none.
    /// [`answers`](super::McpClientBuilder::answers) sets them.
    pub capabilities: ClientCapabilities,
    /// Era or revision to use. Default: [`EraChoice::Auto`].
    pub era: EraChoice,
    /// Time to wait for an answer, or after the last progress report. Default: 60 s. The time in which a
    /// question of the server is being answered does not count.
    pub timeout: Duration,
    /// Maximum time to wait for an answer, regardless of progress. Default: 1 hour.
    pub timeout_max: Duration,
    /// Time in which a server on a stream must answer the question about its era. A server that does not
    /// answer is treated as legacy. Default: 5 s, but at most half of [`timeout`](Self::timeout).
    pub probe_timeout: Duration,
    /// Maximum size of a message from the server, in bytes. Default: 16 MiB. A larger message fails the call.
    pub message_bytes_max: usize,
    /// Maximum number of question rounds before the server must answer (2026-07-28). Default: 10.
    pub rounds_max: usize,
    /// Enables the cache of lists and resources, for as long as the server allows (2026-07-28). A
    /// notification of a change removes the cached result. Default: `true`.
    pub keeps_results: bool,
    /// Time that a child process has to exit after its input is closed, and again after the signal to end.
    /// Then the client kills the child. Default: 2 s.
    pub exit_wait: Duration,
}

/// The protocol era or revision of a client.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum EraChoice {
    /// Detects the era of the server once, at the first call. Prefers the modern era.
    #[default]
    Auto,
    /// Uses the latest modern revision without detection.
    Modern,
    /// Uses the latest legacy revision that the server supports.
    Legacy,
    /// Uses only this revision. Calls fail if the server does not support it.
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
