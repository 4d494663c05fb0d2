//! The legacy era over HTTP: sessions, and streams that can be taken up again.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use serde_json::value::RawValue;
use thruway_mcp::json_rpc::{self, Error, ErrorCode, Message, Notification, Request, write_error};
use thruway_mcp::params::{self, Params};
use thruway_mcp::schema::{CancelledNotificationParams, methods};
use thruway_mcp::{Era, Revision};
use thruway_net::PooledBuffer;
use thruway_server::StatusCode;

use super::Incoming;
use super::answer::{Answer, accepted, json, json_error, json_of, method_not_allowed};
use super::events::Events;
use super::post::unexpected_batch;
use crate::dispatch::{Exchange, Outgoing, Reply, Said, Status, legacy};
use crate::http_response::WholeResponse;
use crate::server::LegacySessions;
use crate::session::{Event, EventId, EventKind, EventStream, InFlightGuard, InUse, Session};

/// A request by POST.
pub(super) fn handle_request(
    incoming: &Incoming<'_>,
    version: Option<&str>,
    request: &Request<'_>,
    params: &Params<'_>,
    mut output: PooledBuffer,
) -> Answer {
    if request.method == methods::INITIALIZE {
        return Answer::now(initialize(incoming, request, output));
    }
    let (session, revision) = match session_of(incoming, version) {
        Ok(found) => found,
        Err(refusal) => return Answer::now(refusal),
    };
    match legacy::handle_request(
        incoming.server,
        session.as_ref(),
        revision,
        request,
        params,
        &incoming.caller,
        &mut output,
    ) {
        Reply::Now(status) => Answer::now(json(status, output)),
        Reply::Forbidden(scopes) => Answer::now(incoming.forbid(output, &scopes)),
        Reply::Later(exchange) => later(exchange, session, request),
    }
}

fn initialize(incoming: &Incoming<'_>, request: &Request<'_>, mut output: PooledBuffer) -> WholeResponse {
    let session = legacy::initialize(incoming.server, request, &mut output);
    let response = json(Status::Ok, output);
    match (session, incoming.server.shared.options.legacy_sessions) {
        (Some(session), LegacySessions::Stateful) => {
            let session = session.owned_by(incoming.caller.principal());
            response.with_field(SESSION_ID, &*incoming.server.shared.sessions.insert(session))
        }
        _ => response,
    }
}

/// The session that a request belongs to, and the revision it is in.
fn session_of(
    incoming: &Incoming<'_>,
    version: Option<&str>,
) -> Result<(Option<Arc<Session>>, Revision), WholeResponse> {
    let version = match version.map(str::parse::<Revision>) {
        None => None,
        Some(Ok(revision)) => Some(revision),
        Some(Err(_)) => return Err(json_error(StatusCode::BAD_REQUEST, "unsupported protocol version")),
    };
    if incoming.server.shared.options.legacy_sessions == LegacySessions::Stateless {
        // What clients of 2025-03-26 do not say.
        return Ok((None, version.unwrap_or(Revision::R20250326)));
    }
    let id = session_id(incoming)?;
    match incoming.server.shared.sessions.find(id, incoming.caller.principal().as_deref()) {
        Some(session) => {
            let revision = session.revision;
            Ok((Some(session), revision))
        }
        None => Err(json_error(StatusCode::NOT_FOUND, "there is no such session, or it has ended")),
    }
}

fn session_id<'a>(incoming: &Incoming<'a>) -> Result<&'a str, WholeResponse> {
    let mut ids = incoming.fields.all(SESSION_ID);
    let Some(id) = ids.next().and_then(|value| value.as_str()) else {
        return Err(json_error(
            StatusCode::BAD_REQUEST,
            "the header `Mcp-Session-Id` is missing: a session begins with `initialize`",
        ));
    };
    if ids.next().is_some() {
        // An intermediary that routes by it might believe another one.
        return Err(json_error(StatusCode::BAD_REQUEST, "the header `Mcp-Session-Id` is there twice"));
    }
    Ok(id)
}

/// A handler goes on when its client has gone: the client may come back for the answer.
fn later(exchange: Exchange, session: Option<Arc<Session>>, request: &Request<'_>) -> Answer {
    let Some(session) = session else {
        return Answer::later(async move {
            // There is no stream that anything but the answer could go to without a session.
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
    let stream = session.streams.begin();
    spawn(exchange, in_flight, EndsStream::new(&stream));
    Answer::later(async move {
        match stream.next_after(0).await {
            Some(Event { kind: EventKind::Answer(answer), .. }) => {
                session.streams.forget(&stream);
                json_of(Status::Ok, answer.to_vec()).into()
            }
            Some(_) => Events::replay(stream, 0, session.revision.primes_event_streams()).into(),
            // It was cancelled.
            None => accepted().into(),
        }
    })
}

/// Notes that a request is being handled. Clients that leave leave their handlers behind, so there is a limit.
fn begin(session: &Session, request: &Request<'_>) -> Result<InFlightGuard, Error> {
    if session.in_flight.len() >= IN_FLIGHT_MAX {
        return Err(Error::internal("too many requests of this session are being handled"));
    }
    let repeated = || Error::new(ErrorCode::INVALID_REQUEST, "a request with this id is being handled");
    session.in_flight.begin(request.id.to_owned(), false).ok_or_else(repeated)
}

/// Drives a handler by itself; what it says goes into a stream.
fn spawn(mut exchange: Exchange, in_flight: InFlightGuard, stream: Arc<EndsStream>) {
    let pump = async move {
        while let Some(outgoing) = exchange.next().await {
            stream.0.push(match outgoing {
                Outgoing::Said(Said::Message(message)) => EventKind::Message(message.into()),
                Outgoing::Said(Said::Disconnect(retry)) => EventKind::Disconnect(retry),
                Outgoing::Answer(message, _) => EventKind::Answer(message.into()),
            });
        }
    };
    tokio::spawn(async move {
        tokio::select! {
            () = in_flight.cancelled() => {}
            () = pump => {}
        }
    });
}

/// A stream that ends when nothing is left that would put messages into it.
struct EndsStream(Arc<EventStream>);

impl EndsStream {
    fn new(stream: &Arc<EventStream>) -> Arc<Self> {
        Arc::new(Self(stream.clone()))
    }
}

impl Drop for EndsStream {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The answers of several handlers, without what they say before.
async fn answers_of(mut exchanges: Vec<Exchange>) -> Vec<Vec<u8>> {
    let mut answers = Vec::new();
    poll_fn(|cx| {
        exchanges.retain_mut(|exchange| {
            loop {
                match exchange.poll_next(cx) {
                    Poll::Ready(Some(Outgoing::Said(_))) => {}
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

/// A stream of what the server has to say by itself, or of what a client has missed.
pub(super) fn handle_get(incoming: &Incoming<'_>) -> Answer {
    if incoming.server.shared.options.legacy_sessions == LegacySessions::Stateless {
        return Answer::now(method_not_allowed());
    }
    let version = incoming.fields.field("mcp-protocol-version").and_then(|value| value.as_str());
    if is_modern(version) {
        return Answer::now(method_not_allowed());
    }
    let session = match session_of(incoming, version) {
        Ok((Some(session), _)) => session,
        Ok((None, _)) => return Answer::now(method_not_allowed()),
        Err(_) if incoming.fields.field(SESSION_ID).is_none() => return Answer::now(method_not_allowed()),
        Err(refusal) => return Answer::now(refusal),
    };
    if let Some(last) = incoming.fields.field("last-event-id") {
        match last.as_str().and_then(|last| last.parse().ok()) {
            // The stream of what the server says by itself keeps nothing: it just goes on.
            Some(EventId { stream: 0, .. }) => {}
            Some(id) => return take_up(&session, id),
            None => return Answer::now(no_such_event()),
        }
    }
    let session = InUse::new(session);
    let is_to_be_primed = session.revision.primes_event_streams();
    Answer::now(Events::Standalone { session, is_to_be_primed })
}

/// Goes on with a stream after an event of it.
fn take_up(session: &Session, id: EventId) -> Answer {
    match session.streams.find(id.stream) {
        Some(stream) => Answer::now(Events::replay(stream, id.event, false)),
        None => Answer::now(no_such_event()),
    }
}

/// Not 404, which would say that the session has ended.
fn no_such_event() -> WholeResponse {
    json_error(StatusCode::BAD_REQUEST, "`Last-Event-ID` is no event of this session, or it is forgotten")
}

/// The end of a session.
pub(super) fn handle_delete(incoming: &Incoming<'_>) -> WholeResponse {
    if incoming.fields.field(SESSION_ID).is_none() {
        return method_not_allowed();
    }
    let id = match session_id(incoming) {
        Ok(id) => id,
        Err(refusal) => return refusal,
    };
    if incoming.server.shared.sessions.remove(id, incoming.caller.principal().as_deref()) {
        WholeResponse::new(StatusCode::NO_CONTENT)
    } else {
        json_error(StatusCode::NOT_FOUND, "there is no such session, or it has ended")
    }
}

/// A notification, or a response to a request of the server.
pub(super) fn handle_other(incoming: &Incoming<'_>, message: &Message<'_>) -> WholeResponse {
    let version = incoming.fields.field("mcp-protocol-version").and_then(|value| value.as_str());
    if is_modern(version) {
        return match message {
            Message::Notification(_) => accepted(),
            _ => json_error(StatusCode::BAD_REQUEST, "clients send no responses"),
        };
    }
    match session_of(incoming, version) {
        Ok((Some(session), _)) => {
            deliver(&session, message);
            accepted()
        }
        Ok((None, _)) => accepted(),
        Err(refusal) => refusal,
    }
}

fn is_modern(version: Option<&str>) -> bool {
    let revision = version.and_then(|version| version.parse().ok());
    revision.is_some_and(|revision: Revision| revision.era() == Era::Modern)
}

fn deliver(session: &Session, message: &Message<'_>) {
    match message {
        Message::Response(response) => session.pending.handle_response(response),
        Message::Notification(notification) => handle_notification(session, notification),
        Message::Request(_) => {}
    }
}

fn handle_notification(session: &Session, notification: &Notification<'_>) {
    if notification.method == methods::NOTIFICATIONS_CANCELLED
        && let Ok(cancelled) = params::parse::<CancelledNotificationParams>(notification.params)
    {
        session.in_flight.cancel(&cancelled.request_id);
    }
}

/// Several messages at once, which one revision has: each request is answered, and the answers are one array.
pub(super) fn handle_batch(incoming: &Incoming<'_>, batch: Result<Vec<&RawValue>, Error>) -> Answer {
    let version = incoming.fields.field("mcp-protocol-version").and_then(|value| value.as_str());
    if is_modern(version) {
        return Answer::now(unexpected_batch());
    }
    let (session, revision) = match session_of(incoming, version) {
        Ok(found) => found,
        Err(refusal) => return Answer::now(refusal),
    };
    if !revision.has_batches() {
        return Answer::now(unexpected_batch());
    }
    let messages = match batch {
        Ok(messages) => messages,
        Err(error) => {
            let mut output = PooledBuffer::take();
            write_error(&mut output, None, &error);
            return Answer::now(json(Status::BadRequest, output));
        }
    };
    let mut answers = Vec::new();
    let mut exchanges = Vec::new();
    for message in messages {
        match answer_one(incoming, session.as_ref(), revision, message.get().as_bytes()) {
            (Handled::Accepted, _) => {}
            (Handled::Now, answer) => answers.push(answer),
            (Handled::Later(exchange, in_flight), _) => exchanges.push((exchange, in_flight)),
        }
    }
    match session {
        _ if answers.is_empty() && exchanges.is_empty() => Answer::now(accepted()),
        _ if exchanges.is_empty() => Answer::now(json_of(Status::Ok, as_array(&answers))),
        Some(session) => Answer::now(batch_as_events(&session, &answers, exchanges)),
        None => Answer::later(async move {
            answers.extend(answers_of(exchanges.into_iter().map(|(exchange, _)| exchange).collect()).await);
            json_of(Status::Ok, as_array(&answers)).into()
        }),
    }
}

/// Handlers may say something before they answer, so their answers come one by one; what is there already comes first.
fn batch_as_events(
    session: &Session,
    answers: &[Vec<u8>],
    exchanges: Vec<(Exchange, Option<InFlightGuard>)>,
) -> Events {
    let stream = session.streams.begin();
    let ends = EndsStream::new(&stream);
    if !answers.is_empty() {
        stream.push(EventKind::Message(as_array(answers).into()));
    }
    for (exchange, in_flight) in exchanges {
        if let Some(in_flight) = in_flight {
            spawn(exchange, in_flight, ends.clone());
        }
    }
    Events::replay(stream, 0, session.revision.primes_event_streams())
}

/// What comes of one message of a batch.
enum Handled {
    Accepted,
    Now,
    /// It can be cancelled in a session.
    Later(Exchange, Option<InFlightGuard>),
}

fn answer_one(
    incoming: &Incoming<'_>,
    session: Option<&Arc<Session>>,
    revision: Revision,
    message: &[u8],
) -> (Handled, Vec<u8>) {
    let mut output = Vec::new();
    let handled = match json_rpc::parse(message) {
        Ok(Message::Request(request)) => answer_request(incoming, session, revision, &request, &mut output),
        Ok(message) => {
            if let Some(session) = session {
                deliver(session, &message);
            }
            Handled::Accepted
        }
        Err(invalid) => {
            write_error(&mut output, invalid.id.as_ref(), &invalid.error);
            Handled::Now
        }
    };
    (handled, output)
}

fn answer_request(
    incoming: &Incoming<'_>,
    session: Option<&Arc<Session>>,
    revision: Revision,
    request: &Request<'_>,
    output: &mut Vec<u8>,
) -> Handled {
    let reply = match Params::parse(request.params) {
        Ok(_) if request.method == methods::INITIALIZE => {
            Err(Error::invalid_params("`initialize` cannot be part of a batch"))
        }
        Ok(params) => Ok(legacy::handle_request(
            incoming.server,
            session,
            revision,
            request,
            &params,
            &incoming.caller,
            output,
        )),
        Err(error) => Err(error),
    };
    let error = match (reply, session) {
        (Err(error), _) => error,
        (Ok(Reply::Now(_) | Reply::Forbidden(_)), _) => return Handled::Now,
        (Ok(Reply::Later(exchange)), None) => return Handled::Later(exchange, None),
        (Ok(Reply::Later(exchange)), Some(session)) => match begin(session, request) {
            Ok(in_flight) => return Handled::Later(exchange, Some(in_flight)),
            Err(error) => error,
        },
    };
    write_error(output, Some(&request.id), &error);
    Handled::Now
}

fn as_array(answers: &[Vec<u8>]) -> Vec<u8> {
    let mut array = b"[".to_vec();
    array.extend_from_slice(&answers.join(&b','));
    array.push(b']');
    array
}

/// How many requests of one session are handled at a time.
const IN_FLIGHT_MAX: usize = 1000;

const SESSION_ID: &str = "Mcp-Session-Id";
