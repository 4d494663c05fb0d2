//! Messages that clients send by POST.

use thruway_mcp::content_types::{AcceptedFormats, is_media_type};
use thruway_mcp::json_rpc::{self, Message, Request, write_error};
use thruway_mcp::params::Params;
use thruway_mcp::schema::methods;
use thruway_mcp::{Era, dual_era};
use thruway_message::FieldLines;
use thruway_net::PooledBuffer;
use thruway_server::StatusCode;

use super::answer::{Answer, Incoming, json, json_error, json_of, too_large};
use super::events::Events;
use super::traced::observed;
use super::{batches, sessions};
use crate::dispatch::{CloseMessage, Exchange, Outgoing, Reply, Status, modern};
use crate::http_response::WholeResponse;

pub(super) fn handle(incoming: &Incoming<'_>, content: &[u8]) -> Answer {
    let options = &incoming.server.core.options;
    if content.len() > options.message_bytes_max {
        return Answer::now(too_large(options.message_bytes_max));
    }
    if !is_json(incoming.fields) {
        return Answer::now(unsupported_media_type());
    }
    let accepted = AcceptedFormats::of(incoming.fields);
    if !accepted.json && !accepted.events {
        return Answer::now(json_error(
            StatusCode::NOT_ACCEPTABLE,
            "a client must accept `application/json` and `text/event-stream`",
        ));
    }
    let answer = handle_message(incoming, content);
    if accepted.wants_events(options.prefers_event_streams) { answer.into_event_stream() } else { answer }
}

fn handle_message(incoming: &Incoming<'_>, content: &[u8]) -> Answer {
    if let Some(batch) = json_rpc::split_batch(content) {
        return batches::handle(incoming, content, batch);
    }
    if let Some((request, mut params)) = call_of_tool(incoming, content) {
        return dispatch(incoming, &request, &mut params, PooledBuffer::take());
    }
    match json_rpc::parse(content) {
        Ok(Message::Request(request)) => handle_request(incoming, &request),
        Ok(message) => Answer::now(sessions::handle_other(incoming, content, &message)),
        Err(invalid) => {
            let mut output = PooledBuffer::take();
            write_error(&mut output, invalid.id.as_ref(), &invalid.error);
            Answer::now(json(Status::BadRequest, output))
        }
    }
}

/// Returns the tool call in `content`, if the header `Mcp-Method` announces a tool call. Tool calls are the
/// most frequent messages, so this function parses them in one pass. Returns `None` if the backend needs the
/// text of the parameters, because this function does not keep it.
fn call_of_tool<'a>(incoming: &Incoming<'_>, content: &'a [u8]) -> Option<(Request<'a>, Params<'a>)> {
    let method = incoming.fields.field("mcp-method")?;
    if method != methods::TOOLS_CALL || incoming.server.backend.needs_params_text() {
        return None;
    }
    let (id, params) = json_rpc::read_request(content, methods::TOOLS_CALL)?;
    Some((Request { id, method: methods::TOOLS_CALL.into(), params: None }, params))
}

fn handle_request(incoming: &Incoming<'_>, request: &Request<'_>) -> Answer {
    let mut output = PooledBuffer::take();
    let mut params = match Params::parse(request.params) {
        Ok(params) => params,
        Err(error) => {
            write_error(&mut output, Some(&request.id), &error);
            return Answer::now(json(Status::BadRequest, output));
        }
    };
    dispatch(incoming, request, &mut params, output)
}

fn dispatch(
    incoming: &Incoming<'_>,
    request: &Request<'_>,
    params: &mut Params<'_>,
    mut output: PooledBuffer,
) -> Answer {
    let span = incoming.trace(request, params);
    let version = incoming.fields.field("mcp-protocol-version").and_then(|value| value.as_str());
    match dual_era::era_of(&request.method, params, version) {
        Era::Modern => {
            let reply = modern::handle_request(
                incoming.server,
                request,
                params,
                Some(incoming.fields),
                &incoming.caller,
                &mut output,
            );
            match observed(reply, &output, span.as_ref()) {
                Reply::Now(status) => Answer::now(json(status, output)),
                Reply::Forbidden(scopes) => Answer::now(incoming.forbid(output, &scopes)),
                Reply::Later(exchange) => later(exchange, close_message(incoming, request)),
            }
        }
        Era::Legacy => {
            let answer =
                sessions::handle_request(incoming, (request, params), version, span.as_ref(), output);
            if let (Some(span), Some(message)) = (span, answer.whole_message()) {
                span.answer(message);
            }
            answer
        }
    }
}

/// Returns the final result of a subscription, if `request` begins a subscription.
fn close_message(incoming: &Incoming<'_>, request: &Request<'_>) -> Option<CloseMessage> {
    (request.method == methods::SUBSCRIPTIONS_LISTEN)
        .then(|| CloseMessage::new(incoming.server.core.clone(), request.id.to_owned()))
}

/// Returns the response for an exchange. The response is an event stream if the exchange sends messages
/// before its answer. If the client disconnects, the server cancels the request.
fn later(mut exchange: Exchange, close_message: Option<CloseMessage>) -> Answer {
    Answer::later(async move {
        match exchange.next().await {
            Some(Outgoing::Answer(message, status)) => json_of(status, message).into(),
            Some(said) => Events::Exchange { first: Some(said), exchange, close_message }.into(),
            None => {
                json_error(StatusCode::INTERNAL_SERVER_ERROR, "the handler ended without an answer").into()
            }
        }
    })
}

pub(crate) fn is_json(fields: FieldLines<'_>) -> bool {
    fields.field("content-type").is_some_and(|value| is_media_type(value.as_bytes(), b"application/json"))
}

pub(crate) fn unsupported_media_type() -> WholeResponse {
    json_error(StatusCode::UNSUPPORTED_MEDIA_TYPE, "a message must have the content type `application/json`")
}
