//! What one worker does with the connections that it accepts.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use arc_swap::ArcSwap;
use thruway_net::{
    Accepted, ClientAddr, ConnectionGuard, ListenAddr, PooledBuffer, ProxyHeader, ReceiveError, Stream,
    Worker, receive_proxy_header, spawn,
};

use crate::listener::Speaks;
use crate::live::Serving;
use crate::streams::StreamRecords;
use crate::{ClientStream, ConnectionDriver, ConnectionInfo, Handler, Listener, ProxyProtocol, Spoken};

/// What drives the connections that one worker accepts.
pub(crate) struct Drivers {
    handler: Arc<dyn Handler>,
    worker: Rc<Worker>,
    serving: Arc<Serving>,
    http: ConnectionDriver,
    stream_records: Option<StreamRecords>,
}

impl Drivers {
    pub(crate) fn new(handler: Arc<dyn Handler>, worker: Rc<Worker>, serving: Arc<Serving>) -> Self {
        let record = serving.recorder.as_ref().map(|recorder| recorder.start());
        let http = ConnectionDriver::new(handler.clone(), serving.config.clone(), worker.clone(), record);
        let stream_records = stream_records(&serving);
        Self { handler, worker, serving, http, stream_records }
    }

    /// Drives a connection as a task of its own, as `live` says now.
    #[inline]
    pub(crate) fn serve(&mut self, accepted: Accepted, live: &ArcSwap<Serving>) {
        let now = live.load();
        if !Arc::ptr_eq(&now, &self.serving) {
            self.renew(Arc::clone(&now));
        }
        // What comes from a listener that was removed long ago has nobody to serve it.
        if let Some(listener) = now.listeners.get(accepted.listener) {
            serve(accepted, listener, self);
        }
    }

    /// Serves as `now` says. Buffers are as large as limits demand, so the connections before keep theirs.
    #[cold]
    fn renew(&mut self, now: Arc<Serving>) {
        let before = &self.serving;
        let is_same_recorder = match (&before.recorder, &now.recorder) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (before, now) => before.is_none() && now.is_none(),
        };
        if !is_same_recorder {
            *self = Self::new(self.handler.clone(), self.worker.clone(), now);
            return;
        }
        if !Arc::ptr_eq(&before.config, &now.config) {
            self.http = self.http.with_config(now.config.clone());
        }
        if self.stream_records.is_none() {
            self.stream_records = stream_records(&now);
        }
        self.serving = now;
    }
}

/// What takes the records of streams, if there are any.
fn stream_records(serving: &Serving) -> Option<StreamRecords> {
    let has_streams = serving.listeners.iter().any(Listener::has_streams);
    let recorder = serving.recorder.as_ref().filter(|_| has_streams)?;
    Some(Rc::new(RefCell::new(recorder.start_streams())))
}

/// Drives one connection as a task of its own.
#[inline]
fn serve(accepted: Accepted, listener: &Listener, drivers: &Drivers) {
    let info = info_of(&accepted, &listener.address);
    match (&listener.proxy_protocol, &listener.streams) {
        (None, None) if listener.speaks == Speaks::Http1 => {
            spawn(drivers.http.drive(accepted.stream, info, accepted.guard));
        }
        (None, None) => {
            let (http, speaks) = (drivers.http.clone(), listener.speaks);
            let Accepted { stream, guard, .. } = accepted;
            spawn(async move { drive(&http, speaks, stream, PooledBuffer::default(), info, guard).await });
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
        return tracing::warn!(%proxy, "a connection from where no PROXY header is believed was closed");
    }
    let (http, records) = (drivers.http.clone(), drivers.stream_records.clone());
    let (streams, speaks) = (listener.streams.clone(), listener.speaks);
    spawn(async move {
        let within = http.timeouts().header_section;
        let early = match receive_proxy_header(&mut stream, &guard, within).await {
            Ok((header, early)) => {
                info.be_told(header);
                early
            }
            // As those do that only look whether somebody listens; some reset the connection then.
            Err(ReceiveError::Ended | ReceiveError::Io(_)) => {
                return tracing::debug!(%proxy, "a connection ended without a PROXY header");
            }
            Err(reason) => {
                return tracing::warn!(%proxy, %reason, "a connection without a usable PROXY header was closed");
            }
        };
        match streams {
            None if speaks == Speaks::Http1 => http.drive_from(stream, early, info, guard).await,
            None => drive(&http, speaks, stream, early, info, guard).await,
            Some(streams) => streams.serve(ClientStream::new(stream, early, info, guard, records)).await,
        }
    });
}

/// Drives a connection as its listener speaks, of which the octets `early` were read already. In boxes: the future of a connection of
/// HTTP/1.1 has no room for others.
async fn drive(
    http: &ConnectionDriver,
    speaks: Speaks,
    stream: Stream,
    early: PooledBuffer,
    info: ConnectionInfo,
    guard: ConnectionGuard,
) {
    match speaks {
        Speaks::Http1 => Box::pin(http.drive_from(stream, early, info, guard)).await,
        Speaks::Http2 => Box::pin(http.drive_as(Spoken::Http2, stream, early, info, guard)).await,
        Speaks::Both => Box::pin(http.drive_recognised(stream, early, info, guard)).await,
    }
}

/// What is known of a connection before anything has come.
fn info_of(accepted: &Accepted, address: &ListenAddr) -> ConnectionInfo {
    let destination = match address {
        ListenAddr::Tcp(address) if !address.ip().is_unspecified() => Some(*address),
        ListenAddr::Tcp(_) => accepted.stream.local_address(),
        ListenAddr::Unix(_) => None,
    };
    ConnectionInfo { client: accepted.client, listener: accepted.listener, destination }
}

impl ConnectionInfo {
    /// Takes over what a proxy tells.
    fn be_told(&mut self, header: ProxyHeader) {
        (self.client, self.destination) = match header {
            ProxyHeader::Local => return,
            ProxyHeader::Tcp { source, destination } => (ClientAddr::Tcp(source), Some(destination)),
            ProxyHeader::Unix => (ClientAddr::Unix, None),
        };
    }
}
