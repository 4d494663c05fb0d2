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

// names in the store
pub(super) mod store_key;

// settlement with the store
mod store;
mod queue;
mod limits;
mod settle;

mod failure;

#[cfg(test)]
mod tests;

pub use failure::{OnStoreFailure, SharedLimit};
pub use limits::{SharedLimitCounts, SharedLimits};
pub use store::{LimitAnswer, LimitOperation, LimitStore};

pub(super) use concurrency::{SharedPermit, SharedPermits};
pub(super) use rate::SharedBudgets;
