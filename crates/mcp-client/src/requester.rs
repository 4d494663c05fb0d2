//! Requesters: the original clients of forwarded requests, when several clients of a bridge share one
//! connection. This module also defines messages that wait until a requester has read earlier messages.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{Error, Notification};
use tokio::time::Instant;

use super::reading::Answer;

/// The answer to an elicitation, sampling or roots request of the server, as raw JSON.
pub type RawAnswer = Result<Box<RawValue>, Error>;

/// The original client of a forwarded request. This client receives the messages of the server that belong to
/// the request, including elicitation, sampling and roots requests.
pub trait Requester: Send + Sync {
    /// Returns a number that identifies the requester. A message of the server that names no request goes
    /// to a requester only if all requests in flight come from this requester.
    fn key(&self) -> u64;

    /// Answers an elicitation, sampling or roots request of the server.
    fn ask(&self, method: &str, params: Option<&RawValue>)
    -> Pin<Box<dyn Future<Output = RawAnswer> + Send>>;

    /// Forwards a log message of the server to the requester. If the requester must first read earlier
    /// messages, returns the log message. The caller must deliver the returned message before it reads the
    /// next message of the server.
    fn send_notification(&self, notification: &Notification<'_>) -> Option<Unsent>;

    /// Returns `true` if `unsent` waits for this requester.
    fn is_reader_of(&self, _unsent: &Unsent) -> bool {
        false
    }

    /// Called when the server has closed the event stream of a request and expects a reconnect after `retry`
    /// (MCP revision 2025-11-25, SEP-1699). Must return quickly.
    fn disconnect(&self, _retry: Duration) {}

    /// Called with the answer to a request on a shared stream, before the client handles later messages.
    /// Must return quickly.
    fn handle_shared_answer(&self, _answer: &Answer) {}
}

impl fmt::Debug for dyn Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Requester").field(&self.key()).finish()
    }
}

/// A message for a requester that must first read earlier messages. The task that reads the stream of the
/// server waits for the delivery, and reads nothing in the meantime.
pub trait UnsentMessage: fmt::Debug + Send + Sync {
    /// Returns a number that identifies the request whose client must first read earlier messages.
    fn reader(&self) -> usize;

    /// Waits until the client has read enough messages, and delivers the message. Drops the message if the
    /// request of the client ends first.
    fn deliver(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Delivers the message like [`deliver`](Self::deliver), but drops the message after it has waited for
    /// `limit`.
    fn deliver_within(self: Box<Self>, limit: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// A message that is lost unless the caller delivers it.
pub type Unsent = Box<dyn UnsentMessage>;

/// Time budget for waits for slow clients. During such a wait, the task that reads the stream of the server
/// reads nothing.
///
/// On a stream that serves one client, the task waits without limit, because only that client is affected.
/// The wait counts toward the timeouts of the calls on the stream. On a stream that serves several clients,
/// one wait takes at most [`WAIT_MAX`], and all waits together take at most a tenth of the time. Therefore a
/// slow client delays the other clients only briefly.
#[derive(Debug)]
pub struct WaitBudget {
    is_shared: bool,
    left: Duration,
    updated: Instant,
}

impl WaitBudget {
    /// Returns a full budget. `is_shared` is `true` for a stream that serves several clients.
    pub fn new(is_shared: bool) -> Self {
        Self { is_shared, left: WAIT_MAX, updated: Instant::now() }
    }

    /// Delivers a message, or drops the message when the budget is used up.
    pub async fn deliver(&mut self, unsent: Unsent) {
        if !self.is_shared {
            return unsent.deliver().await;
        }
        let began = Instant::now();
        self.left = (self.left + (began - self.updated) / REFILL_DIVISOR).min(WAIT_MAX);
        unsent.deliver_within(self.left).await;
        self.updated = Instant::now();
        self.left = self.left.saturating_sub(self.updated - began);
    }
}

/// Maximum duration of one wait for a slow client, on a stream that several clients share.
pub const WAIT_MAX: Duration = Duration::from_millis(500);

/// Divisor for refilling the budget: the budget regains one tenth of the elapsed time.
const REFILL_DIVISOR: u32 = 10;
