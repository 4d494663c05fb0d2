//! The operations that shared limits need from a store, and their settings for its failure.

use std::fmt;
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
        /// Number of tokens that the bucket gains in each period `per`.
        requests: u32,
        /// Length of the period.
        per: Duration,
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
    /// The store works, but rejects the operation, for example because the state has an unknown format.
    Rejected,
}

/// Settings of a limit that holds for all replicas of a fleet together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SharedLimit {
    /// Behavior while the store fails. Default [`OnStoreFailure::Local`].
    pub on_store_failure: OnStoreFailure,
}

/// Behavior of a shared limit while the store fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnStoreFailure {
    /// The policy accepts all requests.
    Allow,
    /// The policy refuses all requests with 503.
    Deny,
    /// Each replica enforces a part of the limit.
    Local {
        /// The part in percent, 1 to 100. `None`: the limit divided by the last known number of replicas.
        share: Option<u8>,
    },
}

impl OnStoreFailure {
    /// Returns the part of `limit` that a replica enforces. The result is at least 1.
    pub(crate) fn part_of(self, limit: u32, replicas: u32) -> u32 {
        let part = match self {
            Self::Local { share: Some(share) } => u64::from(limit) * u64::from(share.min(100)) / 100,
            _ => u64::from(limit / replicas.max(1)),
        };
        u32::try_from(part).unwrap_or(limit).max(1)
    }
}

impl fmt::Display for SharedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", shared, on store failure: {}", self.on_store_failure)
    }
}

impl Default for OnStoreFailure {
    fn default() -> Self {
        Self::Local { share: None }
    }
}

impl fmt::Display for OnStoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow => f.write_str("allow"),
            Self::Deny => f.write_str("deny"),
            Self::Local { share: None } => f.write_str("local"),
            Self::Local { share: Some(share) } => write!(f, "local ({share} %)"),
        }
    }
}
