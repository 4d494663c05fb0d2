//! Buffers that are used again.
//!
//! An idle connection owns none: it takes one from its thread's pool for what it must keep, and gives it back as
//! soon as that is gone.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// A buffer from the pool of this thread. Goes back there, emptied, when it is dropped.
#[derive(Debug, Default)]
pub struct PooledBuffer(Vec<u8>);

impl PooledBuffer {
    /// An empty buffer, with or without capacity.
    #[inline]
    pub fn take() -> Self {
        Self(POOL.with_borrow_mut(Vec::pop).unwrap_or_default())
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
        let _ = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            if pool.len() < BUFFERS_MAX {
                pool.push(buffer);
            }
        });
    }
}

thread_local! {
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Larger buffers are freed: one large message must not be remembered for ever.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// 8 MiB for each worker, if all are of the largest size.
const BUFFERS_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

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
