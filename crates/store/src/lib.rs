//! State that several gateways share: limits, quotas, locks, event logs and messages.
//!
//! [`Store::memory`] keeps the state in this process. A fleet keeps its state in Redis or Valkey. Both have the
//! same operations and pass the same tests (`tests/contract`).
//!
//! - Each operation is atomic and uses the clock of the store, so the clocks of the gateways do not matter.
//! - Each operation ends within the timeout of the store. While the connection is lost, operations fail at
//!   once with [`StoreError::Unavailable`]: the caller then applies its failure policy.
//! - Each key expires. Callers renew the state that they still need.
//! - A reply of the store has at most 8 MiB. The store closes a connection with a larger reply, so a hostile or damaged
//!   server cannot fill the memory of the gateways.
//! - The store is not trusted with secrets: callers encrypt them with a [`SharedKey`].
//!
//! | operation | bytes in Redis for each key, about |
//! |---|---|
//! | [`Store::set`] | 100, and the name and the value |
//! | [`Store::take_tokens`] | 130, and the name |
//! | [`Store::add`] | 90, and the name |
//! | [`Store::lease`] | 130, the name, and 40 for each owner |
//! | [`Store::lock`] | 200, and the name |
//! | [`Store::put_member`] | 130, the name, and 40, name and value for each member |
//! | [`Store::append`] | 150, the name, and 40 and the content of each entry |
#![forbid(unsafe_code)]

mod channels;
mod error;
mod health;
mod key;
mod memory;
mod operations;
mod redis;
mod store;
mod store_key;

pub use crate::redis::{
    StoreConfig, StoreConnectError, StoreCredentials, StoreInspection, StoreLayout, StoreTls, StoreUrl,
    StoreUrlError, inspect,
};
pub use channels::{Subscription, SubscriptionEvent};
pub use error::StoreError;
pub use health::{LatencyPercentiles, OperationCounts, StoreHealth, StoreState};
pub use key::{SealingKey, SharedKey, SharedKeyError, SigningKey};
pub use operations::{AddRequest, Added, Fence, LeaseGrant, LeaseRequest, LogPage, TokenGrant, TokenRequest};
pub use store::Store;
pub use store_key::StoreKey;
