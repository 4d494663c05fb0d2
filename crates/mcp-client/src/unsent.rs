//! Messages of a server that wait because a client of the program has to read others first.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

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
