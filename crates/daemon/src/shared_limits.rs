//! Connects the shared limits of policies to the store of the fleet.

use std::num::NonZeroU32;
use std::sync::Arc;

use thruway_gateway::{LimitAnswer, LimitOperation, LimitStore, SharedLimits};
use thruway_store::{AddRequest, LeaseRequest, Store, StoreError, StoreKey, TokenRequest};
use tokio::task::JoinSet;

use crate::live_store::LiveStore;

/// Starts the background task of shared limits. It begins with the first shared limit, and runs until the store
/// ends. Returns `None` for a store in memory: the limits then hold for this process only.
pub(crate) fn start(store: &LiveStore) -> Option<SharedLimits> {
    let runtime = store.runtime()?;
    // All gateways of the fleet have the same key, so they get the same secret.
    let limits = SharedLimits::new(&store.key().signing("limits").sign(b"names"));
    let fleet = FleetStore { store: store.store().clone(), owner: store.new_owner().into() };
    let counted = limits.clone();
    store.replicas().observe(move |others| {
        let replicas = u32::try_from(others.len()).unwrap_or(u32::MAX).saturating_add(1);
        counted.set_replicas(NonZeroU32::new(replicas).unwrap_or(NonZeroU32::MIN));
    });
    let running = limits.clone();
    runtime.spawn(async move {
        running.used().await;
        running.run(&fleet).await;
    });
    Some(limits)
}

/// The store, as shared limits use it.
#[derive(Clone)]
struct FleetStore {
    store: Store,
    /// Owner of the permits of this process.
    owner: Arc<str>,
}

impl LimitStore for FleetStore {
    async fn apply(&self, operations: Vec<LimitOperation>) -> Vec<Option<LimitAnswer>> {
        // The connection sends operations that are in flight together in one round trip.
        let mut answers = vec![None; operations.len()];
        let mut running = JoinSet::new();
        for (place, operation) in operations.into_iter().enumerate() {
            let store = self.clone();
            running.spawn(async move { (place, store.answer(operation).await) });
        }
        while let Some(ended) = running.join_next().await {
            if let Ok((place, answer)) = ended {
                answers[place] = answer;
            }
        }
        answers
    }
}

impl FleetStore {
    /// Applies an operation. Returns `None` if the store fails. Replaces a value that no gateway has written.
    async fn answer(&self, operation: LimitOperation) -> Option<LimitAnswer> {
        let key = key_of(&operation);
        let mut result = self.apply_one(&key, operation.clone()).await;
        if result == Err(StoreError::UnknownFormat) {
            tracing::warn!(
                "replacing the value of `{key}` in the shared store: another program has changed it"
            );
            result = match self.store.remove(&key).await {
                Ok(()) => self.apply_one(&key, operation).await,
                Err(error) => Err(error),
            };
        }
        result.map_or_else(|error| answer_of(&error), Some)
    }

    async fn apply_one(&self, key: &StoreKey, operation: LimitOperation) -> Result<LimitAnswer, StoreError> {
        match operation {
            LimitOperation::Tokens { requests, per, capacity, spent, wanted, .. } => {
                let request = TokenRequest {
                    rate: requests.into(),
                    per,
                    burst: capacity.into(),
                    wanted: wanted.into(),
                    returned: u64::try_from(-spent).unwrap_or_default(),
                    spent: u64::try_from(spent).unwrap_or_default(),
                };
                let grant = self.store.take_tokens(key, request).await?;
                Ok(LimitAnswer::Tokens {
                    granted: small(grant.granted),
                    remaining: small(grant.left),
                    retry_after: grant.next_after,
                })
            }
            LimitOperation::Count { amount, ttl, .. } => {
                let request = AddRequest { amount, max: u64::MAX, ttl };
                let added = self.store.add(key, request).await?;
                Ok(LimitAnswer::Count(added.total))
            }
            LimitOperation::Permits { wanted, max, ttl, .. } => {
                let (wanted, max) = (wanted.into(), max.into());
                let request = LeaseRequest { owner: &self.owner, wanted, max, ttl };
                let grant = self.store.lease(key, request).await?;
                Ok(LimitAnswer::Permits { granted: small(grant.granted), is_full: grant.total >= max })
            }
        }
    }
}

/// Returns the key of the value that an operation changes.
fn key_of(operation: &LimitOperation) -> StoreKey {
    let kind = match operation {
        LimitOperation::Tokens { .. } => "rate",
        LimitOperation::Count { .. } => "quota",
        LimitOperation::Permits { .. } => "permits",
    };
    StoreKey::new(kind, operation.name())
}

/// Returns the answer if the store works, but rejects the value of a single key. Returns `None` if the store itself
/// fails. [`StoreError::Rejected`] is such a failure: the user has no permission, or the store cannot save its data.
fn answer_of(error: &StoreError) -> Option<LimitAnswer> {
    tracing::debug!(%error, "an operation of a shared limit failed");
    matches!(error, StoreError::TooLarge | StoreError::UnknownFormat).then_some(LimitAnswer::Rejected)
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;

    #[tokio::test]
    async fn values_of_other_programs_are_replaced() {
        let store = FleetStore { store: Store::memory(), owner: "a".into() };
        let (name, per, ttl) = ("name".to_owned(), Duration::from_secs(1), Duration::from_mins(1));
        let operations = vec![
            LimitOperation::Tokens { name: name.clone(), requests: 1, per, capacity: 5, spent: 1, wanted: 2 },
            LimitOperation::Count { name: name.clone(), amount: 3, ttl },
            LimitOperation::Permits { name, wanted: 4, max: 9, ttl },
        ];
        for operation in &operations {
            store.store.set(&key_of(operation), Bytes::from_static(b"foreign"), ttl).await.unwrap();
        }
        let retry_after = Duration::ZERO;
        let expected = [
            LimitAnswer::Tokens { granted: 2, remaining: 2, retry_after },
            LimitAnswer::Count(3),
            LimitAnswer::Permits { granted: 4, is_full: false },
        ];
        assert_eq!(store.apply(operations).await, expected.map(Some));
    }

    /// A store that rejects all operations used to count as a working store, so no policy applied its
    /// `on_store_failure`.
    #[test]
    fn store_that_rejects_all_operations_fails() {
        let rejected = StoreError::Rejected("MISCONF Redis is configured to save RDB snapshots".to_owned());
        for error in [rejected, StoreError::Full, StoreError::Timeout, StoreError::Unavailable] {
            assert_eq!(answer_of(&error), None, "{error}");
        }
        assert_eq!(answer_of(&StoreError::UnknownFormat), Some(LimitAnswer::Rejected));
    }
}
