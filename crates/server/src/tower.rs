//! Bridge to the `http` crate: runs tower services, such as axum applications, as handlers.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use http::{Extensions, Uri};
use http_body::{Body, Frame, SizeHint};
use thruway_message::{FieldLinesBuf, Method, RequestTarget, StatusCode, Version};
use thruway_net::{Admitted, LogLimit};
use tower_service::Service;

use crate::connection::is_client_fault;
use crate::connection_info::ConnectionInfo;
use crate::handler::{Answer, Handler};
use crate::request::{ContentError, Request, RequestContent};
use crate::response::{BoxError, Content, ContentStream, Piece, Response};

/// A handler that runs a [tower service](Service), such as an axum `Router`.
///
/// ```no_run
/// # use thruway_server::{Server, ServerError, Tower};
/// # fn main() -> Result<(), ServerError> {
/// let app = axum::Router::new().route("/", axum::routing::get(|| async { "Hello, World!" }));
/// Server::new(Tower::new(app)).listen("127.0.0.1:8080")?.run()
/// # }
/// ```
///
/// If the route of the service has a mount prefix, the service sees the path without this prefix. The futures
/// of the service run on the thread of the connection. The `OnUpgrade` extension of hyper is not supported,
/// and therefore neither is axum's `WebSocketUpgrade`. For web sockets, add a route with `WebSocketUpgrade` of
/// this crate (feature `websocket`) or with [`Response::upgrade`] next to the application.
#[derive(Clone)]
pub struct Tower<S> {
    service: S,
    extend: Option<Arc<Extend>>,
}

type Extend = dyn Fn(&ConnectionInfo, &mut Extensions) + Send + Sync;

impl<S> Tower<S> {
    /// Creates a handler that runs `service`.
    pub const fn new(service: S) -> Self {
        Self { service, extend: None }
    }

    /// Lets `extend` add extensions to each request, such as axum's `ConnectInfo`.
    #[must_use]
    pub fn with_extensions(
        self,
        extend: impl Fn(&ConnectionInfo, &mut Extensions) + Send + Sync + 'static,
    ) -> Self {
        Self { extend: Some(Arc::new(extend)), ..self }
    }
}

impl<S, B> Handler for Tower<S>
where
    S: Service<http::Request<RequestContent>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: 'static,
    B: Body + 'static,
    B::Error: Into<BoxError>,
{
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let is_head = request.method() == Method::Head;
        let connection = request.connection();
        let Some(mut request) = to_http(request, Request::take_content) else {
            return Answer::Now(Response::new(StatusCode::BAD_REQUEST));
        };
        if let Some(extend) = &self.extend {
            extend(connection, request.extensions_mut());
        }
        let mut service = self.service.clone();
        Answer::later(async move {
            let outcome = match poll_fn(|cx| service.poll_ready(cx)).await {
                Ok(()) => service.call(request).await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(response) => from_http(response, is_head).await,
                Err(error) => {
                    log_failed_service(&*error.into());
                    Response::new(StatusCode::INTERNAL_SERVER_ERROR)
                }
            }
        })
    }
}

#[cold]
fn log_failed_service(error: &(dyn std::error::Error + Send + Sync + 'static)) {
    static LIMIT: LogLimit = LogLimit::new();
    if is_client_fault(error) {
        tracing::debug!(%error, "the request body failed in a tower service");
    } else if let Some(Admitted { suppressed }) = LIMIT.admit() {
        tracing::error!(%error, suppressed, "a tower service failed");
    }
}

/// Converts the request to the types of the `http` crate. Returns `None` if the `http` crate rejects a part
/// of the request, because the rules of that crate are stricter. Takes the extensions. `take_body` returns the
/// body.
#[inline]
pub(crate) fn to_http<'a, B>(
    request: &mut Request<'a>,
    take_body: impl FnOnce(&mut Request<'a>) -> B,
) -> Option<http::Request<B>> {
    let head = *request.head();
    let uri = to_uri(request)?;
    let mut to = http::Request::new(take_body(request));
    *to.extensions_mut() = std::mem::take(request.extensions_mut());
    *to.method_mut() = http::Method::from_bytes(head.method.as_str().as_bytes()).ok()?;
    *to.uri_mut() = uri;
    *to.version_mut() = match head.version {
        Version::Http10 => http::Version::HTTP_10,
        Version::Http2 => http::Version::HTTP_2,
        _ => http::Version::HTTP_11,
    };
    let headers = to.headers_mut();
    headers.reserve(head.field_lines.len());
    // The header section is copied once. The header values are slices of this copy.
    let bytes = Bytes::copy_from_slice(head.field_lines.bytes());
    for (line, span) in head.field_lines.iter().zip(head.field_lines.spans()) {
        let name = HeaderName::from_bytes(line.name.as_bytes()).ok()?;
        let value = bytes.slice(span.value_start as usize..span.value_end as usize);
        headers.append(name, HeaderValue::from_maybe_shared(value).ok()?);
    }
    Some(to)
}

fn to_uri(request: &Request<'_>) -> Option<Uri> {
    match request.target() {
        RequestTarget::Origin(_) => {
            let path = request.mounted_path();
            let query = request.query_string();
            let mut target = Vec::with_capacity(path.len() + query.map_or(0, |query| query.len() + 1));
            target.extend_from_slice(path.as_bytes());
            if let Some(query) = query {
                target.push(b'?');
                target.extend_from_slice(query.as_bytes());
            }
            Uri::from_maybe_shared(Bytes::from(target)).ok()
        }
        other => other.to_string().parse().ok(),
    }
}

pub(crate) async fn from_http<B>(from: http::Response<B>, is_head: bool) -> Response
where
    B: Body + 'static,
    B::Error: Into<BoxError>,
{
    let (parts, body) = from.into_parts();
    let status = StatusCode::new(parts.status.as_u16()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = Response::new(status);
    response.reserve_fields(
        parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum(),
    );
    for (name, value) in &parts.headers {
        // The `http` crate allows whitespace around values, but this crate does not. Such whitespace has no
        // meaning.
        let value = thruway_message::token::trim_whitespace(value.as_bytes());
        if let Err(error) = response.append_field(name.as_str(), value) {
            crate::response::log_invalid_field(error, name.as_str());
            return Response::new(StatusCode::INTERNAL_SERVER_ERROR);
        }
    }
    if is_head {
        // The service sends no body in response to HEAD. The length of the body is known only from
        // `Content-Length`.
        return response.with_content(Content::left_out(announced_length(&parts.headers)));
    }
    response.with_content(to_content(body).await)
}

fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Converts `body`. A body that is already complete, as most bodies are, becomes bytes. Any other body
/// becomes a stream.
async fn to_content<B>(body: B) -> Content
where
    B: Body + 'static,
    B::Error: Into<BoxError>,
{
    let mut stream = BodyStream { body: Box::pin(body), first: None };
    let Some(length) = stream.length() else { return Content::from_content_stream(stream) };
    if length == 0 {
        return Content::empty();
    }
    let first = poll_fn(|cx| Poll::Ready(Pin::new(&mut stream).poll_next(cx))).await;
    match first {
        Poll::Ready(Some(Ok(Piece::Data(data)))) if data.len() as u64 == length => Content::from(data),
        Poll::Ready(first) => {
            stream.first = first;
            Content::from_content_stream(stream)
        }
        Poll::Pending => Content::from_content_stream(stream),
    }
}

/// A body of the `http-body` crate as a [`ContentStream`].
struct BodyStream<B> {
    body: Pin<Box<B>>,
    /// The first piece, which was read to find out if the body is complete.
    first: Option<Result<Piece, BoxError>>,
}

impl<B> ContentStream for BodyStream<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        let frame = match ready!(self.body.as_mut().poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => return Poll::Ready(None),
        };
        Poll::Ready(Some(match frame.into_data() {
            Ok(mut data) => Ok(Piece::Data(data.copy_to_bytes(data.remaining()))),
            Err(frame) => {
                frame.into_trailers().map_or(Ok(Piece::Data(Bytes::new())), |trailers| to_lines(&trailers))
            }
        }))
    }

    fn length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }
}

fn to_lines(trailers: &HeaderMap) -> Result<Piece, BoxError> {
    let mut lines = FieldLinesBuf::new();
    for (name, value) in trailers {
        lines.append(name.as_str(), thruway_message::token::trim_whitespace(value.as_bytes()))?;
    }
    Ok(Piece::Trailers(lines))
}

impl Body for RequestContent {
    type Data = Bytes;
    type Error = ContentError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ContentError>>> {
        let this = self.get_mut();
        match ready!(this.poll_next(cx)) {
            Some(piece) => Poll::Ready(Some(piece.map(Frame::data))),
            None => {
                Poll::Ready(this.take_trailers().map(|trailers| Ok(Frame::trailers(to_headers(&trailers)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_end()
    }

    fn size_hint(&self) -> SizeHint {
        self.length().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

fn to_headers(lines: &FieldLinesBuf) -> HeaderMap {
    lines
        .iter()
        .filter_map(|line| {
            let name = HeaderName::from_bytes(line.name.as_bytes()).ok()?;
            Some((name, HeaderValue::from_bytes(line.value.as_bytes()).ok()?))
        })
        .collect()
}
