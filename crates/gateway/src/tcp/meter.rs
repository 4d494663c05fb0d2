//! Counters of TCP streams: open streams, reasons for the end of streams, and bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::Failure;

/// Reason why a TCP stream has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamEnd {
    /// The connection to the client or to the server has failed: it was reset, or its peer did not respond.
    BrokenOff,
    /// The client and the server have both closed the stream.
    Completed,
    /// The idle timeout expired, because no byte was sent or received.
    IdleTimedOut,
    /// The gateway could not connect to a server.
    NotConnected(Failure),
    /// The client sent no TLS handshake, but the gateway needs the server name in the handshake to select the
    /// upstream.
    NotTls,
    /// The stream exceeds the maximum number of connections.
    TooManyConnections,
}

/// Counters of the streams of one listener.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StreamCounts {
    /// Number of open streams.
    pub open: usize,
    /// Number of ended streams for each reason. The text is the [name](StreamEnd::as_str) of the reason, or
    /// `not_connected` for all failed connections.
    pub ended: Vec<(&'static str, u64)>,
    /// Number of bytes from clients to servers.
    pub received_bytes: u64,
    /// Number of bytes from servers to clients.
    pub sent_bytes: u64,
}

/// Counts the streams of one listener, for all workers.
#[derive(Debug, Default)]
pub(super) struct StreamMeter {
    open: AtomicUsize,
    /// Number of ended streams for each reason, in the order of [`ENDS`].
    ended: [AtomicU64; ENDS.len()],
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

/// A guard that counts a stream as open until the guard is dropped.
pub(super) struct Open(Arc<StreamMeter>);

impl StreamEnd {
    /// Returns the name of the reason in logs and metrics. For a failed connection, returns the error name
    /// for `Proxy-Status` (RFC 9209).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BrokenOff => "broken_off",
            Self::Completed => "completed",
            Self::IdleTimedOut => "idle_timeout",
            Self::NotConnected(failure) => failure.proxy_error(),
            Self::NotTls => "not_tls",
            Self::TooManyConnections => "too_many_connections",
        }
    }

    /// Returns the name that the counters use for this reason. All failed connections have the same name.
    const fn class(self) -> &'static str {
        match self {
            Self::NotConnected(_) => "not_connected",
            _ => self.as_str(),
        }
    }
}

impl StreamMeter {
    pub(super) fn open(self: &Arc<Self>) -> Open {
        self.open.fetch_add(1, Ordering::Relaxed);
        Open(self.clone())
    }

    pub(super) fn ended(&self, end: StreamEnd) {
        if let Some(place) = ENDS.iter().position(|name| *name == end.class()) {
            self.ended[place].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn moved(&self, received: u64, sent: u64) {
        self.received_bytes.fetch_add(received, Ordering::Relaxed);
        self.sent_bytes.fetch_add(sent, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> StreamCounts {
        let ended = self.ended.iter().map(|count| count.load(Ordering::Relaxed));
        StreamCounts {
            open: self.open.load(Ordering::Relaxed),
            ended: ENDS.into_iter().zip(ended).collect(),
            received_bytes: self.received_bytes.load(Ordering::Relaxed),
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
        }
    }
}

impl Open {
    pub(super) fn meter(&self) -> &StreamMeter {
        &self.0
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

const ENDS: [&str; 6] =
    ["broken_off", "completed", "idle_timeout", "not_connected", "not_tls", "too_many_connections"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stream_end_has_a_counter() {
        for end in [
            StreamEnd::BrokenOff,
            StreamEnd::Completed,
            StreamEnd::IdleTimedOut,
            StreamEnd::NotConnected(Failure::NoServer),
            StreamEnd::NotTls,
            StreamEnd::TooManyConnections,
        ] {
            let meter = StreamMeter::default();
            meter.ended(end);
            assert_eq!(meter.counts().ended.iter().map(|(_, count)| count).sum::<u64>(), 1, "{end:?}");
        }
    }
}
