//! HTTP with SSE, the binding of revision 2024-11-05: a GET opens a stream of events, which carries
//! everything that the server says; what the client says comes by POST to a second endpoint, which the first
//! event names.
//!
//! What is said means the same as on any connection: see `connection.rs`.

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

/// The two endpoints for clients that know no revision but 2024-11-05, or its way over HTTP: one that opens a
/// stream and one that takes messages. Clones are the same endpoints.
///
/// A stream is a session, and the session ends with it. It is its caller's: to others, it does not exist.
///
/// If a client does not read its stream, its messages wait: at most 256 of them, with 1 MiB of data in all or
/// one larger message. The server answers 429 to further messages. Waiting messages also count as requests
/// that are being handled ([`in_flight_bytes_max`](crate::McpServerOptions::in_flight_bytes_max)).
#[derive(Clone, Debug)]
pub struct SseEndpoints {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Says who may come, and whose server it is.
    endpoint: McpEndpoint,
    message_path: String,
    streams: Arc<Streams>,
}

/// Opens streams.
struct StreamEndpoint(SseEndpoints);

/// Takes messages.
struct MessageEndpoint(SseEndpoints);

impl McpEndpoint {
    /// The endpoints that serve old clients, open to the same hosts and callers as this one. `message_path`
    /// is where [`messages`](SseEndpoints::messages) is mounted, as clients see it: they are told to send
    /// there.
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
    /// Answers GET with a stream: to be mounted where clients are sent, such as `/sse`.
    pub fn stream(&self) -> impl Handler + use<> {
        StreamEndpoint(self.clone())
    }

    /// Takes messages by POST: to be mounted at the path that clients are told.
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
            return Err(method_not_allowed("GET", "this endpoint opens a stream, by GET"));
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

/// Handles what comes, and sends what is answered. Ends only by being dropped, when the client goes or the
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

/// What is answered at once, if anything is.
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
    /// Whoever sends a message, and to which stream it goes.
    fn accept(&self, request: &Request<'_>) -> Result<(Caller, Sender), WholeResponse> {
        let shared = &self.0.shared;
        let caller = shared.endpoint.admit(request.field_lines(), request.client().ip())?;
        if request.method() != Method::Post {
            return Err(method_not_allowed("POST", "this endpoint takes messages, by POST"));
        }
        let id = request.query_string().and_then(stream_id);
        let owner = caller.principal();
        let sender =
            id.and_then(|id| shared.streams.find(id, owner.as_deref())).ok_or_else(no_such_stream)?;
        if is_json(request.field_lines()) { Ok((caller, sender)) } else { Err(unsupported_media_type()) }
    }
}

/// Takes a message, unless headers contradict it.
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
        Err(Refused::Full) => json_error(StatusCode::TOO_MANY_REQUESTS, "too many messages are waiting"),
        Err(Refused::Ended) => no_such_stream(),
    }
}

/// The id that a query names.
fn stream_id(query: &str) -> Option<&str> {
    query.split('&').find_map(|parameter| parameter.strip_prefix(STREAM_ID)?.strip_prefix('='))
}

fn no_such_stream() -> WholeResponse {
    json_error(StatusCode::NOT_FOUND, "there is no such stream, or it has ended")
}

fn method_not_allowed(allowed: &str, reason: &'static str) -> WholeResponse {
    json_error(StatusCode::METHOD_NOT_ALLOWED, reason).with_field("Allow", allowed)
}

/// The parameter of the query that says to which stream a message belongs.
const STREAM_ID: &str = "sessionId";
