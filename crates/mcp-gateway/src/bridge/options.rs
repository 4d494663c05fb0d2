//! Options of a bridge.

use std::time::Duration;

use thruway_mcp_client::McpClientOptions;
use thruway_mcp_server::McpServerOptions;

/// Options of a [bridge](crate::Bridge::connect). The default values suit most uses.
#[derive(Clone, Debug)]
pub struct BridgeOptions {
    /// Options of the bridge's connections to the server. By default, a call times out 5 minutes after
    /// its start or its last progress report, and at the latest after 1 hour.
    ///
    /// With [`EraChoice::Auto`](thruway_mcp_client::EraChoice::Auto), the bridge connects twice to a
    /// server that supports both eras, once in each era. The bridge then serves each client in the
    /// client's era, because some servers ask questions only in the legacy era. Choose an era to avoid
    /// the second connection.
    pub client: McpClientOptions,
    /// Options of the MCP server that clients connect to. Its name and instructions come from the server
    /// behind the bridge. By default, legacy sessions end after 10 minutes without use.
    ///
    /// With the `state_key`, the bridge signs task ids and `requestState` of 2026-07-28 for the caller
    /// that received them. If several bridges serve the same clients, the bridges need the same key.
    pub server: McpServerOptions,
    /// `true` if each legacy session gets a dedicated server, such as a child process that serves only
    /// this session. By default, a session gets a dedicated server only if its client can answer
    /// questions. All other sessions use one shared server.
    pub has_server_per_session: bool,
    /// `true` if all modern subscriptions use the shared server. By default, a client that can answer
    /// questions subscribes at the dedicated server that handles its calls, because that server knows the
    /// changes made by these calls. The subscription keeps the dedicated server running. There is one
    /// such server for each authorized client, and one for each set of capabilities among all other
    /// clients.
    pub shares_subscriptions: bool,
    /// Maximum number of dedicated servers, which serve only one session or one call at a time. Default:
    /// 32. At the limit, the bridge rejects new sessions, while calls and subscriptions wait for up to 30
    /// seconds. If sessions and subscriptions occupy all dedicated servers, the bridge rejects calls
    /// without waiting. Modern requests over HTTP then get status 503.
    ///
    /// A caller may use at most as many dedicated servers as it leaves free for other callers. A single
    /// caller can therefore use half of the servers. The same rule applies to
    /// [`questions_max`](Self::questions_max), [`tasks_max`](Self::tasks_max), and watched resources
    /// (10,000 for each server). As for sessions, a caller is a token, an address or a network (see
    /// [`sessions_per_address_max`](McpServerOptions::sessions_per_address_max)). Programs on the same
    /// machine are exempt from this rule. Increase the limits if many users share one token or one
    /// address.
    pub servers_max: usize,
    /// Maximum time that a call waits for the client's answers to questions. Default: 5 minutes.
    pub question_wait: Duration,
    /// Maximum number of calls that wait for the client's answers to questions. Default: 1000. At the
    /// limit, a call that needs answers fails.
    pub questions_max: usize,
    /// Maximum number of tasks of 2025-11-25 that the bridge tracks. Default: 10000. At the limit, the
    /// bridge forgets a finished task of the same client. If the client has no finished task, the bridge
    /// rejects the call.
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
