//! Stores events of sessions outside of this process, so that clients can resume a stream after the process has ended.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thruway_mcp::schema::RequestId;

/// Stores events of legacy sessions outside of this process. The events contain secrets, so an archive must encrypt
/// them.
pub trait EventArchive: fmt::Debug + Send + Sync + 'static {
    /// Stores an event of the session `session`. Must not block.
    fn append(&self, session: &str, event: ArchivedEvent);

    /// Removes the events of a session that its client has ended. Must not block.
    fn forget(&self, session: &str);

    /// Returns the events of a session in the order of [`append`](Self::append). Returns no events if the store fails.
    fn read<'a>(&'a self, session: &'a str) -> Pin<Box<dyn Future<Output = Vec<ArchivedEvent>> + Send + 'a>>;
}

/// An event of a session in an [`EventArchive`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ArchivedEvent {
    /// The unique name of the caller that owns the session, if callers are authenticated.
    pub caller: Option<String>,
    /// The number of the stream in the session.
    pub stream: u64,
    /// The number of the event in the stream.
    pub event: u64,
    /// The request that the stream answers.
    pub request: RequestId,
    /// `true` if the message is the answer to the request.
    pub is_answer: bool,
    /// The message, as JSON.
    pub message: String,
}

/// The archive of one session.
#[derive(Debug)]
pub(crate) struct SessionArchive {
    pub(crate) archive: Arc<dyn EventArchive>,
    pub(crate) session: Arc<str>,
    pub(crate) caller: Option<String>,
}

/// The archive of one stream.
#[derive(Debug)]
pub(super) struct StreamArchive {
    pub(super) session: Arc<SessionArchive>,
    pub(super) request: RequestId,
}

impl StreamArchive {
    /// Stores a message. `stream` and `event` identify it.
    pub(super) fn append(&self, stream: u64, event: u64, is_answer: bool, message: &[u8]) {
        // The client knows no event id of a stream that consists of its answer, so it cannot resume this stream.
        if event == 1 && is_answer {
            return;
        }
        let Ok(message) = std::str::from_utf8(message) else { return };
        let SessionArchive { archive, session, caller } = &*self.session;
        let (request, message) = (self.request.clone(), message.to_owned());
        archive.append(
            session,
            ArchivedEvent { caller: caller.clone(), stream, event, request, is_answer, message },
        );
    }
}
