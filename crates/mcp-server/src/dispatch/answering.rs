//! Polls asynchronous handlers until they finish. Writes the results of handlers in the format of the
//! client's era.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::Serialize;
use thruway_mcp::json_rpc::{Error, Id, write_error, write_result};
use thruway_mcp::modern::ResultType;
use thruway_mcp::schema::{
    CacheHint, CallToolResult, CompleteResult, GetPromptResult, MetaObject, ReadResourceResult, RequestId,
};
use thruway_mcp::{Era, Revision, legacy};

use super::{Exchange, Reply, Status};
use crate::ask::{BoundRequest, Rounds, input_required};
use crate::handlers::{Call, HandlerError, Later, Layer, Layered, Outcome, begin, poll_caught, too_late};
use crate::server::ServerCore;

/// A result type of handlers.
pub(crate) trait HandlerResult: Serialize + Layered {
    /// `true` if clients may cache results of this type.
    const IS_CACHEABLE: bool = false;

    /// Removes and returns the member `_meta` of the result.
    fn take_meta(&mut self) -> Option<MetaObject>;

    /// Replaces parts of the result that the client's `revision` does not define.
    fn downgrade(&mut self, _: Revision) {}
}

/// The era of a request, and the data for writing its answer.
#[derive(Clone)]
pub(crate) enum Answering {
    Modern { core: Arc<ServerCore>, rounds: Arc<Rounds> },
    Legacy { core: Arc<ServerCore>, revision: Revision },
}

impl Answering {
    pub(crate) fn core(&self) -> &Arc<ServerCore> {
        match self {
            Self::Modern { core, .. } | Self::Legacy { core, .. } => core,
        }
    }

    pub(crate) const fn era(&self) -> Era {
        match self {
            Self::Modern { .. } => Era::Modern,
            Self::Legacy { .. } => Era::Legacy,
        }
    }

    /// Calls a handler through `layers`. Returns [`Reply::Now`] if the handler finishes immediately, and
    /// [`Reply::Later`] otherwise.
    pub(crate) fn answer<O: HandlerResult>(
        self,
        layers: &[Arc<dyn Layer>],
        id: &Id<'_>,
        call: &Call<'_>,
        output: &mut Vec<u8>,
        handle: impl FnOnce(&Call<'_>) -> Outcome<O>,
    ) -> Reply {
        match begin(layers, call, handle) {
            Outcome::Now(outcome) => Reply::Now(self.write(output, id, outcome)),
            Outcome::Later(later) => {
                let messages = call.messages.take().map(|(_, messages)| messages);
                // In the modern era, the server seals the state of a round for its request, so it needs a
                // copy of the request.
                let request = (self.era() == Era::Modern).then(|| call.bound());
                Reply::Later(Exchange::new(self.drive(id.to_owned(), request, later), messages))
            }
        }
    }

    /// Appends a response with the result or the error to `output`.
    pub(super) fn write<O: HandlerResult>(
        &self,
        output: &mut Vec<u8>,
        id: &Id<'_>,
        outcome: Result<O, HandlerError>,
    ) -> Status {
        match outcome {
            Ok(result) => {
                write_result(output, id, |output| self.write_members(output, result));
                Status::Ok
            }
            Err(error) => {
                let error = error.into();
                write_error(output, Some(id), &error);
                self.status(&error)
            }
        }
    }

    /// Returns the status for an error. In the legacy era, the status is always [`Status::Ok`], because only
    /// the message reports the error.
    pub(super) fn status(&self, error: &Error) -> Status {
        match self {
            Self::Modern { .. } => Status::of(error),
            Self::Legacy { .. } => Status::Ok,
        }
    }

    fn write_members<O: HandlerResult>(&self, output: &mut Vec<u8>, mut result: O) -> Result<(), Error> {
        match self {
            Self::Modern { core, rounds } => {
                let meta = result.take_meta();
                let cache = O::IS_CACHEABLE.then(|| cache_of(core, rounds));
                core.results.write(output, ResultType::Complete, cache, &result, meta.as_ref())
            }
            Self::Legacy { revision, .. } => {
                result.downgrade(*revision);
                serde_json::to_writer(output, &result)
                    .map_err(|_| Error::internal("cannot write the result as JSON"))
            }
        }
    }

    /// Runs a handler until it finishes, asks its first question (modern era only) or exceeds its timeout.
    /// Returns the answer to the request.
    async fn drive<O: HandlerResult>(
        self,
        id: RequestId,
        request: Option<BoundRequest>,
        mut later: Later<O>,
    ) -> (Vec<u8>, Status) {
        let progress = poll_fn(|cx| self.poll_handler(&mut later, cx));
        let timeout = self.core().options.handler_timeout;
        let progress = tokio::time::timeout(timeout, progress).await.unwrap_or_else(|_| Progress::late());
        let answered = self.conclude(&id, request.as_ref(), progress);
        drop(later);
        answered
    }

    /// Returns the answer to a request after its handler has finished or asked a question.
    pub(super) fn conclude<O: HandlerResult>(
        &self,
        id: &RequestId,
        request: Option<&BoundRequest>,
        progress: Progress<O>,
    ) -> (Vec<u8>, Status) {
        let id = Id::from(id);
        let mut output = Vec::new();
        let status = match progress {
            Progress::Done(outcome) => self.write(&mut output, &id, outcome),
            Progress::InputRequired => self.write_questions(&mut output, &id, request),
        };
        (output, status)
    }

    pub(super) fn poll_handler<O>(&self, later: &mut Later<O>, cx: &mut Context<'_>) -> Poll<Progress<O>> {
        match (poll_caught(later, cx), self) {
            (Poll::Ready(outcome), _) => Poll::Ready(Progress::Done(outcome)),
            (Poll::Pending, Self::Modern { rounds, .. }) => {
                rounds.poll_questions(cx).map(|()| Progress::InputRequired)
            }
            (Poll::Pending, Self::Legacy { .. }) => Poll::Pending,
        }
    }

    fn write_questions(&self, output: &mut Vec<u8>, id: &Id<'_>, request: Option<&BoundRequest>) -> Status {
        if let (Self::Modern { core, rounds }, Some(request)) = (self, request) {
            write_result(output, id, |output| {
                let questions = input_required(rounds, &core.state_key, request)?;
                core.results.write(output, ResultType::InputRequired, None, &questions, None)
            });
        }
        Status::Ok
    }
}

/// The outcome of polling a handler.
pub(super) enum Progress<O> {
    Done(Result<O, HandlerError>),
    InputRequired,
}

impl<O> Progress<O> {
    /// Returns the error outcome of a handler that exceeded its timeout.
    pub(super) fn late() -> Self {
        Self::Done(Err(too_late()))
    }
}

/// Returns the cache hint for a result. Clients must not cache a result that depends on answers to questions.
fn cache_of(core: &ServerCore, rounds: &Rounds) -> CacheHint {
    if rounds.is_resumed() { CacheHint::default() } else { core.options.cache }
}

impl HandlerResult for CallToolResult {
    fn take_meta(&mut self) -> Option<MetaObject> {
        self.meta.take().map(|meta| meta.to_object())
    }

    fn downgrade(&mut self, revision: Revision) {
        legacy::downgrade_result(self, revision);
    }
}

impl HandlerResult for GetPromptResult {
    fn take_meta(&mut self) -> Option<MetaObject> {
        self.meta.take()
    }

    fn downgrade(&mut self, revision: Revision) {
        for message in &mut self.messages {
            legacy::downgrade(std::slice::from_mut(&mut message.content), revision);
        }
    }
}

impl HandlerResult for ReadResourceResult {
    const IS_CACHEABLE: bool = true;

    fn take_meta(&mut self) -> Option<MetaObject> {
        self.meta.take()
    }
}

impl HandlerResult for CompleteResult {
    fn take_meta(&mut self) -> Option<MetaObject> {
        self.meta.take()
    }
}
