//! Limits for a whole fleet of gateways with a common store.
//!
//! ```text
//! requests ─▶ Budget of the key ─▶ admitted or refused, without the store
//!                │ demand                  ▲ tokens, credit
//!                ▼                         │
//!          SettlementQueue ─▶ run ─▶ LimitStore (batches)
//! ```

// state of a key, without clock and input or output
mod budget;
mod permits;

// state of all keys
mod table;
mod rate;
mod concurrency;

// settlement with the store
mod store;
mod queue;
mod counts;
mod limits;
mod settle;

#[cfg(test)]
mod tests;

pub use counts::SharedLimitStatus;
pub use limits::{SharedLimitCounts, SharedLimits};
pub use store::{LimitAnswer, LimitOperation, LimitStore, OnStoreFailure, SharedLimit};

pub(super) use concurrency::{SharedPermit, SharedPermits};
pub(super) use counts::LimitCounts;
pub(super) use rate::SharedBudgets;
