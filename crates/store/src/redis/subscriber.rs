//! The connection for subscriptions.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::connector::{Connector, PushSender, is_master, role};
use super::link::{Backoff, STABLE_TIME};
use super::node::NodeConnection;
use super::url::StoreLayout;
use crate::channels::Channels;

/// Keeps a connection while there are subscriptions.
pub(super) struct Subscriber {
    connector: Arc<Connector>,
    channels: Channels,
    /// Wakes this task for a new subscription.
    changed: Arc<Notify>,
}

impl Subscriber {
    pub(super) const fn new(connector: Arc<Connector>, channels: Channels, changed: Arc<Notify>) -> Self {
        Self { connector, channels, changed }
    }

    /// Runs until the task is aborted.
    pub(super) async fn run(self) {
        let mut backoff = Backoff::default();
        loop {
            while self.channels.names().is_empty() {
                self.changed.notified().await;
            }
            let lost = Arc::new(Notify::new());
            if let Ok(connection) = self.connector.connect_to_node(Some(self.push_sender(&lost))).await {
                let connected = Instant::now();
                self.serve(connection, &lost).await;
                if connected.elapsed() >= STABLE_TIME {
                    backoff = Backoff::default();
                }
            }
            sleep(backoff.next()).await;
        }
    }

    /// Subscribes to all channels, and waits until the connection is lost.
    async fn serve(&self, mut connection: NodeConnection, lost: &Notify) {
        let mut subscribed = HashSet::new();
        loop {
            let current: HashSet<_> = self.channels.names().into_iter().collect();
            let gone: Vec<_> = subscribed.difference(&current).cloned().collect();
            let new: Vec<_> = current.difference(&subscribed).cloned().collect();
            let request = async {
                if !gone.is_empty() {
                    connection.unsubscribe(&gone).await?;
                }
                if !new.is_empty() {
                    connection.subscribe(&new).await?;
                }
                self.check(&mut connection).await
            };
            if !matches!(timeout(ANSWER_TIME, request).await, Ok(Ok(true))) {
                return;
            }
            for channel in &new {
                self.channels.deliver_gap(channel);
            }
            subscribed = current;
            tokio::select! {
                () = lost.notified() => return,
                () = self.changed.notified() => {}
                () = sleep(CHECK_EVERY) => {}
            }
        }
    }

    /// Returns `false` if the server does not deliver messages any longer.
    async fn check(&self, connection: &mut NodeConnection) -> redis::RedisResult<bool> {
        if matches!(self.connector.config().url.layout, StoreLayout::Sentinel(_)) {
            return role(connection).await.map(|role| is_master(&role));
        }
        redis::cmd("PING").query_async::<Value>(connection).await.map(|_| true)
    }

    /// Returns a function that delivers messages, and notifies `lost` when the connection is lost.
    fn push_sender(&self, lost: &Arc<Notify>) -> PushSender {
        let (channels, lost) = (self.channels.clone(), lost.clone());
        Arc::new(move |info: PushInfo| {
            match info.kind {
                PushKind::Message => deliver(&channels, info.data),
                PushKind::Disconnection => lost.notify_one(),
                _ => {}
            }
            Ok(())
        })
    }
}

fn deliver(channels: &Channels, data: Vec<Value>) {
    if let Ok([Value::BulkString(channel), Value::BulkString(message)]) = <[Value; 2]>::try_from(data) {
        channels.deliver(&String::from_utf8_lossy(&channel), message.into());
    }
}

/// Maximum time for responses of the store.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// Time between two checks of the connection.
const CHECK_EVERY: Duration = Duration::from_secs(1);
