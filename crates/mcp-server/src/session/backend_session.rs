//! The state that a backend stores in a session.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use thruway_mcp::json_rpc::Notification;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::dispatch::InterimMessage;

/// State that a backend stores in one session of the legacy era. The server drops this state together with
/// the session.
pub trait BackendSession: Any + fmt::Debug + Send + Sync {
    /// Handles a notification of the client. This method must not block.
    fn handle_notification(&self, notification: &Notification<'_>);

    /// Returns the counter of the messages that were dropped because the client did not read them.
    fn dropped(&self) -> &Arc<DroppedMessages>;
}

/// Counts the messages that were dropped because clients did not read them. Logs the count.
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

    /// Adds `messages` to the count of dropped messages. Logs the count at most once per 10 seconds.
    /// Otherwise, a client that does not read its messages could fill the log.
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

/// Minimum time between two log lines about dropped messages.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// A queue of messages that do not belong to a request of the client. If several event streams wait for
/// messages, each message goes to only one of them. The session skips questions that no handler waits for
/// anymore.
#[derive(Default, Debug)]
pub struct OutOfBandMessages(OnceLock<Queue>);

#[derive(Debug)]
struct Queue {
    outbox: mpsc::Sender<InterimMessage>,
    messages: tokio::sync::Mutex<mpsc::Receiver<InterimMessage>>,
}

impl OutOfBandMessages {
    /// Returns a sender for the queue.
    pub fn outbox(&self) -> mpsc::Sender<InterimMessage> {
        self.queue().outbox.clone()
    }

    /// Returns the next message. Waits if the queue is empty.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub(super) async fn next(&self) -> Vec<u8> {
        let mut messages = self.queue().messages.lock().await;
        loop {
            match messages.recv().await {
                // Ignore `Disconnect`, which is only for streams that clients can resume.
                Some(said) => {
                    if let Some(message) = said.into_message() {
                        return message;
                    }
                }
                // The queue keeps a sender, so the channel never closes.
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

/// Maximum number of messages in the queue. If the queue is full, senders wait.
const MESSAGES_MAX: usize = 16;
