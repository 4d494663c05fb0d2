//! Receives the PROXY header on an accepted connection.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{fmt, mem};

use super::{InvalidProxyHeader, ProxyHeader};
use crate::buffers::PooledBuffer;
use crate::transport::Transport;
use crate::worker::ConnectionGuard;

/// Reason why no PROXY header was received.
#[derive(Debug)]
pub enum ReceiveError {
    /// The connection ended before the header was complete.
    Ended,
    /// The received bytes are not a valid PROXY header.
    Invalid(InvalidProxyHeader),
    /// The connection failed.
    Io(io::Error),
    /// The header did not arrive within the timeout, or a graceful shutdown started before the header
    /// arrived.
    TimedOut,
}

/// Reads the PROXY header at the start of `transport`. `within` is the timeout. Also returns the bytes that
/// arrived after the header. During a graceful shutdown, the timeout is at most 150 ms, so that this function
/// reads only data that has already arrived.
///
/// # Errors
/// The header is missing, invalid or late, or the connection has ended or failed.
///
/// # Cancel safety
/// Dropping the future loses the bytes that were read.
pub async fn receive_proxy_header<T: Transport>(
    transport: &mut T,
    guard: &ConnectionGuard,
    within: Duration,
) -> Result<(ProxyHeader, PooledBuffer), ReceiveError> {
    let worker = guard.worker();
    let deadline = worker.deadlines().register();
    let end = worker.clock().now() + within;
    let mut drain_end = None;
    let mut received = PooledBuffer::default();
    poll_fn(|cx| {
        deadline.set_waker(cx.waker());
        let outcome = poll_header(transport, cx, &mut received);
        let now = worker.clock().now();
        if guard.is_draining() {
            drain_end.get_or_insert(now + DRAIN_WAIT);
        }
        let end = drain_end.map_or(end, |drain_end: Duration| drain_end.min(end));
        if outcome.is_pending() && now >= end {
            return Poll::Ready(Err(ReceiveError::TimedOut));
        }
        deadline.set(Some(end));
        outcome
    })
    .await
}

/// Reads bytes until the header is complete.
fn poll_header<T: Transport>(
    transport: &mut T,
    cx: &mut Context<'_>,
    received: &mut PooledBuffer,
) -> Poll<Result<(ProxyHeader, PooledBuffer), ReceiveError>> {
    loop {
        let mut piece = [0; PIECE_BYTES];
        match ready!(transport.poll_read(cx, &mut piece)) {
            Ok(0) => return Poll::Ready(Err(ReceiveError::Ended)),
            Ok(length) => received.extend_from_slice(&piece[..length]),
            Err(error) => return Poll::Ready(Err(ReceiveError::Io(error))),
        }
        match ProxyHeader::parse(received) {
            Ok(Some((header, length))) => {
                received.drain(..length);
                return Poll::Ready(Ok((header, mem::take(received))));
            }
            Ok(None) => {}
            Err(error) => return Poll::Ready(Err(ReceiveError::Invalid(error))),
        }
    }
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("the connection ended before the PROXY header was complete"),
            Self::Invalid(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
            Self::TimedOut => f.write_str("the PROXY header did not arrive in time"),
        }
    }
}

impl std::error::Error for ReceiveError {}

/// Number of bytes read at a time. One read usually returns the header and the first request, because they
/// arrive together.
const PIECE_BYTES: usize = 1 << 10;

/// Timeout during a graceful shutdown. The reactor needs this time to report data that has already arrived.
const DRAIN_WAIT: Duration = Duration::from_millis(150);
