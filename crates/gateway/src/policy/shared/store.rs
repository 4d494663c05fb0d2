//! The operations that shared limits need from a store.

use std::future::Future;
use std::time::Duration;

/// A store that several gateways share. Each gateway asks it for tokens and permits in advance.
pub trait LimitStore: Send + Sync {
    /// Applies the operations in one round trip, and returns an answer for each operation, in the same order.
    /// `None` means that the operation failed, or that its outcome is unknown. The future must end within a bounded
    /// time.
    fn apply(&self, operations: Vec<LimitOperation>)
    -> impl Future<Output = Vec<Option<LimitAnswer>>> + Send;
}

/// An operation on shared state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LimitOperation {
    /// Removes tokens from a token bucket without regard to its content, and then takes up to `wanted` tokens that
    /// are there. A new bucket is full.
    Tokens {
        /// Name of the bucket.
        name: String,
        /// Time in which the bucket gains one token.
        interval: Duration,
        /// Maximum number of tokens in the bucket.
        capacity: u32,
        /// Number of tokens to remove. The bucket may get debt. If negative, the bucket gets tokens back.
        spent: i64,
        /// Number of tokens to take.
        wanted: u32,
    },
    /// Adds to a counter. A new counter is 0.
    Count {
        /// Name of the counter.
        name: String,
        /// The number to add.
        amount: u64,
        /// Time after which the store may forget the counter.
        ttl: Duration,
    },
    /// Sets the number of permits that this replica holds. The permits of all replicas together do not exceed
    /// `max`. With 0, the replica returns its permits.
    Permits {
        /// Name of the set of permits.
        name: String,
        /// Number of permits that the replica wants to hold.
        wanted: u32,
        /// Maximum number of permits of all replicas together.
        max: u32,
        /// Time after which the store takes the permits back.
        ttl: Duration,
    },
}

impl LimitOperation {
    /// Returns the name of the state in the store.
    pub fn name(&self) -> &str {
        match self {
            Self::Tokens { name, .. } | Self::Count { name, .. } | Self::Permits { name, .. } => name,
        }
    }
}

/// The answer to a [`LimitOperation`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitAnswer {
    /// The answer to [`LimitOperation::Tokens`].
    Tokens {
        /// Number of tokens that were taken.
        granted: u32,
        /// Number of tokens that are left.
        remaining: u32,
        /// Time until the bucket has a token. Zero if it has one.
        retry_after: Duration,
    },
    /// The answer to [`LimitOperation::Count`]: the new value.
    Count(u64),
    /// The answer to [`LimitOperation::Permits`].
    Permits {
        /// Number of permits that this replica holds.
        granted: u32,
        /// `true` if the replicas together hold all permits.
        is_full: bool,
    },
}
