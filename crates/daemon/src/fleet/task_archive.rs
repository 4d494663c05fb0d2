//! The tasks of one endpoint in the store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thruway_mcp_sdk::{ArchiveError, ArchiveFuture, ReplicaId, TaskArchive};
use thruway_store::{StoreError, StoreKey};
use tokio::time::{Instant, timeout_at};

use super::durable::DurableStore;
use super::replica::Fleet;

/// The tasks of one endpoint in the store.
pub(super) struct StoredTasks {
    pub(super) fleet: Arc<Fleet>,
    pub(super) durable: DurableStore,
}

impl StoredTasks {
    async fn write(
        &self,
        id: &str,
        caller: Option<&str>,
        record: Vec<u8>,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        let key = self.durable.key(TASK, id);
        let sealed = self.durable.seal(&key, &record);
        self.durable.store.set(&key, sealed.into(), ttl).await?;
        let Some(caller) = caller else { return Ok(()) };
        let list = self.durable.key(TASKS_OF_CALLER, caller);
        match self.durable.store.put_member(&list, name_of(&key), Bytes::new(), ttl).await {
            // The caller has too many tasks for its list, but it can still ask for each of them.
            Err(StoreError::TooLarge) => Ok(()),
            outcome => outcome,
        }
    }

    async fn read(&self, key: &StoreKey) -> Result<Option<Vec<u8>>, StoreError> {
        let sealed = self.durable.store.get(key).await?;
        Ok(sealed.and_then(|sealed| self.durable.open(key, &sealed)))
    }

    async fn find(&self, id: &str) -> Result<Option<Vec<u8>>, StoreError> {
        for key in self.durable.keys(TASK, id) {
            if let Some(record) = self.read(&key).await? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    async fn find_all(&self, caller: &str) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut records = Vec::new();
        let end = Instant::now() + LIST_MAX;
        for list in self.durable.keys(TASKS_OF_CALLER, caller) {
            for (name, _) in self.durable.store.list(&list).await? {
                let record = timeout_at(end, async { self.read(&StoreKey::new(TASK, &name)).await }).await;
                let Ok(record) = record else { return Ok(records) };
                records.extend(record?);
            }
        }
        Ok(records)
    }

    fn noted<T>(&self, outcome: Result<T, StoreError>) -> Result<T, ArchiveError> {
        outcome.map_err(|error| {
            self.fleet.durable_counts.count_task(&error);
            ArchiveError
        })
    }
}

impl TaskArchive for StoredTasks {
    fn replica(&self) -> String {
        self.fleet.replica().to_string()
    }

    fn is_live<'a>(&'a self, replica: &'a str) -> ArchiveFuture<'a, bool> {
        Box::pin(async move {
            match ReplicaId::parse(replica) {
                Some(replica) => replica == self.fleet.replica() || self.fleet.is_live(replica).await,
                None => false,
            }
        })
    }

    fn put<'a>(
        &'a self,
        id: &'a str,
        caller: Option<&'a str>,
        record: Vec<u8>,
        ttl: Duration,
    ) -> ArchiveFuture<'a, Result<(), ArchiveError>> {
        Box::pin(async move { self.noted(self.write(id, caller, record, ttl).await) })
    }

    fn get<'a>(&'a self, id: &'a str) -> ArchiveFuture<'a, Result<Option<Vec<u8>>, ArchiveError>> {
        Box::pin(async move { self.noted(self.find(id).await) })
    }

    fn list<'a>(&'a self, caller: &'a str) -> ArchiveFuture<'a, Result<Vec<Vec<u8>>, ArchiveError>> {
        Box::pin(async move { self.noted(self.find_all(caller).await) })
    }

    fn record_bytes_max(&self) -> usize {
        RECORD_BYTES_MAX
    }
}

impl fmt::Debug for StoredTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredTasks").field("durable", &self.durable).finish_non_exhaustive()
    }
}

/// Returns the name in a key of the kind [`TASK`].
fn name_of(key: &StoreKey) -> &str {
    key.as_str().split_once(':').map_or("", |(_, name)| name)
}

const TASK: &str = "mcp-task";
const TASKS_OF_CALLER: &str = "mcp-tasks-of";

/// Maximum size of a record. The store accepts values of 1 MiB, and a sealed value is 33 bytes longer.
const RECORD_BYTES_MAX: usize = (1 << 20) - 64;

/// Maximum time to read the tasks of a caller. Later tasks are missing in the list.
const LIST_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use thruway_store::{SharedKey, Store};

    use super::*;
    use crate::replicas::ReplicaRegistry;

    fn tasks(store: &Store, key: &SharedKey, endpoint: &str) -> StoredTasks {
        let durable = DurableStore::new(store.clone(), key, endpoint);
        StoredTasks { fleet: Fleet::new(&ReplicaRegistry::new("own", key), key), durable }
    }

    const TTL: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn records_of_other_fleets_endpoints_and_tasks_are_refused() {
        let (store, key, other) = (Store::memory(), SharedKey::random(), SharedKey::random());
        let own = tasks(&store, &key, "dev");
        own.put("m.1", Some("ada"), b"secret record".to_vec(), TTL).await.unwrap();
        own.put("m.2", Some("ada"), b"second".to_vec(), TTL).await.unwrap();
        assert_eq!(own.get("m.1").await.unwrap().unwrap(), b"secret record");
        assert_eq!(own.get("m.3").await.unwrap(), None);
        assert_eq!(tasks(&store, &key, "other").get("m.1").await.unwrap(), None);
        assert_eq!(tasks(&store, &other, "dev").get("m.1").await.unwrap(), None);
        // The store contains no clear text, and a moved or forged record is refused.
        let (one, two) = (own.durable.key(TASK, "m.1"), own.durable.key(TASK, "m.2"));
        let sealed = store.get(&one).await.unwrap().unwrap();
        assert!(!sealed.windows(6).any(|bytes| bytes == b"secret"));
        store.set(&two, sealed, TTL).await.unwrap();
        assert_eq!(own.get("m.2").await.unwrap(), None);
        store.set(&two, b"forged".to_vec().into(), TTL).await.unwrap();
        assert_eq!(own.get("m.2").await.unwrap(), None);
        assert_eq!(own.list("ada").await.unwrap(), [b"secret record".to_vec()]);
        assert_eq!(own.list("bob").await.unwrap(), [b""; 0]);
    }

    #[tokio::test]
    async fn records_are_found_while_the_key_is_replaced() {
        let store = Store::memory();
        let texts =
            ["AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=", "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="];
        let old = SharedKey::parse([texts[0]]).unwrap();
        let new = SharedKey::parse([texts[1], texts[0]]).unwrap();
        tasks(&store, &old, "dev").put("m.1", Some("ada"), b"record".to_vec(), TTL).await.unwrap();
        let new = tasks(&store, &new, "dev");
        assert_eq!(new.get("m.1").await.unwrap().unwrap(), b"record");
        assert_eq!(new.list("ada").await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn other_replicas_are_live_only_in_the_list() {
        let own = tasks(&Store::memory(), &SharedKey::random(), "dev");
        assert!(own.is_live(&own.replica()).await);
        assert!(!own.is_live(&ReplicaId::random().to_string()).await);
        assert!(!own.is_live("forged").await);
    }
}
