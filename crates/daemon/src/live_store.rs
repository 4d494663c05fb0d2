//! The running store of shared state, and the thread that connects to it.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use thruway_certificates::replicas::SharedSecrets;
use thruway_net::Clock;
use thruway_store::{SharedKey, Store, StoreConfig, StoreHealth, StoreInspection, StoreState, inspect};
use tokio::runtime::{Builder, Handle};
use tokio::time::sleep;

use crate::background::Background;
use crate::config::{Config, Failure, SharedConfig};
use crate::replicas::ReplicaRegistry;

/// The running store. It lasts from the start of the service to its end. Clones share the store.
#[derive(Clone)]
pub(crate) struct LiveStore(Arc<Running>);

struct Running {
    store: Store,
    key: SharedKey,
    /// The replicas that use the store.
    replicas: ReplicaRegistry,
    thread: Option<Background>,
}

impl Default for LiveStore {
    /// Returns a store in memory.
    fn default() -> Self {
        Self::new(Store::memory(), SharedKey::random(), &random_replica(), None)
    }
}

impl LiveStore {
    /// Starts the store that `config` describes. Does not wait for a connection. Uses `store` instead if it is set.
    ///
    /// # Errors
    /// Returns an error if the system cannot start a thread.
    pub(crate) fn start(config: &Config, store: Option<Store>) -> Result<Self, Failure> {
        match &config.shared {
            Some(shared) => Self::of(shared, store).map_err(|error| failure(&error)),
            None => Ok(Self::default()),
        }
    }

    fn of(shared: &SharedConfig, store: Option<Store>) -> io::Result<Self> {
        let key = shared.key.clone().unwrap_or_else(SharedKey::random);
        let replica = shared.replica.clone().unwrap_or_else(random_replica);
        if let Some(store) = store {
            return Ok(Self::new(store, key, &replica, Some(Background::start("store")?)));
        }
        let Some(config) = &shared.store else {
            return Ok(Self::new(Store::memory(), key, &replica, None));
        };
        let thread = Background::start("store")?;
        let store = thread.enter(|| Store::connect(config.clone()));
        thread.handle().spawn(report_problems(store.clone(), config.clone()));
        Ok(Self::new(store, key, &replica, Some(thread)))
    }

    fn new(store: Store, key: SharedKey, replica: &str, thread: Option<Background>) -> Self {
        let replicas = ReplicaRegistry::new(replica, &key);
        Self(Arc::new(Running { store, key, replicas, thread }))
    }

    /// Returns the list of the replicas that use the store.
    pub(crate) fn replicas(&self) -> &ReplicaRegistry {
        &self.0.replicas
    }

    /// Returns the name of this gateway in the fleet.
    pub(crate) fn replica(&self) -> &str {
        self.0.replicas.name()
    }

    /// Returns a new name for the owner of locks and permits in the store. Two gateways have different owners, even if an
    /// operator has copied the `replica` of one to the other.
    pub(crate) fn new_owner(&self) -> String {
        format!("{}:{:08x}", self.replica(), fastrand::u32(..))
    }

    /// Returns access to the secrets in a store that other processes share. Returns `None` for a store in memory. The own
    /// record then also contains the locks of this access.
    pub(crate) fn secrets(&self) -> Option<SharedSecrets> {
        let Running { store, key, replicas, thread } = &*self.0;
        let secrets = thread.as_ref().map(|_| SharedSecrets::new(store.clone(), key, self.new_owner()))?;
        let reported = secrets.clone();
        replicas.report(move |work| work.holds_certificate_lock |= reported.holds_lock());
        Some(secrets)
    }

    /// Returns the health of a store that other processes share. Returns `None` for a store in memory.
    pub(crate) fn health(&self) -> Option<StoreHealth> {
        self.0.thread.as_ref().map(|_| self.0.store.health())
    }

    /// Returns the store.
    pub(crate) fn store(&self) -> &Store {
        &self.0.store
    }

    /// Returns the operator key of the fleet. It is random for a store in memory without a key.
    pub(crate) fn key(&self) -> &SharedKey {
        &self.0.key
    }

    /// Returns the event loop for background tasks of a shared store. Returns `None` for a store in memory.
    pub(crate) fn runtime(&self) -> Option<&Handle> {
        self.0.thread.as_ref().map(Background::handle)
    }
}

/// Inspects the store once it is connected, and logs problems.
async fn report_problems(store: Store, config: StoreConfig) {
    loop {
        match inspect(config.clone()).await {
            Ok(inspection) => {
                for warning in warnings_of(&inspection) {
                    tracing::warn!("the shared store has a problem: {warning}");
                }
                return;
            }
            // The store logs its own failures to connect.
            Err(error) if store.health().state == StoreState::Connected => {
                tracing::warn!("the shared store does not work: {error}");
                return;
            }
            Err(_) => sleep(INSPECT_EVERY).await,
        }
    }
}

/// Inspects the store, and waits for the result.
///
/// # Errors
/// Returns an error if the store cannot be used.
pub(crate) fn check(config: &Config) -> Result<Vec<Failure>, Failure> {
    let Some((shared, store)) =
        config.shared.as_ref().and_then(|shared| Some((shared, shared.store.as_ref()?)))
    else {
        return Ok(Vec::new());
    };
    let inspection = block_on(inspect(store.clone())).map_err(|error| failure(&error))?;
    match inspection {
        Ok(inspection) => {
            let warning = |text: String| config.shared_warning(shared, &text);
            Ok(warnings_of(&inspection).into_iter().map(warning).collect())
        }
        Err(error) => {
            let message = format!("the shared store cannot be used: {error}");
            Err(config.failure_at(&shared.span, message).with_hint(OFFLINE_HINT))
        }
    }
}

/// Waits for `task` in a new runtime.
fn block_on<T>(task: impl Future<Output = T>) -> io::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(task);
    // Does not wait for name lookups that are still in progress.
    runtime.shutdown_background();
    Ok(result)
}

/// Returns the warnings of an inspection, and a warning about the clock of this machine.
fn warnings_of(inspection: &StoreInspection) -> Vec<String> {
    let now = Clock::system().time_of_day_exact().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let skew = inspection.store_time().abs_diff(now).saturating_sub(inspection.round_trip);
    let clock = (skew > SKEW_MAX).then(|| {
        let seconds = skew.as_secs_f64();
        format!(
            "the clock of this machine and the clock of the store differ by {seconds:.1} s: synchronize them"
        )
    });
    inspection.warnings.iter().cloned().chain(clock).collect()
}

/// Returns the name of the host and a random part.
fn random_replica() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let is_valid = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let host: String = host.trim().chars().filter(is_valid).take(64).collect();
    let host = if host.is_empty() { "gateway" } else { &host };
    format!("{host}-{:08x}", fastrand::u32(..))
}

fn failure(error: &io::Error) -> Failure {
    Failure::new(format!("cannot start the thread of the shared store: {error}"))
        .with_hint("check the limit of threads of this user (`ulimit -u`)")
}

/// Difference of clocks that causes a warning.
const SKEW_MAX: Duration = Duration::from_secs(1);

/// Time between two inspections of a store that is not connected yet.
const INSPECT_EVERY: Duration = Duration::from_secs(5);

const OFFLINE_HINT: &str = "if this machine cannot reach the store, skip this check with `--offline`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_of_clocks_is_reported() {
        let now = Clock::system().time_of_day_exact().duration_since(std::time::UNIX_EPOCH).unwrap();
        let at = |time| StoreInspection::at(time, Duration::from_millis(10));
        assert_eq!(warnings_of(&at(now)), [""; 0]);
        for time in [now + Duration::from_secs(5), now.saturating_sub(Duration::from_secs(5))] {
            let warnings = warnings_of(&at(time));
            assert!(warnings[0].contains("differ by 5.0 s"), "{warnings:?}");
        }
    }

    #[test]
    fn gateways_have_different_names() {
        assert_ne!(random_replica(), random_replica());
        assert_ne!(LiveStore::default().replica(), LiveStore::default().replica());
        assert_eq!(LiveStore::default().health(), None);
        let store = LiveStore::default();
        assert_ne!(store.new_owner(), store.new_owner());
    }
}
