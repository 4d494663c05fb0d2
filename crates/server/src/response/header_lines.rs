//! The headers of a response. A gateway copies the headers of each response, so their memory comes from the pool
//! of the thread.

use std::mem;
use std::ops::{Deref, DerefMut};

use thruway_message::FieldLinesBuf;
use thruway_net::PooledBuffer;

/// Header lines. If their memory comes from the pool, dropping this value returns the memory to the pool.
#[derive(Debug)]
pub(super) struct HeaderLines {
    lines: FieldLinesBuf,
    is_pooled: bool,
}

impl HeaderLines {
    #[inline]
    pub(super) const fn new(lines: FieldLinesBuf) -> Self {
        Self { lines, is_pooled: false }
    }

    pub(super) const fn get(&self) -> &FieldLinesBuf {
        &self.lines
    }

    /// Takes memory from the pool if there are no lines yet.
    #[inline]
    pub(super) fn take_buffer(&mut self) {
        if self.lines.bytes().is_empty() && !self.is_pooled {
            self.lines = FieldLinesBuf::with_buffer(mem::take(&mut *PooledBuffer::take()));
            self.is_pooled = true;
        }
    }
}

impl Deref for HeaderLines {
    type Target = FieldLinesBuf;

    #[inline]
    fn deref(&self) -> &FieldLinesBuf {
        &self.lines
    }
}

impl DerefMut for HeaderLines {
    #[inline]
    fn deref_mut(&mut self) -> &mut FieldLinesBuf {
        &mut self.lines
    }
}

impl Drop for HeaderLines {
    #[inline]
    fn drop(&mut self) {
        if self.is_pooled {
            drop(PooledBuffer::from(mem::take(&mut self.lines).into_buffer()));
        }
    }
}
