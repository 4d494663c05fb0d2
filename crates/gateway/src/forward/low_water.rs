//! Wakes the gateway less often while a large response body arrives.

use std::io;
use std::task::Poll;
use std::time::Duration;

use thruway_net::Stream;

/// The low-water mark of the connection to an upstream server (`SO_RCVLOWAT`).
///
/// While the gateway waits for the next part of a large body, the kernel reports the connection as readable
/// only after [`LOW_WATER_BYTES`] have arrived, or the remaining body if it is smaller. If these bytes do not
/// arrive within [`SLOW_AFTER`], the server is slow. The mark is then 1 byte for the rest of the body, so that
/// the client gets each part immediately.
#[derive(Debug, Default)]
pub(super) struct LowWater {
    /// The current mark in bytes. 0 if the connection has the default mark of 1 byte.
    bytes: u32,
    /// Time at which the gateway began to wait for data.
    waiting_since: Option<Duration>,
    /// `true` if the default mark applies to the rest of the body.
    is_slow: bool,
}

impl LowWater {
    /// Reads a part of the body with `read`, and adapts the mark. `left` is the number of body bytes that
    /// have not been read. Returns the number of bytes from `read`.
    pub(super) fn poll_read(
        &mut self,
        stream: &mut Stream,
        left: u64,
        now: Duration,
        read: impl FnOnce(&mut Stream) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.is_slow = true;
            self.clear(stream);
        }
        let polled = read(stream);
        match &polled {
            Poll::Pending => {
                self.raise(stream, left);
                if self.bytes > 0 {
                    self.waiting_since.get_or_insert(now);
                }
            }
            Poll::Ready(Ok(count)) => {
                self.waiting_since = None;
                self.lower(stream, left.saturating_sub(*count as u64));
            }
            Poll::Ready(Err(_)) => {}
        }
        polled
    }

    /// Returns the time at which the task must poll again, because the server is slow.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.waiting_since.map(|since| since + SLOW_AFTER)
    }

    /// Keeps the default mark for the whole body, because the body is an event stream.
    pub(super) const fn disable(&mut self) {
        self.is_slow = true;
    }

    /// Restores the default mark.
    pub(super) fn clear(&mut self, stream: &Stream) {
        self.waiting_since = None;
        if self.bytes > 0 {
            self.set(stream, 0);
        }
    }

    /// Sets the mark if enough of the body is left.
    fn raise(&mut self, stream: &Stream, left: u64) {
        if self.bytes == 0 && !self.is_slow && left >= LOW_WATER_BYTES.into() {
            self.set(stream, LOW_WATER_BYTES);
        }
    }

    /// Lowers the mark to the remaining body, because the kernel would wait forever for more bytes.
    fn lower(&mut self, stream: &Stream, left: u64) {
        if u64::from(self.bytes) > left {
            // The condition implies that `left` fits into 32 bits.
            self.set(stream, u32::try_from(left).unwrap_or_default());
        }
    }

    /// Sets the mark. 0 is the default mark of 1 byte. If the kernel rejects the mark, it stays as it is, and
    /// the gateway does not try again.
    fn set(&mut self, stream: &Stream, bytes: u32) {
        self.bytes = bytes;
        if stream.set_receive_low_water(bytes.max(1)).is_err() {
            self.is_slow = true;
        }
    }
}

/// The mark, in bytes. 64 KiB has no effect on the CPU time of the server, because a server often sends more
/// than that at once.
const LOW_WATER_BYTES: u32 = 256 << 10;

/// Time after which a server is slow. The worker checks deadlines every 100 ms.
const SLOW_AFTER: Duration = Duration::from_millis(100);
