//! Options of a bridge.

use std::time::Duration;

use thruway_mcp_client::McpClientOptions;
use thruway_mcp_server::McpServerOptions;

/// Options of a [bridge](crate::Bridge::connect), with defaults that suit most.
#[derive(Clone, Debug)]
pub struct BridgeOptions {
    /// Options of the connections to the server. Default: a call may take 5 minutes from its beginning or its
    /// last progress on, and an hour in all. With [`EraChoice::Auto`], clients of each era meet the server in
    /// their own era if the server speaks it: some servers can ask their client in the legacy era only.
    /// Choose an era to avoid the second connection.
    pub client: McpClientOptions,
    /// How the near side serves. What the server says of itself is that of the far side. Default: sessions of
    /// the legacy era end after 10 minutes without use. The `state_key` seals tasks and `requestState` of
    /// 2026-07-28 for the caller that received them: bridges that stand in for each other need the same.
    pub server: McpServerOptions,
    /// Whether each session of the legacy era has a server of its own, such as a child process. Default: only
    /// those whose clients can be asked; the others share one.
    pub has_server_per_session: bool,
    /// Whether subscriptions of the modern era stand at the server that all share, also those of clients that
    /// can be asked. Default: these stand at the server that handles the client's calls, which knows what the
    /// calls have changed, and which the subscription keeps for that client: one for each that is authorized,
    /// and for all others one for each set of capabilities.
    pub shares_subscriptions: bool,
    /// Maximum number of servers that are for one session or one call alone. Default: 32; beyond, sessions
    /// are refused, and calls and subscriptions wait for a while; if all are kept by sessions and
    /// subscriptions, they are refused too. Over HTTP, the modern era is refused with 503.
    ///
    /// A caller may have as many of them as it leaves for others: half if it is the only one. The same is
    /// true for [`questions_max`](Self::questions_max), [`tasks_max`](Self::tasks_max), and the resources
    /// that clients watch (10,000 for each server). Callers are the same as for sessions: a token, an address
    /// or a network (see [`sessions_per_address_max`](McpServerOptions::sessions_per_address_max)). Programs
    /// on the same machine may have all. Increase the limits if many users share one token or one address.
    pub servers_max: usize,
    /// How long a call of the legacy era waits for the answers of a client of the modern era. Default: 5
    /// minutes.
    pub question_wait: Duration,
    /// How many calls may wait for such answers. Default: 1000; beyond, they fail.
    pub questions_max: usize,
    /// How many tasks of 2025-11-25 are remembered. Default: 10000; beyond, calls that would become tasks are
    /// refused, unless one of the same client has ended, which then is forgotten.
    pub tasks_max: usize,
    /// Of these, the tasks of one client. Default: 100.
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
