//! A state machine for the messages of a connection: start of a session, operations, and end of the
//! session.
//!
//! ```text
//! no sessions       Operation ─▶ done
//! per connection    Initialize ─▶ Initialized ─▶ Operation ─▶ done; from then on Operation ─▶ done
//! per call          Initialize ─▶ Initialized ─▶ Operation ─▶ Delete ─▶ done
//! ```

use std::sync::Arc;

use thruway_http1::ResponseTo;
use thruway_message::FieldLines;

use super::content::Content;
use super::message::{INITIALIZE_ID, Messages, SessionUse, id_of};
use super::reading::Reading;
use crate::failure::{Detail, Failure, FailureKind};

/// The state machine of one connection. Without sessions, several requests may be in progress at the same
/// time.
#[derive(Debug)]
pub struct Conversation {
    messages: Arc<Messages>,
    step: Step,
    /// The header line with the session id, or empty if there is no session.
    session: Vec<u8>,
    content: Content,
    status: u16,
    is_in_progress: bool,
    /// Result of the operation, which is stored here while the client ends the session.
    operation: Option<Done>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Initialize,
    Initialized,
    Operation,
    Delete,
}

/// Result of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Done {
    /// The HTTP status of the response to the operation. If an earlier message of the session failed, this
    /// is the status of its response.
    pub(crate) status: u16,
    /// `true` if the response came in an event stream.
    pub(crate) is_event_stream: bool,
    pub(crate) outcome: Result<(), Failure>,
}

impl Conversation {
    pub(super) fn new(messages: Arc<Messages>) -> Self {
        let mut conversation = Self {
            messages,
            step: Step::Operation,
            session: Vec::new(),
            content: Content::default(),
            status: 0,
            is_in_progress: false,
            operation: None,
        };
        conversation.start_again();
        conversation
    }

    /// Appends the next message for request `number` to `output`.
    #[inline]
    pub(crate) fn write(&self, number: u64, output: &mut Vec<u8>) -> ResponseTo {
        match self.step {
            Step::Initialize => self.messages.write_initialize(number, output),
            Step::Initialized => self.messages.write_initialized(number, &self.session, output),
            Step::Operation => self.messages.write_operation(number, &self.session, output),
            Step::Delete => self.messages.write_delete(&self.session, output),
        }
    }

    /// Appends request `number` as a line, and returns the id of the request. Over pipes, the session
    /// begins before the load.
    #[inline]
    pub(crate) fn write_line(&self, number: u64, output: &mut Vec<u8>) -> u64 {
        self.messages.write_line(number, output);
        id_of(number)
    }

    /// Begins a response with this status and these header fields.
    #[inline]
    pub(crate) fn begin_answer(&mut self, status: u16, fields: FieldLines<'_>) {
        self.content.begin();
        self.status = status;
        if self.step == Step::Initialize
            && let Some(id) = fields.field("mcp-session-id")
        {
            self.session = [b"Mcp-Session-Id: ", id.as_bytes(), b"\r\n"].concat();
        }
    }

    /// Processes the next part of the response body.
    #[inline]
    pub(crate) fn take_content(&mut self, piece: &[u8]) {
        self.content.take(piece);
    }

    /// Ends the current response. Returns the result of request `number`, or `None` if the request needs
    /// another message.
    pub(crate) fn end_answer(&mut self, number: u64) -> Option<Done> {
        let done = self.judge(number);
        let sessions = self.messages.sessions;
        let next = match self.step {
            Step::Initialize | Step::Initialized if done.outcome.is_err() => None,
            Step::Initialize => Some(Step::Initialized),
            Step::Initialized => Some(Step::Operation),
            Step::Operation if sessions == SessionUse::PerCall && !self.session.is_empty() => {
                self.operation = Some(done.clone());
                Some(Step::Delete)
            }
            Step::Operation | Step::Delete => None,
        };
        self.is_in_progress = next.is_some();
        if let Some(next) = next {
            self.step = next;
            return None;
        }
        // Status 404 means that the server no longer knows the session, so a new session begins.
        let is_reused = sessions == SessionUse::PerConnection && self.step == Step::Operation;
        if !is_reused || done.status == NOT_FOUND {
            self.start_again();
        }
        // If the session of an operation cannot be ended, the operation counts as failed.
        Some(match self.operation.take() {
            Some(operation) if operation.outcome.is_err() || done.outcome.is_ok() => operation,
            _ => done,
        })
    }

    /// Returns `true` if some messages of the current request have been answered, but not all.
    pub(crate) const fn is_in_progress(&self) -> bool {
        self.is_in_progress
    }

    fn start_again(&mut self) {
        self.session.clear();
        self.step = match self.messages.sessions {
            SessionUse::None => Step::Operation,
            SessionUse::PerConnection | SessionUse::PerCall => Step::Initialize,
        };
    }

    #[inline]
    fn judge(&mut self, number: u64) -> Done {
        let status = self.status;
        let wrong_status = || Err(Failure { kind: FailureKind::WrongStatus, detail: Detail::Status(status) });
        let (reading, is_event_stream) = self.content.end();
        let outcome = match self.step {
            Step::Initialize if status == OK => check(reading, INITIALIZE_ID),
            Step::Operation if matches!(status, OK | ACCEPTED) => check(reading, id_of(number)),
            Step::Initialized if (200..300).contains(&status) => Ok(()),
            // A server may refuse to end a session at the request of a client.
            Step::Delete if (200..300).contains(&status) || status == METHOD_NOT_ALLOWED => Ok(()),
            _ => wrong_status(),
        };
        Done { status, is_event_stream, outcome }
    }
}

/// Checks that `reading` is a successful response to the request with the id `expected`.
#[inline]
fn check(reading: Reading, expected: u64) -> Result<(), Failure> {
    let Reading::Response { id, outcome } = reading else {
        return Err(Failure::of(FailureKind::NotAResponse));
    };
    match id {
        Some(id) if id == expected => outcome,
        // An error without an id refers to a message that the server could not parse.
        None if outcome.is_err() => outcome,
        _ => Err(Failure::of(FailureKind::WrongId)),
    }
}

const OK: u16 = 200;
const ACCEPTED: u16 = 202;
const NOT_FOUND: u16 = 404;
const METHOD_NOT_ALLOWED: u16 = 405;
