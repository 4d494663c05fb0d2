//! Answers as HTTP responses.

use std::time::Duration;

use thruway_mcp::json_rpc::{Error, ErrorCode, write_error};
use thruway_net::PooledBuffer;
use thruway_server::{Event, FieldLinesBuf, Response, StatusCode};

use crate::dispatch::Status;

/// A message as content.
pub(super) fn json(status: Status, message: PooledBuffer) -> Response {
    let response = Response::ok(JSON, message);
    match status {
        Status::Ok => response,
        Status::BadRequest => response.with_status(StatusCode::BAD_REQUEST),
        Status::NotFound => response.with_status(StatusCode::NOT_FOUND),
    }
}

/// The same for a message that was made elsewhere.
pub(super) fn json_of(status: Status, message: Vec<u8>) -> Response {
    let response = Response::ok(JSON, message);
    match status {
        Status::Ok => response,
        Status::BadRequest => response.with_status(StatusCode::BAD_REQUEST),
        Status::NotFound => response.with_status(StatusCode::NOT_FOUND),
    }
}

/// A refusal that concerns HTTP more than the message; says so in both ways.
pub(crate) fn json_error(status: StatusCode, reason: &'static str) -> Response {
    let mut message = PooledBuffer::take();
    write_error(&mut message, None, &Error::new(ErrorCode::INVALID_REQUEST, reason));
    Response::ok(JSON, message).with_status(status)
}

/// A notification or a response of the client has been taken.
pub(crate) fn accepted() -> Response {
    Response::new(StatusCode::ACCEPTED)
}

pub(super) fn method_not_allowed() -> Response {
    json_error(StatusCode::METHOD_NOT_ALLOWED, "this endpoint takes POST, and GET and DELETE for sessions")
        .with_field("Allow", "POST, GET, DELETE")
}

/// A message as an event. Messages are JSON, which is UTF-8.
pub(crate) fn event(message: &[u8]) -> Event {
    Event::data(&String::from_utf8_lossy(message)).with_type("message")
}

const JSON: FieldLinesBuf = FieldLinesBuf::from_static("Content-Type: application/json\r\n");

/// After so long without an event, a stream says that it is there.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(15);
