//! What `thruway serve` offers without a config: something to look at, and an origin to test clients, gateways and
//! load generators with.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thruway_server::{
    Answer, BoxError, Content, ContentStream, Event, FieldLinesBuf, Handler, IntoResponse, Json, Piece,
    Rejection, Request, Response, Router, StatusCode,
};
use tokio::time::sleep;

/// The routes of the demo.
pub(crate) fn router() -> Router {
    Router::new()
        .get("/", || Response::html(PAGE))
        .get("/plaintext", plaintext)
        .get("/json", || Json(Message { message: "Hello, World!" }))
        .any("/echo", Echo)
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

/// Sends the content of a request back, as it arrives.
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

/// `/download?bytes=N`: N octets. With `chunked`, in chunks; with `delay`, after so many milliseconds; with `close`,
/// as the last answer of the connection.
struct Download;

#[derive(Deserialize)]
struct DownloadQuery<'a> {
    bytes: u64,
    chunked: Option<&'a str>,
    close: Option<&'a str>,
    #[serde(default)]
    delay: u64,
}

impl Handler for Download {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let query: DownloadQuery<'_> = match request.query() {
            Ok(query) => query,
            Err(rejection) => return Answer::Now(rejection.into_response()),
        };
        if query.bytes > DOWNLOAD_BYTES_MAX {
            return Answer::Now(Rejection::new(StatusCode::BAD_REQUEST, TOO_MUCH).into_response());
        }
        let response = query.response();
        match Duration::from_millis(query.delay.min(DELAY_MS_MAX)) {
            Duration::ZERO => Answer::Now(response),
            delay => Answer::later(async move {
                sleep(delay).await;
                response
            }),
        }
    }
}

impl DownloadQuery<'_> {
    fn response(&self) -> Response {
        let is_chunked = self.chunked.is_some_and(is_on);
        let content = match usize::try_from(self.bytes) {
            Ok(length) if length <= BLOCK.len() && !is_chunked => Content::from(&BLOCK[..length]),
            _ => Content::from_content_stream(Blocks { left: self.bytes, is_chunked }),
        };
        let response = content.into_response();
        if self.close.is_some_and(is_on) { response.and_close() } else { response }
    }
}

/// `?flag`, `?flag=1` and `?flag=true` switch a flag on.
fn is_on(value: &str) -> bool {
    matches!(value, "" | "1" | "true")
}

/// So many octets, block by block.
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

/// The request as the server understood it.
fn headers(request: &Request) -> Response {
    let fields: Vec<[String; 2]> =
        request.fields().iter().map(|line| [line.name.to_string(), line.value.to_string()]).collect();
    Response::json(&Seen {
        method: request.method().as_str(),
        target: request.target().to_string(),
        version: request.version().as_str(),
        client: request.connection().client.to_string(),
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

/// A tick a second; `?count=N` ends the stream after N, `?every=MS` changes the pace.
fn events(request: &Request) -> Result<Response, Rejection> {
    let EventsQuery { count, every } = request.query()?;
    let every = Duration::from_millis(every.clamp(1, DELAY_MS_MAX));
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
    #[serde(default = "one_second")]
    every: u64,
}

const fn endless() -> u64 {
    u64::MAX
}

const fn one_second() -> u64 {
    1000
}

static BLOCK: [u8; 256 << 10] = [b'x'; 256 << 10];

/// 1 GiB.
const DOWNLOAD_BYTES_MAX: u64 = 1 << 30;
const TOO_MUCH: &str = "`bytes` must be at most 1073741824\n";

/// An hour.
const DELAY_MS_MAX: u64 = 3_600_000;

const KEEP_ALIVE: Duration = Duration::from_secs(15);

const PAGE: &str = include_str!("demo.html");
