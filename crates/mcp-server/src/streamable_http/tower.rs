//! The endpoint as a tower service, for axum and other frameworks that use the `http` crate.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http_body::{Body, Frame, SizeHint};
use thruway_message::{FieldLineSpan, FieldLines, Method};
use thruway_server::{ClientAddr, Event, StatusCode};
use tokio::time::{Instant, Sleep, sleep};
use tower_service::Service;

use super::answer::{Answer, Answered, Incoming, KEEP_ALIVE_INTERVAL, json_error, too_large};
use super::events::Events;
use super::{Endpoint, McpEndpoint, handle};
use crate::http_response::{BodyBytes, WholeResponse};

/// An [`McpEndpoint`] as a tower service. Clones refer to the same endpoint. The service is always ready
/// for a request.
#[derive(Clone, Debug)]
pub struct McpService {
    endpoint: Arc<Endpoint>,
}

/// The body of a response: one message, or an event stream.
pub struct McpBody(Source);

enum Source {
    Bytes(Bytes),
    Events(EventBody),
}

/// The body of an event stream. If no event arrives for some time, the body sends a keep-alive comment.
struct EventBody {
    /// The next event, and all later events. `None` at the end of the stream.
    next: Option<NextEvent>,
    silence: Pin<Box<Sleep>>,
}

type NextEvent = Pin<Box<dyn Future<Output = (Option<Event>, Events)> + Send>>;

impl McpEndpoint {
    /// Returns this endpoint as a tower service, for applications with another HTTP server, such as axum. The
    /// application needs a tokio runtime with enabled timers.
    ///
    /// ```
    /// # use thruway_mcp_server::McpServer;
    /// let endpoint = McpServer::new("greeter", "1.0.0").endpoint();
    /// let app: axum::Router = axum::Router::new().route_service("/mcp", endpoint.tower_service());
    /// ```
    ///
    /// [Session limits per address](crate::McpServerOptions::sessions_per_address_max) work only if each
    /// request has the extension [`ClientAddr`]. In axum, a middleware can add this extension:
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use axum::extract::{ConnectInfo, Request};
    /// use axum::middleware::map_request;
    /// use thruway_mcp_server::ClientAddr;
    ///
    /// async fn tell_address(ConnectInfo(address): ConnectInfo<SocketAddr>, mut request: Request) -> Request {
    ///     request.extensions_mut().insert(ClientAddr::Tcp(address));
    ///     request
    /// }
    /// # use thruway_mcp_server::McpServer;
    /// # let endpoint = McpServer::new("greeter", "1.0.0").endpoint();
    /// let app: axum::Router = axum::Router::new()
    ///     .route_service("/mcp", endpoint.tower_service())
    ///     .layer(map_request(tell_address));
    /// ```
    pub fn tower_service(&self) -> McpService {
        McpService { endpoint: self.endpoint.clone() }
    }
}

impl<B> Service<http::Request<B>> for McpService
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Send,
{
    type Response = http::Response<McpBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let endpoint = self.endpoint.clone();
        Box::pin(async move {
            let answered = answer(&endpoint, request).await.unwrap_or_else(Answered::Whole);
            Ok(to_http(answered))
        })
    }
}

async fn answer<B>(endpoint: &Endpoint, request: http::Request<B>) -> Result<Answered, WholeResponse>
where
    B: Body + Send,
    B::Data: Send,
    B::Error: Send,
{
    let (parts, body) = request.into_parts();
    let unreadable =
        || json_error(StatusCode::BAD_REQUEST, "cannot read the method or the headers of the request");
    let method = Method::from_token(parts.method.as_str().as_bytes()).map_err(|_| unreadable())?;
    let fields = Fields::of(&parts).ok_or_else(unreadable)?;
    let address = parts.extensions.get().and_then(ClientAddr::ip);
    let caller = endpoint.admit(fields.as_lines(), address, parts.extensions.get())?;
    let server = &endpoint.server;
    let content = collect(body, server.core.options.message_bytes_max).await?;
    let answer = {
        let incoming = Incoming { server, method, fields: fields.as_lines(), caller, traced: None };
        handle(&incoming, &content)
    };
    // Free the body before the wait, because a handler may run for a long time. The handler has copied the
    // data that it needs.
    drop(content);
    match answer {
        Answer::Now(answered) => Ok(answered),
        Answer::Later(later) => Ok(later.await),
    }
}

/// Field lines from a header map.
#[derive(Default)]
struct Fields {
    bytes: Vec<u8>,
    spans: Vec<FieldLineSpan>,
}

impl Fields {
    /// Returns the field lines of a request. Adds the field `Host` if the request contains the host
    /// elsewhere, as in HTTP/2 (RFC 9113 §8.3.1). Returns `None` if the field lines are too long.
    fn of(parts: &Parts) -> Option<Self> {
        let mut fields = Self::default();
        for (name, value) in &parts.headers {
            fields.append(name.as_str(), value.as_bytes())?;
        }
        if let Some(authority) = parts.uri.authority()
            && !parts.headers.contains_key(HOST)
        {
            fields.append(HOST.as_str(), authority.as_str().as_bytes())?;
        }
        Some(fields)
    }

    fn append(&mut self, name: &str, value: &[u8]) -> Option<()> {
        let (name_start, name_end) = self.put(name.as_bytes())?;
        let (value_start, value_end) = self.put(thruway_message::token::trim_whitespace(value))?;
        self.spans.push(FieldLineSpan { name_start, name_end, value_start, value_end });
        Some(())
    }

    fn put(&mut self, bytes: &[u8]) -> Option<(u32, u32)> {
        let start = u32::try_from(self.bytes.len()).ok()?;
        self.bytes.extend_from_slice(bytes);
        Some((start, u32::try_from(self.bytes.len()).ok()?))
    }

    fn as_lines(&self) -> FieldLines<'_> {
        FieldLines::from_parsed(&self.bytes, &self.spans)
    }
}

/// Reads the whole body of a request.
///
/// # Errors
/// Returns a rejection if the body is larger than `bytes_max`, or if it ends too early.
async fn collect<B: Body>(body: B, bytes_max: usize) -> Result<Vec<u8>, WholeResponse> {
    let mut body = pin!(body);
    let mut content = Vec::new();
    while let Some(frame) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let frame = frame.map_err(|_| json_error(StatusCode::BAD_REQUEST, "the request body ended early"))?;
        let Ok(mut data) = frame.into_data() else { continue };
        if content.len() + data.remaining() > bytes_max {
            return Err(too_large(bytes_max));
        }
        while data.has_remaining() {
            let chunk = data.chunk();
            content.extend_from_slice(chunk);
            data.advance(chunk.len());
        }
    }
    Ok(content)
}

fn to_http(answered: Answered) -> http::Response<McpBody> {
    match answered {
        Answered::Whole(whole) => {
            let bytes = match whole.content {
                BodyBytes::None => Bytes::new(),
                BodyBytes::Pooled(mut bytes) => std::mem::take(&mut *bytes).into(),
                BodyBytes::Owned(bytes) => bytes.into(),
            };
            let mut response = http::Response::new(McpBody(Source::Bytes(bytes)));
            // The `http` crate accepts all statuses that this crate uses.
            *response.status_mut() = http::StatusCode::from_u16(whole.status.as_u16()).unwrap_or_default();
            append(response.headers_mut(), &whole.field_lines);
            response
        }
        Answered::Events(events) => {
            let body =
                EventBody { next: Some(next_event(events)), silence: Box::pin(sleep(KEEP_ALIVE_INTERVAL)) };
            let mut response = http::Response::new(McpBody(Source::Events(body)));
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
            response
        }
    }
}

fn append(headers: &mut HeaderMap, lines: &thruway_message::FieldLinesBuf) {
    for line in lines {
        let name = HeaderName::from_bytes(line.name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(line.value.as_bytes())) {
            headers.append(name, value);
        }
    }
}

fn next_event(mut events: Events) -> NextEvent {
    Box::pin(async move { (events.next().await, events) })
}

impl EventBody {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(next) = &mut self.next else { return Poll::Ready(None) };
        let bytes = match next.as_mut().poll(cx) {
            Poll::Ready((Some(event), events)) => {
                self.next = Some(next_event(events));
                event.into_bytes()
            }
            Poll::Ready((None, _)) => {
                self.next = None;
                return Poll::Ready(None);
            }
            Poll::Pending if self.silence.as_mut().poll(cx).is_ready() => Bytes::from_static(COMMENT),
            Poll::Pending => return Poll::Pending,
        };
        self.silence.as_mut().reset(Instant::now() + KEEP_ALIVE_INTERVAL);
        Poll::Ready(Some(bytes))
    }
}

impl Body for McpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut self.0 {
            Source::Bytes(bytes) => Poll::Ready((!bytes.is_empty()).then(|| std::mem::take(bytes))),
            Source::Events(events) => events.poll_next(cx),
        };
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Source::Bytes(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Events(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for McpBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpBody").finish_non_exhaustive()
    }
}

const COMMENT: &[u8] = b":\n\n";
