//! Dedicated MCP servers: each server handles one call at a time. If several calls shared one stream to a
//! server, the bridge could not tell which call a server request, such as an elicitation, belongs to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::to_raw_value;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::{ElicitAction, ElicitResult, LoggingLevel, methods};
use thruway_mcp_client::McpClientError;
use thruway_mcp_client::forwarding::{Answer, ForwardedCall, Requester, required_pages};
use thruway_mcp_server::backend::Holder;
use tokio::time::Instant;

use super::upstream::Upstream;

/// Identifies the clients that may use a dedicated server. Other clients must not use the server, because
/// the server remembers the client's capabilities, and in the legacy era also the client's answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PoolKey {
    /// The authenticated caller. `None` if the server is for callers without authentication.
    pub(super) owner: Option<Arc<str>>,
    /// The capabilities of the client, as JSON.
    pub(super) capabilities: Arc<str>,
}

/// The pool of idle dedicated servers: servers that currently handle no call.
#[derive(Debug)]
pub(super) struct ServerPool {
    idle: Mutex<Vec<IdleServer>>,
    idle_max: Duration,
}

#[derive(Debug)]
struct IdleServer {
    upstream: Arc<Upstream>,
    pool_key: PoolKey,
    since: Instant,
}

/// A dedicated server that is reserved for one call. If this value is dropped after the call is complete,
/// the server becomes idle again.
#[derive(Debug)]
pub(super) struct ReservedServer {
    upstream: Arc<Upstream>,
    pool_key: PoolKey,
    pool: Arc<ServerPool>,
    is_over: bool,
}

impl ServerPool {
    pub(super) fn new(idle_max: Duration) -> Arc<Self> {
        Arc::new(Self { idle: Mutex::default(), idle_max })
    }

    /// Takes an idle server with the key `pool_key`. The server then counts toward the per-caller limit
    /// of `holder`.
    pub(super) fn take(self: &Arc<Self>, pool_key: &PoolKey, holder: &Holder) -> Option<ReservedServer> {
        self.sweep();
        let mut idle = self.idle();
        let index =
            idle.iter().rposition(|one| one.pool_key == *pool_key && one.upstream.assign_to(holder))?;
        let IdleServer { upstream, pool_key, .. } = idle.swap_remove(index);
        Some(ReservedServer { upstream, pool_key, pool: self.clone(), is_over: false })
    }

    pub(super) fn reserve(self: &Arc<Self>, pool_key: PoolKey, upstream: Arc<Upstream>) -> ReservedServer {
        ReservedServer { upstream, pool_key, pool: self.clone(), is_over: false }
    }

    /// Closes servers that were idle for too long. Other idle servers stop counting toward a per-caller
    /// limit, unless subscriptions use these servers.
    pub(super) fn sweep(&self) {
        let is_useful = |one: &IdleServer| {
            let is_fresh = one.is_watched() || one.since.elapsed() < self.idle_max;
            is_fresh && !one.upstream.is_closed()
        };
        let mut idle = self.idle();
        idle.retain(is_useful);
        idle.iter().filter(|one| !one.is_watched()).for_each(|one| one.upstream.keep_share());
    }

    /// Closes one of the idle servers that no subscription uses: the server that was idle for the longest
    /// time.
    pub(super) fn end_one(&self) {
        let mut idle = self.idle();
        let unwatched = (0..idle.len()).filter(|index| !idle[*index].is_watched());
        if let Some(index) = unwatched.min_by_key(|index| idle[*index].since) {
            idle.swap_remove(index);
        }
    }

    /// Counts the idle servers that subscriptions use. Counts only servers for which `is_counted` returns
    /// `true`.
    pub(super) fn watched(&self, is_counted: impl Fn(&Upstream) -> bool) -> usize {
        self.idle().iter().filter(|one| one.is_watched() && is_counted(&one.upstream)).count()
    }

    pub(super) fn end_all(&self) -> Vec<Arc<Upstream>> {
        std::mem::take(&mut *self.idle()).into_iter().map(|one| one.upstream).collect()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<IdleServer>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdleServer {
    /// Returns `true` if a subscription uses the server.
    fn is_watched(&self) -> bool {
        Arc::strong_count(&self.upstream) > 1
    }
}

impl ReservedServer {
    /// Ends the reservation and returns the server, which becomes idle.
    pub(super) fn give_back(mut self) -> Arc<Upstream> {
        self.is_over = true;
        self.upstream.clone()
    }

    /// Requests log messages of the severity `level` and above.
    pub(super) async fn log_from(&self, level: LoggingLevel) {
        self.upstream.log_from(level).await;
    }

    /// Forwards the call. If the server requires that the user visits web pages, and the user agrees,
    /// forwards the call once more. After a completed call, the server becomes idle. After a canceled
    /// call, the server does not become idle, because the server may still ask questions about the
    /// canceled call.
    pub(super) async fn forward(mut self, forwarded_call: &ForwardedCall) -> Result<Answer, McpClientError> {
        let mut outcome = self.upstream.client.forward(forwarded_call).await;
        if let (Err(McpClientError::Server(error)), Some(requester)) = (&outcome, &forwarded_call.requester)
            && has_visited(&**requester, error).await
        {
            outcome = self.upstream.client.forward(forwarded_call).await;
        }
        self.is_over = matches!(outcome, Ok(_) | Err(McpClientError::Server(_)));
        outcome
    }
}

/// Asks the client to visit the web pages that `error` lists, one after another. Returns `true` if
/// `error` lists pages and the user agreed to visit all these pages.
async fn has_visited(requester: &dyn Requester, error: &Error) -> bool {
    let Some(pages) = required_pages(error) else { return false };
    for page in pages {
        let Ok(page) = to_raw_value(&page) else { return false };
        let answered = requester.ask(methods::ELICITATION_CREATE, Some(&page)).await;
        let result = answered.ok().and_then(|answer| serde_json::from_str::<ElicitResult>(answer.get()).ok());
        if result.is_none_or(|result| result.action != ElicitAction::Accept) {
            return false;
        }
    }
    true
}

/// Makes the server idle if the call is complete. The server of a canceled call is closed when the last
/// reference to the server is dropped.
impl Drop for ReservedServer {
    fn drop(&mut self) {
        if self.is_over && !self.upstream.is_closed() {
            let (upstream, pool_key) = (self.upstream.clone(), self.pool_key.clone());
            self.pool.idle().push(IdleServer { upstream, pool_key, since: Instant::now() });
        }
    }
}
