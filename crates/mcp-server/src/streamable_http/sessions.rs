//! Sessions of the legacy era over HTTP, from `initialize` to DELETE.

use std::sync::Arc;

use thruway_mcp::json_rpc::{Message, Notification, Request, write_error};
use thruway_mcp::params::{self, Params};
use thruway_mcp::schema::{CancelledNotificationParams, methods};
use thruway_mcp::{Era, Revision};
use thruway_net::PooledBuffer;
use thruway_server::StatusCode;

use super::answer::{Answer, Incoming, accepted, json, json_error, json_of, method_not_allowed, no_capacity};
use super::archived;
use super::events::{Events, Standalone};
use super::resumable::{later, no_such_event, take_up};
use super::traced::{McpSpan, observed};
use crate::dispatch::{Reply, Status, legacy};
use crate::http_response::WholeResponse;
use crate::server::LegacySessions;
use crate::session::{EventId, InUse, Session};

/// Answers a request of the legacy era that arrived by POST.
pub(super) fn handle_request(
    incoming: &Incoming<'_>,
    (request, params): (&Request<'_>, &Params<'_>),
    version: Option<&str>,
    span: Option<&McpSpan>,
    mut output: PooledBuffer,
) -> Answer {
    if let Err(error) = legacy::check_headers(incoming.server, incoming.fields, request, params) {
        write_error(&mut output, Some(&request.id), &error);
        return Answer::now(json(Status::BadRequest, output));
    }
    if request.method == methods::INITIALIZE {
        return Answer::now(initialize(incoming, request, output));
    }
    let (session, revision) = match session_of(incoming, version) {
        Ok(found) => found,
        Err(refusal) => return Answer::now(refusal),
    };
    let reply = legacy::handle_request(
        incoming.server,
        session.as_ref(),
        revision,
        request,
        params,
        &incoming.caller,
        &mut output,
    );
    match observed(reply, &output, span) {
        Reply::Now(status) => Answer::now(json(status, output)),
        Reply::Forbidden(scopes) => Answer::now(incoming.forbid(output, &scopes)),
        Reply::Later(exchange) => later(exchange, session, request),
    }
}

fn initialize(incoming: &Incoming<'_>, request: &Request<'_>, mut output: PooledBuffer) -> WholeResponse {
    let core = &incoming.server.core;
    let session = legacy::initialize(incoming.server, request, &mut output);
    let Some(session) = session.filter(|_| core.options.legacy_sessions == LegacySessions::Stateful) else {
        return json(Status::Ok, output);
    };
    let session = session.of(&incoming.caller).with_event_limit(&core.event_bytes);
    let Ok(id) = core.sessions.insert(session) else {
        let reason =
            "the server cannot begin a session, because too many sessions are in use: try again later";
        return no_capacity(Some(&request.id), reason);
    };
    json(Status::Ok, output).with_field(SESSION_ID, &*id)
}

/// Returns the session that a request names, and the revision of the session. A stateless server returns
/// no session.
pub(super) fn session_of(
    incoming: &Incoming<'_>,
    version: Option<&str>,
) -> Result<(Option<Arc<Session>>, Revision), WholeResponse> {
    let version = match version.map(str::parse::<Revision>) {
        None => None,
        Some(Ok(revision)) => Some(revision),
        Some(Err(_)) => return Err(json_error(StatusCode::BAD_REQUEST, "unsupported protocol version")),
    };
    if incoming.server.core.options.legacy_sessions == LegacySessions::Stateless {
        // Clients of MCP revision 2025-03-26 do not send the header `MCP-Protocol-Version`.
        return Ok((None, version.unwrap_or(Revision::R20250326)));
    }
    let id = session_id(incoming)?;
    match incoming.server.core.sessions.find(id, incoming.caller.principal().as_deref()) {
        Some(session) => {
            let revision = session.revision;
            Ok((Some(session), revision))
        }
        None => Err(json_error(StatusCode::NOT_FOUND, no_session(incoming))),
    }
}

fn no_session(incoming: &Incoming<'_>) -> &'static str {
    if incoming.server.core.sessions.are_ending() {
        "the session has ended, because this server shuts down: send `initialize` again"
    } else {
        "the session does not exist or has ended: send `initialize` again"
    }
}

fn session_id<'a>(incoming: &Incoming<'a>) -> Result<&'a str, WholeResponse> {
    let mut ids = incoming.fields.all(SESSION_ID);
    let Some(id) = ids.next().and_then(|value| value.as_str()) else {
        return Err(json_error(
            StatusCode::BAD_REQUEST,
            "the header `Mcp-Session-Id` is missing: begin a session with `initialize`",
        ));
    };
    if ids.next().is_some() {
        // Reject two ids: the server would use the first id, but a proxy might route the request by the
        // second id.
        return Err(json_error(StatusCode::BAD_REQUEST, "the header `Mcp-Session-Id` is present twice"));
    }
    Ok(id)
}

/// Answers GET with an event stream. After a reconnect with `Last-Event-ID`, the stream contains the events
/// that the client has missed. Otherwise, the stream contains the messages that do not belong to a request.
pub(super) fn handle_get(incoming: &Incoming<'_>) -> Answer {
    if incoming.server.core.options.legacy_sessions == LegacySessions::Stateless {
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
        Err(refusal) => return refused(incoming, refusal),
    };
    if let Some(last) = incoming.fields.field("last-event-id") {
        match last.as_str().and_then(|last| last.parse().ok()) {
            // The server stores no events of the standalone stream, so the client receives only new messages.
            Some(EventId { stream: 0, .. }) => {}
            Some(id) => return take_up(session, id),
            None => return Answer::now(no_such_event()),
        }
    }
    let session = InUse::new(session);
    let is_to_be_primed = session.revision.primes_event_streams();
    Answer::now(Events::Standalone(Standalone::new(session, is_to_be_primed)))
}

/// Answers GET for a session that this process does not have. An archive may contain the events of the session.
fn refused(incoming: &Incoming<'_>, refusal: WholeResponse) -> Answer {
    let last = incoming.fields.field("last-event-id").and_then(|last| last.as_str()?.parse().ok());
    match (session_id(incoming), last) {
        (Ok(session), Some(last)) => archived::resume(incoming, session, last, refusal),
        _ => Answer::now(refusal),
    }
}

/// Ends the session that a DELETE request names.
pub(super) fn handle_delete(incoming: &Incoming<'_>) -> WholeResponse {
    if incoming.fields.field(SESSION_ID).is_none() {
        return method_not_allowed();
    }
    let id = match session_id(incoming) {
        Ok(id) => id,
        Err(refusal) => return refusal,
    };
    if incoming.server.core.sessions.remove(id, incoming.caller.principal().as_deref()) {
        if let Some(archive) = &incoming.server.core.options.event_archive {
            archive.forget(id);
        }
        WholeResponse::new(StatusCode::NO_CONTENT)
    } else {
        json_error(StatusCode::NOT_FOUND, "the session does not exist or has ended")
    }
}

/// Accepts a notification, or a response to a request of the server. `message` is the parsed `body`.
pub(super) fn handle_other(incoming: &Incoming<'_>, body: &[u8], message: &Message<'_>) -> WholeResponse {
    let version = incoming.fields.field("mcp-protocol-version").and_then(|value| value.as_str());
    if is_modern(version) {
        return match message {
            Message::Notification(_) => accepted(),
            _ => json_error(StatusCode::BAD_REQUEST, "a client must not send responses in this revision"),
        };
    }
    if let Err(mismatch) = legacy::check_headers_of_body(incoming.server, incoming.fields, body) {
        return json_of(Status::BadRequest, mismatch);
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

pub(super) fn is_modern(version: Option<&str>) -> bool {
    let revision = version.and_then(|version| version.parse().ok());
    revision.is_some_and(|revision: Revision| revision.era() == Era::Modern)
}

pub(super) fn deliver(session: &Session, message: &Message<'_>) {
    match message {
        Message::Response(response) => session.pending.handle_response(response),
        Message::Notification(notification) => handle_notification(session, notification),
        Message::Request(_) => {}
    }
}

fn handle_notification(session: &Session, notification: &Notification<'_>) {
    session.notify_backend(notification);
    if notification.method == methods::NOTIFICATIONS_CANCELLED
        && let Ok(cancelled) = params::parse::<CancelledNotificationParams>(notification.params)
    {
        session.in_flight.cancel(&cancelled.request_id);
    }
}

const SESSION_ID: &str = "Mcp-Session-Id";
