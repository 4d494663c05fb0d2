//! Forwards TCP streams: moves bytes between a client and a server of an upstream, without interpreting the
//! bytes. A stream ends when the client and the server have both closed it.
//!
//! ```text
//! listener ─▶ TcpForward ─▶ select a server ─▶ connect ─▶ relay bytes in both directions ─▶ record
//!                           ▲ try another server │
//!                           └────────────────────┘
//! ```
//! Load balancing, health checks, the queue, ejection and limits work as for HTTP requests.

mod connect;
mod names;
mod meter;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use thruway_net::{Clock, PooledBuffer};
use thruway_server::{ClientStream, ServeStream, StreamRecord};

use crate::tunnel::{TunnelConfig, tunnel};
use crate::upstream::{RequestKey, Upstream};

use connect::{Connected, StreamTimeline, connect};
use meter::StreamMeter;
pub use meter::{StreamCounts, StreamEnd};
pub use names::ServerNames;

/// Forwards the streams of one listener to an upstream. For TLS streams, the server name in the client's
/// TLS handshake can select another upstream.
#[derive(Debug)]
pub struct TcpForward {
    target: ArcSwap<Target>,
    meter: Arc<StreamMeter>,
}

/// The upstreams for the streams of a listener, and the timeouts.
#[derive(Debug)]
struct Target {
    /// Upstream for all streams without a matching server name.
    upstream: Arc<Upstream>,
    names: ServerNames,
    config: TcpConfig,
}

/// Timeouts of forwarded TCP streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpConfig {
    /// Maximum time without a byte in either direction. Afterwards, the gateway closes the stream. Default 10
    /// minutes, the same as in nginx.
    pub idle: Duration,
    /// Maximum time until a client has sent its TLS `ClientHello`. Afterwards, the gateway closes the stream.
    /// This timeout applies only if server names select the upstream. Default 10 s.
    pub hello: Duration,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self { idle: Duration::from_mins(10), hello: Duration::from_secs(10) }
    }
}

impl TcpForward {
    /// Returns a value that forwards all streams to `upstream`.
    pub fn new(upstream: Arc<Upstream>, config: TcpConfig) -> Self {
        Self::by_name(upstream, ServerNames::default(), config)
    }

    /// Returns a value that selects the upstream of a TLS stream by the server name that the client sends. If
    /// `names` does not contain this server name, the stream goes to `upstream`. If `names` is not empty, the
    /// gateway closes streams without TLS.
    pub fn by_name(upstream: Arc<Upstream>, names: ServerNames, config: TcpConfig) -> Self {
        Self { target: ArcSwap::from_pointee(Target { upstream, names, config }), meter: Arc::default() }
    }

    /// Replaces the upstreams and the timeouts for new streams. Open streams do not change.
    pub fn replace(&self, upstream: Arc<Upstream>, names: ServerNames, config: TcpConfig) {
        self.target.store(Arc::new(Target { upstream, names, config }));
    }

    /// Returns the upstream for streams without a matching server name.
    pub fn upstream(&self) -> Arc<Upstream> {
        self.target.load().upstream.clone()
    }

    /// Returns the counters of the streams.
    pub fn counts(&self) -> StreamCounts {
        self.meter.counts()
    }
}

impl ServeStream for TcpForward {
    fn serve(&self, client: ClientStream) -> Pin<Box<dyn Future<Output = ()>>> {
        let open = self.meter.open();
        let target = self.target.load_full();
        Box::pin(async move {
            let clock = client.worker().clock().clone();
            let mut timeline = StreamTimeline::new(&clock);
            let end = forward(&target, client, &clock, &mut timeline, open.meter()).await;
            open.meter().ended(end);
        })
    }
}

impl Target {
    /// Returns the upstream for the stream of `client`.
    async fn upstream_of(&self, client: &mut ClientStream) -> Result<&Arc<Upstream>, StreamEnd> {
        if self.names.is_empty() || client.is_over_limit() {
            return Ok(&self.upstream);
        }
        match client.read_client_hello(self.config.hello).await {
            Ok(hello) => {
                let name = hello.server_name.unwrap_or_default();
                Ok(self.names.find(&name).unwrap_or(&self.upstream))
            }
            Err(error) => {
                tracing::debug!(client = %client.info.client, %error, "TCP stream closed: no valid TLS ClientHello");
                Err(StreamEnd::NotTls)
            }
        }
    }
}

/// Forwards one stream, and passes a record of the stream to the recorder of the server.
async fn forward(
    target: &Target,
    mut client: ClientStream,
    clock: &Clock,
    timeline: &mut StreamTimeline,
    meter: &StreamMeter,
) -> StreamEnd {
    let (upstream, end) = match target.upstream_of(&mut client).await {
        Err(end) => (&target.upstream, end),
        Ok(upstream) => {
            let early = std::mem::take(&mut client.early);
            let idle = target.config.idle;
            (upstream, drive(upstream, &mut client, early, idle, timeline, meter).await)
        }
    };
    client.record(&StreamRecord {
        connection: &client.info,
        time: clock.time_of_day(),
        upstream: upstream.name(),
        server: timeline.server.as_deref(),
        retries: timeline.retries,
        connect: timeline.connect,
        received_bytes: timeline.received_bytes,
        sent_bytes: timeline.sent_bytes,
        duration: clock.now_exact().saturating_sub(timeline.since),
        end: end.as_str(),
    });
    end
}

async fn drive(
    upstream: &Arc<Upstream>,
    client: &mut ClientStream,
    early: PooledBuffer,
    idle: Duration,
    timeline: &mut StreamTimeline,
    meter: &StreamMeter,
) -> StreamEnd {
    if client.is_over_limit() {
        return StreamEnd::TooManyConnections;
    }
    let key = RequestKey::of_connection(upstream.config(), &client.info);
    let worker = client.worker().clone();
    let Connected { slot, stream } = match connect(upstream, &key, client.info.peer, &worker, timeline).await
    {
        Ok(connected) => connected,
        Err(failure) => return StreamEnd::NotConnected(failure),
    };
    let count = |received, sent| meter.moved(received, sent);
    let config = TunnelConfig { client_early: early, server_early: PooledBuffer::default(), idle, count };
    let tunneled = tunnel(&mut client.stream, stream, worker, config).await;
    (timeline.received_bytes, timeline.sent_bytes) = (tunneled.received_bytes, tunneled.sent_bytes);
    // The stream counts as a request in flight at the server until the slot is dropped here.
    drop(slot);
    tunneled.end
}
