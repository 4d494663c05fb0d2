//! Keeps the keys of session tickets equal on all replicas.
//!
//! Each period has its own random key. The first replica that needs the key of a period creates it. New tickets
//! use the key of the current period. Tickets of the previous period stay valid, and so do tickets of a replica
//! with a clock that is a few minutes ahead.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use thruway_net::Clock;
use thruway_net::tls::{SharedTicketKeys, TicketKey};
use thruway_store::{StoreError, StoreKey};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use super::SharedSecrets;

/// Reads the ticket keys from the shared store on a separate thread. Clones share the thread.
#[derive(Clone, Default)]
pub struct TicketKeeper {
    keys: SharedTicketKeys,
    /// Channel to the thread. `None` before the thread starts.
    thread: Arc<Mutex<Option<UnboundedSender<Option<SharedSecrets>>>>>,
}

/// The ticket keys that this process knows, by their periods.
#[derive(Default)]
struct KnownTicketKeys {
    shared: BTreeMap<u64, TicketKey>,
    /// Keys of this process only, for periods in which the shared store failed.
    own: BTreeMap<u64, TicketKey>,
    has_failed: bool,
}

impl TicketKeeper {
    /// Returns the keys for [`TlsAcceptorConfig::shared_tickets`](thruway_net::tls::TlsAcceptorConfig).
    pub fn keys(&self) -> SharedTicketKeys {
        self.keys.clone()
    }

    /// Reads the ticket keys from `secrets` from now on.
    pub fn follow(&self, secrets: Option<SharedSecrets>) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && secrets.is_none() {
            return;
        }
        let sender = thread.get_or_insert_with(|| self.start());
        // The thread runs until the sender is dropped. `send` fails only if the runtime could not start or
        // the thread panicked.
        let _ = sender.send(secrets);
    }

    fn start(&self) -> UnboundedSender<Option<SharedSecrets>> {
        let (sender, receiver) = unbounded_channel();
        let keys = self.keys.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(run(receiver, &keys)),
                Err(error) => tracing::error!(%error, "cannot start the runtime for session ticket keys"),
            }
        });
        sender
    }
}

async fn run(mut wanted: UnboundedReceiver<Option<SharedSecrets>>, keys: &SharedTicketKeys) {
    let mut known = KnownTicketKeys::default();
    let mut secrets: Option<SharedSecrets> = None;
    loop {
        if let Some(secrets) = &secrets {
            keys.replace(known.update(secrets, Clock::system().time_of_day()).await);
        }
        let interval = if known.has_failed { RETRY_INTERVAL } else { CHECK_INTERVAL };
        tokio::select! {
            next = wanted.recv() => match next {
                Some(next) => {
                    if let Some(next) = &next {
                        next.wait_for_connection().await;
                    }
                    secrets = next;
                }
                None => return,
            },
            () = sleep(interval), if secrets.is_some() => {}
        }
    }
}

impl KnownTicketKeys {
    /// Reads the missing keys, and returns all valid keys. The first key is for new tickets.
    async fn update(&mut self, secrets: &SharedSecrets, now: SystemTime) -> Vec<TicketKey> {
        let period = period_at(now);
        let read = self.read_missing(secrets, now).await;
        self.log(read.as_ref().err());
        if !self.shared.contains_key(&period)
            && !self.own.contains_key(&period)
            && let Some(key) = TicketKey::random()
        {
            self.own.insert(period, key);
        }
        let is_valid = |&of: &u64| of + 1 >= period && of <= period + 1;
        self.shared.retain(|of, _| is_valid(of));
        self.own.retain(|of, _| is_valid(of));
        let current = self.shared.get(&period).or_else(|| self.own.get(&period));
        let all = self.shared.values().chain(self.own.values());
        let others = all.filter(|key| Some(*key) != current);
        current.into_iter().chain(others).cloned().collect()
    }

    async fn read_missing(&mut self, secrets: &SharedSecrets, now: SystemTime) -> Result<(), StoreError> {
        let period = period_at(now);
        let previous = period.saturating_sub(1);
        if !self.shared.contains_key(&previous) {
            let key = read(secrets, previous).await?;
            self.shared.extend(key.map(|key| (previous, key)));
        }
        for period in [period, period_at(now + SKEW_MAX)] {
            if !self.shared.contains_key(&period) {
                let key = read_or_create(secrets, period).await?;
                self.shared.extend(key.map(|key| (period, key)));
            }
        }
        Ok(())
    }

    /// Logs the first of several failures of the shared store, and its recovery.
    fn log(&mut self, error: Option<&StoreError>) {
        match error {
            Some(error) if !self.has_failed => tracing::warn!(
                "cannot share the keys of session tickets: clients can resume their sessions only on the same \
                 replica: {error}"
            ),
            None if self.has_failed => tracing::info!("sharing the keys of session tickets again"),
            _ => {}
        }
        self.has_failed = error.is_some();
    }
}

/// Returns the key of a period from the store. Creates the key if it is missing.
async fn read_or_create(secrets: &SharedSecrets, period: u64) -> Result<Option<TicketKey>, StoreError> {
    if let Some(key) = read(secrets, period).await? {
        return Ok(Some(key));
    }
    let Some(key) = TicketKey::random() else { return Ok(None) };
    if secrets.set_if_absent(&key_of(period), &key.as_bytes(), TTL).await? {
        return Ok(Some(key));
    }
    // Another replica has created the key at the same time, or the value is damaged. This process then uses
    // its own key until the end of the period.
    read(secrets, period).await
}

async fn read(secrets: &SharedSecrets, period: u64) -> Result<Option<TicketKey>, StoreError> {
    let bytes: Option<Vec<u8>> = secrets.get(&key_of(period)).await?;
    Ok(bytes.and_then(|bytes| TicketKey::from_bytes(&bytes)))
}

fn key_of(period: u64) -> StoreKey {
    StoreKey::new("tickets", &period.to_string())
}

/// Returns the number of the period at `now`.
fn period_at(now: SystemTime) -> u64 {
    now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() / PERIOD.as_secs()
}

/// Time in which new tickets use the same key.
const PERIOD: Duration = Duration::from_hours(6);
/// Lifetime of a key in the store: the period itself, the next period, and the time before the period.
const TTL: Duration = Duration::from_hours(13);
/// Maximum difference between the clocks of two replicas. Replicas create a key this long before its period.
const SKEW_MAX: Duration = Duration::from_mins(10);
const CHECK_INTERVAL: Duration = Duration::from_mins(1);
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use thruway_store::Store;

    use super::*;
    use crate::replicas::secrets::tests::replica;

    fn at(hours: f64) -> SystemTime {
        SystemTime::UNIX_EPOCH + 1000 * PERIOD + Duration::from_secs_f64(hours * 3600.0)
    }

    #[tokio::test(start_paused = true)]
    async fn replicas_use_the_same_key_in_each_period_and_keep_the_previous_key() {
        let store = Store::memory();
        let (one, two) = (replica(&store, "one", &[1]), replica(&store, "two", &[1]));
        let (mut of_one, mut of_two) = (KnownTicketKeys::default(), KnownTicketKeys::default());
        let first = of_one.update(&one, at(1.0)).await;
        assert_eq!(of_two.update(&two, at(1.5)).await, first);
        assert_eq!(first.len(), 1);
        // A replica with a clock that is ahead uses the next key, and all replicas know this key.
        let ahead = of_one.update(&one, at(6.05)).await;
        assert_eq!(ahead[1], first[0]);
        let behind = of_two.update(&two, at(5.95)).await;
        assert_eq!(behind, [first[0].clone(), ahead[0].clone()]);
        assert_eq!(of_two.update(&two, at(6.1)).await, ahead);
        // After two periods, the first key is gone. A new replica gets the same keys.
        let later = of_one.update(&one, at(12.5)).await;
        assert_eq!((later.len(), later.contains(&first[0])), (2, false));
        assert_eq!(KnownTicketKeys::default().update(&two, at(12.6)).await, later);
    }

    #[tokio::test(start_paused = true)]
    async fn damaged_ticket_key_is_replaced_by_a_key_of_this_process() {
        let store = Store::memory();
        store.set(&key_of(period_at(at(1.0))), vec![7; 32].into(), TTL).await.unwrap();
        let secrets = replica(&store, "one", &[1]);
        let mut known = KnownTicketKeys::default();
        let keys = known.update(&secrets, at(1.0)).await;
        assert_eq!((keys.len(), known.has_failed), (1, false));
        assert_ne!(keys[0].as_bytes(), [7; 32]);
        assert_eq!(known.update(&secrets, at(2.0)).await, keys);
        let next = known.update(&secrets, at(7.0)).await;
        assert_eq!((next.len(), &next[1]), (2, &keys[0]));
        assert_eq!(KnownTicketKeys::default().update(&secrets, at(7.0)).await, next[..1]);
    }
}
