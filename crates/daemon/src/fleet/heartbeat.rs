//! The thread that keeps the record of this replica in the store, and reads the records of all replicas.

use std::io;
use std::sync::{Arc, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use thruway_gateway::UpstreamTls;
use thruway_mcp_sdk::ReplicaId;
use thruway_store::{Store, StoreError, StoreKey};
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::record::ReplicaRecord;
use super::replica::{Fleet, Heartbeat};

/// The work of the thread.
struct Beat {
    fleet: Weak<Fleet>,
    store: Store,
    replica: ReplicaId,
    own: ReplicaRecord,
    tls: Option<UpstreamTls>,
    /// The time until which missing replicas stay in the list, because the store has failed.
    keeps_missing_until: Instant,
    has_failed: bool,
}

impl Heartbeat {
    /// Starts the thread, and waits a short time until the list contains this replica.
    ///
    /// # Errors
    /// The system refuses the resources for the thread or for its event loop.
    pub(super) fn start(
        fleet: &Arc<Fleet>,
        store: Store,
        own: ReplicaRecord,
        tls: Option<UpstreamTls>,
    ) -> io::Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (first_sender, first) = std::sync::mpsc::channel();
        let (keeps_missing_until, replica) = (Instant::now(), fleet.replica);
        let fleet_of_thread = Arc::downgrade(fleet);
        let beat =
            Beat { fleet: fleet_of_thread, store, replica, own, tls, keeps_missing_until, has_failed: false };
        let run = move || runtime.block_on(beat.run(first_sender));
        let thread = thread::Builder::new().name("fleet".to_owned()).spawn(run)?;
        *fleet.heartbeat.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        // The wait ends early if the thread fails.
        let _ = first.recv_timeout(FIRST_MAX);
        Ok(())
    }

    /// Waits until the list has been read again.
    pub(super) async fn refresh(&self) {
        let mut rounds = self.rounds.subscribe();
        self.wanted.notify_one();
        // A lost store must not delay the request for longer.
        let _ = timeout(REFRESH_MAX, rounds.changed()).await;
    }

    /// Marks the replica in the list as draining.
    pub(super) fn drain(&self) {
        self.is_draining.send_replace(true);
        self.wanted.notify_one();
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.is_draining.borrow()
    }

    /// Removes the record of this replica, and waits for the end of the thread.
    pub(super) fn end(&self) {
        self.is_ending.send_replace(true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The thread only panics after a programming error, and the panic is in the log.
            let _ = thread.join();
        }
    }
}

impl Beat {
    async fn run(mut self, first: std::sync::mpsc::Sender<()>) {
        let mut first = Some(first);
        let began = Instant::now();
        let (mut beat_at, mut is_written) = (began, false);
        loop {
            let Some(fleet) = self.fleet.upgrade() else { break };
            if *fleet.heartbeat.is_ending.borrow() {
                break;
            }
            let is_draining = *fleet.heartbeat.is_draining.borrow();
            if Instant::now() >= beat_at || is_draining != self.own.is_draining {
                self.own.is_draining = is_draining;
                self.own.sessions = fleet.session_count();
                let outcome = self.write().await;
                // A failed write is repeated in the next round.
                beat_at = Instant::now() + if outcome.is_ok() { BEAT } else { Duration::ZERO };
                is_written |= outcome.is_ok();
                self.note(outcome);
            }
            let outcome = self.read(&fleet).await;
            self.note(outcome);
            fleet.heartbeat.rounds.send_modify(|rounds| *rounds += 1);
            if is_written {
                drop(first.take());
            }
            // The other replicas must know this replica before it answers requests.
            let is_starting = !is_written && began.elapsed() < FIRST_MAX;
            if self.wait(fleet, if is_starting { PAUSE_MIN } else { READ }).await.is_none() {
                break;
            }
        }
        // The record expires if the store does not answer.
        let _ = self.store.remove_member(&collection(), &self.replica.to_string()).await;
    }

    /// Waits for `pause`, or until the list is wanted earlier. Returns `None` if the fleet ends.
    async fn wait(&self, fleet: Arc<Fleet>, pause: Duration) -> Option<()> {
        let next = Instant::now() + pause;
        let mut is_ending = fleet.heartbeat.is_ending.subscribe();
        let at_end = is_ending.wait_for(|is_ending| *is_ending);
        tokio::select! {
            _ = at_end => return None,
            () = async {
                sleep(PAUSE_MIN).await;
                tokio::select! {
                    () = sleep_until(next) => {}
                    () = fleet.heartbeat.wanted.notified() => {}
                }
            } => {}
        }
        Some(())
    }

    async fn write(&self) -> Result<(), StoreError> {
        let fleet = self.fleet.upgrade();
        let Some(fleet) = fleet else { return Ok(()) };
        let sealed = Bytes::from(fleet.records.seal(self.replica, &self.own));
        self.store.put_member(&collection(), &self.replica.to_string(), sealed, EXPIRY).await
    }

    async fn read(&self, fleet: &Fleet) -> Result<(), StoreError> {
        let members = self.store.list(&collection()).await?;
        let records = members.iter().filter_map(|(member, sealed)| fleet.records.open(member, sealed));
        let records: Vec<_> = records.filter(|(replica, _)| *replica != self.replica).collect();
        let foreign = members.len().saturating_sub(records.len() + 1);
        fleet.counts.note_foreign(foreign);
        fleet.peers.replace(records, self.tls.as_ref(), Instant::now() < self.keeps_missing_until);
        fleet.peers.all().values().for_each(|peer| peer.begin_checks(self.tls.as_ref()));
        Ok(())
    }

    /// Logs the loss and the recovery of the store. After a recovery, the other replicas need some time to write their
    /// records again.
    fn note(&mut self, outcome: Result<(), StoreError>) {
        match outcome {
            Ok(()) if self.has_failed => {
                self.has_failed = false;
                tracing::info!("the list of replicas is available again");
            }
            Ok(()) => {}
            Err(error) => {
                self.keeps_missing_until = Instant::now() + EXPIRY;
                if !self.has_failed {
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

/// Minimum time between two reads, if requests need the list.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// Maximum time that a request waits for a new list.
const REFRESH_MAX: Duration = Duration::from_millis(600);

/// Maximum time that the start waits until the list contains this replica.
const FIRST_MAX: Duration = Duration::from_secs(2);
