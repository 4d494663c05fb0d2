//! Layers that compress responses. One layer uses the same settings for all responses, and the other uses the
//! settings of the listener.

use std::rc::Rc;
use std::sync::Arc;

use thruway_message::list::{contains_token, members};
use thruway_message::{RequestHead, StatusCode};
use thruway_net::Worker;

use super::config::{Compression, LeveledCoding, ListenerCompression};
use super::content::Encoded;
use super::decide::{AcceptedCodings, Verdict, is_event_stream};
use super::encoder::log_encoder_failure;
use super::pool::{PooledEncoder, encode_whole};
use crate::content_coding::ContentCoding;
use crate::handler::{Answer, Handler};
use crate::layers::Layer;
use crate::layers::source::SourceBody;
use crate::request::Request;
use crate::response::{Content, Response, Source};

impl Layer for Compression {
    fn wrap(self, inner: Arc<dyn Handler>) -> Arc<dyn Handler> {
        Arc::new(WithCompression { compression: Arc::new(self), inner })
    }
}

struct WithCompression {
    compression: Arc<Compression>,
    inner: Arc<dyn Handler>,
}

impl Handler for WithCompression {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        Compression::handle(&self.compression, &*self.inner, request)
    }
}

/// Lets `inner` handle the request without the header `Range`. A server may always ignore this header (RFC
/// 9110 §14.2).
fn handle_whole(inner: &dyn Handler, request: &mut Request<'_>) -> Answer {
    let mut spans = Vec::new();
    let field_lines = request.field_lines().without("range", &mut spans);
    let head = RequestHead { field_lines, ..*request.head() };
    request.forward_with_head(&head, inner)
}

impl Compression {
    /// Lets `inner` handle the request, and compresses its response.
    fn handle<'a>(this: &Arc<Self>, inner: &'a dyn Handler, request: &mut Request<'a>) -> Answer {
        let (accepted, worker) = (AcceptedCodings::of(request, this), request.worker());
        let answer =
            if accepted.may_join_codings { handle_whole(inner, request) } else { inner.handle(request) };
        match answer {
            Answer::Now(response) => Answer::Now(this.apply(response, accepted, worker)),
            Answer::Later(later) => {
                let (compression, worker) = (this.clone(), worker.clone());
                Answer::later(async move { compression.apply(later.await, accepted, &worker) })
            }
        }
    }

    /// Compresses the response if the client accepts a coding. Otherwise, adds `Vary` if needed. `accepted`
    /// describes the request of the client.
    fn apply(&self, mut response: Response, accepted: AcceptedCodings, worker: &Rc<Worker>) -> Response {
        match self.decide(accepted, &response) {
            Verdict::Leave => return response,
            Verdict::Vary => vary(&mut response),
            Verdict::Encode(coder) => {
                vary(&mut response);
                return self.encode(response, coder, accepted, worker);
            }
        }
        if response.status() == StatusCode::NOT_MODIFIED && accepted.revalidates_weakly {
            weaken_entity_tag(&mut response);
        }
        response
    }

    /// Encodes the body, unless too many streams are already being encoded.
    fn encode(
        &self,
        mut response: Response,
        coder: LeveledCoding,
        accepted: AcceptedCodings,
        worker: &Rc<Worker>,
    ) -> Response {
        let flushes = is_event_stream(&response);
        let encoded = match response.take_content() {
            _ if accepted.is_head => Ok(Content::left_out(None)),
            Source::Static(bytes) if bytes.len() <= WHOLE_BYTES_MAX => whole(bytes, coder, worker),
            Source::Pooled(bytes) if bytes.len() <= WHOLE_BYTES_MAX => whole(bytes, coder, worker),
            Source::Bytes(bytes) if bytes.len() <= WHOLE_BYTES_MAX => whole(bytes, coder, worker),
            source => self.stream(source, coder, flushes, worker),
        };
        match encoded {
            Ok(content) => {
                mark(&mut response, coder.coding);
                response.with_content(content)
            }
            Err(content) => response.with_content(content),
        }
    }

    /// Returns the body `source` as an encoded stream. If encoding is not possible, returns the unchanged
    /// body as the error.
    fn stream(
        &self,
        source: Source,
        coder: LeveledCoding,
        flushes: bool,
        worker: &Rc<Worker>,
    ) -> Result<Content, Content> {
        let plain = SourceBody::of(source).map_err(Content)?;
        match PooledEncoder::take(worker, coder, self.streams_max) {
            Some(encoder) => {
                Ok(Content::from_content_stream(Encoded::new(plain, encoder, flushes, worker.clone())))
            }
            None => Err(Content(plain.into_source())),
        }
    }
}

/// Returns `bytes` as an encoded body. If encoding fails, returns the unchanged bytes as the error.
fn whole<O: AsRef<[u8]> + Into<Content>>(
    bytes: O,
    coder: LeveledCoding,
    worker: &Worker,
) -> Result<Content, Content> {
    encode_whole(worker, bytes.as_ref(), coder).map_err(|error| {
        log_encoder_failure(&error);
        bytes.into()
    })
}

/// A layer that compresses responses with the settings of the listener that has accepted the connection. If
/// that listener has no compression settings, the layer uses the settings from [`or_else`](Self::or_else), if
/// any.
#[derive(Clone, Default, Debug)]
pub struct ByListener {
    fallback: Option<Arc<Compression>>,
}

impl ByListener {
    /// Creates the layer. It uses the settings `fallback` for listeners without compression settings.
    pub fn or_else(fallback: Option<Compression>) -> Self {
        Self { fallback: fallback.map(Arc::new) }
    }
}

impl Layer for ByListener {
    fn wrap(self, inner: Arc<dyn Handler>) -> Arc<dyn Handler> {
        Arc::new(WithListeners { fallback: self.fallback, inner })
    }
}

struct WithListeners {
    fallback: Option<Arc<Compression>>,
    inner: Arc<dyn Handler>,
}

impl Handler for WithListeners {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let compression = match &request.connection().compression {
            ListenerCompression::AsElsewhere => self.fallback.as_ref(),
            ListenerCompression::Off => None,
            ListenerCompression::As(compression) => Some(compression),
        };
        match compression.cloned() {
            Some(compression) => Compression::handle(&compression, &*self.inner, request),
            None => self.inner.handle(request),
        }
    }
}

/// Adds `Vary: Accept-Encoding` (RFC 9110 §12.5.5), unless `Vary` already contains `Accept-Encoding` or `*`.
fn vary(response: &mut Response) {
    let mut lines = response.field_lines().iter().filter(|line| line.name.is("vary"));
    let is_listed = lines.any(|line| {
        let value = line.value.as_bytes();
        contains_token(value, "accept-encoding") || members(value).any(|member| member == b"*")
    });
    if !is_listed {
        append(response, "Vary", b"Accept-Encoding");
    }
}

/// Sets `Content-Encoding`, and corrects the headers that do not apply to an encoded body.
fn mark(response: &mut Response, coding: ContentCoding) {
    response.remove_field("accept-ranges");
    append(response, "Content-Encoding", coding.name().as_bytes());
    weaken_entity_tag(response);
}

/// Turns a strong entity tag into a weak one. Representations with different bytes must not share a strong
/// tag (RFC 9110 §8.8.1).
fn weaken_entity_tag(response: &mut Response) {
    let strong = response.field("etag").filter(|tag| tag.as_bytes().starts_with(b"\""));
    if let Some(tag) = strong {
        let weak = [b"W/", tag.as_bytes()].concat();
        response.remove_field("etag");
        append(response, "ETag", &weak);
    }
}

/// Appends a header that is always valid, because it is constant or made from a valid header.
fn append(response: &mut Response, name: &str, value: &[u8]) {
    let appended = response.append_field(name, value);
    debug_assert!(appended.is_ok(), "`{name}` is valid");
}

/// Maximum size of a complete body that is encoded at once. The encoding takes at most a few milliseconds.
const WHOLE_BYTES_MAX: usize = 64 << 10;
