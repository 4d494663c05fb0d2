//! Options of a bridge.

use std::time::Duration;

use thruway_mcp_client::McpClientOptions;
use thruway_mcp_server::McpServerOptions;

/// Options of a [bridge](crate::Bridge::connect). The default values suit most uses.
#[derive(Clone, Debug)]
pub struct BridgeOptions {
    /// Options of the bridge's connections to the server. By default, a call times out after 5 minutes
    /// without a progress report, and at the latest after 1 hour.
    ///
    /// If a server supports both eras, the bridge connects twice with
    /// [`EraChoice::Auto`](thruway_mcp_client::EraChoice::Auto), once in each era. The bridge then serves
    /// each client in the client's era, because some servers ask questions only in the legacy era. Set a
    /// specific era in these options to avoid the second connection.
    pub client: McpClientOptions,
    /// Options of the MCP server that clients connect to. The name and the instructions of this MCP
    /// server come from the server behind the bridge. By default, legacy sessions end after 10 minutes
    /// without use.
    ///
    /// The bridge uses the `state_key` to sign task ids and `requestState` values of 2026-07-28. A signed
    /// value is valid only for the caller that received the value. If several bridges serve the same
    /// clients, all these bridges need the same `state_key`.
    pub server: McpServerOptions,
    /// `true` if each legacy session gets a dedicated server, such as a child process that serves only
    /// this session. By default, a session gets a dedicated server only if its client can answer
    /// questions. All other sessions use one shared server.
    pub has_server_per_session: bool,
    /// `true` if all modern subscriptions use the shared server. By default, a client that can answer
    /// questions subscribes at a dedicated server. This server also handles the client's calls, so the
    /// server knows about the changes that these calls make. The subscription keeps the dedicated server
    /// running. For subscriptions, each authorized client gets a separate dedicated server. Clients
    /// without authorization share one dedicated server if they have the same capabilities.
    pub shares_subscriptions: bool,
    /// Maximum number of dedicated servers. A dedicated server serves only one session, or only one call
    /// at a time. Default: 32. At the limit, the bridge rejects new sessions. Calls and subscriptions
    /// wait for up to 30 seconds. If sessions and subscriptions occupy all dedicated servers, the bridge
    /// rejects calls without waiting. The bridge rejects modern requests over HTTP with status 503.
    ///
    /// A caller must not use more dedicated servers than remain free for other callers. If only one
    /// caller uses dedicated servers, this caller can use half of the limit. The same rule applies to
    /// [`questions_max`](Self::questions_max), [`tasks_max`](Self::tasks_max), and watched resources
    /// (10,000 for each server). The bridge identifies a caller by a token, an address or a network (see
    /// [`sessions_per_address_max`](McpServerOptions::sessions_per_address_max)). The rule does not apply
    /// to programs on the machine of the bridge. Increase the limits if many users share one token or one
    /// address.
    pub servers_max: usize,
    /// Maximum time that a call waits for the client's answers to questions. Default: 5 minutes.
    pub question_wait: Duration,
    /// Maximum number of calls that wait for answers of clients at the same time. Default: 1000. At the
    /// limit, a call fails if the server asks a question.
    pub questions_max: usize,
    /// Maximum number of tasks of 2025-11-25 that the bridge tracks. Default: 10000. At the limit, a new
    /// task replaces a finished task of the same client. If the client has no finished task, the bridge
    /// rejects the new task.
    pub tasks_max: usize,
    /// Maximum number of tasks of 2025-11-25 that the bridge tracks for one client. Default: 100.
    pub tasks_per_client_max: usize,
}

impl Default for BridgeOptions {
    fn default() -> Self {
        let client = McpClientOptions { timeout: Duration::from_mins(5), ..McpClientOptions::default() };
        let server =
            McpServerOptions { session_idle: Duration::from_mins(10), ..McpServerOptions::default() };
        Self {
            client,
            server,
            has_server_per_session: false,
            shares_subscriptions: false,
            servers_max: 32,
            question_wait: Duration::from_mins(5),
            questions_max: 1000,
            tasks_max: 10_000,
            tasks_per_client_max: 100,
        }
    }
}
