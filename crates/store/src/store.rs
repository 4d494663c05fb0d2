//! The operations of a store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::channels::{MESSAGE_BYTES_MAX, Subscription};
use crate::error::StoreError;
use crate::health::StoreHealth;
use crate::memory::MemoryStore;
use crate::operations::{
    AddRequest, Added, Fence, LeaseGrant, LeaseRequest, LogPage, TokenGrant, TokenRequest, VALUE_MAX,
};
use crate::redis::{RedisStore, StoreConfig};
use crate::store_key::StoreKey;

/// State that several gateways share. A clone uses the same state.
///
/// All operations are atomic. Dropping the future of an operation may leave it performed or not performed.
#[derive(Clone)]
pub struct Store {
    backend: Backend,
}

#[derive(Clone)]
enum Backend {
    Memory(Arc<MemoryStore>),
    Redis(Arc<RedisStore>),
}

/// Calls the same function of each backend.
macro_rules! call {
    ($store:expr, $function:ident($($argument:expr),*)) => {
        match &$store.backend {
            Backend::Memory(memory) => memory.$function($($argument),*),
            Backend::Redis(redis) => redis.$function($($argument),*).await,
        }
    };
}

impl Store {
    /// Returns an empty store in the memory of this process. It uses at most 256 MiB.
    pub fn memory() -> Self {
        Self { backend: Backend::Memory(Arc::default()) }
    }

    /// Returns a store in Redis or Valkey. It starts to connect at once, in the current runtime of tokio, and
    /// connects again after each failure. Callers may use other runtimes. Until the connection is complete,
    /// operations fail with [`StoreError::Unavailable`].
    ///
    /// # Panics
    /// There is no runtime.
    pub fn connect(config: StoreConfig) -> Self {
        Self { backend: Backend::Redis(Arc::new(RedisStore::start(config))) }
    }

    /// Returns `true` if other processes share this state.
    pub fn is_shared(&self) -> bool {
        !matches!(self.backend, Backend::Memory(_))
    }

    /// Returns the state of the connection, the latency and the numbers of operations.
    pub fn health(&self) -> StoreHealth {
        match &self.backend {
            Backend::Memory(memory) => memory.health(),
            Backend::Redis(redis) => redis.health(),
        }
    }

    /// Returns the value of `key`.
    ///
    /// # Errors
    /// See [`StoreError`]. This applies to all operations.
    pub async fn get(&self, key: &StoreKey) -> Result<Option<Bytes>, StoreError> {
        call!(self, get(key))
    }

    /// Sets the value of `key` for the time `ttl`.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn set(&self, key: &StoreKey, value: Bytes, ttl: Duration) -> Result<(), StoreError> {
        check_value(&value)?;
        call!(self, set(key, value, limited(ttl)))
    }

    /// Sets the value of `key` if it has none. Returns `true` if it had none.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn set_if_absent(
        &self,
        key: &StoreKey,
        value: Bytes,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        check_value(&value)?;
        call!(self, set_if_absent(key, value, limited(ttl)))
    }

    /// Removes `key` with its value of any kind.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn remove(&self, key: &StoreKey) -> Result<(), StoreError> {
        call!(self, remove(key))
    }

    /// Takes tokens from the bucket `key`, and returns tokens to it. The bucket fills continuously. It expires
    /// when it is full.
    ///
    /// # Errors
    /// See [`StoreError`]. The rate or the period is zero: [`StoreError::Rejected`].
    pub async fn take_tokens(&self, key: &StoreKey, request: TokenRequest) -> Result<TokenGrant, StoreError> {
        if request.rate == 0 || request.per.is_zero() {
            return Err(StoreError::Rejected("a bucket without a rate".to_owned()));
        }
        call!(self, take_tokens(key, request))
    }

    /// Adds to the counter `key`, but not above its maximum. A new counter has the value zero.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn add(&self, key: &StoreKey, request: AddRequest) -> Result<Added, StoreError> {
        let request = AddRequest { max: request.max.min(NUMBER_MAX), ttl: limited(request.ttl), ..request };
        call!(self, add(key, request))
    }

    /// Subtracts from the counter `key`, but not below zero. Returns the new value. Does not create a counter.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn subtract(&self, key: &StoreKey, amount: u64) -> Result<u64, StoreError> {
        call!(self, subtract(key, amount.min(NUMBER_MAX)))
    }

    /// Sets the number of slots that an owner has of a shared capacity. The grant is smaller than the wanted
    /// number if the other owners have the rest. It may be smaller than an earlier grant if `max` is smaller.
    ///
    /// # Errors
    /// See [`StoreError`]. There are 1,024 owners: [`StoreError::TooLarge`].
    pub async fn lease(&self, key: &StoreKey, request: LeaseRequest<'_>) -> Result<LeaseGrant, StoreError> {
        let request = LeaseRequest { max: request.max.min(NUMBER_MAX), ttl: limited(request.ttl), ..request };
        call!(self, lease(key, request))
    }

    /// Returns all slots of an owner.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn return_lease(&self, key: &StoreKey, owner: &str) -> Result<(), StoreError> {
        call!(self, return_lease(key, owner))
    }

    /// Acquires a lock for the time `ttl`, which must be the same for all owners. Returns `None` if another owner has
    /// it. If this owner has it already, the lock gets a new number.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn lock(
        &self,
        key: &StoreKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Fence>, StoreError> {
        call!(self, lock(key, owner, limited(ttl)))
    }

    /// Extends a lock to the time `ttl` from now. Returns `false` if it has expired or has another number.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn renew_lock(&self, key: &StoreKey, fence: Fence, ttl: Duration) -> Result<bool, StoreError> {
        call!(self, renew_lock(key, fence, limited(ttl)))
    }

    /// Releases a lock. Returns `false` if it has expired or has another number.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn unlock(&self, key: &StoreKey, fence: Fence) -> Result<bool, StoreError> {
        call!(self, unlock(key, fence))
    }

    /// Sets a value that only the holder of a lock writes. Returns `false` if the value has a higher number,
    /// because another process has acquired the lock since then. Read the value with [`Store::fenced_value`].
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn set_fenced(
        &self,
        key: &StoreKey,
        value: Bytes,
        fence: Fence,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        check_value(&value)?;
        call!(self, set_fenced(key, value, fence, limited(ttl)))
    }

    /// Returns the value that [`Store::set_fenced`] has set, with its number.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn fenced_value(&self, key: &StoreKey) -> Result<Option<(Fence, Bytes)>, StoreError> {
        call!(self, fenced_value(key))
    }

    /// Adds a member to a small set, such as the gateways of a fleet, or replaces the value of the member. Replaces a
    /// value of another kind.
    ///
    /// # Errors
    /// See [`StoreError`]. The set has 1,024 members: [`StoreError::TooLarge`].
    pub async fn put_member(
        &self,
        collection: &StoreKey,
        member: &str,
        value: Bytes,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        check_value(&value)?;
        call!(self, put_member(collection, member, value, limited(ttl)))
    }

    /// Removes a member.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn remove_member(&self, collection: &StoreKey, member: &str) -> Result<(), StoreError> {
        call!(self, remove_member(collection, member))
    }

    /// Returns the members of a set and their values, in the order of their names.
    ///
    /// # Errors
    /// See [`StoreError`]. The members have more than 6 MiB: [`StoreError::TooLarge`].
    pub async fn list(&self, collection: &StoreKey) -> Result<Vec<(String, Bytes)>, StoreError> {
        call!(self, list(collection))
    }

    /// Appends an entry to a log, and returns its position. Positions are above zero and increase by one. The
    /// log keeps the newest `entries_max` entries, at most 10,000. The log expires after the time `ttl` without
    /// a new entry. A log with the same name then continues with a higher position.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn append(
        &self,
        log: &StoreKey,
        entry: Bytes,
        entries_max: usize,
        ttl: Duration,
    ) -> Result<u64, StoreError> {
        check_value(&entry)?;
        call!(self, append(log, entry, entries_max.clamp(1, ENTRIES_MAX), limited(ttl)))
    }

    /// Returns at most `max` entries after `position`, and at most about 6 MiB of them. Zero reads from the first entry.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn read_after(&self, log: &StoreKey, position: u64, max: usize) -> Result<LogPage, StoreError> {
        call!(self, read_after(log, position, max.clamp(1, ENTRIES_MAX)))
    }

    /// Sends a message to the current subscribers of a channel, also in this process. A lost connection loses
    /// messages, so a message must only announce a change of other state.
    ///
    /// # Errors
    /// See [`StoreError`]. The message has more than 64 KiB: [`StoreError::TooLarge`].
    pub async fn publish(&self, channel: &StoreKey, message: Bytes) -> Result<(), StoreError> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(StoreError::TooLarge);
        }
        call!(self, publish(channel, message))
    }

    /// Subscribes to a channel. The subscription begins at once in memory, and soon in Redis. It then starts
    /// with [`SubscriptionEvent::Gap`](crate::SubscriptionEvent::Gap).
    pub fn subscribe(&self, channel: &StoreKey) -> Subscription {
        match &self.backend {
            Backend::Memory(memory) => memory.subscribe(channel),
            Backend::Redis(redis) => redis.subscribe(channel),
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("health", &self.health()).finish_non_exhaustive()
    }
}

fn check_value(value: &Bytes) -> Result<(), StoreError> {
    if value.len() > VALUE_MAX { Err(StoreError::TooLarge) } else { Ok(()) }
}

fn limited(ttl: Duration) -> Duration {
    ttl.clamp(TTL_MIN, TTL_MAX)
}

/// Maximum number of entries of a log.
const ENTRIES_MAX: usize = 10_000;

/// Maximum of counters. Scripts of Redis calculate with 53 bits.
const NUMBER_MAX: u64 = 1 << 53;

const TTL_MIN: Duration = Duration::from_millis(1);
const TTL_MAX: Duration = Duration::from_hours(366 * 24);
