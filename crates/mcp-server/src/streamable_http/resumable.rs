//! Runs the handlers for sessions over HTTP. Each handler runs in its own tokio task. The messages of a
//! handler go to an event stream that the client can resume.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use thruway_mcp::json_rpc::{Error, ErrorCode, Request, write_error};
use thruway_mcp::schema::RequestId;
use thruway_net::PooledBuffer;
use thruway_server::StatusCode;

use super::answer::{Answer, json, json_error, json_of};
use super::events::Events;
use crate::dispatch::{Exchange, InterimMessage, Outgoing, Status};
use crate::http_response::WholeResponse;
use crate::session::{CancelCause, Event, EventId, EventKind, EventStream, InFlightGuard, InUse, Session};

/// Answers a request of the legacy era. In a session, the handler continues after the client has
/// disconnected, because the client may resume the stream.
pub(super) fn later(exchange: Exchange, session: Option<Arc<Session>>, request: &Request<'_>) -> Answer {
    let Some(session) = session else {
        return Answer::later(async move {
            // Without a session, the client cannot resume a stream, so the response contains only the answer.
            json_of(Status::Ok, answers_of(vec![exchange]).await.pop().unwrap_or_default()).into()
        });
    };
    let in_flight = match begin(&session, request) {
        Ok(in_flight) => in_flight,
        Err(error) => {
            let mut output = PooledBuffer::take();
            write_error(&mut output, Some(&request.id), &error);
            return Answer::now(json(Status::BadRequest, output));
        }
    };
    let id = request.id.to_owned();
    let stream = session.streams.begin_for(&id);
    let reader = stream.read_after(0);
    spawn(exchange, in_flight, InUse::new(session.clone()), EndsStream::new(&stream));
    Answer::later(async move {
        match reader.peek().await {
            Some(Event { kind: EventKind::Answer(answer), .. }) => {
                session.streams.forget(&stream);
                json_of(Status::Ok, answer.to_vec()).into()
            }
            Some(_) => {
                let is_to_be_primed = session.revision.primes_event_streams();
                Events::replay(reader, InUse::new(session), is_to_be_primed).into()
            }
            // The client canceled the request, but its POST still needs a response with a body.
            None => json_of(Status::Ok, canceled(&id, "the client canceled the request")).into(),
        }
    })
}

/// Returns the answer to a canceled request: an error with `reason`.
fn canceled(id: &RequestId, reason: &'static str) -> Vec<u8> {
    let mut message = Vec::new();
    write_error(&mut message, Some(&id.into()), &Error::internal(reason));
    message
}

/// Registers a request as in progress. The number of such requests per session is limited, because a handler
/// continues after its client has disconnected.
pub(super) fn begin(session: &Session, request: &Request<'_>) -> Result<InFlightGuard, Error> {
    if session.in_flight.len() >= IN_FLIGHT_MAX {
        return Err(Error::internal(
            "too many requests of this session are in progress: wait for answers before \
             sending more",
        ));
    }
    let repeated = || {
        Error::new(
            ErrorCode::INVALID_REQUEST,
            "a request with this id is already in progress: use another id",
        )
    };
    session.in_flight.begin(request.id.to_owned(), false).ok_or_else(repeated)
}

/// Spawns a tokio task that runs a handler and writes its messages to `stream`. While the handler runs, the
/// session is in use. If the session ends first, the tokio task writes an error as the answer, so that the
/// client does not wait forever.
pub(super) fn spawn(
    mut exchange: Exchange,
    in_flight: InFlightGuard,
    session: InUse,
    stream: Arc<EndsStream>,
) {
    let output = stream.clone();
    let pump = async move {
        let mut wait_left = WAIT_MAX;
        while let Some(outgoing) = exchange.next().await {
            let kind = match outgoing {
                Outgoing::InterimMessage(
                    InterimMessage::Message(message) | InterimMessage::Forwarded { message, .. },
                ) => EventKind::Message(message.into()),
                Outgoing::InterimMessage(InterimMessage::Disconnect(retry)) => EventKind::Disconnect(retry),
                Outgoing::Answer(message, _) => EventKind::Answer(message.into()),
            };
            exchange.poll_during(output.0.send(kind, &mut wait_left)).await;
        }
    };
    tokio::spawn(async move {
        let cause = tokio::select! {
            cause = in_flight.cancelled() => Some(cause),
            () = pump => None,
        };
        if cause == Some(CancelCause::End) {
            let answer = canceled(in_flight.id(), "the request was canceled because its session ended");
            stream.0.push(EventKind::Answer(answer.into()));
        }
        drop(session);
    });
}

/// Ends a stream when this guard is dropped. All writers of the stream share the guard, so the stream ends
/// after the last writer.
pub(super) struct EndsStream(Arc<EventStream>);

impl EndsStream {
    pub(super) fn new(stream: &Arc<EventStream>) -> Arc<Self> {
        Arc::new(Self(stream.clone()))
    }
}

impl Drop for EndsStream {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Waits for the answers of several handlers. Discards all other messages of these handlers.
pub(super) async fn answers_of(mut exchanges: Vec<Exchange>) -> Vec<Vec<u8>> {
    let mut answers = Vec::new();
    poll_fn(|cx| {
        exchanges.retain_mut(|exchange| {
            loop {
                match exchange.poll_next(cx) {
                    Poll::Ready(Some(Outgoing::InterimMessage(_))) => {}
                    Poll::Ready(Some(Outgoing::Answer(answer, _))) => answers.push(answer),
                    Poll::Ready(None) => return false,
                    Poll::Pending => return true,
                }
            }
        });
        if exchanges.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers
}

/// Resumes a stream after the event `id`.
pub(super) fn take_up(session: Arc<Session>, id: EventId) -> Answer {
    match session.streams.find(id.stream) {
        Some(stream) => Answer::now(Events::replay(stream.read_after(id.event), InUse::new(session), false)),
        None => Answer::now(no_such_event()),
    }
}

/// Returns the rejection of an unknown `Last-Event-ID`. The status must not be 404, which would mean that the
/// session has ended.
pub(super) fn no_such_event() -> WholeResponse {
    json_error(
        StatusCode::BAD_REQUEST,
        "cannot resume the stream: `Last-Event-ID` does not name an event that the server \
         stores for this session",
    )
}

/// Maximum number of requests in progress in one session.
const IN_FLIGHT_MAX: usize = 1000;

/// Maximum total time that a handler waits for a client that reads its stream slowly. After this time, the
/// stream discards events that the client has not read.
const WAIT_MAX: Duration = Duration::from_mins(5);
