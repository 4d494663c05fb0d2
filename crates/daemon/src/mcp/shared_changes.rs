//! Exchanges changes of MCP endpoints with the other gateways of a fleet, over a channel of the store.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thruway_mcp_sdk::{ChangeSharing, McpServer, SharedChanges};
use thruway_net::Clock;
use thruway_store::{SealingKey, Store, StoreError, StoreKey, SubscriptionEvent};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::live_store::LiveStore;

/// The exchange of changes. Does nothing without a shared store. Clones share the state.
#[derive(Clone, Default)]
pub(crate) struct EndpointChanges(Option<Arc<Exchange>>);

struct Exchange {
    runtime: Handle,
    channel: Arc<Channel>,
    /// One exchange for each endpoint that this process has ever served. A reload keeps it.
    endpoints: Mutex<BTreeMap<String, ChangeSharing>>,
}

/// Reads and writes the messages of one fleet.
struct Channel {
    store: Store,
    key: StoreKey,
    sealing: SealingKey,
    /// A random text that identifies this process.
    sender: String,
}

/// A message in the store, before encryption.
#[derive(Serialize, Deserialize)]
struct Message {
    sender: String,
    /// Time of the message, in milliseconds since 1970.
    at: u128,
    endpoint: String,
    changes: SharedChanges,
}

impl EndpointChanges {
    /// Starts to exchange changes with the gateways that use `store`.
    pub(crate) fn start(store: &LiveStore) -> Self {
        let Some(runtime) = store.runtime() else { return Self::default() };
        let (channel, runtime) = (Arc::new(Channel::new(store)), runtime.clone());
        let exchange = Arc::new(Exchange { runtime, channel, endpoints: Mutex::default() });
        exchange.runtime.spawn(receive(exchange.channel.clone(), Arc::downgrade(&exchange)));
        Self(Some(exchange))
    }

    /// Exchanges the changes of `server`, which serves the endpoint with this name. If the server replaces an earlier
    /// server, the clients of the other gateways get a notification, because the lists may differ.
    pub(super) fn connect(&self, endpoint: &str, server: &McpServer) {
        let Some(exchange) = &self.0 else { return };
        let (sharing, is_replaced) = match exchange.lock().entry(endpoint.to_owned()) {
            Entry::Occupied(known) => (known.get().clone(), true),
            Entry::Vacant(new) => (new.insert(ChangeSharing::default()).clone(), false),
        };
        server.share_changes(&sharing);
        if is_replaced {
            sharing.share(SharedChanges::lists());
        } else {
            exchange.runtime.spawn(send(exchange.channel.clone(), endpoint.to_owned(), sharing));
        }
    }
}

impl Exchange {
    fn apply(&self, endpoint: &str, changes: &SharedChanges) {
        let sharing = self.lock().get(endpoint).cloned();
        if let Some(sharing) = sharing {
            sharing.apply(changes);
        }
    }

    fn apply_to_all(&self, changes: &SharedChanges) {
        let all: Vec<_> = self.lock().values().cloned().collect();
        for sharing in all {
            sharing.apply(changes);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, ChangeSharing>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends the changes of an endpoint. If the store fails, the changes wait until it works again.
async fn send(channel: Arc<Channel>, endpoint: String, sharing: ChangeSharing) {
    let mut pause = PAUSE_MIN;
    loop {
        let changes = sharing.next().await;
        match channel.store.publish(&channel.key, channel.seal(&endpoint, changes.clone(), now())).await {
            Ok(()) => pause = PAUSE_MIN,
            Err(error) => {
                tracing::debug!(endpoint, "cannot share changes with the other gateways: {error}");
                let is_too_large = error == StoreError::TooLarge;
                sharing.share(if is_too_large { SharedChanges::unknown() } else { changes });
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
        // Further changes in this time need only one message.
        sleep(pause).await;
    }
}

/// Applies the changes of the other gateways. After lost messages, the clients get a notification about everything.
async fn receive(channel: Arc<Channel>, exchange: Weak<Exchange>) {
    let mut messages = channel.store.subscribe(&channel.key);
    let mut earliest_notice = Instant::now();
    let mut notice_at = None;
    loop {
        let notice = async {
            match notice_at {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        let event = tokio::select! {
            event = messages.next() => event,
            () = notice => {
                let Some(exchange) = exchange.upgrade() else { return };
                notice_at = None;
                earliest_notice = Instant::now() + NOTICE_PAUSE;
                exchange.apply_to_all(&SharedChanges::unknown());
                continue;
            }
        };
        match event {
            Some(SubscriptionEvent::Message(message)) => {
                let Some(exchange) = exchange.upgrade() else { return };
                if let Some((endpoint, changes)) = channel.open(&message, now()) {
                    exchange.apply(&endpoint, &changes);
                }
            }
            Some(SubscriptionEvent::Gap) => {
                // The clients of all gateways must not request all lists at the same moment.
                let at = Instant::now() + NOTICE_SPREAD.mul_f64(fastrand::f64());
                notice_at.get_or_insert(at.max(earliest_notice));
            }
            None => return,
        }
    }
}

impl Channel {
    fn new(store: &LiveStore) -> Self {
        Self::of(store.store().clone(), store.key().sealing(PURPOSE))
    }

    fn of(store: Store, sealing: SealingKey) -> Self {
        let sender = format!("{:016x}", fastrand::u64(..));
        Self { store, key: StoreKey::new("mcp", "changes"), sealing, sender }
    }

    fn seal(&self, endpoint: &str, changes: SharedChanges, now: Duration) -> Bytes {
        let (sender, endpoint) = (self.sender.clone(), endpoint.to_owned());
        let message = Message { sender, at: now.as_millis(), endpoint, changes };
        // All these values can be written as JSON.
        self.sealing.seal(&serde_json::to_vec(&message).unwrap_or_default(), CONTEXT).into()
    }

    /// Returns the endpoint and the changes in a message. Returns `None` for own messages, old messages, and messages
    /// without the key of the fleet.
    fn open(&self, message: &[u8], now: Duration) -> Option<(String, SharedChanges)> {
        let message: Message = serde_json::from_slice(&self.sealing.open(message, CONTEXT)?).ok()?;
        let is_recent = message.at.abs_diff(now.as_millis()) <= AGE_MAX.as_millis();
        (message.sender != self.sender && is_recent).then_some((message.endpoint, message.changes))
    }
}

/// Returns the time since 1970.
fn now() -> Duration {
    Clock::system().time_of_day_exact().duration_since(UNIX_EPOCH).unwrap_or_default()
}

const PURPOSE: &str = "changes of MCP endpoints";

const CONTEXT: &[u8] = b"changes of MCP endpoints";

/// Maximum difference between the time of a message and the own clock. Someone with access to the store could send old
/// messages again.
const AGE_MAX: Duration = Duration::from_mins(5);

/// Minimum time between two messages of an endpoint.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// Maximum time between two attempts to send.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Maximum time after a loss of messages until the clients get a notification. Each gateway chooses a random time.
const NOTICE_SPREAD: Duration = Duration::from_millis(500);

/// Minimum time between two notifications about lost messages, if the store fails again and again.
const NOTICE_PAUSE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use thruway_store::SharedKey;

    use super::*;

    #[test]
    fn gateways_of_a_fleet_read_the_recent_changes_of_the_others() {
        let key = SharedKey::random();
        let channel = |key: &SharedKey| Channel::of(Store::memory(), key.sealing(PURPOSE));
        let (one, two, stranger) = (channel(&key), channel(&key), channel(&SharedKey::random()));
        for changes in [SharedChanges::lists(), SharedChanges::unknown()] {
            let sent = one.seal("dev", changes.clone(), now());
            assert_eq!(two.open(&sent, now()), Some(("dev".to_owned(), changes.clone())));
            assert_eq!([one.open(&sent, now()), stranger.open(&sent, now())], [None, None]);
            let old = one.seal("dev", changes, now().saturating_sub(AGE_MAX * 2));
            assert_eq!(
                [two.open(&old, now()), two.open(&sent[1..], now()), two.open(b"{}", now())],
                [None, None, None]
            );
        }
    }
}
