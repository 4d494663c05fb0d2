//! The options of a client.

use std::time::Duration;

use thruway_mcp::Revision;
use thruway_mcp::schema::{ClientCapabilities, Implementation};

/// Options of a client. The defaults suit most uses.
#[derive(Clone, Debug)]
pub struct McpClientOptions {
    /// Name and version that the client reports to the server. Default: name and version of this library.
    pub client_info: Implementation,
    /// Capabilities that the client declares, such as elicitation, sampling and roots. Default: none.
    /// [`answers`](super::McpClientBuilder::answers) also sets this option.
    pub capabilities: ClientCapabilities,
    /// Protocol era or protocol revision to use. Default: [`EraChoice::Auto`].
    pub era: EraChoice,
    /// Maximum time without an answer, from the start of a call or from its last progress report. Default: 60
    /// s. The timeout does not expire while the client answers an elicitation, sampling or roots request of
    /// the server.
    pub timeout: Duration,
    /// Maximum time to wait for an answer, regardless of progress. Default: 1 hour.
    pub timeout_max: Duration,
    /// Maximum time to wait for the answer to the request that detects the era of a server on a stream. If
    /// the server does not answer in this time, the client treats it as a legacy server. Default: 5 s, but at
    /// most half of [`timeout`](Self::timeout).
    pub probe_timeout: Duration,
    /// Maximum size of a message from the server, in bytes. Default: 16 MiB. A call fails if its answer is
    /// larger than this limit.
    pub message_bytes_max: usize,
    /// Maximum number of times that the server may request input before it returns the result of a call (MCP
    /// revision 2026-07-28). Input is an answer to an elicitation, sampling or roots request. Default: 10.
    pub rounds_max: usize,
    /// Enables the cache for lists and resources (MCP revision 2026-07-28). The server sets how long the
    /// client may keep a result. When the server reports a change, the client removes the cached result.
    /// Default: `true`.
    pub keeps_results: bool,
    /// Time after which the client sends SIGTERM to a child process, if the process still runs although the
    /// client has closed its input. If the process still runs after the same time again, the client kills it.
    /// Default: 2 s.
    pub exit_wait: Duration,
    /// Name of the server in log lines (field `server`). Default: none. Set a name if the program uses several
    /// servers.
    pub log_name: Option<String>,
}

impl McpClientOptions {
    pub(super) fn log_name(&self) -> Option<&str> {
        self.log_name.as_deref()
    }
}

/// The protocol era or revision of a client.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum EraChoice {
    /// Detects the era of the server once, at the first call. Uses the modern era if the server supports
    /// both eras.
    #[default]
    Auto,
    /// Uses the latest modern revision without detection.
    Modern,
    /// Uses the latest legacy revision that the server supports.
    Legacy,
    /// Uses only this revision. Calls fail if the server does not support the revision.
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
            log_name: None,
        }
    }
}
