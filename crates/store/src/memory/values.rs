//! Single values: plain and fenced values, buckets, counters and locks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::table::{Lock, Table, Value, value_of};
use crate::channels::{Channels, Subscription};
use crate::error::StoreError;
use crate::health::{OperationCounts, StoreHealth, StoreState};
use crate::operations::{AddRequest, Added, Fence, TokenGrant, TokenRequest};
use crate::store_key::StoreKey;

/// The store in the memory of one process.
#[derive(Default, Debug)]
pub(crate) struct MemoryStore {
    table: Mutex<Table>,
    /// The next position of a new log, and the next number of a lock.
    next: AtomicU64,
    channels: Channels,
}

impl MemoryStore {
    #[expect(clippy::unused_self, reason = "all backends have this function")]
    pub(crate) fn health(&self) -> StoreHealth {
        StoreHealth {
            kind: "memory",
            address: String::new(),
            state: StoreState::Connected,
            latency: None,
            latency_percentiles: None,
            connections: 0,
            connections_max: 0,
            waiting: 0,
            reconnects: 0,
            last_error: None,
            operations: OperationCounts::default(),
        }
    }

    pub(crate) fn get(&self, key: &StoreKey) -> Result<Option<Bytes>, StoreError> {
        match self.table().get(key.as_str(), Instant::now()) {
            None => Ok(None),
            Some(Value::Plain(value)) => Ok(Some(value.clone())),
            Some(_) => Err(StoreError::UnknownFormat),
        }
    }

    pub(crate) fn set(&self, key: &StoreKey, value: Bytes, ttl: Duration) -> Result<(), StoreError> {
        self.table().put(key.as_str(), Value::Plain(value), Instant::now() + ttl)
    }

    pub(crate) fn set_if_absent(
        &self,
        key: &StoreKey,
        value: Bytes,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let (mut table, now) = (self.table(), Instant::now());
        if table.get(key.as_str(), now).is_some() {
            return Ok(false);
        }
        table.put(key.as_str(), Value::Plain(value), now + ttl)?;
        Ok(true)
    }

    #[expect(clippy::unnecessary_wraps, reason = "all backends have this function")]
    pub(crate) fn remove(&self, key: &StoreKey) -> Result<(), StoreError> {
        self.table().discard(key.as_str());
        Ok(())
    }

    pub(crate) fn take_tokens(&self, key: &StoreKey, asked: TokenRequest) -> Result<TokenGrant, StoreError> {
        let (mut table, now) = (self.table(), Instant::now());
        let burst = float(asked.burst);
        let per_second = float(asked.rate) / asked.per.as_secs_f64();
        let level = match table.take(key.as_str(), now, value_of!(Tokens))? {
            None => burst,
            Some(((level, at), _)) => level + (now - at).as_secs_f64() * per_second,
        };
        let level = (level + float(asked.returned)).min(burst);
        let level = (level - float(asked.spent)).max(-DEBT_MAX * burst);
        let granted = (level + ROUNDING).floor().min(float(asked.wanted)).max(0.0);
        let level = level - granted;
        let full_after = Duration::from_secs_f64((burst - level) / per_second);
        table.put(key.as_str(), Value::Tokens((level, now)), now + full_after + EXPIRES_AFTER)?;
        let missing = (1.0 - level).max(0.0);
        Ok(TokenGrant {
            granted: integer(granted),
            left: integer((level + ROUNDING).max(0.0)),
            next_after: Duration::from_secs_f64(missing / per_second),
        })
    }

    pub(crate) fn add(&self, key: &StoreKey, asked: AddRequest) -> Result<Added, StoreError> {
        let (mut table, now) = (self.table(), Instant::now());
        let counter = table.take(key.as_str(), now, value_of!(Counter))?;
        let (before, expires) = counter.unwrap_or((0, now + asked.ttl));
        let added = asked.amount.min(asked.max.saturating_sub(before));
        table.put(key.as_str(), Value::Counter(before + added), expires)?;
        Ok(Added { added, total: before + added })
    }

    pub(crate) fn subtract(&self, key: &StoreKey, amount: u64) -> Result<u64, StoreError> {
        let mut table = self.table();
        let Some((count, expires)) = table.take(key.as_str(), Instant::now(), value_of!(Counter))? else {
            return Ok(0);
        };
        let total = count.saturating_sub(amount);
        table.put(key.as_str(), Value::Counter(total), expires)?;
        Ok(total)
    }

    pub(crate) fn lock(
        &self,
        key: &StoreKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Fence>, StoreError> {
        let (mut table, now) = (self.table(), Instant::now());
        match table.get(key.as_str(), now) {
            Some(Value::Lock(lock)) if lock.until > now && lock.owner != owner => return Ok(None),
            None | Some(Value::Lock(_)) => {}
            Some(_) => return Err(StoreError::UnknownFormat),
        }
        let fence = Fence(self.next_number());
        let lock = Lock { owner: owner.to_owned(), fence, until: now + ttl };
        table.put(key.as_str(), Value::Lock(lock), now + ttl)?;
        Ok(Some(fence))
    }

    pub(crate) fn renew_lock(&self, key: &StoreKey, fence: Fence, ttl: Duration) -> Result<bool, StoreError> {
        let (mut table, now) = (self.table(), Instant::now());
        match table.get(key.as_str(), now) {
            Some(Value::Lock(lock)) if lock.until > now && lock.fence == fence => {
                let lock = Lock { owner: lock.owner.clone(), fence, until: now + ttl };
                table.put(key.as_str(), Value::Lock(lock), now + ttl)?;
                Ok(true)
            }
            None | Some(Value::Lock(_)) => Ok(false),
            Some(_) => Err(StoreError::UnknownFormat),
        }
    }

    pub(crate) fn unlock(&self, key: &StoreKey, fence: Fence) -> Result<bool, StoreError> {
        let (mut table, now) = (self.table(), Instant::now());
        match table.get(key.as_str(), now) {
            Some(Value::Lock(lock)) if lock.fence == fence => {
                table.discard(key.as_str());
                Ok(true)
            }
            None | Some(Value::Lock(_)) => Ok(false),
            Some(_) => Err(StoreError::UnknownFormat),
        }
    }

    pub(crate) fn set_fenced(
        &self,
        key: &StoreKey,
        value: Bytes,
        fence: Fence,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let (mut table, now) = (self.table(), Instant::now());
        match table.get(key.as_str(), now) {
            Some(Value::Fenced(newer, _)) if *newer > fence => return Ok(false),
            None | Some(Value::Fenced(..)) => {}
            Some(_) => return Err(StoreError::UnknownFormat),
        }
        table.put(key.as_str(), Value::Fenced(fence, value), now + ttl)?;
        Ok(true)
    }

    pub(crate) fn fenced_value(&self, key: &StoreKey) -> Result<Option<(Fence, Bytes)>, StoreError> {
        match self.table().get(key.as_str(), Instant::now()) {
            None => Ok(None),
            Some(Value::Fenced(fence, value)) => Ok(Some((*fence, value.clone()))),
            Some(_) => Err(StoreError::UnknownFormat),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "all backends have this function")]
    pub(crate) fn publish(&self, channel: &StoreKey, message: Bytes) -> Result<(), StoreError> {
        self.channels.deliver(channel.as_str(), message);
        Ok(())
    }

    pub(crate) fn subscribe(&self, channel: &StoreKey) -> Subscription {
        self.channels.subscribe(channel.as_str())
    }

    /// Returns numbers above zero, each higher than all before.
    pub(super) fn next_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Skips the numbers up to `number`.
    pub(super) fn skip_to(&self, number: u64) {
        self.next.fetch_max(number, Ordering::Relaxed);
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(clippy::cast_precision_loss, reason = "callers need no tokens above 2^53")]
const fn float(number: u64) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast rounds down, as intended"
)]
const fn integer(number: f64) -> u64 {
    number as u64
}

/// Maximum debt of a bucket, as a multiple of its capacity.
const DEBT_MAX: f64 = 10.0;

/// Corrects rounding errors: a bucket that contains almost a whole token has a token.
const ROUNDING: f64 = 1e-6;

/// Time for which a full bucket is kept.
const EXPIRES_AFTER: Duration = Duration::from_secs(1);
