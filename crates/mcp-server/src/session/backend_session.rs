//! The part of a session that belongs to the backend of its server.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thruway_mcp::json_rpc::Notification;
use tokio::time::Instant;

/// State of a backend for one session of the legacy era. The session drops it at its end.
pub trait BackendSession: Any + fmt::Debug + Send + Sync {
    /// Handles a notification of the client. It must not block.
    fn handle_notification(&self, notification: &Notification<'_>);

    /// Returns the counter for messages that the client does not read.
    fn dropped(&self) -> &Arc<DroppedMessages>;
}

/// Counts the messages that clients do not read, and logs them.
#[derive(Default, Debug)]
pub struct DroppedMessages {
    count: AtomicU64,
    logged: Mutex<Option<Instant>>,
}

impl DroppedMessages {
    /// Returns the number of messages dropped so far.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts dropped messages, and logs the count at most once per 10 seconds: a client decides how many there are.
    pub fn note(&self, messages: u64, reason: &'static str) {
        if messages == 0 {
            return;
        }
        let count = self.count.fetch_add(messages, Ordering::Relaxed) + messages;
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.is_some_and(|logged| logged.elapsed() < LOG_INTERVAL) {
            return;
        }
        *logged = Some(Instant::now());
        drop(logged);
        tracing::warn!(dropped_total = count, "dropped messages of the server behind the bridge: {reason}");
    }
}

/// Shortest time between two log lines about dropped messages.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
