//! A slot for one request at a server. Dropping the slot ends the request.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thruway_client::{Connection, ReadBuffers, Side};
use thruway_net::{Clock, ProxyHeader, Worker};
use thruway_server::Response;

use super::connections::exchange::Exchange;
use super::connections::limits::Permit;
use super::connections::pool::{PoolKey, Pools, UpstreamPool, put_idle, take_idle};
use super::connections::queue::Unavailable;
use super::health::ejection::{Admission, milliseconds};
use super::health::monitor::{FailureCause, HealthMonitor};
use super::request_key::RequestKey;
use super::selection::select::Selected;
use super::server::{ChosenVersion, Server};
use super::upstream::Upstream;
use crate::Failure;

/// A slot for one request at a server. The request counts as in flight at the server until the slot is
/// dropped.
pub(crate) struct ServerSlot {
    /// The worker of the request. The worker owns the connections that the request may use.
    pub(crate) worker: Rc<Worker>,
    /// The pools of the worker. A request needs them several times, and each search for them takes time.
    pub(crate) pools: Rc<Pools>,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) server: Arc<Server>,
    /// The PROXY header for new connections. `None` if the upstream does not use the PROXY protocol.
    pub(crate) proxied: Option<Arc<ProxyHeader>>,
    /// Permit to open a connection. `None` if there is no permit, or after the permit was used.
    pub(crate) permit: RefCell<Option<Permit>>,
    connection_timer: Cell<ConnectionTimer>,
    admission: Admission,
    since: Duration,
    /// Time at which the last part of the request was sent to the server. Before any part is sent, the time
    /// at which the request began. The response time of the server begins at this time, so it does not
    /// include the upload time of the client.
    sent: Duration,
    /// `true` if the response head counts as a success, but the response body is incomplete.
    is_succeeding: bool,
}

/// Measures when a connection was established, before its TLS handshake.
#[derive(Clone, Copy)]
enum ConnectionTimer {
    /// No trace needs the time.
    Off,
    On,
    ConnectedAt(Duration),
}

impl ServerSlot {
    /// Selects a server for the next request. Selects a server in `tried` only if no other server is
    /// available. If no server has capacity, waits until the time `until`. After a reload, selects from the
    /// servers of the new config.
    ///
    /// # Errors
    /// Returns an error if no server is available, if too many requests already wait, or if the waiting
    /// time is over.
    ///
    /// # Cancel safety
    /// This function is cancel safe. If the future is dropped, its request leaves the queue, and the next
    /// request moves up.
    pub(crate) async fn select(
        upstream: &Arc<Upstream>,
        worker: &Rc<Worker>,
        key: &RequestKey,
        tried: &[usize],
        until: Option<Duration>,
    ) -> Result<Self, Failure> {
        let attempt = || Self::try_select(&upstream.in_place(key), worker, key, tried);
        let queue = &upstream.connections.requests;
        queue.pass(upstream.config.queue, !tried.is_empty(), worker.clock(), until, attempt).await
    }

    /// Selects a server like [`select`](Self::select), but without waiting. Returns `None` if other requests
    /// wait for a server, or if no server is available.
    #[inline]
    pub(crate) fn select_at_once(
        upstream: &Arc<Upstream>,
        worker: &Rc<Worker>,
        key: &RequestKey,
        tried: &[usize],
    ) -> Option<Self> {
        let is_next = upstream.connections.requests.is_next(!tried.is_empty());
        if is_next { Self::try_select(&upstream.in_place(key), worker, key, tried).ok() } else { None }
    }

    /// Selects a server without waiting, even if other requests wait for a server.
    pub(crate) fn try_select(
        upstream: &Arc<Upstream>,
        worker: &Rc<Worker>,
        key: &RequestKey,
        tried: &[usize],
    ) -> Result<Self, Unavailable> {
        let servers = upstream.members.load();
        let Upstream { config, connections, selection, .. } = &**upstream;
        if !connections.begin_request(config.requests_max) {
            return Err(if servers.list.is_empty() { Unavailable::NoServer } else { Unavailable::Busy });
        }
        let now = upstream.now(worker.clock());
        let unavailable = match selection.select(&servers, &config.balance, key, tried, milliseconds(now)) {
            Selected::Server(server, admission) => {
                return Ok(Self::new(upstream.clone(), server.clone(), worker.clone(), admission, key, now));
            }
            Selected::Busy => Unavailable::Busy,
            Selected::NoServer => Unavailable::NoServer,
        };
        connections.end_request(config.requests_max);
        Err(unavailable)
    }

    /// Returns a new slot at `server` for the same request, if the server accepts the request again.
    pub(crate) fn again(
        upstream: &Arc<Upstream>,
        worker: &Rc<Worker>,
        key: &RequestKey,
        server: Arc<Server>,
    ) -> Option<Self> {
        if !upstream.connections.begin_request(upstream.config.requests_max) {
            return None;
        }
        let now = upstream.now(worker.clock());
        match server.begin(milliseconds(now)) {
            Admission::Refused => {
                upstream.connections.end_request(upstream.config.requests_max);
                None
            }
            admission => Some(Self::new(upstream.clone(), server, worker.clone(), admission, key, now)),
        }
    }

    /// Returns a slot at `server`, which has already [counted](Server::begin) the request. `since` is the
    /// time at which the request began at the server.
    pub(crate) fn new(
        upstream: Arc<Upstream>,
        server: Arc<Server>,
        worker: Rc<Worker>,
        admission: Admission,
        key: &RequestKey,
        since: Duration,
    ) -> Self {
        let proxied = key.proxied.clone();
        let permit = RefCell::default();
        Self {
            pools: Pools::of(&worker),
            worker,
            upstream,
            server,
            proxied,
            permit,
            connection_timer: Cell::new(ConnectionTimer::Off),
            admission,
            since,
            sent: since,
            is_succeeding: false,
        }
    }

    /// Moves the request to another server, which has already [counted](Server::begin) the request.
    pub(crate) fn move_to(&mut self, server: Arc<Server>, admission: Admission) {
        std::mem::replace(&mut self.server, server).end();
        self.admission = admission;
        self.upstream.connections.requests.notify_capacity();
    }

    /// Measures when the connection for this request is established.
    pub(crate) fn time_connection(&self) {
        self.connection_timer.set(ConnectionTimer::On);
    }

    /// Records that the connection is established, if this is measured.
    pub(crate) fn note_connected(&self) {
        if matches!(self.connection_timer.get(), ConnectionTimer::On) {
            self.connection_timer.set(ConnectionTimer::ConnectedAt(self.clock().now_exact()));
        }
    }

    /// Returns the time at which the connection was established. `None` if the time was not measured, or if
    /// the request shares a connection that another request has opened.
    pub(crate) fn connected_at(&self) -> Option<Duration> {
        match self.connection_timer.get() {
            ConnectionTimer::ConnectedAt(at) => Some(at),
            ConnectionTimer::Off | ConnectionTimer::On => None,
        }
    }

    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        self.worker.clock()
    }

    /// Returns the read buffers that all exchanges of the worker share.
    #[inline]
    pub(crate) fn read_buffers(&self) -> &ReadBuffers {
        &self.pools.read_buffers
    }

    /// Returns the key of the connections that the request may use.
    pub(crate) fn pool_key(&self) -> PoolKey<'_> {
        PoolKey { upstream: self.upstream.id, server: self.server.number, proxied: self.proxied.as_deref() }
    }

    /// Takes an idle connection to the server from the pool, if there is one.
    #[inline]
    pub(crate) fn take_idle(&self, now: Duration) -> Option<Connection> {
        take_idle(&self.pools, self.pool_key(), now)
    }

    /// Returns `true` if the request may open a connection.
    pub(crate) fn may_connect(&self) -> bool {
        !self.upstream.limits_connections() || self.permit.borrow().is_some()
    }

    /// Returns the time at which the request began at the server.
    pub(crate) const fn since(&self) -> Duration {
        self.since
    }

    /// Returns the time at which the last part of the request was sent to the server.
    pub(crate) const fn sent(&self) -> Duration {
        self.sent
    }

    /// Sets the start time of the request at the server to the current time.
    pub(crate) fn begins(&mut self) {
        self.since = self.upstream.now(self.worker.clock());
        self.sent = self.since;
    }

    /// Records that a part of the request body was sent at the current time.
    pub(crate) fn content_sent(&mut self) {
        self.sent = self.clock().now_exact();
    }

    /// Records a complete response like [`responded`](Self::responded). `exchange` is its exchange if the
    /// whole request was sent, and its connection becomes available to the next request.
    #[inline]
    pub(crate) fn responded_completely(
        &mut self,
        response: &mut Response,
        exchange: Option<Exchange>,
        key: &RequestKey,
    ) {
        self.responded(response, true, key);
        if let Some(exchange) = exchange {
            self.finish(exchange, self.clock().now());
        }
    }

    /// Records a response, which may be incomplete. If the client does not have the sticky cookie of this
    /// server, adds the cookie to the response.
    #[inline]
    pub(crate) fn responded(&mut self, response: &mut Response, is_complete: bool, key: &RequestKey) {
        let health = &self.upstream.health;
        if health.is_failure(response.status()) {
            self.note_failure(FailureCause::Status(response.status()));
        } else if is_complete {
            self.note_success();
        } else {
            // The response body may never end, but the response head already shows that the server works
            // again.
            health.answered(&self.server, self.since, self.worker.clock());
            self.is_succeeding = true;
        }
        if self.upstream.health.measures_latency() {
            HealthMonitor::responded(&self.server, response, self.sent, self.worker.clock());
        }
        if let Some(cookie) = &self.server.set_cookie
            && key.sticky != Some(self.server.token)
        {
            // The config rejects invalid cookie names, so an error is unlikely. After an error, the response
            // has no cookie.
            let _ = response.append_field("Set-Cookie", cookie.value(key.is_https));
        }
    }

    /// Ends an exchange with a complete response, and makes its connection available to the next request. This
    /// method is not called if the client leaves before the end.
    pub(crate) fn finish(&mut self, exchange: Exchange, now: Duration) {
        if std::mem::take(&mut self.is_succeeding) {
            self.note_success();
        }
        match exchange.finish() {
            Some(connection) => self.put_idle(connection, now),
            None => self.upstream.notify_free_connection(&self.worker),
        }
    }

    /// Puts an HTTP/1.1 connection into the pool for the next request. If the server has chosen HTTP/2 in
    /// the meantime, closes the connection instead.
    pub(crate) fn put_idle(&self, connection: Connection, now: Duration) {
        let (upstream, config) = (&self.upstream, &self.upstream.config);
        if config.negotiates_http2 && self.server.chosen_version() == ChosenVersion::Http2 {
            return;
        }
        let make = || {
            let (id, connections) = (upstream.id, &upstream.connections);
            let is_proxied = config.proxy_protocol.is_some();
            UpstreamPool::new(id, connections.id, config.pool, is_proxied, connections.idle.add())
        };
        put_idle(&self.worker, &self.pools, self.pool_key(), make, connection, now);
        upstream.notify_free_connection(&self.worker);
    }

    /// Records that the response body broke off. The elapsed time does not count as a response time.
    pub(crate) fn broke_off(&self, failure: Failure) {
        if !is_fault(failure, false) {
            return;
        }
        self.note_failure(FailureCause::Failed(failure));
        if self.upstream.health.measures_latency() {
            let now = milliseconds(self.clock().now_exact());
            self.server.health().latency.record_failure(Duration::ZERO, now);
        }
    }

    /// Records that a connection to the server was opened. For forwarded TCP streams, this is the only sign
    /// that the server is healthy.
    pub(crate) fn connected(&self) {
        self.note_success();
        if self.upstream.health.measures_latency() {
            let now = self.clock().now_exact();
            self.server.health().latency.record(now.saturating_sub(self.sent), milliseconds(now));
        }
    }

    /// Records that the server sent no response. If the server has only closed an idle connection, the server
    /// does not count as failed.
    pub(crate) fn failed(&self, failure: Failure, is_reused: bool) {
        if !is_fault(failure, is_reused) {
            return;
        }
        self.note_failure(FailureCause::Failed(failure));
        if self.upstream.health.measures_latency() {
            let now = self.clock().now_exact();
            self.server.health().latency.record_failure(now.saturating_sub(self.sent), milliseconds(now));
        }
    }

    /// Records a failed connection that another request has already reported. Only a request that tests an
    /// ejected server reports the failure again, because the result of the test must be recorded.
    pub(crate) fn failed_with_another(&self, failure: Failure) {
        if self.admission == Admission::Trial {
            self.failed(failure, false);
        }
    }

    fn note_success(&self) {
        self.upstream.health.succeeded(&self.server, self.since, self.worker.clock());
    }

    fn note_failure(&self, cause: FailureCause) {
        let Upstream { health, members, .. } = &*self.upstream;
        health.failed(members, &self.server, self.admission, cause, self.worker.clock());
    }
}

#[cfg(test)]
impl ServerSlot {
    pub(crate) fn succeeded_for_test(&self) {
        self.note_success();
    }

    pub(crate) fn failed_for_test(&self) {
        self.note_failure(FailureCause::Failed(thruway_client::Error::ClosedBeforeResponse.into()));
    }
}

impl Drop for ServerSlot {
    fn drop(&mut self) {
        let Upstream { connections, config, .. } = &*self.upstream;
        self.server.end();
        connections.end_request(config.requests_max);
        connections.requests.notify_capacity();
        if config.http2.is_some() {
            self.upstream.notify_free_connection(&self.worker);
        }
    }
}

/// Returns `true` if the failure counts against the server.
fn is_fault(failure: Failure, is_reused: bool) -> bool {
    failure.side() == Side::Upstream && !failure.retry().counts_against_no_server(is_reused)
}

#[cfg(test)]
mod tests {
    use thruway_client::Error;
    use thruway_server::StatusCode;

    use super::*;
    use crate::upstream::Balance;
    use crate::upstream::scene::Scene;

    fn microseconds(scene: &Scene) -> u64 {
        scene.server(0).health().latency.microseconds(scene.now())
    }

    /// Regression test: a slow upload by a client increased the measured latency of the server.
    #[test]
    fn upload_time_of_client_does_not_count_as_server_latency() {
        let scene = Scene::new(Balance::PeakEwma, &[1]);
        let sent = || {
            let mut slot = scene.slot();
            scene.time.advance(Duration::from_secs(10));
            slot.content_sent();
            scene.time.advance(Duration::from_millis(10));
            slot
        };
        let mut response = Response::new(StatusCode::OK);
        sent().responded(&mut response, true, &RequestKey::default());
        assert_eq!(microseconds(&scene), 10_000);
        sent().failed(Error::ClosedBeforeResponse.into(), false);
        assert_eq!(microseconds(&scene), 100_000, "a fast failure counts as a slow response");
    }
}
