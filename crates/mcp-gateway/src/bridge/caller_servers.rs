//! The connections to a server that issues a token for each caller. A connection has the credential of one
//! caller and serves only this caller, because a legacy session belongs to the token that started it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thruway_mcp_client::McpClientError;
use tokio::time::Instant;

use super::caller_key::CallerKey;
use super::credentials::CallerCredential;
use super::upstream::Upstream;

/// The connections of the callers in one era.
#[derive(Debug)]
pub(super) struct CallerServers {
    servers: Mutex<HashMap<CallerKey, CallerServer>>,
    idle_max: Duration,
}

#[derive(Debug)]
struct CallerServer {
    upstream: Arc<Upstream>,
    used_at: Instant,
}

impl CallerServers {
    /// Creates the state. Connections close after they were unused for `idle_max`.
    pub(super) fn new(idle_max: Duration) -> Arc<Self> {
        Arc::new(Self { servers: Mutex::default(), idle_max })
    }

    /// Returns the connection of the caller, or creates it with `connect`. `connect` gets the closed
    /// connection that the new connection replaces, if any.
    ///
    /// # Errors
    /// `connect` fails, or all connections are in use.
    pub(super) fn connected(
        &self,
        credential: &CallerCredential,
        connect: impl FnOnce(Option<&Upstream>) -> Result<Arc<Upstream>, McpClientError>,
    ) -> Result<Arc<Upstream>, McpClientError> {
        let mut servers = self.servers();
        let known = servers.get_mut(credential.key());
        if let Some(known) = known.filter(|known| !known.upstream.is_closed()) {
            known.used_at = Instant::now();
            return Ok(known.upstream.clone());
        }
        let closed = servers.remove(credential.key());
        make_room(&mut servers)?;
        let upstream = connect(closed.as_ref().map(|closed| &*closed.upstream))?;
        let server = CallerServer { upstream: upstream.clone(), used_at: Instant::now() };
        servers.insert(*credential.key(), server);
        Ok(upstream)
    }

    /// Closes connections that were unused for too long.
    pub(super) fn sweep(&self) {
        let is_kept = |server: &CallerServer| server.is_used() || server.used_at.elapsed() < self.idle_max;
        self.servers().retain(|_, server| is_kept(server));
    }

    /// Removes all connections, and returns them.
    pub(super) fn end_all(&self) -> Vec<Arc<Upstream>> {
        std::mem::take(&mut *self.servers()).into_values().map(|server| server.upstream).collect()
    }

    fn servers(&self) -> MutexGuard<'_, HashMap<CallerKey, CallerServer>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallerServer {
    /// Returns `true` if a request, a session or a subscription uses the connection.
    fn is_used(&self) -> bool {
        Arc::strong_count(&self.upstream) > 1
    }
}

/// Closes the connection that was unused for the longest time, if there are too many connections.
fn make_room(servers: &mut HashMap<CallerKey, CallerServer>) -> Result<(), McpClientError> {
    if servers.len() < CALLER_SERVERS_MAX {
        return Ok(());
    }
    let unused = servers.iter().filter(|(_, server)| !server.is_used());
    let oldest = unused.min_by_key(|(_, server)| server.used_at).map(|(key, _)| *key);
    let oldest = oldest.ok_or(McpClientError::TooManyServers)?;
    servers.remove(&oldest);
    Ok(())
}

/// Maximum number of connections. A connection without a request takes a few kilobytes.
const CALLER_SERVERS_MAX: usize = 10_000;
