//! Settings of a shared limit.

use std::fmt;

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
