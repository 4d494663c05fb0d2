//! The events of the legacy sessions of one endpoint in the store.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use thruway_mcp_sdk::{ArchivedEvent, EventArchive};
use thruway_store::StoreError;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::durable::DurableStore;
use super::replica::Fleet;

/// The events of the legacy sessions of one endpoint in the store. A task writes them, so that no stream waits.
pub(super) struct StoredEvents {
    fleet: Arc<Fleet>,
    durable: Arc<DurableStore>,
    queue: Sender<Write>,
    /// Size of the events in the queue.
    queued: Arc<AtomicUsize>,
}

/// A change that waits for the store.
enum Write {
    Append { session: String, event: Vec<u8> },
    Forget { session: String },
}

impl StoredEvents {
    /// Starts the task that writes the events, in the event loop `runtime`. It ends with this value.
    pub(super) fn start(fleet: Arc<Fleet>, durable: DurableStore, runtime: &Handle) -> Self {
        let (queue, writes) = mpsc::channel(QUEUE_MAX);
        let (durable, queued) = (Arc::new(durable), Arc::<AtomicUsize>::default());
        runtime.spawn(write_all(fleet.clone(), durable.clone(), writes, queued.clone()));
        Self { fleet, durable, queue, queued }
    }

    fn count(&self, reason: &dyn fmt::Display) {
        self.fleet.durable_counts.count_event(reason);
    }
}

impl EventArchive for StoredEvents {
    fn append(&self, session: &str, event: ArchivedEvent) {
        // All these values can be written as JSON.
        let event = serde_json::to_vec(&event).unwrap_or_default();
        let bytes = event.len();
        if bytes > EVENT_BYTES_MAX {
            return self.count(&"the event is too large");
        }
        if self.queued.fetch_add(bytes, Ordering::Relaxed) + bytes > QUEUE_BYTES_MAX {
            self.queued.fetch_sub(bytes, Ordering::Relaxed);
            return self.count(&"too many events wait for the store");
        }
        if self.queue.try_send(Write::Append { session: session.to_owned(), event }).is_err() {
            self.queued.fetch_sub(bytes, Ordering::Relaxed);
            self.count(&"too many events wait for the store");
        }
    }

    fn forget(&self, session: &str) {
        // The events expire if the queue is full.
        let _ = self.queue.try_send(Write::Forget { session: session.to_owned() });
    }

    fn read<'a>(&'a self, session: &'a str) -> Pin<Box<dyn Future<Output = Vec<ArchivedEvent>> + Send + 'a>> {
        Box::pin(async move {
            match read(&self.durable, session).await {
                Ok(events) => events,
                Err(error) => {
                    self.count(&error);
                    Vec::new()
                }
            }
        })
    }
}

async fn read(durable: &DurableStore, session: &str) -> Result<Vec<ArchivedEvent>, StoreError> {
    for key in durable.keys(EVENTS, session) {
        let page = durable.store.read_after(&key, 0, EVENTS_MAX).await?;
        let events = page.entries.iter().filter_map(|(_, sealed)| durable.open(&key, sealed));
        let events: Vec<_> = events.filter_map(|event| serde_json::from_slice(&event).ok()).collect();
        if !events.is_empty() {
            return Ok(events);
        }
    }
    Ok(Vec::new())
}

/// Writes the events in their order. A failed store loses events.
async fn write_all(
    fleet: Arc<Fleet>,
    durable: Arc<DurableStore>,
    mut writes: Receiver<Write>,
    queued: Arc<AtomicUsize>,
) {
    while let Some(write) = writes.recv().await {
        let outcome = match write {
            Write::Append { session, event } => {
                queued.fetch_sub(event.len(), Ordering::Relaxed);
                let key = durable.key(EVENTS, &session);
                let sealed = durable.seal(&key, &event);
                durable
                    .store
                    .append(&key, sealed.into(), EVENTS_MAX, EVENTS_TTL)
                    .await
                    .map(|_| fleet.durable_counts.count_stored_event())
            }
            Write::Forget { session } => durable.store.remove(&durable.key(EVENTS, &session)).await.map(drop),
        };
        if let Err(error) = outcome {
            fleet.durable_counts.count_event(&error);
        }
    }
}

impl fmt::Debug for StoredEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredEvents").field("durable", &self.durable).finish_non_exhaustive()
    }
}

const EVENTS: &str = "mcp-events";

/// Maximum number of events of a session in the store. The oldest events are removed.
const EVENTS_MAX: usize = 64;

/// Maximum size of an event in the store.
const EVENT_BYTES_MAX: usize = 64 << 10;

/// Lifetime of the events of a session after its last event.
const EVENTS_TTL: Duration = Duration::from_mins(30);

/// Maximum number of changes that wait for the store.
const QUEUE_MAX: usize = 4096;

/// Maximum size of the events that wait for the store.
const QUEUE_BYTES_MAX: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use thruway_mcp_sdk::json_rpc::RequestId;
    use thruway_store::{SharedKey, Store};
    use tokio::task::yield_now;

    use super::*;
    use crate::replicas::ReplicaRegistry;

    fn events(store: &Store, key: &SharedKey) -> StoredEvents {
        let durable = DurableStore::new(store.clone(), key, "dev");
        StoredEvents::start(Fleet::new(&ReplicaRegistry::new("own", key), key), durable, &Handle::current())
    }

    fn event(number: u64, message: &str) -> ArchivedEvent {
        let (request, message) = (RequestId::Integer(1), message.to_owned());
        ArchivedEvent { caller: None, stream: 1, event: number, request, is_answer: false, message }
    }

    #[tokio::test]
    async fn events_are_read_in_order_by_their_fleet_only_and_removed_with_their_session() {
        let (store, key) = (Store::memory(), SharedKey::random());
        let own = events(&store, &key);
        for number in 1..=3 {
            own.append("session", event(number, "secret"));
        }
        while own.read("session").await.len() < 3 {
            yield_now().await;
        }
        let numbers: Vec<_> = own.read("session").await.iter().map(|event| event.event).collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert!(own.read("other").await.is_empty());
        assert!(events(&store, &SharedKey::random()).read("session").await.is_empty());
        // A forged entry and a moved entry are ignored.
        let (log, other) = (own.durable.key(EVENTS, "session"), own.durable.key(EVENTS, "other"));
        store.append(&log, b"forged".to_vec().into(), EVENTS_MAX, EVENTS_TTL).await.unwrap();
        let sealed = store.read_after(&log, 0, 1).await.unwrap().entries.remove(0).1;
        assert!(!sealed.windows(6).any(|bytes| bytes == b"secret"));
        store.append(&other, sealed, EVENTS_MAX, EVENTS_TTL).await.unwrap();
        assert_eq!((own.read("session").await.len(), own.read("other").await.len()), (3, 0));
        own.forget("session");
        while !own.read("session").await.is_empty() {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn large_events_and_a_full_queue_are_counted_and_need_no_memory() {
        let own = events(&Store::memory(), &SharedKey::random());
        own.append("session", event(1, &"x".repeat(EVENT_BYTES_MAX)));
        assert_eq!((own.fleet.durable_counts.events(), own.queued.load(Ordering::Relaxed)), (1, 0));
        // The task that writes does not run in this loop.
        for number in 0..=(QUEUE_MAX as u64) {
            own.append("session", event(number, "x"));
        }
        assert_eq!(own.fleet.durable_counts.events(), 2);
        assert!(own.queued.load(Ordering::Relaxed) < QUEUE_BYTES_MAX);
    }
}
