//! The party on whose behalf a request is sent, where one client speaks for many, and the messages that wait
//! for it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{Error, Notification};
use tokio::time::Instant;

use super::reading::Answer;

/// The answer to a question as it was given.
pub type RawAnswer = Result<Box<RawValue>, Error>;

/// Whoever is asked and told what a server says while it handles a request.
pub trait Party: Send + Sync {
    /// Tells parties apart: what does not say which request it belongs to is for whoever has sent all of
    /// them.
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

    /// Learns that the server has closed the event stream of a request, and wants the client to come back for
    /// the rest after
    /// `retry` (2025-11-25, SEP-1699). It must be quick, too.
    fn disconnect(&self, _retry: Duration) {}

    /// Is shown the answer to a request on a stream that requests have in common, before what comes behind
    /// it. It must be quick, too.
    fn hear(&self, _answer: &Answer) {}
}

impl fmt::Debug for dyn Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Party").field(&self.key()).finish()
    }
}

/// A message for a client that has to read others first. The reader of the server's stream waits until it is
/// delivered, and reads no further meanwhile.
pub trait UnsentMessage: fmt::Debug + Send + Sync {
    /// Returns a number that names the request whose client has to read.
    fn reader(&self) -> usize;

    /// Waits until the client has read enough, or its request has ended.
    fn deliver(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Waits for at most `limit`, then drops the message.
    fn deliver_within(self: Box<Self>, limit: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// A message that is lost unless it is delivered.
pub type Unsent = Box<dyn UnsentMessage>;

/// Limits the time that the reader of a stream waits for clients that do not read.
///
/// A stream that serves one client waits for it without limit: only that client is affected. The wait is part
/// of the calls whose answers come on the stream, so it ends with their timeouts. A stream that serves
/// several clients waits for [`WAIT_MAX`] at once and for a tenth of the time in the long run, so that a
/// client that does not read delays the others only briefly.
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

/// Longest time that a client that does not read delays the other clients of its server.
pub const WAIT_MAX: Duration = Duration::from_millis(500);

/// The budget regains a tenth of the time that passes.
const REFILL_DIVISOR: u32 = 10;
