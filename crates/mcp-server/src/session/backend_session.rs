//! The part of a session that belongs to the backend of its server.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use thruway_mcp::json_rpc::Notification;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::dispatch::InterimMessage;

/// State of a backend for one session of the legacy era. The session drops it at its end.
pub trait BackendSession: Any + fmt::Debug + Send + Sync {
    /// Handles a notification of the client. It must not block.
    fn handle_notification(&self, notification: &Notification<'_>);

    /// Returns the counter for messages that the client did not read.
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

    /// Counts dropped messages. Logs the count at most once per 10 seconds, because a client decides how many
    /// messages are dropped.
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
        tracing::warn!(
            dropped_total = count,
            "dropped messages of the MCP server behind the bridge: {reason}"
        );
    }
}

/// Shortest time between two log lines about dropped messages.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Messages that wait for an event stream of their session. Each message goes to one stream only: the first
/// that asks. The queue skips a question if no handler waits for its answer.
#[derive(Default, Debug)]
pub struct OutOfBandMessages(OnceLock<Queue>);

#[derive(Debug)]
struct Queue {
    outbox: mpsc::Sender<InterimMessage>,
    messages: tokio::sync::Mutex<mpsc::Receiver<InterimMessage>>,
}

impl OutOfBandMessages {
    /// Returns the sender for such messages.
    pub fn outbox(&self) -> mpsc::Sender<InterimMessage> {
        self.queue().outbox.clone()
    }

    /// Returns the next message, and waits for one if necessary.
    ///
    /// # Cancel safety
    /// No message is lost.
    pub(super) async fn next(&self) -> Vec<u8> {
        let mut messages = self.queue().messages.lock().await;
        loop {
            match messages.recv().await {
                // Only streams that can be resumed use the other variants.
                Some(said) => {
                    if let Some(message) = said.into_message() {
                        return message;
                    }
                }
                // `self` keeps a sender, so the channel never closes.
                None => return std::future::pending().await,
            }
        }
    }

    fn queue(&self) -> &Queue {
        self.0.get_or_init(|| {
            let (outbox, messages) = mpsc::channel(MESSAGES_MAX);
            Queue { outbox, messages: tokio::sync::Mutex::new(messages) }
        })
    }
}

/// Maximum number of messages that wait for a stream. When the queue is full, senders wait.
const MESSAGES_MAX: usize = 16;
