//! Dedicated MCP servers: each server handles one call at a time. A request of the server, such as an
//! elicitation, does not name the call that it belongs to. With one call at a time, the bridge still knows
//! the call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::to_raw_value;
use thruway_mcp::json_rpc::Error;
use thruway_mcp::schema::{ElicitAction, ElicitResult, LoggingLevel, methods};
use thruway_mcp_client::McpClientError;
use thruway_mcp_client::forwarding::{Answer, ForwardedCall, Requester, required_pages};
use thruway_mcp_server::backend::Holder;
use tokio::time::Instant;

use super::credentials::CallerCredential;
use super::upstream::Upstream;

/// The clients that may reuse a dedicated server. A server may remember the capabilities and the answers of
/// its clients, so it must not serve clients with another key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PoolKey {
    /// The authenticated caller. `None` if the server is for callers without authentication.
    pub(super) owner: Option<Arc<str>>,
    /// The capabilities of the client, as JSON.
    pub(super) capabilities: Arc<str>,
    /// The credential of the caller, if each caller has its own.
    pub(super) credential: Option<Arc<CallerCredential>>,
}

/// The idle dedicated servers, which currently handle no call.
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

/// A dedicated server that is reserved for one call. Dropping this value after the call returns the server to
/// the pool.
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

    /// Takes an idle server with the key `pool_key` from the pool. From now on, this server counts toward the
    /// per-caller limit of `holder`.
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

    /// Closes servers that were idle for too long. The remaining idle servers no longer count toward a
    /// per-caller limit, except servers with subscriptions.
    pub(super) fn sweep(&self) {
        let is_useful = |one: &IdleServer| {
            let is_fresh = one.is_watched() || one.since.elapsed() < self.idle_max;
            is_fresh && !one.upstream.is_closed()
        };
        let mut idle = self.idle();
        idle.retain(is_useful);
        idle.iter().filter(|one| !one.is_watched()).for_each(|one| one.upstream.keep_share());
    }

    /// Closes the server that has been idle for the longest time, but never a server with subscriptions.
    pub(super) fn end_one(&self) {
        let mut idle = self.idle();
        let unwatched = (0..idle.len()).filter(|index| !idle[*index].is_watched());
        if let Some(index) = unwatched.min_by_key(|index| idle[*index].since) {
            idle.swap_remove(index);
        }
    }

    /// Returns the number of idle servers with subscriptions for which `is_counted` returns `true`.
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
    /// Returns `true` if a subscription uses the server. Each subscription holds a reference to the server.
    fn is_watched(&self) -> bool {
        Arc::strong_count(&self.upstream) > 1
    }
}

impl ReservedServer {
    /// Returns the server to the pool, and also returns a reference to this server.
    pub(super) fn give_back(mut self) -> Arc<Upstream> {
        self.is_over = true;
        self.upstream.clone()
    }

    /// Requests log messages of the severity `level` and above.
    pub(super) async fn log_from(&self, level: LoggingLevel) {
        self.upstream.log_from(level).await;
    }

    /// Forwards the call. The server may answer that the user must first visit web pages. If the user agrees,
    /// the bridge forwards the call once more. A completed call returns the server to the pool. A canceled
    /// call does not, because the server may still ask questions about this call.
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

/// Returns the server to the pool if the call is complete. After a canceled call, the server is not reused:
/// its connection closes when the last reference is dropped.
impl Drop for ReservedServer {
    fn drop(&mut self) {
        if self.is_over && !self.upstream.is_closed() {
            let (upstream, pool_key) = (self.upstream.clone(), self.pool_key.clone());
            self.pool.idle().push(IdleServer { upstream, pool_key, since: Instant::now() });
        }
    }
}
