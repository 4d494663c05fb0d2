//! Options of a bridge.

use std::time::Duration;

use thruway_mcp_client::McpClientOptions;
use thruway_mcp_server::McpServerOptions;

/// Options of a [bridge](crate::Bridge::connect). The defaults suit most uses.
#[derive(Clone, Debug)]
pub struct BridgeOptions {
    /// Options of the connections to the server. Default: 5 minutes from the start of a call or its last
    /// progress report, and 1 hour in total.
    ///
    /// With [`EraChoice::Auto`](thruway_mcp_client::EraChoice::Auto), the bridge connects in both eras if the
    /// server supports both. Each client then uses its own era, because some servers ask questions only in
    /// the legacy era. Choose an era to avoid the second connection.
    pub client: McpClientOptions,
    /// Options toward the clients. Name and instructions come from the server. Default: legacy sessions end
    /// after 10 minutes without use.
    ///
    /// The `state_key` seals tasks and `requestState` of 2026-07-28 for the caller that received them.
    /// Bridges that share clients need the same key.
    pub server: McpServerOptions,
    /// Gives each legacy session its own server, such as a child process. Default: only sessions of clients
    /// that can answer questions get one, and all others share one server.
    pub has_server_per_session: bool,
    /// Makes all modern subscriptions use the shared server. Default: the subscription of a client that can
    /// answer questions uses the server for the calls of this client. That server knows the changes that the
    /// calls have made. The subscription keeps it running: one server for each authorized client, and one for
    /// each set of capabilities of all other clients.
    pub shares_subscriptions: bool,
    /// Maximum number of servers that serve only one session or one call. Default: 32. Beyond this, new
    /// sessions are refused, and calls and subscriptions wait for a while. If sessions and subscriptions
    /// occupy all servers, calls are refused too. Modern requests over HTTP then get 503.
    ///
    /// A caller may use as many servers as it leaves for others: half of them if it is the only one. The same
    /// rule applies to [`questions_max`](Self::questions_max), [`tasks_max`](Self::tasks_max), and watched
    /// resources (10,000 for each server). A caller is a token, an address or a network, as for sessions (see
    /// [`sessions_per_address_max`](McpServerOptions::sessions_per_address_max)). Programs on the same
    /// machine may use all. Increase the limits if many users share one token or one address.
    pub servers_max: usize,
    /// Time that a legacy call waits for the answers of a client. Default: 5 minutes.
    pub question_wait: Duration,
    /// Maximum number of calls that wait for such answers. Default: 1000. Beyond this, calls fail.
    pub questions_max: usize,
    /// Maximum number of tasks of 2025-11-25 that the bridge tracks. Default: 10000. Beyond this, the bridge
    /// forgets a finished task of the same client, or refuses the call.
    pub tasks_max: usize,
    /// Maximum number of tracked tasks of one client. Default: 100.
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
