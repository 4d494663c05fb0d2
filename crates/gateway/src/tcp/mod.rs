//! Streams of TCP, of which nothing is understood: each goes to a server of an upstream, and back, until both sides are done.
//!
//! ```text
//! listener ─▶ TcpForward: which upstream ─▶ connect: select, connect, or another server ─▶ tunnel: octets both ways ─▶ record
//! ```
//! What is balanced, checked, queued, ejected and limited is the upstream's, as it is for requests.

mod connect;
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

use connect::{Connected, connect};
use meter::StreamMeter;
pub use meter::{StreamCounts, StreamEnd};

/// Forwards the streams of one listener to an upstream. All of them by the same one yet: which it is, is decided here, once for
/// each stream, and `early` octets are at hand where that will take a look at them.
#[derive(Debug)]
pub struct TcpForward {
    target: ArcSwap<Target>,
    meter: Arc<StreamMeter>,
}

/// Where streams go, and how long they are waited for.
#[derive(Debug)]
struct Target {
    upstream: Arc<Upstream>,
    config: TcpConfig,
}

/// How long streams are waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpConfig {
    /// Without an octet in either direction; then the stream is closed. Default 10 minutes, as nginx.
    pub idle: Duration,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self { idle: Duration::from_mins(10) }
    }
}

impl TcpForward {
    /// Forwards to `upstream`.
    pub fn new(upstream: Arc<Upstream>, config: TcpConfig) -> Self {
        Self { target: ArcSwap::from_pointee(Target { upstream, config }), meter: Arc::default() }
    }

    /// Forwards to `upstream` from now on; streams that there are stay as they are.
    pub fn replace(&self, upstream: Arc<Upstream>, config: TcpConfig) {
        self.target.store(Arc::new(Target { upstream, config }));
    }

    /// Where streams are forwarded to.
    pub fn upstream(&self) -> Arc<Upstream> {
        self.target.load().upstream.clone()
    }

    /// What was counted so far.
    pub fn counts(&self) -> StreamCounts {
        self.meter.counts()
    }
}

impl ServeStream for TcpForward {
    fn serve(&self, client: ClientStream) -> Pin<Box<dyn Future<Output = ()>>> {
        let open = self.meter.open();
        let (upstream, idle) = {
            let target = self.target.load();
            (target.upstream.clone(), target.config.idle)
        };
        Box::pin(async move {
            let clock = client.worker().clock().clone();
            let mut course = Course::new(&clock);
            let end = forward(&upstream, client, &clock, idle, &mut course, open.meter()).await;
            open.meter().ended(end);
        })
    }
}

/// What happens to a stream.
struct Course {
    since: Duration,
    server: Option<Arc<str>>,
    retries: u32,
    connect: Option<Duration>,
    received_bytes: u64,
    sent_bytes: u64,
}

impl Course {
    fn new(clock: &Clock) -> Self {
        let since = clock.now_exact();
        Self { since, server: None, retries: 0, connect: None, received_bytes: 0, sent_bytes: 0 }
    }
}

/// Forwards one stream, and tells of it.
async fn forward(
    upstream: &Arc<Upstream>,
    mut client: ClientStream,
    clock: &Clock,
    idle: Duration,
    course: &mut Course,
    meter: &StreamMeter,
) -> StreamEnd {
    let early = std::mem::take(&mut client.early);
    let end = drive(upstream, &mut client, early, clock, idle, course, meter).await;
    client.record(&StreamRecord {
        connection: &client.info,
        time: clock.time_of_day(),
        upstream: upstream.name(),
        server: course.server.as_deref(),
        retries: course.retries,
        connect: course.connect,
        received_bytes: course.received_bytes,
        sent_bytes: course.sent_bytes,
        duration: clock.now_exact().saturating_sub(course.since),
        end: end.as_str(),
    });
    end
}

async fn drive(
    upstream: &Arc<Upstream>,
    client: &mut ClientStream,
    early: PooledBuffer,
    clock: &Clock,
    idle: Duration,
    course: &mut Course,
    meter: &StreamMeter,
) -> StreamEnd {
    if client.is_over_limit() {
        return StreamEnd::TooManyConnections;
    }
    let key = RequestKey::of_connection(upstream, &client.info);
    let Connected { lease, stream } = match connect(upstream, &key, clock, course).await {
        Ok(connected) => connected,
        Err(failure) => return StreamEnd::NotConnected(failure),
    };
    let worker = client.worker().clone();
    let count = |received, sent| meter.moved(received, sent);
    let config = TunnelConfig { client_early: early, server_early: PooledBuffer::default(), idle, count };
    let tunneled = tunnel(&mut client.stream, stream, worker, config).await;
    (course.received_bytes, course.sent_bytes) = (tunneled.received_bytes, tunneled.sent_bytes);
    // The server has had to do with it until now.
    drop(lease);
    tunneled.end
}
