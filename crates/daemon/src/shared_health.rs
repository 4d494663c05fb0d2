//! Exchanges health news with the other gateways of a fleet, over a channel of the store.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thruway_gateway::{HealthEvent, HealthNews, HealthSharing};
use thruway_net::Clock;
use thruway_store::{SealingKey, Store, StoreKey, SubscriptionEvent};
use tokio::sync::mpsc::Receiver;

use crate::live_store::LiveStore;
use crate::mcp::RunningUpstreams;

/// The health news of this process. Clones share the state.
#[derive(Clone)]
pub(crate) struct SharedHealth {
    sharing: Arc<HealthSharing>,
    /// The upstreams that get the news of other gateways.
    upstreams: Arc<Mutex<RunningUpstreams>>,
}

/// News in the store, before encryption.
#[derive(Serialize, Deserialize)]
struct Message {
    /// Random name of the gateway that sends the news.
    gateway: String,
    /// Time of the news, in milliseconds since 1970.
    at: u128,
    upstream: String,
    server: String,
    event: Event,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Event {
    Healthy,
    Unhealthy(String),
    Ejected(String),
    Returned,
}

/// Reads and writes the messages of one fleet.
struct Channel {
    store: Store,
    key: StoreKey,
    sealing: SealingKey,
    gateway: String,
}

impl Default for SharedHealth {
    /// Returns a value that exchanges no news.
    fn default() -> Self {
        Self { sharing: HealthSharing::new().0, upstreams: Arc::default() }
    }
}

impl SharedHealth {
    /// Starts to exchange news with the gateways that use `store`. Without a shared store, there is no news.
    pub(crate) fn start(store: &LiveStore) -> Self {
        let (sharing, news) = HealthSharing::new();
        let health = Self { sharing, upstreams: Arc::default() };
        if let Some(runtime) = store.runtime() {
            let channel = Arc::new(Channel::new(store));
            runtime.spawn(send(channel.clone(), news));
            runtime.spawn(receive(channel, health.clone()));
        }
        health
    }

    /// Returns the part that upstreams use.
    pub(crate) const fn sharing(&self) -> &Arc<HealthSharing> {
        &self.sharing
    }

    /// Passes later news of other gateways to `upstreams`. If `is_enabled` is `false`, ignores them and sends none.
    pub(crate) fn set_upstreams(&self, upstreams: RunningUpstreams, is_enabled: bool) {
        self.sharing.enable(is_enabled);
        *self.lock() = if is_enabled { upstreams } else { RunningUpstreams::default() };
    }

    fn apply(&self, news: &HealthNews) {
        let upstream = self.lock().get(&*news.upstream).cloned();
        if let Some(upstream) = upstream {
            upstream.apply_health_news(&news.server, news.event.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, RunningUpstreams> {
        self.upstreams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends the news of this process. A failing store loses news: each gateway then checks all servers.
async fn send(channel: Arc<Channel>, mut news: Receiver<HealthNews>) {
    while let Some(news) = news.recv().await {
        let _ = channel.store.publish(&channel.key, channel.seal(news, now())).await;
    }
}

/// Applies the news of the other gateways.
async fn receive(channel: Arc<Channel>, health: SharedHealth) {
    let mut messages = channel.store.subscribe(&channel.key);
    while let Some(event) = messages.next().await {
        if let SubscriptionEvent::Message(message) = event
            && let Some(news) = channel.open(&message, now())
        {
            health.apply(&news);
        }
    }
}

impl Channel {
    fn new(store: &LiveStore) -> Self {
        let (sealing, gateway) = (store.key().sealing(PURPOSE), store.new_owner());
        Self { store: store.store().clone(), key: StoreKey::new("health", "news"), sealing, gateway }
    }

    fn seal(&self, news: HealthNews, now: Duration) -> Bytes {
        let event = match news.event {
            HealthEvent::Checked(Ok(())) => Event::Healthy,
            HealthEvent::Checked(Err(reason)) => Event::Unhealthy(reason),
            HealthEvent::Ejected { cause } => Event::Ejected(cause),
            HealthEvent::Returned => Event::Returned,
        };
        let (upstream, server) = (news.upstream.to_string(), news.server.to_string());
        let message = Message { gateway: self.gateway.clone(), at: now.as_millis(), upstream, server, event };
        let message = serde_json::to_vec(&message).unwrap_or_default();
        self.sealing.seal(&message, CONTEXT).into()
    }

    /// Returns the news in a message. Returns `None` for own messages, old messages, and messages without the key of
    /// the fleet.
    fn open(&self, message: &[u8], now: Duration) -> Option<HealthNews> {
        let message: Message = serde_json::from_slice(&self.sealing.open(message, CONTEXT)?).ok()?;
        let is_recent = message.at.abs_diff(now.as_millis()) <= AGE_MAX.as_millis();
        let event = match message.event {
            Event::Healthy => HealthEvent::Checked(Ok(())),
            Event::Unhealthy(reason) => HealthEvent::Checked(Err(reason)),
            Event::Ejected(cause) => HealthEvent::Ejected { cause },
            Event::Returned => HealthEvent::Returned,
        };
        let (upstream, server) = (message.upstream.into(), message.server.into());
        (message.gateway != self.gateway && is_recent).then_some(HealthNews { upstream, server, event })
    }
}

/// Returns the time since 1970.
fn now() -> Duration {
    Clock::system().time_of_day_exact().duration_since(UNIX_EPOCH).unwrap_or_default()
}

const PURPOSE: &str = "health news";

const CONTEXT: &[u8] = b"health news";

/// Maximum difference between the time of a message and the own clock. Someone with access to the store could send old
/// messages again.
const AGE_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use thruway_store::SharedKey;

    use super::*;

    fn channel(gateway: &str, key: &SharedKey) -> Channel {
        let (key, sealing) = (StoreKey::new("health", "news"), key.sealing(PURPOSE));
        Channel { store: Store::memory(), key, sealing, gateway: gateway.to_owned() }
    }

    #[test]
    fn gateways_of_a_fleet_read_the_recent_news_of_the_others() {
        let key = SharedKey::random();
        let (one, two, stranger) =
            (channel("one", &key), channel("two", &key), channel("three", &SharedKey::random()));
        for event in [
            HealthEvent::Checked(Ok(())),
            HealthEvent::Checked(Err("status 503".into())),
            HealthEvent::Ejected { cause: "refused".into() },
            HealthEvent::Returned,
        ] {
            let news = HealthNews { upstream: "a".into(), server: "192.0.2.1:80".into(), event };
            let sent = one.seal(news.clone(), now());
            assert_eq!(two.open(&sent, now()), Some(news.clone()));
            assert_eq!([one.open(&sent, now()), stranger.open(&sent, now())], [None, None]);
            let old = one.seal(news, now().saturating_sub(AGE_MAX * 2));
            assert_eq!(two.open(&old, now()), None);
            assert_eq!(two.open(&sent[1..], now()), None);
        }
    }
}
