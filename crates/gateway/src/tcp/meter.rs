//! Counters of TCP streams: number, ends and bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::Failure;

/// Reason why a stream has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamEnd {
    /// One of the two connections failed: it was reset, or its peer did not respond.
    BrokenOff,
    /// Both sides have closed the stream.
    Completed,
    /// The idle timeout has expired.
    IdleTimedOut,
    /// No server was available.
    NotConnected(Failure),
    /// The route needs the server name of the client's TLS handshake, and the client sent no such handshake.
    NotTls,
    /// The maximum number of connections is reached.
    TooManyConnections,
}

/// Counters of the streams of one listener.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StreamCounts {
    /// Number of open streams.
    pub open: usize,
    /// Numbers of ended streams, with the [name](StreamEnd::as_str) of the reason.
    pub ended: Vec<(&'static str, u64)>,
    /// Bytes from clients to servers.
    pub received_bytes: u64,
    /// Bytes from servers to clients.
    pub sent_bytes: u64,
}

/// Counts the streams of one listener, for all workers.
#[derive(Debug, Default)]
pub(super) struct StreamMeter {
    open: AtomicUsize,
    /// In the order of [`ENDS`].
    ended: [AtomicU64; ENDS.len()],
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

/// A stream, counted as open until this is dropped.
pub(super) struct Open(Arc<StreamMeter>);

impl StreamEnd {
    /// Returns its name in logs and metrics. Failed connections have the names of `Proxy-Status` (RFC 9209).
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

    /// Returns its name with one name for all failed connections.
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
    fn every_end_has_a_place() {
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
