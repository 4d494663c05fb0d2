//! Octets that are put together before they are written, for libraries that write in small pieces.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use crate::{PooledBuffer, Transport};

/// What was given to be written and is not yet. Owns a buffer only as long as there is something.
#[derive(Default)]
pub struct Gathered {
    octets: PooledBuffer,
    written: usize,
}

impl Gathered {
    /// Puts `octets` behind what is there.
    pub fn push(&mut self, octets: &[u8]) {
        if self.octets.capacity() == 0 {
            self.octets = PooledBuffer::take();
        }
        self.octets.extend_from_slice(octets);
    }

    /// Whether so much is there that it is to be written before there is more.
    pub fn is_full(&self) -> bool {
        self.octets.len() >= FULL_BYTES
    }

    /// Writes all that is there. `has_moved` says whether anything was written.
    ///
    /// # Errors
    /// The connection failed.
    pub fn poll_write_all<T: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut T,
        has_moved: &mut bool,
    ) -> Poll<io::Result<()>> {
        while self.written < self.octets.len() {
            let waiting = IoSlice::new(&self.octets[self.written..]);
            match ready!(transport.poll_write(cx, &[waiting]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
            *has_moved = true;
        }
        *self = Self::default();
        Poll::Ready(Ok(()))
    }
}

const FULL_BYTES: usize = 64 << 10;
