//! Bytes that are being sent to the upstream server.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use thruway_net::{PooledBuffer, Transport};

/// The data to be written. It owns a buffer only while data waits.
#[derive(Default)]
pub(super) struct Output {
    octets: PooledBuffer,
    /// Number of bytes that are already written.
    written: usize,
}

impl Output {
    /// Returns the buffer for more bytes.
    #[inline]
    pub(super) fn octets(&mut self) -> &mut Vec<u8> {
        if self.octets.capacity() == 0 {
            self.octets = PooledBuffer::take();
        }
        &mut self.octets
    }

    /// Returns the number of waiting bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.octets.len() - self.written
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Discards the waiting bytes.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.octets = PooledBuffer::default();
        self.written = 0;
    }

    /// Writes some of the waiting bytes, and then of `content`. Returns the number of written bytes, and the
    /// number of them from `content`.
    #[inline]
    pub(super) fn poll_write<T: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut T,
        content: &[u8],
    ) -> Poll<io::Result<(usize, usize)>> {
        let octets = &self.octets[self.written..];
        let written = match (octets, content) {
            (_, []) => ready!(transport.poll_write(cx, &[IoSlice::new(octets)])),
            ([], _) => ready!(transport.poll_write(cx, &[IoSlice::new(content)])),
            _ => ready!(transport.poll_write(cx, &[IoSlice::new(octets), IoSlice::new(content)])),
        }?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        let of_octets = written.min(octets.len());
        self.written += of_octets;
        if self.is_empty() {
            self.clear();
        }
        Poll::Ready(Ok((written, written - of_octets)))
    }
}
