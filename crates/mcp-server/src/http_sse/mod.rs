//! HTTP with SSE, the transport of MCP revision 2024-11-05. A client opens an event stream with GET, and the
//! server sends all messages as events of this stream. The first event contains the path of a second
//! endpoint, to which the client sends its messages with POST.
//!
//! The module `connection` handles the client's messages, as it does for the stdio transport.

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
    KEEP_ALIVE_INTERVAL, McpEndpoint, accepted, is_json, json_error, json_of, no_capacity, unreadable,
    unsupported_media_type,
};
use streams::{OpenStream, Received, Refused, Sender, Streams};

/// The two HTTP endpoints for clients that support only the transport of MCP revision 2024-11-05. One
/// endpoint opens event streams, and the other endpoint accepts messages. Clones refer to the same endpoints.
///
/// Each stream has its own session, which ends together with the stream. A stream accepts messages only from
/// the caller that opened it.
///
/// If a client does not read its stream, the server stops handling messages of this client, and adds them to
/// a queue. The queue holds at most 256 messages with a total size of 1 MiB, or one larger message. If the
/// queue is full, further messages get status 429. Waiting messages also count toward
/// [`in_flight_bytes_max`](crate::McpServerOptions::in_flight_bytes_max).
#[derive(Clone, Debug)]
pub struct SseEndpoints {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The Streamable HTTP endpoint that provides the server and the access rules.
    endpoint: McpEndpoint,
    message_path: String,
    streams: Arc<Streams>,
}

/// Answers GET with an event stream.
struct StreamEndpoint(SseEndpoints);

/// Accepts messages of clients by POST.
struct MessageEndpoint(SseEndpoints);

impl McpEndpoint {
    /// Returns the endpoints for clients of MCP revision 2024-11-05. They apply the same access rules as this
    /// endpoint. `message_path` is the path at which the application mounts the handler
    /// [`messages`](SseEndpoints::messages). The first event of each stream tells the client to send its
    /// messages to this path.
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
    /// Panics if `message_path` does not begin with `/`, or if it contains `?`, `#` or a line break.
    pub fn sse_endpoints(&self, message_path: impl Into<String>) -> SseEndpoints {
        let message_path = message_path.into();
        let is_path = message_path.starts_with('/') && !message_path.contains(['?', '#', '\r', '\n']);
        assert!(is_path, "the message path `{}` is not a path", message_path.escape_debug());
        let options = &self.server().core.options;
        let streams = Arc::new(Streams::new(options.session_limits()));
        SseEndpoints { shared: Arc::new(Shared { endpoint: self.clone(), message_path, streams }) }
    }
}

impl SseEndpoints {
    /// Returns the handler that answers GET with an event stream. Mount this handler at a path such as
    /// `/sse`.
    pub fn stream(&self) -> impl Handler + use<> {
        StreamEndpoint(self.clone())
    }

    /// Returns the handler that accepts messages by POST. Mount this handler at `message_path`.
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
        let caller = shared.endpoint.admit(
            request.field_lines(),
            request.client().ip(),
            request.extensions().get(),
        )?;
        if request.method() != Method::Get {
            return Err(method_not_allowed("GET", "method not allowed: open a stream with GET"));
        }
        let stream = shared.streams.open(&caller).map_err(|NoCapacity| {
            no_capacity(
                None,
                "the server cannot open a stream, because too many streams are open: try again later",
            )
        })?;
        let server = shared.endpoint.server().clone();
        let uri = format!("{}?{STREAM_ID}={}", shared.message_path, stream.id());
        Ok(Response::events(KEEP_ALIVE_INTERVAL, async move |mut events: EventSender| {
            events.send(Event::data(&uri).with_type("endpoint")).await;
            converse(server, stream, events).await;
            Ok(())
        }))
    }
}

/// Handles the messages of one stream and sends the answers. The HTTP server drops this future when the
/// client disconnects, or when the server shuts down.
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

/// Returns the immediate answer to a message. Returns an empty vector if there is no immediate answer.
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
    /// Returns the caller of a message, and the sender for the stream to which the message belongs.
    fn accept(&self, request: &Request<'_>) -> Result<(Caller, Sender), WholeResponse> {
        let shared = &self.0.shared;
        let caller = shared.endpoint.admit(
            request.field_lines(),
            request.client().ip(),
            request.extensions().get(),
        )?;
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

/// Adds a message to the queue of its stream. Rejects the message if it contradicts the headers of its POST.
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
            return json_of(Status::Unavailable(None), refusal);
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

/// Returns the stream id from a query string.
fn stream_id(query: &str) -> Option<&str> {
    query.split('&').find_map(|parameter| parameter.strip_prefix(STREAM_ID)?.strip_prefix('='))
}

fn no_such_stream() -> WholeResponse {
    json_error(StatusCode::NOT_FOUND, "the stream does not exist or has ended: open a new one")
}

fn method_not_allowed(allowed: &str, reason: &'static str) -> WholeResponse {
    json_error(StatusCode::METHOD_NOT_ALLOWED, reason).with_field("Allow", allowed)
}

/// Name of the query parameter that contains the stream id.
const STREAM_ID: &str = "sessionId";
