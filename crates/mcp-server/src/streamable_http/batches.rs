//! Batches: several messages in one POST (MCP revision 2025-03-26 only).

use std::sync::Arc;

use serde_json::value::RawValue;
use thruway_mcp::Revision;
use thruway_mcp::json_rpc::{self, Error, ErrorCode, Message, Request, write_error};
use thruway_mcp::params::Params;
use thruway_mcp::schema::methods;
use thruway_net::PooledBuffer;

use super::answer::{Answer, Incoming, accepted, json, json_of};
use super::events::Events;
use super::resumable::{EndsStream, answers_of, begin, spawn};
use super::sessions::{deliver, is_modern, session_of};
use super::traced::observed;
use crate::connection::as_array;
use crate::dispatch::{Exchange, Reply, Status, legacy};
use crate::http_response::WholeResponse;
use crate::session::{EventKind, InFlightGuard, InUse, Session};

/// Answers a batch: `batch` contains the messages of `body`. The response is one array with the answers to
/// all requests, or an event stream.
pub(super) fn handle(incoming: &Incoming<'_>, body: &[u8], batch: Result<Vec<&RawValue>, Error>) -> Answer {
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
    if let Err(mismatch) = legacy::check_headers_of_body(incoming.server, incoming.fields, body) {
        return Answer::now(json_of(Status::BadRequest, mismatch));
    }
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
        Some(session) => Answer::now(batch_as_events(session, &answers, exchanges)),
        None => Answer::later(async move {
            answers.extend(answers_of(exchanges.into_iter().map(|(exchange, _)| exchange).collect()).await);
            json_of(Status::Ok, as_array(&answers)).into()
        }),
    }
}

/// Returns the answers to a batch as an event stream. The first event contains the immediate answers. Each
/// later answer is a separate event, because a handler may send messages before its answer.
fn batch_as_events(
    session: Arc<Session>,
    answers: &[Vec<u8>],
    exchanges: Vec<(Exchange, Option<InFlightGuard>)>,
) -> Events {
    let stream = session.streams.begin();
    let reader = stream.read_after(0);
    let ends = EndsStream::new(&stream);
    if !answers.is_empty() {
        stream.push(EventKind::Message(as_array(answers).into()));
    }
    for (exchange, in_flight) in exchanges {
        if let Some(in_flight) = in_flight {
            spawn(exchange, in_flight, InUse::new(session.clone()), ends.clone());
        }
    }
    let is_to_be_primed = session.revision.primes_event_streams();
    Events::replay(reader, InUse::new(session), is_to_be_primed)
}

/// The outcome of one message of a batch.
enum Handled {
    Accepted,
    Now,
    /// The exchange produces the answer later. In a session, the guard registers the request, so that the
    /// client can cancel it.
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
        Ok(mut params) => {
            let span = incoming.trace(request, &mut params);
            let (server, caller) = (incoming.server, &incoming.caller);
            let reply = legacy::handle_request(server, session, revision, request, &params, caller, output);
            Ok(observed(reply, output, span.as_ref()))
        }
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

/// Returns the rejection of a batch in a revision that does not support batches.
fn unexpected_batch() -> WholeResponse {
    let mut output = PooledBuffer::take();
    write_error(
        &mut output,
        None,
        &Error::new(ErrorCode::INVALID_REQUEST, "batches are supported only in MCP revision 2025-03-26"),
    );
    json(Status::BadRequest, output)
}
