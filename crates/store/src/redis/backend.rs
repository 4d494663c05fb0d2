//! The store in Redis or Valkey: operations with a bound of time, and connections that return after failures.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::connector::{Connector, is_master};
use super::failures::Failure;
use super::link::{Backoff, Link, STABLE_TIME};
use super::meter::Meter;
use super::scripts::{Connection, Request};
use super::settings::StoreConfig;
use super::subscriber::Subscriber;
use super::url::StoreLayout;
use crate::channels::{Channels, Subscription};
use crate::error::StoreError;
use crate::health::StoreHealth;
use crate::store_key::StoreKey;

/// The store in Redis or Valkey. Dropping this value closes its connections.
pub(crate) struct RedisStore {
    link: Arc<RedisLink>,
    channels: Channels,
    changed: Arc<Notify>,
    tasks: [AbortHandle; 2],
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl RedisStore {
    /// Starts to connect, in the current runtime.
    pub(crate) fn start(config: StoreConfig) -> Self {
        let connector = Arc::new(Connector::new(config));
        let link = Arc::new(RedisLink {
            connector: connector.clone(),
            link: Link::new(),
            meter: Meter::default(),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            wake: Notify::new(),
            runtime: Handle::current(),
        });
        let (channels, changed) = (Channels::default(), Arc::new(Notify::new()));
        let keeper = tokio::spawn(keep_connected(link.clone()));
        let subscriber = Subscriber::new(connector, channels.clone(), changed.clone());
        let subscriber = tokio::spawn(subscriber.run());
        Self { link, channels, changed, tasks: [keeper.abort_handle(), subscriber.abort_handle()] }
    }

    pub(crate) fn health(&self) -> StoreHealth {
        let (state, reconnects, last_error) = self.link.link.status();
        let config = self.link.connector.config();
        StoreHealth {
            kind: config.url.kind(),
            address: config.url.to_string(),
            state,
            latency: self.link.meter.latency(),
            latency_percentiles: self.link.meter.percentiles(),
            connections: self.link.link.len(),
            connections_max: config.connections_max,
            waiting: WAITING_MAX - self.link.waiting.available_permits(),
            reconnects,
            last_error,
            operations: self.link.meter.counts(),
        }
    }

    pub(crate) fn subscribe(&self, channel: &StoreKey) -> Subscription {
        let subscription = self.channels.subscribe(&self.key(channel));
        self.changed.notify_one();
        subscription
    }

    /// Returns a key with the prefix and the version.
    pub(super) fn key(&self, key: &StoreKey) -> String {
        format!("{}:v1:{key}", self.link.connector.config().prefix)
    }

    /// Sends a request, and waits for the response, within the timeout.
    pub(super) async fn send(&self, request: Request) -> Result<Value, StoreError> {
        let Ok(permit) = self.link.waiting.clone().try_acquire_owned() else {
            self.link.meter.refuse();
            return Err(StoreError::Busy);
        };
        let Some((generation, connection)) = self.link.link.pick() else {
            self.link.meter.refuse();
            return Err(StoreError::Unavailable);
        };
        // The task runs in the runtime of the store, because the runtime of the caller may have no timers.
        let link = self.link.clone();
        let task = self.link.runtime.spawn(async move {
            let result = link.perform(request, generation, connection).await;
            drop(permit);
            result
        });
        // The runtime of the store ends with the process.
        task.await.unwrap_or(Err(StoreError::Unavailable))
    }
}

/// The connections with their background tasks.
struct RedisLink {
    connector: Arc<Connector>,
    link: Link,
    meter: Meter,
    /// Limits the number of operations that wait for the store.
    waiting: Arc<Semaphore>,
    /// Wakes the task that connects.
    wake: Notify,
    runtime: Handle,
}

impl RedisLink {
    async fn perform(
        &self,
        request: Request,
        generation: u64,
        mut connection: Connection,
    ) -> Result<Value, StoreError> {
        let start = Instant::now();
        match timeout(self.connector.config().timeout, request.send(&mut connection)).await {
            Ok(Ok(value)) => {
                self.meter.succeed(start.elapsed());
                self.link.succeed(generation);
                Ok(value)
            }
            Ok(Err(error)) => {
                self.meter.reject();
                let failure = Failure::of(&error);
                if let Some(reason) = failure.lost {
                    self.lose(generation, &reason);
                }
                Err(failure.error)
            }
            Err(_) => {
                self.meter.time_out();
                if self.link.time_out(generation) {
                    self.lose(generation, "the store did not respond in time");
                }
                Err(StoreError::Timeout)
            }
        }
    }

    fn lose(&self, generation: u64, reason: &str) {
        if self.link.lose(generation, reason) {
            tracing::warn!("the connection to the shared store is lost, connecting again: {reason}");
            self.wake.notify_one();
        }
    }

    /// Checks the connection, and returns `false` if it is lost.
    async fn check(&self) -> bool {
        let Some((generation, connection)) = self.link.pick() else { return false };
        let layout = &self.connector.config().url.layout;
        let is_sentinel = matches!(layout, StoreLayout::Sentinel(_));
        let request = Request::command(if is_sentinel { "ROLE" } else { "PING" });
        let result = self.perform(request, generation, connection).await;
        if is_sentinel && result.as_ref().is_ok_and(|role| !is_master(role)) {
            self.lose(generation, "the server is a replica now");
        }
        // After an additional response, all later responses belong to other operations.
        let pong = Value::SimpleString("PONG".to_owned());
        if *layout == StoreLayout::Single && result.is_ok_and(|response| response != pong) {
            self.lose(generation, "the server sent a response that belongs to another operation");
        }
        self.link.len() > 0
    }

    /// Returns `true` if many operations wait, and another connection is allowed.
    fn needs_connection(&self) -> bool {
        let (waiting, count) = (WAITING_MAX - self.waiting.available_permits(), self.link.len());
        let is_cluster = self.connector.config().url.layout == StoreLayout::Cluster;
        !is_cluster
            && count < self.connector.config().connections_max
            && waiting > count * WAITING_PER_CONNECTION
    }

    /// Waits until the connection is lost.
    async fn monitor(&self) {
        let mut claimed = Instant::now();
        loop {
            let _ = timeout(CHECK_EVERY, self.wake.notified()).await;
            if !self.check().await {
                return;
            }
            if self.needs_connection()
                && let Ok(connection) = self.connector.connect_unchecked().await
            {
                self.link.add(connection);
            }
            if claimed.elapsed() >= CLAIM_EVERY
                && let Some((_, mut connection)) = self.link.pick()
            {
                // A lost connection is noticed by the next check.
                let _ = timeout(self.connector.config().timeout, self.connector.claim(&mut connection)).await;
                claimed = Instant::now();
            }
        }
    }
}

/// Connects, and connects again after each loss.
async fn keep_connected(link: Arc<RedisLink>) {
    let mut backoff = Backoff::default();
    loop {
        match link.connector.connect().await {
            Ok(connection) => {
                link.link.add(connection);
                tracing::info!("connected to the shared store {}", link.connector.config().url);
                let connected = Instant::now();
                link.monitor().await;
                if connected.elapsed() >= STABLE_TIME {
                    backoff = Backoff::default();
                } else {
                    sleep(backoff.next()).await;
                }
            }
            Err(error) => {
                if link.link.fail(&error.to_string()) {
                    tracing::warn!("cannot connect to the shared store, trying again: {error}");
                }
                sleep(backoff.next()).await;
            }
        }
    }
}

/// Maximum number of operations that wait for the store.
const WAITING_MAX: usize = 1024;

/// Number of waiting operations for each connection, above which the store opens another connection.
const WAITING_PER_CONNECTION: usize = 32;

/// Time between two checks of the connection.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Time between two renewals of the identity.
const CLAIM_EVERY: Duration = Duration::from_hours(1);
