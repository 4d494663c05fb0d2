//! On whose behalf a request is sent, where one client speaks for many.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{Error, Notification};

use super::incoming::Answer;
use super::unsent::Unsent;

/// The answer to a question as it was given.
pub type RawAnswer = Result<Box<RawValue>, Error>;

/// Whoever is asked and told what a server says while it handles a request.
pub trait Party: Send + Sync {
    /// Tells parties apart: what does not say which request it belongs to is for whoever has sent all of them.
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

    /// Is shown the answer to a request on a stream that requests have in common, before what comes behind it. It must be
    /// quick, too.
    fn hear(&self, _answer: &Answer) {}
}

impl fmt::Debug for dyn Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Party").field(&self.key()).finish()
    }
}
