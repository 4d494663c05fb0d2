//! Buffers bytes for the upstream server.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use thruway_net::{PooledBuffer, Transport};

/// The bytes that wait to be written. `Output` owns a buffer only while bytes wait.
#[derive(Default)]
pub(super) struct Output {
    bytes: PooledBuffer,
    /// Number of bytes that are already written.
    written: usize,
}

impl Output {
    /// Returns the buffer, to which the caller can append bytes.
    #[inline]
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.bytes = PooledBuffer::take();
        }
        &mut self.bytes
    }

    /// Returns the number of waiting bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Discards the waiting bytes.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.bytes = PooledBuffer::default();
        self.written = 0;
    }

    /// Writes waiting bytes and then bytes of `content`, as many as the transport accepts. Returns the
    /// number of all written bytes, and the number of written bytes from `content`.
    #[inline]
    pub(super) fn poll_write<T: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut T,
        content: &[u8],
    ) -> Poll<io::Result<(usize, usize)>> {
        let bytes = &self.bytes[self.written..];
        let waiting = bytes.len();
        let written = match (bytes, content) {
            (_, []) => ready!(transport.poll_write(cx, &[IoSlice::new(bytes)])),
            ([], _) => ready!(transport.poll_write(cx, &[IoSlice::new(content)])),
            _ => ready!(transport.poll_write(cx, &[IoSlice::new(bytes), IoSlice::new(content)])),
        }?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        let of_bytes = written.min(waiting);
        self.written += of_bytes;
        if waiting > 0 && self.is_empty() {
            self.clear();
        }
        Poll::Ready(Ok((written, written - of_bytes)))
    }
}
