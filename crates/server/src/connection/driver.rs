//! Drives connections of all HTTP versions.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thruway_message::StatusCode;
#[cfg(feature = "tls")]
use thruway_net::tls::TlsFailure;
use thruway_net::{ConnectionGuard, PooledBuffer, Transport, Worker};
use thruway_telemetry::Tracer;

use super::http1::{Connection, drive};
use super::service::{Recording, Service};
use super::timers::limited_timeout;
use super::worker_tracing::WorkerTracing;
use crate::config::Config;
use crate::connection_info::ConnectionInfo;
use crate::handler::Handler;
#[cfg(feature = "http2")]
use crate::http2;
use crate::live::WorkerHandler;
use crate::pre_handler::PreHandlers;
#[cfg(feature = "http2")]
use crate::protocol::{HttpProtocol, read_protocol};
use crate::record::TakeRecord;

/// Drives the accepted connections of one worker over any transport.
#[derive(Clone)]
pub struct ConnectionDriver {
    service: Rc<Service>,
}

impl ConnectionDriver {
    /// Returns a driver that calls `handler` for each request. If `record` is set, the driver passes it a
    /// record of each request.
    pub fn new(
        handler: Arc<dyn Handler>,
        config: Arc<Config>,
        worker: Rc<Worker>,
        record: Option<TakeRecord>,
    ) -> Self {
        let recording = Recording::new(record, None);
        Self::live(Rc::new(WorkerHandler::constant(handler)), config, worker, recording)
    }

    /// Returns a driver that calls `handler` for each request, and passes the spans of the requests to
    /// `tracer`.
    pub fn traced(
        handler: Arc<dyn Handler>,
        config: Arc<Config>,
        worker: Rc<Worker>,
        tracer: &Arc<Tracer>,
    ) -> Self {
        let recording = Recording::new(None, Some(WorkerTracing::new(tracer)));
        Self::live(Rc::new(WorkerHandler::constant(handler)), config, worker, recording)
    }

    /// Returns a driver that calls the latest handler for each request. The handler can be replaced while the
    /// server runs.
    pub(crate) fn live(
        handler: Rc<WorkerHandler>,
        config: Arc<Config>,
        worker: Rc<Worker>,
        recording: Option<Recording>,
    ) -> Self {
        Self { service: Rc::new(Service::new(handler, config, worker, recording.map(Rc::new))) }
    }

    /// Returns a copy of this driver that uses `config`.
    pub(crate) fn with_config(&self, config: Arc<Config>) -> Self {
        Self { service: Rc::new(self.service.with_config(config)) }
    }

    /// Returns a copy of this driver that calls `pre_handlers` before the handler.
    pub(crate) fn with_pre_handlers(&self, pre_handlers: PreHandlers) -> Self {
        Self { service: Rc::new(self.service.with_pre_handlers(pre_handlers)) }
    }

    /// Drives an HTTP/1.1 connection to its end. If the connection limit is exceeded, the first request of
    /// the connection gets 503.
    pub fn drive<T: Transport>(
        &self,
        transport: T,
        info: ConnectionInfo,
        guard: ConnectionGuard,
    ) -> impl Future<Output = ()> + use<T> {
        drive(Connection::new(transport, self.service.clone(), info, guard))
    }

    /// Drives a connection of `protocol` to its end. `early` contains the bytes that were already read from
    /// `transport`. If the protocol was not negotiated, use [`drive_detected`](Self::drive_detected).
    #[cfg(feature = "http2")]
    pub async fn drive_protocol<T: Transport>(
        &self,
        protocol: HttpProtocol,
        transport: T,
        early: PooledBuffer,
        info: ConnectionInfo,
        guard: ConnectionGuard,
    ) {
        match protocol {
            HttpProtocol::Http1 => Box::pin(self.drive_from(transport, early, info, guard)).await,
            HttpProtocol::Http2 => {
                Box::pin(http2::drive(self.service.clone(), transport, early, info, guard)).await;
            }
        }
    }

    /// Drives a connection and detects its protocol by the first bytes.
    #[cfg(feature = "http2")]
    pub async fn drive_detected<T: Transport>(
        &self,
        mut transport: T,
        mut early: PooledBuffer,
        info: ConnectionInfo,
        guard: ConnectionGuard,
    ) {
        let timeouts = self.service.config.timeouts;
        if let Some(protocol) = read_protocol(&mut transport, &mut early, &guard, timeouts).await {
            self.drive_protocol(protocol, transport, early, info, guard).await;
        }
    }

    /// Drives an HTTP/1.1 connection to its end. `early` contains the bytes that were already read from
    /// `transport`.
    pub(crate) fn drive_from<T: Transport>(
        &self,
        transport: T,
        early: PooledBuffer,
        info: ConnectionInfo,
        guard: ConnectionGuard,
    ) -> impl Future<Output = ()> + use<T> {
        let mut connection = Connection::new(transport, self.service.clone(), info, guard);
        connection.unparsed = early;
        drive(connection)
    }

    /// Returns the maximum time for a TLS handshake or for a PROXY protocol header.
    pub(crate) fn header_time_left(&self, guard: &ConnectionGuard) -> Duration {
        limited_timeout(guard, self.service.config.timeouts.header_section)
    }

    /// Counts a failed TLS handshake with a client.
    #[cfg(feature = "tls")]
    pub(crate) fn count_tls_failure(&self, failure: TlsFailure) {
        self.service.worker.count_tls_failure(failure);
    }

    /// Returns the maximum time for which the server waits until the client has read an error and closed the
    /// connection.
    pub(crate) fn linger(&self) -> Duration {
        self.service.config.timeouts.linger
    }

    /// Responds 400 to a client that sends plain HTTP to a TLS port. `early` contains the first bytes of the
    /// connection.
    pub(crate) fn refuse_plain_http<T: Transport>(
        &self,
        transport: T,
        early: PooledBuffer,
        info: ConnectionInfo,
        guard: ConnectionGuard,
    ) -> impl Future<Output = ()> + use<T> {
        let mut connection = Connection::new(transport, self.service.clone(), info, guard);
        connection.unparsed = early;
        connection.refuse(StatusCode::BAD_REQUEST, "plain HTTP was sent to an HTTPS port");
        drive(connection)
    }
}
