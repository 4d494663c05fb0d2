//! Pool of the compressors of a worker. A compressor needs much memory, so the pool reuses compressors and
//! limits the number in use.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use thruway_net::{PooledBuffer, Worker};

use super::config::LeveledCoding;
use super::encoder::{EncodeError, Encoder, Operation};
use crate::response::Content;

/// A compressor from the pool of a worker. It returns to the pool when this value is dropped.
pub(super) struct PooledEncoder {
    pool: Rc<RefCell<Pool>>,
    coder: LeveledCoding,
    /// `None` only during the drop.
    encoder: Option<Encoder>,
}

impl PooledEncoder {
    /// Takes a compressor in its initial state. Returns `None` if `in_use_max` compressors are in use, or if
    /// there is not enough memory.
    pub(super) fn take(worker: &Worker, coder: LeveledCoding, in_use_max: usize) -> Option<Self> {
        let pool = worker.state::<Rc<RefCell<Pool>>>();
        if !pool.borrow_mut().count_one_more(in_use_max) {
            return None;
        }
        // The drop of this value reduces the number of compressors in use.
        let mut pooled = Self { pool: pool.clone(), coder, encoder: None };
        let kept = pool.borrow_mut().take(coder);
        pooled.encoder = kept.and_then(Encoder::restarted).or_else(|| Encoder::new(coder));
        pooled.encoder.is_some().then_some(pooled)
    }
}

/// Encodes a complete body.
pub(super) fn encode_whole(
    worker: &Worker,
    bytes: &[u8],
    coder: LeveledCoding,
) -> Result<Content, EncodeError> {
    let mut encoder = PooledEncoder::take(worker, coder, usize::MAX).ok_or(EncodeError(coder.coding))?;
    let mut output = PooledBuffer::take();
    encoder.encode(bytes, Operation::Finish, &mut output)?;
    Ok(output.into())
}

impl Deref for PooledEncoder {
    type Target = Encoder;

    fn deref(&self) -> &Encoder {
        self.encoder.as_ref().unwrap_or_else(|| unreachable!("the encoder exists until the drop"))
    }
}

impl DerefMut for PooledEncoder {
    fn deref_mut(&mut self) -> &mut Encoder {
        self.encoder.as_mut().unwrap_or_else(|| unreachable!("the encoder exists until the drop"))
    }
}

impl Drop for PooledEncoder {
    fn drop(&mut self) {
        let encoder = self.encoder.take();
        self.pool.borrow_mut().put(self.coder, encoder);
    }
}

/// The compressors of one worker.
#[derive(Default)]
struct Pool {
    free: Vec<(LeveledCoding, Encoder)>,
    in_use: usize,
}

impl Pool {
    /// Counts one more compressor as in use. Returns `false` if the limit is reached.
    const fn count_one_more(&mut self, in_use_max: usize) -> bool {
        let has_capacity = self.in_use < in_use_max;
        if has_capacity {
            self.in_use += 1;
        }
        has_capacity
    }

    /// Takes an unused compressor for `coder` from the pool, if there is one.
    fn take(&mut self, coder: LeveledCoding) -> Option<Encoder> {
        let place = self.free.iter().position(|(of, _)| *of == coder)?;
        Some(self.free.swap_remove(place).1)
    }

    fn put(&mut self, coder: LeveledCoding, encoder: Option<Encoder>) {
        self.in_use -= 1;
        if let Some(encoder) = encoder.filter(Encoder::can_restart)
            && self.free.len() < KEPT_MAX
        {
            self.free.push((coder, encoder));
        }
    }
}

/// Maximum number of unused compressors that a worker keeps.
const KEPT_MAX: usize = 8;
