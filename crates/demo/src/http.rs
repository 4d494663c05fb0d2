//! HTTP endpoints for tests of clients, gateways and load generators.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};
use thruway_mcp_sdk::McpServerOptions;
use thruway_server::{
    Answer, BoxError, Content, ContentStream, Event, FieldLinesBuf, Handler, IntoResponse, Json,
    OwnedRequest, Piece, Rejection, Request, Response, Router,
};
use tokio::time::sleep;

use crate::mcp;

/// Returns the routes of the test server: the HTTP endpoints and the MCP endpoint.
pub fn router() -> Router {
    mcp::mount_endpoint(Router::new(), mcp::endpoint(&[], McpServerOptions::default()))
        .get("/", || Response::html(PAGE))
        .get("/plaintext", plaintext)
        .get("/json", || Json(Message { message: "Hello, World!" }))
        .any("/echo", Echo)
        .any("/upload", upload)
        .get("/ok", || "ok")
        .get("/download", Download)
        .get("/headers", headers)
        .get("/events", events)
        .get("/healthz", || "healthy\n")
}

fn plaintext() -> Response {
    const TEXT: FieldLinesBuf = FieldLinesBuf::from_static("Content-Type: text/plain\r\n");
    Response::ok(TEXT, "Hello, World!")
}

#[derive(Serialize)]
struct Message {
    message: &'static str,
}

/// Sends the request body back while it arrives.
struct Echo;

impl Handler for Echo {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let content = if request.has_whole_content() {
            Content::copy_of(request.content())
        } else {
            request.take_owned().take_content().into()
        };
        Answer::Now(content.into_response())
    }
}

/// Reads the whole request body, then responds with its length. HTTP/2 conformance tests need a response that
/// begins after the end of the request.
async fn upload(mut request: OwnedRequest) -> Result<Response, Rejection> {
    let body = request.content();
    let mut bytes = 0;
    while let Some(piece) = body.next().await {
        bytes += piece?.len() as u64;
    }
    Ok(Response::text(format!("received {bytes} bytes\n")))
}

/// `/download?bytes=N`: responds with a body of N bytes. With `chunked`, the body has no known length. With
/// `delay=MS`, the handler waits this number of milliseconds before the response. With `close`, the server
/// closes the connection after the response.
struct Download;

#[derive(Deserialize)]
struct DownloadQuery {
    #[serde(deserialize_with = "up_to_download_bytes_max")]
    bytes: u64,
    #[serde(default)]
    chunked: Flag,
    #[serde(default)]
    close: Flag,
    #[serde(default, deserialize_with = "up_to_pause_ms_max")]
    delay: u64,
}

impl Handler for Download {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let query: DownloadQuery = match query(request, DOWNLOAD_USAGE) {
            Ok(query) => query,
            Err(rejection) => return Answer::Now(rejection.into_response()),
        };
        let response = query.response();
        match Duration::from_millis(query.delay) {
            Duration::ZERO => Answer::Now(response),
            delay => Answer::later(async move {
                sleep(delay).await;
                response
            }),
        }
    }
}

impl DownloadQuery {
    fn response(&self) -> Response {
        let is_chunked = self.chunked.0;
        let content = match usize::try_from(self.bytes) {
            Ok(length) if length <= BLOCK.len() && !is_chunked => Content::from(&BLOCK[..length]),
            _ => Content::from_content_stream(Blocks { left: self.bytes, is_chunked }),
        };
        let response = content.into_response();
        if self.close.0 { response.and_close() } else { response }
    }
}

/// Response body with `left` remaining bytes, which are sent in blocks.
struct Blocks {
    left: u64,
    is_chunked: bool,
}

impl ContentStream for Blocks {
    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(BLOCK.len());
        self.left -= length as u64;
        let block = (length > 0).then(|| Ok(Piece::Data(Bytes::from_static(&BLOCK[..length]))));
        Poll::Ready(block)
    }

    fn length(&self) -> Option<u64> {
        (!self.is_chunked).then_some(self.left)
    }
}

/// Responds with the request as the server has parsed it, as JSON.
fn headers(request: &Request) -> Response {
    let fields: Vec<[String; 2]> =
        request.field_lines().iter().map(|line| [line.name.to_string(), line.value.to_string()]).collect();
    Response::json(&Seen {
        method: request.method().as_str(),
        target: request.target().to_string(),
        version: request.version().as_str(),
        client: request.client().to_string(),
        fields,
    })
}

#[derive(Serialize)]
struct Seen<'a> {
    method: &'a str,
    target: String,
    version: &'a str,
    client: String,
    fields: Vec<[String; 2]>,
}

/// Sends one `tick` event per second. `?count=N` ends the stream after N events, and `?every=MS` sets the
/// interval in milliseconds.
fn events(request: &Request) -> Result<Response, Rejection> {
    let EventsQuery { count, every } = query(request, EVENTS_USAGE)?;
    // The interval is at least one millisecond, to limit the rate of an endless stream.
    let every = Duration::from_millis(every.max(1));
    Ok(Response::events(KEEP_ALIVE, async move |mut events| {
        for tick in 1..=count {
            events.send(Event::data(&tick.to_string()).with_type("tick").with_id(&tick.to_string())).await;
            sleep(every).await;
        }
        Ok(())
    }))
}

#[derive(Deserialize)]
struct EventsQuery {
    #[serde(default = "endless")]
    count: u64,
    #[serde(default = "one_second", deserialize_with = "up_to_pause_ms_max")]
    every: u64,
}

const fn endless() -> u64 {
    u64::MAX
}

const fn one_second() -> u64 {
    1000
}

/// Parses the query of `request`. If the query is invalid, the response contains the reason and the text
/// `usage`.
fn query<'a, T: Deserialize<'a>>(request: &Request<'a>, usage: &str) -> Result<T, Rejection> {
    request
        .query()
        .map_err(|rejection| Rejection::new(rejection.status(), format!("{rejection}\n\nhint: {usage}\n")))
}

/// Boolean query parameter. The forms `?flag`, `?flag=1` and `?flag=true` all mean `true`.
#[derive(Clone, Copy, Default)]
struct Flag(bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = String::deserialize(deserializer)?;
        match value.as_str() {
            "" | "1" | "true" => Ok(Self(true)),
            "0" | "false" => Ok(Self(false)),
            _ => Err(serde::de::Error::custom("write a flag without a value, or with `0` or `1`")),
        }
    }
}

fn up_to_download_bytes_max<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    number_up_to(DOWNLOAD_BYTES_MAX, deserializer)
}

fn up_to_pause_ms_max<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    number_up_to(PAUSE_MS_MAX, deserializer)
}

fn number_up_to<'de, D: Deserializer<'de>>(most: u64, deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().ok().filter(|number| *number <= most).ok_or_else(|| {
        serde::de::Error::custom(format_args!("`{}` is not a number from 0 to {most}", text.escape_debug()))
    })
}

static BLOCK: [u8; 256 << 10] = [b'x'; 256 << 10];

/// Maximum number of bytes of `/download`: 1 GiB.
const DOWNLOAD_BYTES_MAX: u64 = 1 << 30;
const DOWNLOAD_USAGE: &str = "/download?bytes=N, with &chunked, &delay=MS and &close optional";
const EVENTS_USAGE: &str = "/events?count=N&every=MS, both optional";

/// Maximum of `delay` and `every`: one minute. The limit also bounds how long a handler sleeps after its
/// client has disconnected.
const PAUSE_MS_MAX: u64 = 60_000;

const KEEP_ALIVE: Duration = Duration::from_secs(15);

const PAGE: &str = include_str!("demo.html");
