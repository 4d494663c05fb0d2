//! Selects and starts a driver for each connection that a worker accepts.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use arc_swap::ArcSwap;
use thruway_net::{
    Accepted, Admitted, ClientAddr, ConnectionGuard, ListenAddr, LogLimit, Peer, PooledBuffer, ProxyHeader,
    ReceiveError, Stream, Worker, receive_proxy_header, spawn,
};

use crate::connection::{ConnectionDriver, Recording, WorkerTracing};
use crate::connection_info::ConnectionInfo;
use crate::listener::{Listener, ListenerProtocols, ListenerTls, ProxyProtocol};
use crate::live::{Serving, WorkerHandler};
use crate::pre_handler::PreHandlers;
#[cfg(feature = "http2")]
use crate::protocol::HttpProtocol;
use crate::record::StreamRecords;
use crate::streams::ClientStream;
#[cfg(feature = "tls")]
use crate::tls_handshake::shake_hands;

/// The drivers for the connections of one worker.
pub(crate) struct Drivers {
    handler: Rc<WorkerHandler>,
    worker: Rc<Worker>,
    serving: Arc<Serving>,
    http: ConnectionDriver,
    /// Drivers for listeners with pre-handlers.
    by_pre_handlers: Vec<(PreHandlers, ConnectionDriver)>,
    stream_records: Option<StreamRecords>,
}

impl Drivers {
    pub(crate) fn new(handler: Rc<WorkerHandler>, worker: Rc<Worker>, serving: Arc<Serving>) -> Self {
        let record = serving.recorder.as_ref().map(|recorder| recorder.start());
        let recording = Recording::new(record, serving.tracer.as_ref().map(WorkerTracing::new));
        let http = ConnectionDriver::live(handler.clone(), serving.config.clone(), worker.clone(), recording);
        let stream_records = stream_records(&serving);
        Self { handler, worker, serving, http, by_pre_handlers: Vec::new(), stream_records }
    }

    /// Drives a connection in a separate task, with the current settings from `live`.
    #[inline]
    pub(crate) fn serve(&mut self, accepted: Accepted, live: &ArcSwap<Serving>) {
        let now = live.load();
        if !Arc::ptr_eq(&now, &self.serving) {
            self.renew(Arc::clone(&now));
        }
        // If the listener was removed, its slot is empty, and the connection is dropped.
        let slot = now.listeners.get(accepted.listener).map(|slot| slot.load());
        if let Some(listener) = slot.as_deref().and_then(Option::as_deref) {
            if let Some(pre_handlers) = PreHandlers::of(listener) {
                self.make_driver(pre_handlers, listener);
            }
            serve(accepted, listener, self);
        }
    }

    /// Creates a driver with the pre-handlers of `listener`, unless such a driver exists.
    fn make_driver(&mut self, pre_handlers: PreHandlers, listener: &Listener) {
        if self.by_pre_handlers.iter().all(|(of, _)| !of.is_of(listener)) {
            let http = self.http.with_pre_handlers(pre_handlers.clone());
            self.by_pre_handlers.push((pre_handlers, http));
        }
    }

    /// Returns the driver for the HTTP connections of `listener`.
    #[inline]
    fn http_of(&self, listener: &Listener) -> &ConnectionDriver {
        if listener.redirect_to_https.is_none() && listener.first.is_none() {
            return &self.http;
        }
        self.by_pre_handlers.iter().find(|(of, _)| of.is_of(listener)).map_or(&self.http, |(_, http)| http)
    }

    /// Applies the settings `now` to new connections. Open connections keep their previous settings and
    /// buffers, because the limits determine the sizes of the buffers.
    #[cold]
    fn renew(&mut self, now: Arc<Serving>) {
        let before = &self.serving;
        let is_recorded_alike = is_same(before.recorder.as_ref(), now.recorder.as_ref())
            && is_same(before.tracer.as_ref(), now.tracer.as_ref());
        if !is_recorded_alike {
            *self = Self::new(self.handler.clone(), self.worker.clone(), now);
            return;
        }
        if !Arc::ptr_eq(&before.config, &now.config) {
            self.http = self.http.with_config(now.config.clone());
            self.by_pre_handlers.clear();
        }
        if self.stream_records.is_none() {
            self.stream_records = stream_records(&now);
        }
        self.serving = now;
    }
}

/// Returns `true` if both values are the same, or both are missing.
fn is_same<T: ?Sized>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// Returns the function that receives the records of non-HTTP connections. `None` if the server has no
/// recorder, or no listener accepts such connections.
fn stream_records(serving: &Serving) -> Option<StreamRecords> {
    let mut listeners = serving.listeners.iter().map(|slot| slot.load());
    let has_streams = listeners.any(|listener| listener.as_deref().is_some_and(Listener::has_streams));
    let recorder = serving.recorder.as_ref().filter(|_| has_streams)?;
    Some(Rc::new(RefCell::new(recorder.start_streams())))
}

/// Drives one connection in a separate task.
#[inline]
fn serve(accepted: Accepted, listener: &Listener, drivers: &Drivers) {
    let info = info_of(&accepted, listener);
    let http = drivers.http_of(listener);
    match (&listener.proxy_protocol, &listener.streams) {
        (None, None) if listener.tls.is_none() && listener.protocols == ListenerProtocols::Http1 => {
            spawn(http.drive(accepted.stream, info, accepted.guard));
        }
        (None, None) => {
            let Accepted { stream, guard, .. } = accepted;
            let (tls, protocols) = (listener.tls.clone(), listener.protocols);
            spawn_http(http, stream, PooledBuffer::default(), info, guard, tls, protocols);
        }
        (None, Some(streams)) => {
            let records = drivers.stream_records.clone();
            let Accepted { stream, guard, .. } = accepted;
            spawn(streams.serve(ClientStream::new(stream, PooledBuffer::default(), info, guard, records)));
        }
        (Some(proxy_protocol), _) => serve_behind_proxy(accepted, info, proxy_protocol, listener, drivers),
    }
}

fn serve_behind_proxy(
    accepted: Accepted,
    mut info: ConnectionInfo,
    proxy_protocol: &ProxyProtocol,
    listener: &Listener,
    drivers: &Drivers,
) {
    let Accepted { mut stream, client: proxy, guard, .. } = accepted;
    if !proxy_protocol.believes(proxy) {
        drivers.worker.count_client_fault();
        return warn_of_untrusted_sender(proxy);
    }
    let worker = drivers.worker.clone();
    let (http, records) = (drivers.http_of(listener).clone(), drivers.stream_records.clone());
    let (streams, tls, protocols) = (listener.streams.clone(), listener.tls.clone(), listener.protocols);
    spawn(async move {
        let within = http.header_time_left(&guard);
        let early = match receive_proxy_header(&mut stream, &guard, within).await {
            Ok((header, early)) => {
                info.apply_proxy_header(header);
                early
            }
            // Port scanners close or reset the connection without sending a header, so this is logged only at
            // debug level.
            Err(ReceiveError::Ended | ReceiveError::Io(_)) => {
                return tracing::debug!(%proxy, "connection ended without a PROXY header");
            }
            Err(reason) => {
                worker.count_client_fault();
                return warn_of_proxy_header(proxy, &reason);
            }
        };
        match streams {
            None => spawn_http(&http, stream, early, info, guard, tls, protocols),
            Some(streams) => streams.serve(ClientStream::new(stream, early, info, guard, records)).await,
        }
    });
}

#[cold]
fn warn_of_untrusted_sender(proxy: ClientAddr) {
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(Admitted { suppressed }) = LIMIT.admit() {
        let message = "closed a connection: PROXY headers are not accepted from this address";
        tracing::warn!(%proxy, suppressed, "{message}");
    }
}

#[cold]
fn warn_of_proxy_header(proxy: ClientAddr, reason: &ReceiveError) {
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(Admitted { suppressed }) = LIMIT.admit() {
        tracing::warn!(%proxy, %reason, suppressed, "closed a connection without a valid PROXY header");
    }
}

/// Drives an HTTP connection in a separate task. `early` contains the bytes that were already read from
/// `stream`. After a TLS handshake, the connection moves to a new task, so that the memory of the handshake
/// is freed.
fn spawn_http(
    http: &ConnectionDriver,
    stream: Stream,
    early: PooledBuffer,
    info: ConnectionInfo,
    guard: ConnectionGuard,
    tls: Option<ListenerTls>,
    protocols: ListenerProtocols,
) {
    let http = http.clone();
    match (tls, protocols) {
        (None, ListenerProtocols::Http1) => spawn(http.drive_from(stream, early, info, guard)),
        #[cfg(feature = "http2")]
        (None, ListenerProtocols::Http2) => {
            spawn(async move { http.drive_protocol(HttpProtocol::Http2, stream, early, info, guard).await });
        }
        #[cfg(feature = "http2")]
        (None, ListenerProtocols::Both) => {
            spawn(async move { http.drive_detected(stream, early, info, guard).await });
        }
        #[cfg(not(feature = "tls"))]
        (Some(tls), _) => match tls {},
        #[cfg(feature = "tls")]
        (Some(tls), protocols) => spawn(shake_hands(http, stream, early, info, guard, tls, protocols)),
    }
}

/// Returns the properties of a connection before any bytes have arrived.
fn info_of(accepted: &Accepted, listener: &Listener) -> ConnectionInfo {
    let destination = match &listener.address {
        ListenAddr::Tcp(address) if !address.ip().is_unspecified() => Some(*address),
        ListenAddr::Tcp(_) => accepted.stream.local_address(),
        ListenAddr::Unix(_) => None,
    };
    ConnectionInfo {
        client: accepted.client,
        peer: Peer::of(&accepted.stream, accepted.client, &listener.address),
        listener: accepted.listener,
        destination,
        tls: None,
        #[cfg(feature = "compression")]
        compression: listener.compression.clone(),
        handler_settings: listener.handler_settings.clone(),
    }
}

impl ConnectionInfo {
    /// Replaces the addresses of the client and of the destination by the addresses in a PROXY protocol
    /// header.
    fn apply_proxy_header(&mut self, header: ProxyHeader) {
        (self.client, self.destination) = match header {
            ProxyHeader::Local => return,
            ProxyHeader::Tcp { source, destination } => (ClientAddr::Tcp(source), Some(destination)),
            ProxyHeader::Unix => (ClientAddr::Unix, None),
        };
    }
}
