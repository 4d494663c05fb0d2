//! The client on whose behalf a request is sent, when one connection serves many clients, and the messages
//! that wait for it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{Error, Notification};
use tokio::time::Instant;

use super::reading::Answer;

/// The answer to a question, unparsed.
pub type RawAnswer = Result<Box<RawValue>, Error>;

/// The original client of a forwarded request. It receives the questions and messages that belong to the
/// request.
pub trait Requester: Send + Sync {
    /// Returns the identity of the party. A message that names no request goes to a party only if that party
    /// has sent all requests in flight.
    fn key(&self) -> u64;

    /// Answers a question.
    fn ask(&self, method: &str, params: Option<&RawValue>)
    -> Pin<Box<dyn Future<Output = RawAnswer> + Send>>;

    /// Forwards a log message. Returns it if the client has to read first; the caller then delivers it before
    /// it reads on.
    fn tell(&self, notification: &Notification<'_>) -> Option<Unsent>;

    /// Returns `true` if the client of this request is the one that has to read first.
    fn is_reader_of(&self, _unsent: &Unsent) -> bool {
        false
    }

    /// Called when the server has closed the event stream of a request and expects a reconnect after `retry`
    /// (2025-11-25, SEP-1699). Must return quickly.
    fn disconnect(&self, _retry: Duration) {}

    /// Called with the answer to a request on a shared stream, before later messages are handled. Must return
    /// quickly.
    fn hear(&self, _answer: &Answer) {}
}

impl fmt::Debug for dyn Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Requester").field(&self.key()).finish()
    }
}

/// A message for a client that has to read other messages first. The reader of the server's stream waits for
/// the delivery and reads nothing in the meantime.
pub trait UnsentMessage: fmt::Debug + Send + Sync {
    /// Returns a number that identifies the request of the client that has to read.
    fn reader(&self) -> usize;

    /// Waits until the client has read enough, or its request has ended.
    fn deliver(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Waits for at most `limit`, then drops the message.
    fn deliver_within(self: Box<Self>, limit: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// A message that is lost unless it is delivered.
pub type Unsent = Box<dyn UnsentMessage>;

/// Limits the time that the reader of a stream waits for slow clients.
///
/// A stream that serves one client waits without limit, because only that client is affected. The wait counts
/// toward the timeouts of the calls on the stream. A stream that serves several clients waits at most
/// [`WAIT_MAX`] at once, and a tenth of the time in the long run. A slow client thus delays the others only
/// briefly.
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

    /// Delivers a message, or drops it when the budget is used up.
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

/// Longest delay that a slow client causes for the other clients of its server.
pub const WAIT_MAX: Duration = Duration::from_millis(500);

/// The budget regains one tenth of the elapsed time.
const REFILL_DIVISOR: u32 = 10;
