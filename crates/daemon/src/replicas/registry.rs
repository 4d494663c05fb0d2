//! The list of replicas in the memory of this process.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use thruway_mcp_sdk::ReplicaId;
use thruway_net::Clock;
use thruway_store::SharedKey;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::record::{RecordSealer, ReplicaRecord, ReplicaWork};

/// This process as a replica of a fleet, and the list of the other replicas. Clones share the list.
#[derive(Clone)]
pub(crate) struct ReplicaRegistry(pub(super) Arc<Registry>);

pub(super) struct Registry {
    pub(super) id: ReplicaId,
    pub(super) name: String,
    pub(super) records: RecordSealer,
    started: u64,
    /// The address of the own peer listener.
    address: Mutex<Option<SocketAddr>>,
    work: Mutex<Vec<WorkSource>>,
    others: Mutex<Arc<ReplicaList>>,
    observers: Mutex<Vec<Observer>>,
    foreign: AtomicUsize,
    /// Requests a new list from the store.
    pub(super) wanted: Notify,
    /// Number of attempts to read the list.
    pub(super) rounds: watch::Sender<u64>,
    pub(super) is_draining: watch::Sender<bool>,
    pub(super) is_ending: watch::Sender<bool>,
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
}

/// The replicas of the fleet, without the replica of this process.
pub(crate) type ReplicaList = BTreeMap<ReplicaId, KnownReplica>;

/// Another replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KnownReplica {
    pub(crate) record: ReplicaRecord,
    /// Time at which this process has read the record for the first time, on the clock of this process.
    pub(crate) seen_at: Duration,
}

/// Gets each list, also if it has not changed.
type Observer = Box<dyn Fn(&ReplicaList) + Send + Sync>;

/// Adds a part of the state that this process owns.
type WorkSource = Box<dyn Fn(&mut ReplicaWork) + Send + Sync>;

impl ReplicaRegistry {
    /// Returns a replica with the name `name`. Other replicas do not know it until [`join`](Self::join).
    pub(crate) fn new(name: &str, key: &SharedKey) -> Self {
        let since_epoch = Clock::system().time_of_day().duration_since(SystemTime::UNIX_EPOCH);
        Self(Arc::new(Registry {
            id: ReplicaId::random(),
            name: name.to_owned(),
            records: RecordSealer::new(key),
            started: since_epoch.unwrap_or_default().as_secs(),
            address: Mutex::default(),
            work: Mutex::default(),
            others: Mutex::default(),
            observers: Mutex::default(),
            foreign: AtomicUsize::new(0),
            wanted: Notify::new(),
            rounds: watch::Sender::default(),
            is_draining: watch::Sender::default(),
            is_ending: watch::Sender::default(),
            thread: Mutex::default(),
        }))
    }

    /// Returns the id of this process. Each process has another random id.
    pub(crate) fn id(&self) -> ReplicaId {
        self.0.id
    }

    /// Returns the name of this process, for operators.
    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the record of this process with its current state.
    pub(crate) fn own(&self) -> ReplicaRecord {
        self.0.own(0)
    }

    /// Returns the other replicas.
    pub(crate) fn others(&self) -> Arc<ReplicaList> {
        self.0.others()
    }

    /// Calls `observer` with each list that this process reads. Call this before [`join`](Self::join).
    pub(crate) fn observe(&self, observer: impl Fn(&ReplicaList) + Send + Sync + 'static) {
        lock(&self.0.observers).push(Box::new(observer));
    }

    /// Adds a part of the state that the own record contains.
    pub(crate) fn report(&self, source: impl Fn(&mut ReplicaWork) + Send + Sync + 'static) {
        lock(&self.0.work).push(Box::new(source));
    }

    /// Sets the address of the own peer listener. Call this before [`join`](Self::join).
    pub(crate) fn set_address(&self, address: SocketAddr) {
        *lock(&self.0.address) = Some(address);
    }

    /// Waits until the list has been read again, but only for a short time.
    pub(crate) async fn refresh(&self) {
        let mut rounds = self.0.rounds.subscribe();
        self.0.wanted.notify_one();
        // A lost store must not delay the request for longer.
        let _ = timeout(REFRESH_MAX, rounds.changed()).await;
    }

    /// Marks this replica in the list as draining.
    pub(crate) fn drain(&self) {
        self.0.is_draining.send_replace(true);
        self.0.wanted.notify_one();
    }

    /// Removes the record of this replica, and waits for the end of the thread.
    pub(crate) fn leave(&self) {
        self.0.is_ending.send_replace(true);
        let thread = lock(&self.0.thread).take();
        if let Some(thread) = thread {
            // The thread only panics after a programming error, and the panic is in the log.
            let _ = thread.join();
        }
    }

    /// Replaces the list, as the thread does. Tasks of the observers do not run.
    #[cfg(test)]
    pub(crate) fn replace(&self, records: Vec<(ReplicaId, ReplicaRecord)>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        self.0.replace(records, false);
    }
}

impl Registry {
    /// Returns the own record with this number.
    pub(super) fn own(&self, beat: u64) -> ReplicaRecord {
        let mut work = ReplicaWork::default();
        lock(&self.work).iter().for_each(|source| source(&mut work));
        ReplicaRecord {
            name: self.name.clone(),
            address: *lock(&self.address),
            is_draining: *self.is_draining.borrow(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: self.started,
            beat,
            work,
        }
    }

    fn others(&self) -> Arc<ReplicaList> {
        lock(&self.others).clone()
    }

    /// Replaces the list with `records`, which may contain the own record. With `keeps_missing`, also keeps replicas
    /// that `records` lacks.
    pub(super) fn replace(&self, records: Vec<(ReplicaId, ReplicaRecord)>, keeps_missing: bool) {
        let (before, now) = (self.others(), Clock::system().now_exact());
        let mut list = ReplicaList::new();
        for (id, record) in records.into_iter().filter(|(id, _)| *id != self.id) {
            let known = before.get(&id);
            if known.is_none() && record.name == self.name {
                tracing::warn!(
                    name = self.name,
                    "another replica has the name of this replica: set another `replica` in `[shared]`"
                );
            }
            let seen_at = known.filter(|known| known.record.beat == record.beat).map(|known| known.seen_at);
            list.insert(id, KnownReplica { record, seen_at: seen_at.unwrap_or(now) });
        }
        if keeps_missing {
            for (id, known) in &*before {
                list.entry(*id).or_insert_with(|| known.clone());
            }
        }
        let list = Arc::new(list);
        *lock(&self.others) = list.clone();
        lock(&self.observers).iter().for_each(|observer| observer(&list));
    }

    /// Stores the number of records that do not belong to this fleet. Logs a change.
    pub(super) fn note_foreign(&self, foreign: usize) {
        if self.foreign.swap(foreign, Ordering::Relaxed) < foreign {
            tracing::warn!(
                "the store contains {foreign} records of replicas with another key: use the same `[shared] key` for \
                 all replicas of a fleet, and another `prefix` for each fleet"
            );
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum time that a request waits for a new list.
const REFRESH_MAX: Duration = Duration::from_millis(600);

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    fn registry() -> ReplicaRegistry {
        ReplicaRegistry::new("own", &SharedKey::random())
    }

    fn record(beat: u64) -> ReplicaRecord {
        ReplicaRecord { beat, ..registry().own() }
    }

    #[test]
    fn list_keeps_missing_replicas_only_after_a_failure_of_the_store() {
        let (own, id) = (registry(), ReplicaId::random());
        own.replace(vec![(id, record(1)), (own.id(), record(1))]);
        assert!(
            own.others().contains_key(&id) && own.others().len() == 1,
            "the own record is not in the list"
        );
        own.0.replace(Vec::new(), true);
        assert!(own.others().contains_key(&id));
        own.replace(Vec::new());
        assert!(own.others().is_empty());
    }

    #[test]
    fn age_of_a_heartbeat_counts_from_a_new_record() {
        let (own, id) = (registry(), ReplicaId::random());
        let seen_at = |beat| {
            own.replace(vec![(id, record(beat))]);
            own.others()[&id].seen_at
        };
        let first = seen_at(1);
        assert_eq!(seen_at(1), first);
        assert!(seen_at(2) > first);
    }

    #[test]
    fn observers_and_the_own_record_get_the_current_state() {
        let (own, count) = (registry(), Arc::new(AtomicU64::new(0)));
        let counted = count.clone();
        own.observe(move |list| counted.store(list.len() as u64, Ordering::Relaxed));
        own.report(|work| work.tasks += 2);
        own.report(|work| work.tasks += 3);
        own.replace(vec![(ReplicaId::random(), record(1))]);
        assert_eq!((count.load(Ordering::Relaxed), own.own().work.tasks), (1, 5));
        own.drain();
        assert!(own.own().is_draining);
    }
}
