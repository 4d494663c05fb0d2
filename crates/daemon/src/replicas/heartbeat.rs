//! The thread that keeps the record of this replica in the store, and reads the records of all replicas.

use std::io;
use std::sync::mpsc;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use thruway_store::{Store, StoreError, StoreKey, StoreState};
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, sleep_until};

use super::registry::{Registry, ReplicaRegistry, lock};

/// The work of the thread.
struct Beat {
    registry: Weak<Registry>,
    /// The id of this replica, as the name of its record.
    member: String,
    store: Store,
    /// Number of the last record.
    number: u64,
    is_draining: bool,
    /// The time until which missing replicas stay in the list, because the store has failed.
    keeps_missing_until: Instant,
    has_written: bool,
    has_failed: bool,
}

impl ReplicaRegistry {
    /// Adds this replica to the list in `store`, and keeps the own list current. Waits until the other replicas can read
    /// the record of this replica. The replica also starts without the store: it waits at most [`FIRST_MAX`], and it does
    /// not wait if the store refuses the connection.
    ///
    /// # Errors
    /// The system refuses the resources for the thread or for its event loop.
    pub(crate) fn join(&self, store: Store) -> io::Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (first_sender, first) = mpsc::channel();
        let beat = Beat {
            registry: Arc::downgrade(&self.0),
            member: self.id().to_string(),
            store,
            number: 0,
            is_draining: false,
            keeps_missing_until: Instant::now(),
            has_written: false,
            has_failed: false,
        };
        let run = move || runtime.block_on(beat.run(first_sender));
        let thread = thread::Builder::new().name("replicas".to_owned()).spawn(run)?;
        *lock(&self.0.thread) = Some(thread);
        // The wait ends early if the thread fails.
        let _ = first.recv_timeout(FIRST_MAX);
        Ok(())
    }
}

impl Beat {
    async fn run(mut self, first: mpsc::Sender<()>) {
        let mut first = Some(first);
        let mut beat_at = Instant::now();
        loop {
            let Some(registry) = self.registry.upgrade() else { break };
            if *registry.is_ending.borrow() {
                break;
            }
            let mut written = Ok(());
            let is_draining = *registry.is_draining.borrow();
            if Instant::now() >= beat_at || is_draining != self.is_draining {
                self.is_draining = is_draining;
                written = self.write(&registry).await;
                // A replica that could not write tries again at the next round.
                if written.is_ok() {
                    beat_at = Instant::now() + BEAT;
                    self.has_written = true;
                } else {
                    self.keep_missing();
                }
            }
            let read = self.read(&registry).await;
            self.note(written.and(read));
            registry.rounds.send_modify(|rounds| *rounds += 1);
            // The other replicas must know this replica before it answers requests. If the store refuses the
            // connection, the start does not wait for the store.
            if self.has_written || self.store.health().state == StoreState::Disconnected {
                drop(first.take());
            }
            if self.wait(registry).await.is_none() {
                break;
            }
        }
        // The record expires if the store does not answer.
        let _ = self.store.remove_member(&collection(), &self.member).await;
    }

    /// Waits until the next round. Returns `None` if the replica leaves.
    async fn wait(&self, registry: Arc<Registry>) -> Option<()> {
        // The store often connects soon after the start.
        let is_first = !self.has_written && self.number <= FIRST_ATTEMPTS;
        let next = Instant::now() + if is_first { PAUSE_MIN } else { READ };
        let mut is_ending = registry.is_ending.subscribe();
        let at_end = is_ending.wait_for(|is_ending| *is_ending);
        tokio::select! {
            _ = at_end => return None,
            () = async {
                sleep(PAUSE_MIN).await;
                tokio::select! {
                    () = sleep_until(next) => {}
                    () = registry.wanted.notified() => {}
                }
            } => {}
        }
        Some(())
    }

    async fn write(&mut self, registry: &Registry) -> Result<(), StoreError> {
        self.number += 1;
        let sealed = Bytes::from(registry.records.seal(registry.id, &registry.own(self.number)));
        self.store.put_member(&collection(), &self.member, sealed, EXPIRY).await
    }

    async fn read(&mut self, registry: &Registry) -> Result<(), StoreError> {
        let members = self.store.list(&collection()).await?;
        let open = |(member, sealed): &(String, Bytes)| registry.records.open(member, sealed);
        let records: Vec<_> = members.iter().filter_map(open).collect();
        registry.note_foreign(members.len() - records.len());
        registry.replace(records, Instant::now() < self.keeps_missing_until);
        Ok(())
    }

    /// Keeps missing replicas in the list until they had the time to write their records again.
    fn keep_missing(&mut self) {
        self.keeps_missing_until = Instant::now() + EXPIRY;
    }

    /// Logs the loss and the recovery of the store.
    fn note(&mut self, outcome: Result<(), StoreError>) {
        match outcome {
            Ok(()) if self.has_failed => {
                self.has_failed = false;
                tracing::info!("the list of replicas is available again");
            }
            Ok(()) => {}
            Err(error) => {
                self.keep_missing();
                // The first connection needs some time. If it fails, the store logs the reason.
                if !self.has_failed && self.store.health().state != StoreState::Connecting {
                    self.has_failed = true;
                    tracing::warn!("cannot update the list of replicas, keeping the last list: {error}");
                }
            }
        }
    }
}

/// Returns the key of the set of all replicas.
fn collection() -> StoreKey {
    StoreKey::new("replicas", "all")
}

/// Interval between two writes of the own record.
const BEAT: Duration = Duration::from_secs(2);

/// Time until a record expires.
const EXPIRY: Duration = Duration::from_secs(6);

/// Interval between two reads of the list.
const READ: Duration = Duration::from_secs(1);

/// Minimum time between two reads, if requests need the list. Also the time between the first attempts to write the record.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// Number of attempts with short pauses to write the first record.
const FIRST_ATTEMPTS: u64 = 30;

/// Maximum time that the start waits until the store has the record of this replica.
const FIRST_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use thruway_store::{SharedKey, StoreConfig, StoreUrl};

    use super::*;
    use crate::background::Background;

    #[test]
    fn start_does_not_wait_for_a_store_that_refuses_connections() {
        // No process listens on the port after the listener is dropped.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let url: StoreUrl = format!("redis://{address}").parse().unwrap();
        let background = Background::start("store").unwrap();
        let store = background.enter(|| Store::connect(StoreConfig::new(url)));
        let registry = ReplicaRegistry::new("own", &SharedKey::random());
        let begin = Instant::now();
        registry.join(store).unwrap();
        assert!(begin.elapsed() < FIRST_MAX);
    }
}
