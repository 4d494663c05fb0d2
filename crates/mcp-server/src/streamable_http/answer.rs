//! Answers to requests over Streamable HTTP, independent of the HTTP engine.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use thruway_mcp::json_rpc::{Error, ErrorCode, Id, Request, write_error};
use thruway_mcp::params::Params;
use thruway_message::{FieldLines, FieldLinesBuf, Method};
use thruway_net::PooledBuffer;
use thruway_server::{ContentError, IntoResponse, Rejection, Response, StatusCode};

use super::events::Events;
use super::traced::{McpSpan, Traced, context_in_headers};
use crate::authorization::Caller;
use crate::dispatch::Status;
use crate::http_response::{BodyBytes, WholeResponse, event};
use crate::server::McpServer;

/// An answer, or a future that produces the answer.
pub(super) enum Answer {
    Now(Answered),
    Later(Pin<Box<dyn Future<Output = Answered> + Send>>),
}

/// A complete response, or an event stream.
pub(super) enum Answered {
    Whole(WholeResponse),
    Events(Events),
}

impl Answer {
    pub(super) fn now(answered: impl Into<Answered>) -> Self {
        Self::Now(answered.into())
    }

    pub(super) fn later(answered: impl Future<Output = Answered> + Send + 'static) -> Self {
        Self::Later(Box::pin(answered))
    }
}

impl Answer {
    /// Converts the answer to an event stream, even if the answer is a single message.
    pub(super) fn into_event_stream(self) -> Self {
        match self {
            Self::Now(answered) => Self::Now(answered.into_event_stream()),
            Self::Later(later) => Self::later(async move { later.await.into_event_stream() }),
        }
    }
}

impl Answer {
    /// Returns the message of a complete response. `None` if the answer is not known yet.
    pub(super) fn whole_message(&self) -> Option<&[u8]> {
        match self {
            Self::Now(Answered::Whole(WholeResponse { content, .. })) => match content {
                BodyBytes::None => None,
                BodyBytes::Pooled(message) => Some(message),
                BodyBytes::Owned(message) => Some(message),
            },
            _ => None,
        }
    }
}

impl Answered {
    /// Converts a response with status 200 to an event stream. Responses with another status stay JSON,
    /// because clients recognize errors by the status.
    fn into_event_stream(self) -> Self {
        match self {
            Self::Whole(response) if response.status == StatusCode::OK => {
                Self::Whole(response.into_event_stream())
            }
            other => other,
        }
    }
}

impl WholeResponse {
    fn into_event_stream(self) -> Self {
        let message: &[u8] = match &self.content {
            BodyBytes::None => return self,
            BodyBytes::Pooled(message) => message,
            BodyBytes::Owned(message) => message,
        };
        let content = BodyBytes::Owned(event(message).into_bytes().to_vec());
        let mut field_lines = EVENT_STREAM;
        for line in self.field_lines.iter().filter(|line| !line.name.is("Content-Type")) {
            field_lines.append_line(line);
        }
        Self { status: self.status, field_lines, content }
    }
}

impl From<WholeResponse> for Answered {
    fn from(response: WholeResponse) -> Self {
        Self::Whole(response)
    }
}

impl From<Events> for Answered {
    fn from(events: Events) -> Self {
        Self::Events(events)
    }
}

/// Returns a JSON response with `message`, which is in a pooled buffer.
pub(super) fn json(status: Status, message: PooledBuffer) -> WholeResponse {
    json_response_of(status, BodyBytes::Pooled(message))
}

/// Returns a JSON response with `message`, which is in a buffer outside of the pool.
pub(crate) fn json_of(status: Status, message: Vec<u8>) -> WholeResponse {
    json_response_of(status, BodyBytes::Owned(message))
}

/// Returns the HTTP response with the JSON-RPC message `message`. Use it in programs that answer some requests of an
/// endpoint themselves.
pub fn json_message(status: Status, message: Vec<u8>) -> Response {
    json_of(status, message).into()
}

fn json_response_of(status: Status, message: BodyBytes) -> WholeResponse {
    let response = json_response(status_code(status), message);
    match status {
        Status::Unavailable(Some(time)) | Status::TooManyRequests(Some(time)) => {
            response.with_field("Retry-After", whole_seconds(time).to_string())
        }
        Status::Unavailable(None) | Status::TooManyRequests(None) => {
            response.with_field("Retry-After", RETRY_AFTER_SECONDS)
        }
        Status::Ok | Status::BadRequest | Status::NotFound => response,
    }
}

/// Returns the time in seconds, rounded up. Returns at least 1, because 0 would cause a retry at once.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).max(1)
}

/// Returns a rejection with an HTTP status. The body is a JSON-RPC error with the reason.
pub(crate) fn json_error(status: StatusCode, reason: impl Into<Cow<'static, str>>) -> WholeResponse {
    let mut message = PooledBuffer::take();
    write_error(&mut message, None, &Error::new(ErrorCode::INVALID_REQUEST, reason));
    json_response(status, BodyBytes::Pooled(message))
}

/// Returns the 503 response to a client that requests a new session or stream while too many are in use.
pub(crate) fn no_capacity(id: Option<&Id<'_>>, reason: &'static str) -> WholeResponse {
    let mut message = PooledBuffer::take();
    write_error(&mut message, id, &Error::internal(reason));
    json_response(StatusCode::SERVICE_UNAVAILABLE, BodyBytes::Pooled(message))
        .with_field("Retry-After", RETRY_AFTER_SECONDS)
}

/// Returns the rejection of a message that is larger than `bytes_max` bytes.
pub(super) fn too_large(bytes_max: usize) -> WholeResponse {
    json_error(StatusCode::CONTENT_TOO_LARGE, format!("the message is larger than {bytes_max} bytes"))
}

/// Returns the response to a request with a body that is too large, unreadable or incomplete.
pub(crate) fn unreadable(error: ContentError, bytes_max: usize) -> Response {
    match error {
        ContentError::TooLarge => too_large(bytes_max).into(),
        error => Rejection::from(error).into_response(),
    }
}

const fn json_response(status: StatusCode, content: BodyBytes) -> WholeResponse {
    WholeResponse { status, field_lines: JSON, content }
}

const fn status_code(status: Status) -> StatusCode {
    match status {
        Status::Ok => StatusCode::OK,
        Status::BadRequest => StatusCode::BAD_REQUEST,
        Status::NotFound => StatusCode::NOT_FOUND,
        Status::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        Status::TooManyRequests(_) => StatusCode::TOO_MANY_REQUESTS,
    }
}

/// Returns the response to an accepted notification or response of the client.
pub(crate) const fn accepted() -> WholeResponse {
    WholeResponse::new(StatusCode::ACCEPTED)
}

pub(super) fn method_not_allowed() -> WholeResponse {
    json_error(StatusCode::METHOD_NOT_ALLOWED, "method not allowed: use POST, or GET and DELETE for sessions")
        .with_field("Allow", "POST, GET, DELETE")
}

/// The headers of an event stream. `X-Accel-Buffering` prevents nginx from delaying events.
const EVENT_STREAM: FieldLinesBuf = FieldLinesBuf::from_static(
    "Content-Type: text/event-stream\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\n",
);

const JSON: FieldLinesBuf = FieldLinesBuf::from_static("Content-Type: application/json\r\n");

/// Seconds after which a rejected client should try again. Most sessions and streams last long, so an earlier
/// retry would rarely succeed.
const RETRY_AFTER_SECONDS: &str = "10";

/// Time without an event after which the server sends a keep-alive comment on a stream.
pub(crate) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// The metadata and the caller of a request to the endpoint, without the request body.
pub(super) struct Incoming<'a> {
    pub(super) server: &'a McpServer,
    pub(super) method: Method<'a>,
    pub(super) fields: FieldLines<'a>,
    pub(super) caller: Caller,
    /// The trace of the HTTP request. `None` if tracing is off.
    pub(super) traced: Option<Traced<'a>>,
}

impl Incoming<'_> {
    /// Begins the span of a request, if tracing is on. Sets the trace context of forwarded requests in `params`.
    pub(super) fn trace(&self, request: &Request<'_>, params: &mut Params<'_>) -> Option<McpSpan> {
        if let Some(traced) = self.traced {
            return Some(traced.begin(self.fields, request, params));
        }
        // Only a backend that forwards requests needs their text.
        if self.server.backend.needs_params_text() {
            params.meta.forwarded_trace = context_in_headers(self.fields).map(Box::new);
        }
        None
    }

    /// Returns the rejection of a caller that lacks at least one of `scopes`. `error` is the body, which
    /// contains the reason.
    pub(super) fn forbid(&self, error: PooledBuffer, scopes: &[String]) -> WholeResponse {
        self.caller.forbid(json(Status::Ok, error), scopes)
    }
}
