//! The end of a connection, which closes or becomes a tunnel.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use thruway_net::{ConnectionGuard, Deadline, PooledBuffer, Transport};

use super::log::{Logged, TailRecord};
use super::service::Service;
use crate::connection_info::ConnectionInfo;
use crate::response::{Tunnel, TunnelHandler, TunnelTrace};

/// Tells if and how a connection ends after its last response.
#[derive(Default)]
pub(super) enum Ending {
    /// The connection continues.
    #[default]
    No,
    /// The connection closes at once and drops unwritten data.
    Abort,
    /// The connection closes. If the client has sent unread data, the connection changes to `Linger` instead.
    Close,
    /// The connection becomes a tunnel.
    PendingTunnel(Box<PendingTunnel>),
    /// The connection gives the client time to read the response, and then closes. If the server closed a
    /// connection with unread bytes, the kernel would send a reset. The reset could destroy the response (RFC
    /// 9112 §9.6).
    Linger,
    /// The connection is reset, so that an incomplete response does not look complete. Used if the end of the
    /// connection marks the end of the response.
    Reset,
    /// The server waits until the time `until`, so that the client can read the response. Meanwhile, it
    /// discards at most `left_bytes` further bytes from the client.
    Lingering { until: Duration, left_bytes: usize },
}

/// The next step of a connection after a response.
pub(super) struct AfterAnswer {
    /// The connection continues.
    pub(super) is_persistent: bool,
    /// `true` if the client may still send data, because it has not asked to close the connection. If a
    /// connection is not persistent, it then ends with [`Ending::Linger`] after the response, and otherwise
    /// with [`Ending::Close`].
    pub(super) may_be_followed: bool,
    /// The connection becomes a tunnel.
    pub(super) tunnel: Option<Box<PendingTunnel>>,
}

impl Ending {
    /// Returns `true` if the end of the connection has begun. Then the connection parses no further requests.
    pub(super) const fn is_due(&self) -> bool {
        !matches!(self, Self::No)
    }
}

/// The handler of a tunnel, and the record of the request that has opened the tunnel.
pub(super) struct PendingTunnel {
    pub(super) handler: TunnelHandler,
    /// The record of the tunnel. `None` if the server records no requests.
    pub(super) record: Option<Box<TailRecord>>,
}

/// A connection that has become a tunnel.
pub(super) struct TunneledConnection {
    state: State,
    trace: Rc<TunnelTrace>,
    record: Option<Box<TailRecord>>,
    service: Rc<Service>,
    info: ConnectionInfo,
    /// Keeps the connection counted as open.
    _guard: ConnectionGuard,
}

enum State {
    /// The handler of the tunnel runs.
    Runs(Pin<Box<dyn Future<Output = ()>>>),
    /// The handler has ended. The server waits until the client has received all data and the end of the
    /// stream.
    Closes { transport: Box<dyn Transport>, deadline: Deadline, until: Duration },
}

impl TunneledConnection {
    /// Starts the tunnel on `transport`. `early` contains the bytes that were already read from `transport`.
    pub(super) fn new(
        over: PendingTunnel,
        transport: impl Transport,
        early: PooledBuffer,
        service: Rc<Service>,
        info: ConnectionInfo,
        guard: ConnectionGuard,
    ) -> Self {
        let PendingTunnel { handler, record } = over;
        let trace = Rc::<TunnelTrace>::default();
        let running = handler.run(Tunnel::traced(Box::new(transport), early, trace.clone()));
        Self { state: State::Runs(running), trace, record, service, info, _guard: guard }
    }

    /// Polls the tunnel. Ready when the tunnel has ended.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.state {
                State::Runs(running) => {
                    ready!(running.as_mut().poll(cx));
                    let Some(transport) = self.trace.take_returned() else {
                        // The handler has passed the transport to another task. Bytes that this task sends or
                        // receives later are not counted.
                        self.record(true);
                        return Poll::Ready(());
                    };
                    let worker = &self.service.worker;
                    let until = worker.clock().now() + self.service.config.timeouts.write_stall;
                    let deadline = worker.deadlines().register();
                    self.state = State::Closes { transport, deadline, until };
                }
                State::Closes { transport, deadline, until } => {
                    deadline.set_waker(cx.waker());
                    deadline.set(Some(*until));
                    if let Poll::Ready(closed) = transport.poll_close(cx) {
                        self.record(closed.is_ok());
                        return Poll::Ready(());
                    }
                    if self.service.worker.clock().now() < *until {
                        return Poll::Pending;
                    }
                    // Without this call, the kernel would keep trying to send the data.
                    transport.discard_unsent();
                    self.record(false);
                    return Poll::Ready(());
                }
            }
        }
    }

    /// Records the request that has opened the tunnel, with the byte counts of the tunnel. `is_at_end` is
    /// `true` if the tunnel ended normally.
    fn record(&mut self, is_at_end: bool) {
        if let Some(record) = self.record.take() {
            let TailRecord { log, mut outcome } = *record;
            outcome.content_bytes = self.trace.sent_bytes();
            outcome.received_bytes = Some(self.trace.received_bytes());
            outcome.is_complete = is_at_end && !self.trace.is_broken_off();
            self.service.record(&self.info, Logged::Kept(log), outcome);
        }
    }
}

/// Records the request of a tunnel that is dropped before its end. Either the timeout of a graceful shutdown
/// has expired, or the handler of the tunnel has panicked. In both cases, no task polls the tunnel again.
impl Drop for TunneledConnection {
    fn drop(&mut self) {
        self.record(false);
    }
}
