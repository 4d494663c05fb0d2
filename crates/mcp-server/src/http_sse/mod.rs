//! HTTP with SSE, the transport of revision 2024-11-05. A GET opens an event stream for all messages of the
//! server. The client sends its messages by POST to a second endpoint, which the first event names.
//!
//! Messages have the same meaning as on any connection: see `connection.rs`.

mod streams;

use std::sync::Arc;

use bytes::Bytes;
use thruway_mcp::json_rpc::write_error;
use thruway_message::FieldLines;
use thruway_server::{
    Answer, ContentError, Event, EventSender, Handler, Method, Request, Response, StatusCode,
};

use crate::authorization::Caller;
use crate::connection::Connection;
use crate::dispatch::{Status, legacy};
use crate::http_response::{WholeResponse, event};
use crate::server::McpServer;
use crate::session::NoCapacity;
use crate::streamable_http::{
    McpEndpoint, SILENCE_MAX, accepted, is_json, json_error, json_of, no_capacity, unreadable,
    unsupported_media_type,
};
use streams::{OpenStream, Received, Refused, Sender, Streams};

/// The two endpoints for clients that support only the HTTP transport of revision 2024-11-05. One opens a
/// stream, the other accepts messages. Clones refer to the same endpoints.
///
/// A stream is a session, and the session ends with it. Other callers cannot use it.
///
/// If a client does not read its stream, its messages wait: at most 256 messages with 1 MiB of data in total,
/// or one larger message. The server answers 429 to further messages. Waiting messages also count as requests
/// in progress ([`in_flight_bytes_max`](crate::McpServerOptions::in_flight_bytes_max)).
#[derive(Clone, Debug)]
pub struct SseEndpoints {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The endpoint with the access rules and the server.
    endpoint: McpEndpoint,
    message_path: String,
    streams: Arc<Streams>,
}

/// Opens streams.
struct StreamEndpoint(SseEndpoints);

/// Accepts messages.
struct MessageEndpoint(SseEndpoints);

impl McpEndpoint {
    /// Returns the endpoints for old clients, with the access rules of this endpoint. `message_path` is the
    /// path at which [`messages`](SseEndpoints::messages) is mounted, as clients see it: the first event
    /// tells clients to send their messages there.
    ///
    /// ```
    /// # use thruway_mcp_server::McpServer;
    /// # use thruway_server::Router;
    /// let endpoint = McpServer::new("greeter", "1.0.0").endpoint();
    /// let sse = endpoint.sse_endpoints("/message");
    /// let router = Router::new()
    ///     .any("/mcp", endpoint)
    ///     .get("/sse", sse.stream())
    ///     .post("/message", sse.messages());
    /// ```
    ///
    /// # Panics
    /// `message_path` does not begin with `/`, or has more than a path.
    pub fn sse_endpoints(&self, message_path: impl Into<String>) -> SseEndpoints {
        let message_path = message_path.into();
        let is_path = message_path.starts_with('/') && !message_path.contains(['?', '#', '\r', '\n']);
        assert!(is_path, "`{}` is not a path", message_path.escape_debug());
        let options = &self.server().core.options;
        let streams = Arc::new(Streams::new(options.session_limits()));
        SseEndpoints { shared: Arc::new(Shared { endpoint: self.clone(), message_path, streams }) }
    }
}

impl SseEndpoints {
    /// Returns a handler that answers GET with a stream. Mount it at a path such as `/sse`.
    pub fn stream(&self) -> impl Handler + use<> {
        StreamEndpoint(self.clone())
    }

    /// Returns a handler that accepts messages by POST. Mount it at `message_path`.
    pub fn messages(&self) -> impl Handler + use<> {
        MessageEndpoint(self.clone())
    }
}

impl Handler for StreamEndpoint {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        Answer::Now(self.open(request).unwrap_or_else(Response::from))
    }
}

impl StreamEndpoint {
    fn open(&self, request: &Request<'_>) -> Result<Response, WholeResponse> {
        let shared = &self.0.shared;
        let caller = shared.endpoint.admit(request.field_lines(), request.client().ip())?;
        if request.method() != Method::Get {
            return Err(method_not_allowed("GET", "method not allowed: open a stream with GET"));
        }
        let stream = shared.streams.open(&caller).map_err(|NoCapacity| {
            no_capacity(None, "the server cannot open a stream, because too many are open: try again later")
        })?;
        let server = shared.endpoint.server().clone();
        let uri = format!("{}?{STREAM_ID}={}", shared.message_path, stream.id());
        Ok(Response::events(SILENCE_MAX, async move |mut events: EventSender| {
            events.send(Event::data(&uri).with_type("endpoint")).await;
            converse(server, stream, events).await;
            Ok(())
        }))
    }
}

/// Handles messages and sends answers. It ends only when it is dropped: when the client disconnects or the
/// server drains.
async fn converse(server: McpServer, mut stream: OpenStream, mut events: EventSender) {
    let (mut connection, mut messages) = Connection::new(server);
    let _cancel = connection.cancel_at_end();
    loop {
        let message = tokio::select! {
            Some(message) = messages.recv() => message,
            Some(received) = stream.receive() => answer(&mut connection, received),
            else => return,
        };
        if !message.is_empty() {
            events.send(event(&message)).await;
        }
    }
}

/// Returns the immediate answer, which is empty if there is none.
fn answer(connection: &mut Connection, received: Received) -> Vec<u8> {
    let mut answer = Vec::new();
    let (caller, message) = received.into_message();
    connection.handle_message(&caller, &message, &mut answer);
    answer
}

impl Handler for MessageEndpoint {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let (caller, sender) = match self.accept(request) {
            Ok(accepted) => accepted,
            Err(refusal) => return Answer::Now(refusal.into()),
        };
        let server = self.0.shared.endpoint.server();
        let bytes_max = server.core.options.message_bytes_max;
        if request.has_whole_content() {
            if request.content().len() > bytes_max {
                return Answer::Now(unreadable(ContentError::TooLarge, bytes_max));
            }
            let message = Bytes::copy_from_slice(request.content());
            return Answer::Now(take(server, request.field_lines(), &sender, caller, message).into());
        }
        let server = server.clone();
        let mut request = request.take_owned();
        Answer::later(async move {
            match request.content().collect(bytes_max).await {
                Ok(message) => take(&server, request.field_lines(), &sender, caller, message).into(),
                Err(error) => unreadable(error, bytes_max),
            }
        })
    }
}

impl MessageEndpoint {
    /// Returns the caller of a message, and the stream that the message belongs to.
    fn accept(&self, request: &Request<'_>) -> Result<(Caller, Sender), WholeResponse> {
        let shared = &self.0.shared;
        let caller = shared.endpoint.admit(request.field_lines(), request.client().ip())?;
        if request.method() != Method::Post {
            return Err(method_not_allowed("POST", "method not allowed: send messages with POST"));
        }
        let id = request.query_string().and_then(stream_id);
        let owner = caller.principal();
        let sender =
            id.and_then(|id| shared.streams.find(id, owner.as_deref())).ok_or_else(no_such_stream)?;
        if is_json(request.field_lines()) { Ok((caller, sender)) } else { Err(unsupported_media_type()) }
    }
}

/// Accepts a message, unless its headers contradict it.
fn take(
    server: &McpServer,
    fields: FieldLines<'_>,
    sender: &Sender,
    caller: Caller,
    message: Bytes,
) -> WholeResponse {
    if let Err(mismatch) = legacy::check_headers_of_body(server, fields, &message) {
        return json_of(Status::BadRequest, mismatch);
    }
    let bytes = match server.core.request_bytes.hold_bytes(&caller.holder(), message.len()) {
        Ok(bytes) => bytes,
        Err(error) => {
            let mut refusal = Vec::new();
            write_error(&mut refusal, None, &error);
            return json_of(Status::Unavailable, refusal);
        }
    };
    match sender.send(caller, message, bytes) {
        Ok(()) => accepted(),
        Err(Refused::Full) => json_error(
            StatusCode::TOO_MANY_REQUESTS,
            "too many messages wait in this stream: read the stream, then try again",
        ),
        Err(Refused::Ended) => no_such_stream(),
    }
}

/// Returns the stream id in a query.
fn stream_id(query: &str) -> Option<&str> {
    query.split('&').find_map(|parameter| parameter.strip_prefix(STREAM_ID)?.strip_prefix('='))
}

fn no_such_stream() -> WholeResponse {
    json_error(StatusCode::NOT_FOUND, "the stream does not exist or has ended: open a new one")
}

fn method_not_allowed(allowed: &str, reason: &'static str) -> WholeResponse {
    json_error(StatusCode::METHOD_NOT_ALLOWED, reason).with_field("Allow", allowed)
}

/// The query parameter with the stream id.
const STREAM_ID: &str = "sessionId";
