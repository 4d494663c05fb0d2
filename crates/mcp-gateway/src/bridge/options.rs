//! Options of a bridge.

use std::time::Duration;

use thruway_mcp_client::McpClientOptions;
use thruway_mcp_server::McpServerOptions;

/// Options of a [bridge](crate::Bridge::connect). The default values suit most uses.
#[derive(Clone, Debug)]
pub struct BridgeOptions {
    /// Options of the connections to the server. By default, a call times out after 5 minutes without a
    /// progress report, and after 1 hour in any case.
    ///
    /// With [`EraChoice::Auto`](thruway_mcp_client::EraChoice::Auto), the bridge connects twice to a server
    /// that supports both eras: once in each era. Each client then uses the connection of its own era,
    /// because some servers ask questions only in the legacy era. To avoid the second connection, set a
    /// specific era.
    pub client: McpClientOptions,
    /// Options of the MCP server that clients connect to. The bridge takes the name and the instructions of
    /// this MCP server from the server behind the bridge. By default, legacy sessions end after 10 minutes
    /// without use.
    ///
    /// In the modern era, the bridge signs task ids and `requestState` values with the `state_key`. A signed
    /// value is valid only for the caller that received it. All callers without a token count as one caller.
    /// If several bridges serve the same clients, give all of them the same `state_key`.
    pub server: McpServerOptions,
    /// `true` if every legacy session gets a dedicated server, such as a child process that serves only this
    /// session. With the default `false`, a session gets a dedicated server only if its client can answer
    /// questions: requests of the server for elicitation, for sampling, or for the client's roots. All other
    /// sessions share one server.
    pub has_server_per_session: bool,
    /// `true` if all modern subscriptions use the shared server. With the default `false`, the subscriptions
    /// of a client that can answer questions use a dedicated server. The client's calls use the same server,
    /// so the client is notified of changes that these calls make. The dedicated server keeps running until
    /// the subscription ends. Each client with a token gets its own dedicated server for subscriptions.
    /// Clients without a token share a dedicated server if they have the same capabilities.
    pub shares_subscriptions: bool,
    /// Maximum number of dedicated servers. A dedicated server serves only one session, or only one call at a
    /// time. Default: 32. If all dedicated servers are in use, a new legacy session gets an error for its
    /// first request. Modern calls and subscriptions wait for up to 30 seconds. If sessions and subscriptions
    /// use all dedicated servers, the error comes at once, because the end of a call cannot free a server.
    /// Over HTTP, a modern request gets this error with status 503.
    ///
    /// Each caller may use at most half of the dedicated servers that other callers leave free. For example,
    /// if no other caller uses a server, one caller can use 16 of 32 servers. The same rule limits each
    /// caller's share of [`questions_max`](Self::questions_max), of [`tasks_max`](Self::tasks_max), and of
    /// the watched resources. Each server has at most 10,000 watched resources. The bridge identifies a
    /// caller by its token, its address or its network (see
    /// [`sessions_per_address_max`](McpServerOptions::sessions_per_address_max)). The rule does not apply to
    /// programs on the bridge's machine. Increase the limits if many users share one token or one address.
    pub servers_max: usize,
    /// Maximum time that a call waits for the client's answer to a question of the server. Default: 5
    /// minutes.
    pub question_wait: Duration,
    /// Maximum number of modern calls that wait at the same time until their clients answer a question of the
    /// server. Default: 1000. At the limit, each further call with a question gets an error.
    pub questions_max: usize,
    /// Maximum number of tasks that the bridge tracks for clients of MCP revision 2025-11-25. Default: 10000.
    /// At the limit, a new task replaces the oldest finished task of the same session. If the session has no
    /// finished task, the bridge rejects the new task.
    pub tasks_max: usize,
    /// Maximum number of tasks that the bridge tracks for one session of MCP revision 2025-11-25. Default:
    /// 100.
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
