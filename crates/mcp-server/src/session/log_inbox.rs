//! A queue of log messages that do not belong to a request.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::Notify;

/// A queue of log messages that do not belong to a request. The messages wait until an event stream of the
/// client takes them. If the queue is full, the oldest messages are dropped, so that a client that does not
/// read cannot block the server.
#[derive(Default, Debug)]
pub struct LogInbox {
    state: Mutex<State>,
    added: Notify,
    /// `true` after an event stream has asked for messages.
    had_reader: AtomicBool,
}

#[derive(Default, Debug)]
struct State {
    /// The parameters of the log notifications, each on one line. If several clients get the same message,
    /// their queues share one copy of the text.
    messages: VecDeque<Arc<RawValue>>,
    bytes: usize,
}

impl LogInbox {
    /// Adds a message to the queue. Returns the number of older messages that were dropped to make space.
    /// Returns 0 if no stream has ever asked for messages.
    pub fn push(&self, params: Arc<RawValue>) -> u64 {
        let mut state = self.state();
        state.bytes += params.get().len();
        state.messages.push_back(params);
        let mut dropped = 0;
        while state.messages.len() > MESSAGES_MAX || (state.messages.len() > 1 && state.bytes > BYTES_MAX) {
            let oldest = state.messages.pop_front();
            state.bytes -= oldest.map_or(0, |oldest| oldest.get().len());
            dropped += 1;
        }
        drop(state);
        self.added.notify_one();
        if self.had_reader.load(Ordering::Relaxed) { dropped } else { 0 }
    }

    /// Returns the oldest message. Waits if the queue is empty.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub(crate) async fn next(&self) -> Arc<RawValue> {
        self.had_reader.store(true, Ordering::Relaxed);
        loop {
            {
                let mut state = self.state();
                if let Some(params) = state.messages.pop_front() {
                    state.bytes -= params.get().len();
                    return params;
                }
            }
            self.added.notified().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum number of messages in the queue.
const MESSAGES_MAX: usize = 4096;

/// Maximum number of bytes in the queue. A single message may be larger.
const BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use serde_json::value::to_raw_value;

    use super::*;

    fn push(inbox: &LogInbox, text: &str) -> u64 {
        inbox.push(to_raw_value(text).unwrap().into())
    }

    fn next(inbox: &LogInbox) -> Option<String> {
        match pin!(inbox.next()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(params) => Some(params.get().to_owned()),
            Poll::Pending => None,
        }
    }

    #[test]
    fn log_messages_are_returned_in_order() {
        let inbox = LogInbox::default();
        assert_eq!(next(&inbox), None);
        assert_eq!(push(&inbox, "a") + push(&inbox, "b"), 0);
        assert_eq!(
            (next(&inbox), next(&inbox), next(&inbox)),
            (Some("\"a\"".into()), Some("\"b\"".into()), None)
        );
    }

    #[test]
    fn full_inbox_drops_and_counts_oldest_messages() {
        let inbox = LogInbox::default();
        assert_eq!(next(&inbox), None);
        let dropped: u64 = (0..MESSAGES_MAX + 3).map(|n| push(&inbox, &n.to_string())).sum();
        assert_eq!((dropped, next(&inbox)), (3, Some("\"3\"".into())));
        let large = "x".repeat(BYTES_MAX);
        assert_eq!(push(&inbox, &large), MESSAGES_MAX as u64 - 1);
        assert_eq!(next(&inbox).map(|last| last.len()), Some(BYTES_MAX + 2));
        assert_eq!(inbox.state().bytes, 0);
    }

    #[test]
    fn messages_dropped_before_first_read_are_not_counted() {
        let inbox = LogInbox::default();
        let dropped: u64 = (0..2 * MESSAGES_MAX).map(|_| push(&inbox, "m")).sum();
        assert_eq!((dropped, inbox.state().messages.len()), (0, MESSAGES_MAX));
    }
}
