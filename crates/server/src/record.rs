//! What is told of a request when it has been answered: for access logs and metrics.

use std::time::{Duration, SystemTime};

use thruway_message::{RequestHead, StatusCode};

use crate::ConnectionInfo;

/// A request and how it was answered.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The connection it came on.
    pub connection: &'a ConnectionInfo,
    /// Its head; `None` if what came could not be read as a request.
    pub head: Option<RequestHead<'a>>,
    /// The time of day when it had been answered.
    pub time: SystemTime,
    /// The status of the answer.
    pub status: StatusCode,
    /// Octets of content sent, or handed to the kernel's care to send.
    pub content_bytes: u64,
    /// From the arrival of the whole head to the end of the answer.
    pub duration: Duration,
    /// Whether the whole answer was written; otherwise the client went or the content failed.
    pub is_complete: bool,
}

/// Makes, for each worker, the function that takes its records. That runs on the worker's thread, for every request:
/// it must not block.
pub trait Recorder: Send + Sync + 'static {
    /// The function of one worker.
    fn start(&self) -> TakeRecord;
}

/// Takes the records of one worker.
pub type TakeRecord = Box<dyn FnMut(&Record<'_>)>;
