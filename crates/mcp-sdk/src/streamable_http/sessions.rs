//! The legacy era over HTTP: sessions, and streams that can be taken up again.

use std::sync::Arc;

use serde_json::value::RawValue;
use thruway_mcp::Revision;
use thruway_mcp::json_rpc::{self, Error, Message, Notification, Request, write_error};
use thruway_mcp::params::{self, Params};
use thruway_mcp::schema::{CancelledNotificationParams, methods};
use thruway_message::FieldLines;
use thruway_net::PooledBuffer;
use thruway_server::{Answer, EventSender, Response, StatusCode};

use super::answer::{SILENCE_MAX, accepted, event, json, json_error, json_of, method_not_allowed};
use super::post::unexpected_batch;
use crate::dispatch::{Exchange, Outgoing, Reply, Said, Status, legacy, modern};
use crate::server::{LegacySessions, McpServer};
use crate::session::{Event, EventId, EventKind, EventStream, Session};

/// A request by POST.
pub(super) fn handle_request(
    server: &McpServer,
    fields: FieldLines<'_>,
    version: Option<&str>,
    request: &Request<'_>,
    params: &Params<'_>,
    mut output: PooledBuffer,
) -> Answer {
    if request.method == methods::INITIALIZE {
        return Answer::Now(initialize(server, request, output));
    }
    let (session, revision) = match session_of(server, fields, version) {
        Ok(found) => found,
        Err(refusal) => return Answer::Now(refusal),
    };
    match legacy::handle_request(server, session.as_ref(), revision, request, params, &mut output) {
        Reply::Now(status) => Answer::Now(json(status, output)),
        Reply::Later(exchange) => later(exchange, session, request),
        Reply::Accepted => Answer::Now(accepted()),
    }
}

fn initialize(server: &McpServer, request: &Request<'_>, mut output: PooledBuffer) -> Response {
    let session = legacy::initialize(server, request, &mut output);
    let response = json(Status::Ok, output);
    match (session, server.shared.options.legacy_sessions) {
        (Some(session), LegacySessions::Stateful) => {
            response.with_field(SESSION_ID, &*server.shared.sessions.insert(session))
        }
        _ => response,
    }
}

/// The session that a request belongs to, and the revision it is in.
fn session_of(
    server: &McpServer,
    fields: FieldLines<'_>,
    version: Option<&str>,
) -> Result<(Option<Arc<Session>>, Revision), Response> {
    let version = match version.map(str::parse::<Revision>) {
        None => None,
        Some(Ok(revision)) => Some(revision),
        Some(Err(_)) => return Err(json_error(StatusCode::BAD_REQUEST, "unsupported protocol version")),
    };
    if server.shared.options.legacy_sessions == LegacySessions::Stateless {
        // What clients of 2025-03-26 do not say.
        return Ok((None, version.unwrap_or(Revision::R20250326)));
    }
    let id = fields.field(SESSION_ID).and_then(|value| value.as_str());
    let Some(id) = id else {
        return Err(json_error(StatusCode::BAD_REQUEST, "the header `Mcp-Session-Id` is missing"));
    };
    match server.shared.sessions.find(id) {
        Some(session) => {
            let revision = session.revision;
            Ok((Some(session), revision))
        }
        None => Err(json_error(StatusCode::NOT_FOUND, "there is no such session, or it has ended")),
    }
}

/// A handler goes on when its client has gone: the client may come back for the answer.
fn later(mut exchange: Exchange, session: Option<Arc<Session>>, request: &Request<'_>) -> Answer {
    let Some(session) = session else {
        return Answer::later(async move {
            loop {
                match exchange.next().await {
                    // There is no stream that it could go to without a session.
                    Some(Outgoing::Said(_)) => {}
                    Some(Outgoing::Answer(message, status)) => return json_of(status, message),
                    None => {
                        return json_error(StatusCode::INTERNAL_SERVER_ERROR, "there is no answer");
                    }
                }
            }
        });
    };
    let Some(in_flight) = session.in_flight.begin(request.id.to_owned(), false) else {
        return Answer::Now(json_error(StatusCode::BAD_REQUEST, "a request with this id is being handled"));
    };
    let stream = session.streams.begin();
    let pumped = stream.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = in_flight.cancelled() => {}
            () = pump(exchange, &pumped) => {}
        }
        pumped.end();
    });
    Answer::later(async move {
        match stream.next_after(0).await {
            Some(Event { kind: EventKind::Answer(answer), .. }) => json_of(Status::Ok, answer.to_vec()),
            Some(_) => replay(stream, 0, session.revision.primes_event_streams()),
            // It was cancelled.
            None => accepted(),
        }
    })
}

async fn pump(mut exchange: Exchange, stream: &EventStream) {
    while let Some(outgoing) = exchange.next().await {
        stream.push(match outgoing {
            Outgoing::Said(Said::Message(message)) => EventKind::Message(message.into()),
            Outgoing::Said(Said::Disconnect(retry)) => EventKind::Disconnect(retry),
            Outgoing::Answer(message, _) => EventKind::Answer(message.into()),
        });
    }
}

/// Sends what comes after event `after` of a stream.
fn replay(stream: Arc<EventStream>, after: u64, is_primed: bool) -> Response {
    Response::finite_events(SILENCE_MAX, async move |mut events: EventSender| {
        if is_primed {
            events.send(only_id(stream.id(after))).await;
        }
        let mut last = after;
        while let Some(next) = stream.next_after(last).await {
            last = next.number;
            let id = stream.id(last);
            match next.kind {
                EventKind::Message(message) | EventKind::Answer(message) => {
                    events.send(event(&message).with_id(&id.to_string())).await;
                }
                EventKind::Disconnect(retry) => {
                    events.send(only_id(id).with_retry(retry)).await;
                    break;
                }
            }
        }
        Ok(())
    })
}

/// An event without a message: a client that has seen it can come back for what follows.
fn only_id(id: EventId) -> thruway_server::Event {
    thruway_server::Event::data("").with_id(&id.to_string())
}

/// A stream of what the server has to say by itself, or of what a client has missed.
pub(super) fn handle_get(server: &McpServer, fields: FieldLines<'_>) -> Answer {
    if server.shared.options.legacy_sessions == LegacySessions::Stateless {
        return Answer::Now(method_not_allowed());
    }
    let version = fields.field("mcp-protocol-version").and_then(|value| value.as_str());
    if version
        .and_then(|version| version.parse().ok())
        .is_some_and(|revision: Revision| revision.era() == thruway_mcp::Era::Modern)
    {
        return Answer::Now(method_not_allowed());
    }
    let session = match session_of(server, fields, version) {
        Ok((Some(session), _)) => session,
        Ok((None, _)) => return Answer::Now(method_not_allowed()),
        Err(_) if fields.field(SESSION_ID).is_none() => return Answer::Now(method_not_allowed()),
        Err(refusal) => return Answer::Now(refusal),
    };
    let last = fields.field("last-event-id").map(|value| value.as_str().unwrap_or_default());
    if let Some(last) = last.filter(|last| *last != STANDALONE_EVENT_ID) {
        let Some((stream, id)) =
            last.parse().ok().and_then(|id: EventId| Some((session.streams.find(id.stream)?, id)))
        else {
            // Not 404: to clients that would mean that the session has ended.
            return Answer::Now(json_error(
                StatusCode::BAD_REQUEST,
                "there is no such event in this session",
            ));
        };
        return Answer::Now(replay(stream, id.event, false));
    }
    Answer::Now(Response::events(SILENCE_MAX, async move |mut events: EventSender| {
        if session.revision.primes_event_streams() {
            events.send(thruway_server::Event::data("").with_id(STANDALONE_EVENT_ID)).await;
        }
        loop {
            let change = session.subscription.next().await;
            session.touch();
            events.send(event(&modern::notification(&change, None))).await;
        }
    }))
}

/// The end of a session.
pub(super) fn handle_delete(server: &McpServer, fields: FieldLines<'_>) -> Response {
    let Some(id) = fields.field(SESSION_ID).and_then(|value| value.as_str()) else {
        return method_not_allowed();
    };
    if server.shared.sessions.remove(id) {
        Response::new(StatusCode::NO_CONTENT)
    } else {
        json_error(StatusCode::NOT_FOUND, "there is no such session, or it has ended")
    }
}

/// A notification, or a response to a request of the server.
pub(super) fn handle_other(server: &McpServer, fields: FieldLines<'_>, message: &Message<'_>) -> Response {
    let version = fields.field("mcp-protocol-version").and_then(|value| value.as_str());
    let is_modern = version
        .and_then(|version| version.parse().ok())
        .is_some_and(|revision: Revision| revision.era() == thruway_mcp::Era::Modern);
    if is_modern {
        return match message {
            Message::Notification(_) => accepted(),
            _ => json_error(StatusCode::BAD_REQUEST, "clients send no responses"),
        };
    }
    match session_of(server, fields, version) {
        Ok((Some(session), _)) => {
            deliver(&session, message);
            accepted()
        }
        Ok((None, _)) => accepted(),
        Err(refusal) => refusal,
    }
}

pub(crate) fn deliver(session: &Session, message: &Message<'_>) {
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
pub(super) fn handle_batch(
    server: &McpServer,
    fields: FieldLines<'_>,
    batch: Result<Vec<&RawValue>, Error>,
) -> Answer {
    let version = fields.field("mcp-protocol-version").and_then(|value| value.as_str());
    let (session, revision) = match session_of(server, fields, version) {
        Ok(found) => found,
        Err(refusal) => return Answer::Now(refusal),
    };
    if !revision.has_batches() {
        return Answer::Now(unexpected_batch());
    }
    let messages = match batch {
        Ok(messages) => messages,
        Err(error) => {
            let mut output = PooledBuffer::take();
            write_error(&mut output, None, &error);
            return Answer::Now(json(Status::BadRequest, output));
        }
    };
    let mut answers = Vec::new();
    let mut exchanges = Vec::new();
    for message in messages {
        match answer_one(server, session.as_ref(), revision, message.get().as_bytes()) {
            (Reply::Now(_), answer) => answers.push(answer),
            (Reply::Later(exchange), _) => exchanges.push(exchange),
            (Reply::Accepted, _) => {}
        }
    }
    if answers.is_empty() && exchanges.is_empty() {
        return Answer::Now(accepted());
    }
    if exchanges.is_empty() {
        return Answer::Now(json_of(Status::Ok, as_array(&answers)));
    }
    Answer::later(async move {
        for mut exchange in exchanges {
            // What a handler says before its answer has no place in an array.
            while let Some(outgoing) = exchange.next().await {
                if let Outgoing::Answer(answer, _) = outgoing {
                    answers.push(answer);
                }
            }
        }
        json_of(Status::Ok, as_array(&answers))
    })
}

fn answer_one(
    server: &McpServer,
    session: Option<&Arc<Session>>,
    revision: Revision,
    message: &[u8],
) -> (Reply, Vec<u8>) {
    let mut output = Vec::new();
    let reply = match json_rpc::parse(message) {
        Ok(Message::Request(request)) => match Params::parse(request.params) {
            Ok(_) if request.method == methods::INITIALIZE => {
                let error = Error::invalid_params("`initialize` cannot be part of a batch");
                Reply::error(&mut output, &request.id, &error)
            }
            Ok(params) => legacy::handle_request(server, session, revision, &request, &params, &mut output),
            Err(error) => Reply::error(&mut output, &request.id, &error),
        },
        Ok(message) => {
            if let Some(session) = session {
                deliver(session, &message);
            }
            Reply::Accepted
        }
        Err(invalid) => Reply::bad_request(&mut output, invalid.id.as_ref(), &invalid.error),
    };
    (reply, output)
}

fn as_array(answers: &[Vec<u8>]) -> Vec<u8> {
    let mut array = b"[".to_vec();
    array.extend_from_slice(&answers.join(&b','));
    array.push(b']');
    array
}

/// The id that the standalone stream begins with. What is told there is noted with the session until it is sent, so a
/// client that comes back with it just listens again.
const STANDALONE_EVENT_ID: &str = "0-0";

const SESSION_ID: &str = "Mcp-Session-Id";
