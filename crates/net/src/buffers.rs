//! Buffers that are used again.
//!
//! An idle connection owns none: it takes one from its thread's pool for what it must keep, and gives it back
//! as soon as that is gone.

use std::ops::{Deref, DerefMut};

use crate::thread_state::ThreadState;

/// A buffer from the pool of this thread. Goes back there, emptied, when it is dropped.
#[derive(Debug, Default)]
pub struct PooledBuffer(Vec<u8>);

impl PooledBuffer {
    /// An empty buffer, with or without capacity.
    #[inline]
    pub fn take() -> Self {
        Self(ThreadState::with(|thread| thread.buffers.borrow_mut().pop()).unwrap_or_default())
    }

    /// A buffer that holds a copy of `octets`.
    pub fn copy_of(octets: &[u8]) -> Self {
        let mut buffer = Self::take();
        buffer.extend_from_slice(octets);
        buffer
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
        // While the thread ends there is no pool any more; then the buffer is freed.
        ThreadState::try_with(|thread| {
            let mut free = thread.buffers.borrow_mut();
            if free.len() < BUFFERS_MAX {
                free.push(buffer);
            }
        });
    }
}

/// A buffer of 256 KiB for content that passes through. There are only so many for each thread; whoever gets
/// none does with less.
#[derive(Debug)]
pub struct LargeBuffer {
    octets: Box<[u8]>,
    length: usize,
}

impl LargeBuffer {
    /// A buffer, unless too many are in use. What is in it is of no meaning.
    pub fn take() -> Option<Self> {
        let (free, in_use) = ThreadState::with(|thread| {
            (thread.large_buffers.borrow_mut().pop(), thread.large_buffers_in_use.get())
        });
        if in_use >= LARGE_BUFFERS_MAX {
            return None;
        }
        let octets = free.unwrap_or_else(|| vec![0; LARGE_BYTES].into_boxed_slice());
        ThreadState::with(|thread| thread.large_buffers_in_use.set(in_use + 1));
        Some(Self { octets, length: LARGE_BYTES })
    }

    /// All of it, to be filled.
    pub const fn room(&mut self) -> &mut [u8] {
        &mut self.octets
    }

    /// Only the first `length` octets count from here on.
    pub fn truncate(&mut self, length: usize) {
        self.length = length.min(self.length);
    }
}

impl AsRef<[u8]> for LargeBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.octets[..self.length]
    }
}

impl Drop for LargeBuffer {
    fn drop(&mut self) {
        let octets = std::mem::take(&mut self.octets);
        // While the thread ends there is no pool any more; then the buffer is freed.
        ThreadState::try_with(|thread| {
            thread.large_buffers_in_use.update(|in_use| in_use.saturating_sub(1));
            let mut free = thread.large_buffers.borrow_mut();
            if free.len() < LARGE_BUFFERS_KEPT {
                free.push(octets);
            }
        });
    }
}

/// How long a large buffer is: as much as one read brings of content that arrives quickly.
const LARGE_BYTES: usize = 256 << 10;

/// 16 MiB for each thread, if clients stop reading just then.
const LARGE_BUFFERS_MAX: usize = 64;

/// How many wait to be used again.
const LARGE_BUFFERS_KEPT: usize = 8;

/// Larger buffers are freed: one large message must not be remembered for ever.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// 8 MiB for each worker, if all are of the largest size.
const BUFFERS_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_only_so_many_large_buffers() {
        let mut taken: Vec<_> = std::iter::from_fn(LargeBuffer::take).collect();
        assert_eq!(taken.len(), LARGE_BUFFERS_MAX);
        taken[0].truncate(3);
        assert_eq!(taken[0].as_ref().len(), 3);
        taken.pop();
        assert!(LargeBuffer::take().is_some_and(|buffer| buffer.as_ref().len() == LARGE_BYTES));
    }

    #[test]
    fn a_dropped_buffer_comes_back_empty() {
        let mut buffer = PooledBuffer::take();
        buffer.reserve(1000);
        buffer.push(1);
        let address = buffer.as_ptr();
        drop(buffer);
        let again = PooledBuffer::take();
        assert!(again.is_empty() && again.as_ptr() == address);
    }

    #[test]
    fn large_buffers_do_not_come_back() {
        let mut large = PooledBuffer::take();
        large.reserve(BUFFER_BYTES_MAX + 1);
        drop(large);
        assert_eq!(PooledBuffer::take().capacity(), 0);
    }
}
