//! Pools of reusable buffers, one for each thread.
//!
//! An idle connection holds no buffer. To store data, a connection takes a buffer from the pool of its
//! thread. The connection returns the buffer as soon as the data is written or consumed.

use std::ops::{Deref, DerefMut};

use crate::thread_state::ThreadState;

/// A buffer from the pool of this thread. Dropping the buffer clears it and returns it to the pool.
///
/// ```
/// use thruway_net::PooledBuffer;
///
/// let mut buffer = PooledBuffer::take();
/// buffer.extend_from_slice(b"data");
/// drop(buffer);
/// // The next user gets the same memory, cleared.
/// let buffer = PooledBuffer::take();
/// assert!(buffer.is_empty() && buffer.capacity() > 0);
/// ```
#[derive(Debug, Default)]
pub struct PooledBuffer(Vec<u8>);

impl PooledBuffer {
    /// Returns an empty buffer. The buffer has capacity only if it was used before.
    #[inline]
    pub fn take() -> Self {
        Self(ThreadState::with(|thread| thread.buffers.borrow_mut().pop()).unwrap_or_default())
    }

    /// Returns a buffer with a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buffer = Self::take();
        buffer.extend_from_slice(bytes);
        buffer
    }
}

impl From<Vec<u8>> for PooledBuffer {
    /// Returns a buffer with the memory and the contents of `buffer`.
    #[inline]
    fn from(buffer: Vec<u8>) -> Self {
        Self(buffer)
    }
}

impl Deref for PooledBuffer {
    type Target = Vec<u8>;

    #[inline]
    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for PooledBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for PooledBuffer {
    #[inline]
    fn drop(&mut self) {
        if self.0.capacity() == 0 || self.0.capacity() > BUFFER_BYTES_MAX {
            return;
        }
        let mut buffer = std::mem::take(&mut self.0);
        buffer.clear();
        // While the thread ends, the pool no longer exists, so the buffer is freed.
        ThreadState::try_with(|thread| {
            let mut free = thread.buffers.borrow_mut();
            if free.len() < BUFFERS_MAX {
                free.push(buffer);
            }
        });
    }
}

/// A buffer of 256 KiB for forwarded bodies. Each thread has at most 64 large buffers in use. If all are in
/// use, connections use smaller buffers.
#[derive(Debug)]
pub struct LargeBuffer {
    bytes: Box<[u8]>,
    length: usize,
}

impl LargeBuffer {
    /// Returns a large buffer, or `None` if this thread already uses 64 large buffers. The buffer may
    /// contain bytes from an earlier use.
    pub fn take() -> Option<Self> {
        let (free, in_use) = ThreadState::with(|thread| {
            (thread.large_buffers.borrow_mut().pop(), thread.large_buffers_in_use.get())
        });
        if in_use >= LARGE_BUFFERS_MAX {
            return None;
        }
        let bytes = free.unwrap_or_else(|| vec![0; LARGE_BYTES].into_boxed_slice());
        ThreadState::with(|thread| thread.large_buffers_in_use.set(in_use + 1));
        Some(Self { bytes, length: LARGE_BYTES })
    }

    /// Returns the whole buffer as a slice to write to.
    pub const fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Keeps only the first `length` bytes of the slice from `as_ref`.
    pub fn truncate(&mut self, length: usize) {
        self.length = length.min(self.length);
    }
}

impl AsRef<[u8]> for LargeBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Drop for LargeBuffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        // While the thread ends, the pool no longer exists, so the buffer is freed.
        ThreadState::try_with(|thread| {
            thread.large_buffers_in_use.update(|in_use| in_use.saturating_sub(1));
            let mut free = thread.large_buffers.borrow_mut();
            if free.len() < LARGE_BUFFERS_KEPT {
                free.push(bytes);
            }
        });
    }
}

/// Size of a large buffer, in bytes. If a body arrives quickly, one read can fill the buffer.
const LARGE_BYTES: usize = 256 << 10;

/// Maximum number of large buffers in use by a thread. If clients stop reading, these buffers hold up to 16
/// MiB.
const LARGE_BUFFERS_MAX: usize = 64;

/// Maximum number of large buffers that the pool keeps.
const LARGE_BUFFERS_KEPT: usize = 8;

/// Maximum capacity of a buffer that the pool keeps. Larger buffers are freed, so that one large message does
/// not hold memory forever.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Maximum number of buffers that the pool keeps: 8 MiB for each worker if all have the maximum size.
const BUFFERS_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_large_buffers_is_limited() {
        let mut taken: Vec<_> = std::iter::from_fn(LargeBuffer::take).collect();
        assert_eq!(taken.len(), LARGE_BUFFERS_MAX);
        taken[0].truncate(3);
        assert_eq!(taken[0].as_ref().len(), 3);
        taken.pop();
        assert!(LargeBuffer::take().is_some_and(|buffer| buffer.as_ref().len() == LARGE_BYTES));
    }

    #[test]
    fn dropped_buffer_is_reused_empty() {
        let mut buffer = PooledBuffer::take();
        buffer.reserve(1000);
        buffer.push(1);
        let address = buffer.as_ptr();
        drop(buffer);
        let again = PooledBuffer::take();
        assert!(again.is_empty() && again.as_ptr() == address);
    }

    #[test]
    fn oversized_buffers_are_not_reused() {
        let mut large = PooledBuffer::take();
        large.reserve(BUFFER_BYTES_MAX + 1);
        drop(large);
        assert_eq!(PooledBuffer::take().capacity(), 0);
    }
}
