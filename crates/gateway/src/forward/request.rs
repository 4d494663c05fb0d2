//! The request that the gateway sends to the upstream.

use std::borrow::Cow;
use std::fmt;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::sync::Arc;

use thruway_client::{RequestToSend, WebSocketAccept, websocket_accept};
use thruway_http1::{BodyLength, write_end_of_request_head, write_request_line};
use thruway_message::token::is_in_any_case;
use thruway_message::{AbsoluteForm, FieldLine, Method, RequestTarget, Version, list};
use thruway_net::PooledBuffer;
use thruway_server::{ProxyFields, Request};
use thruway_telemetry::{SpanId, UpstreamPath};

use super::config::{ForwardConfig, ForwardedFields, HostRewrite};
use super::fields::{ConnectionOptions, reads_as, x_forwarded};
use super::forwarded;
use super::request_id::RequestId;
use super::rewrite::ResponseRewrite;
use super::trace_fields::{TRACE_PARENT, TraceSpan, is_trace_field, write_trace_fields};

/// A prepared request to the upstream. The gateway can send it several times.
pub(super) struct OutgoingRequest {
    /// The request head, followed by the request body if the whole body arrived with the head.
    bytes: PooledBuffer,
    to_send: RequestToSend,
    pub(super) is_idempotent: bool,
    /// `true` for a GET request that asks for a protocol upgrade. Such a request is useless if the server
    /// does not upgrade. Requests with other methods also make sense as normal requests.
    pub(super) is_upgrade: bool,
    /// `true` if this process sent the request to itself. The gateway must not forward such a request to a
    /// listener of this process again.
    pub(super) is_own: bool,
    /// The value of `Sec-WebSocket-Accept` that the gateway expects from the server. `None` if the client
    /// checks the value.
    pub(super) websocket_accept: Option<Box<WebSocketAccept>>,
    /// Byte position of the `Host` line. `None` if `bytes` already contains the `Host` line.
    host_at: Option<NonZeroUsize>,
    /// The span id in the value of `traceparent`. `None` if tracing is off.
    trace_span: Option<TraceSpan>,
    /// Configured changes to the response. `None` if no changes are configured.
    response_rewrite: Option<Box<ResponseRewrite>>,
}

/// The reason why a request cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unsendable {
    /// The header `Via` names [too many](GATEWAYS_MAX) Thruway gateways.
    Loop,
    /// The path of the request cannot be rewritten.
    Path,
    /// The request has `Max-Forwards: 0`, so the gateway is the last server that may receive the request.
    LastServer,
}

impl fmt::Display for Unsendable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loop => "the request has passed through too many Thruway gateways",
            Self::Path => "the path cannot be rewritten",
            Self::LastServer => "the request has `Max-Forwards: 0`",
        })
    }
}

impl OutgoingRequest {
    /// Returns the request for the upstream. The returned request includes the body if the body has arrived
    /// completely.
    ///
    /// # Errors
    /// Returns an error if the path cannot be rewritten, if the request has passed through too many gateways,
    /// or if `Max-Forwards` allows no further server.
    pub(super) fn new(
        request: &Request<'_>,
        config: &Arc<ForwardConfig>,
        id: &RequestId,
    ) -> Result<Self, Unsendable> {
        if max_forwards(request) == Some(0) {
            return Err(Unsendable::LastServer);
        }
        let content = request.content();
        let body_length = if request.has_whole_content() {
            BodyLength::Bytes(content.len() as u64)
        } else {
            request.content_length().map_or(BodyLength::Chunked, BodyLength::Bytes)
        };
        let asks_for_upgrade = asks_for_upgrade(request);
        let mut bytes = PooledBuffer::take();
        write_first_line(&mut bytes, request, config)?;
        let host_at = NonZeroUsize::new(bytes.len()).filter(|_| config.host == HostRewrite::Server);
        let trace_span = write_field_lines(&mut bytes, request, config, id)?;
        write_end_of_request_head(&mut bytes, request.method(), body_length);
        bytes.extend_from_slice(content);
        // A body that is already in `bytes` does not count as unsent.
        let left = if request.has_whole_content() { BodyLength::NONE } else { body_length };
        let to_send = RequestToSend { asks_for_upgrade, ..RequestToSend::new(request.method(), left) };
        Ok(Self {
            bytes,
            to_send,
            is_idempotent: request.method().is_idempotent(),
            is_upgrade: asks_for_upgrade && request.method() == Method::Get,
            is_own: request.connection().peer.is_own(),
            websocket_accept: if asks_for_upgrade { websocket_accept_of(request) } else { None },
            host_at,
            trace_span,
            response_rewrite: ResponseRewrite::of(config, request, id),
        })
    }

    /// Returns the framing of the request, and the properties that are needed to read its response.
    pub(super) const fn to_send(&self) -> RequestToSend {
        self.to_send
    }

    /// Returns the configured changes to the response. `None` if no changes are configured.
    #[inline]
    pub(super) fn response_rewrite(&self) -> Option<&ResponseRewrite> {
        self.response_rewrite.as_deref()
    }

    /// Returns `true` if [`bytes`](Self::bytes) returns the whole request: the bytes do not depend on the
    /// selected server, and the body has arrived completely.
    #[inline]
    pub(super) const fn is_whole(&self) -> bool {
        self.host_at.is_none() && matches!(self.to_send.body_length, BodyLength::NONE)
    }

    /// Returns the request head, followed by the request body if the whole body arrived with the head. If the
    /// value of `Host` depends on the selected server, the `Host` line is missing.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the path of the request, without the query.
    pub(super) fn path(&self) -> UpstreamPath<'_> {
        if self.trace_span.is_some_and(|place| place.has_same_path) {
            return UpstreamPath::OfRequest;
        }
        let target = self.bytes.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        UpstreamPath::Rewritten(str::from_utf8(path).unwrap_or_default())
    }

    /// Names the span of the next attempt in `traceparent`.
    #[inline]
    pub(super) fn set_trace_span(&mut self, span: SpanId) {
        if let Some(place) = &mut self.trace_span {
            place.set(&mut self.bytes, span);
        }
    }

    /// Appends the prepared request to `output`. Calls `host` to get the value of `Host`, but only if this
    /// value depends on the selected server.
    pub(super) fn write(&self, output: &mut Vec<u8>, host: impl FnOnce() -> String) {
        let Some(host_at) = self.host_at else { return output.extend_from_slice(&self.bytes) };
        let (request_line, rest) = self.bytes.split_at(host_at.get());
        output.extend_from_slice(request_line);
        write_host_line(output, host().as_bytes());
        output.extend_from_slice(rest);
    }
}

fn write_first_line(
    bytes: &mut Vec<u8>,
    request: &Request<'_>,
    config: &ForwardConfig,
) -> Result<(), Unsendable> {
    let rewritten = match &config.rewrite.path {
        Some(path) => path.target(request).map_err(|_| Unsendable::Path)?,
        None => None,
    };
    let target = rewritten.map_or_else(|| target_of(request), |path| Cow::Owned(path.into_bytes()));
    write_request_line(bytes, request.method(), &target).map_err(|_| Unsendable::Path)
}

/// Returns the request target in origin form, or `*` for an OPTIONS request about the whole server (RFC
/// 9112 §3.2.1 and §3.2.4). The bytes need no UTF-8 check here, because `write_request_line` checks them.
fn target_of<'a>(request: &Request<'a>) -> Cow<'a, [u8]> {
    match request.target() {
        RequestTarget::Origin(origin) => origin.as_bytes().into(),
        RequestTarget::Absolute(AbsoluteForm { origin, .. }) => match origin.as_bytes() {
            b"" if request.method() == Method::Options => b"*".into(),
            target if target.starts_with(b"/") => target.into(),
            query => [b"/", query].concat().into(),
        },
        RequestTarget::Authority(_) | RequestTarget::Asterisk => b"*".into(),
    }
}

/// Appends the header lines for the upstream, with `Host` as the first line. Leaves out the headers that
/// frame the message, such as `Content-Length`. Returns the place of the span id in `traceparent`, if the
/// request has a trace.
///
/// # Errors
/// Returns an error if the request has passed through too many gateways.
fn write_field_lines(
    lines: &mut Vec<u8>,
    request: &Request<'_>,
    config: &ForwardConfig,
    id: &RequestId,
) -> Result<Option<TraceSpan>, Unsendable> {
    let host = host_of(request);
    write_host(lines, host, &config.host);
    let field_lines = request.field_lines();
    let options = ConnectionOptions::of(field_lines);
    let max_forwards = max_forwards(request);
    let rewrite = &config.rewrite.request;
    let is_rewritten = !rewrite.is_empty();
    let trace = request.trace().filter(|_| !(is_rewritten && rewrite.drops(TRACE_PARENT)));
    let mut gateways = 0;
    field_lines.write_kept(lines, |line| {
        if line.name.is("via") {
            gateways += gateways_in(line.value.as_bytes());
        }
        !(options.include(line.name)
            || is_own(line, request, config)
            || (trace.is_some() && is_trace_field(line.name))
            || (max_forwards.is_some() && line.name.is("max-forwards"))
            || (is_rewritten && rewrite.drops(line.name)))
    });
    if gateways > GATEWAYS_MAX {
        return Err(Unsendable::Loop);
    }
    if let Some(left) = max_forwards {
        // Writing to a vector cannot fail.
        let _ = write!(lines, "Max-Forwards: {}\r\n", left.saturating_sub(1));
    }
    if asks_for_upgrade(request) {
        write_upgrade(lines, request);
    }
    forwarded::write(lines, request, host, config);
    if is_rewritten {
        rewrite.write(lines, request, id);
    }
    let has_same_path = config.rewrite.path.is_none() && matches!(request.target(), RequestTarget::Origin(_));
    Ok(trace.and_then(|trace| write_trace_fields(lines, trace, has_same_path)))
}

/// Returns the number of Thruway gateways in a value of the header `Via` (RFC 9110 §7.6.3).
fn gateways_in(via: &[u8]) -> usize {
    let is_one = |member: &&[u8]| {
        let mut words = member.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
        words.nth(1) == Some(PSEUDONYM)
    };
    list::members(via).filter(is_one).count()
}

/// Returns the value of `Sec-WebSocket-Accept` that the gateway expects from the server. WebSocket over
/// HTTP/2 has no key (RFC 8441 §5), so the gateway creates a key for HTTP/2 clients. For all other requests,
/// returns `None`.
fn websocket_accept_of(request: &Request<'_>) -> Option<Box<WebSocketAccept>> {
    let is_translated = request.version() == Version::Http2 && request.wants_upgrade_to("websocket");
    is_translated.then(|| websocket_accept(request.field_lines()).map(Box::new)).flatten()
}

/// Returns the value of `Max-Forwards` in an OPTIONS or TRACE request. Returns `None` for other methods,
/// because the header has no meaning there (RFC 9110 §7.6.2).
#[inline]
fn max_forwards(request: &Request<'_>) -> Option<u32> {
    if !matches!(request.method(), Method::Options | Method::Trace) {
        return None;
    }
    request.field("max-forwards")?.as_str()?.parse().ok()
}

/// Returns `true` for headers of the client that the gateway does not copy to the forwarded request. The
/// gateway writes `Host` and the headers about the client itself, and it has already handled `Expect`.
#[inline]
fn is_own(line: FieldLine<'_>, request: &Request<'_>, config: &ForwardConfig) -> bool {
    let name = line.name.as_bytes();
    match name.len() {
        4 => reads_as(name, b"host"),
        6 => reads_as(name, b"expect"),
        9 => reads_as(name, b"forwarded") && config.forwarded != ForwardedFields::None,
        12.. if config.forwarded != ForwardedFields::None => {
            x_forwarded(name).is_some_and(|suffix| is_set_by_gateway(suffix, request, config))
        }
        _ => false,
    }
}

/// Returns `true` if the gateway removes a client's header whose name consists of `X-Forwarded-` and
/// `suffix`. The gateway also removes headers that it does not set, such as `X-Forwarded-Prefix` and
/// `X-Forwarded-Ssl`, because upstream servers may trust them. It forwards such headers only from trusted
/// proxies.
fn is_set_by_gateway(suffix: &[u8], request: &Request<'_>, config: &ForwardConfig) -> bool {
    reads_as(suffix, b"for")
        || reads_as(suffix, b"host")
        || reads_as(suffix, b"proto")
        || (reads_as(suffix, b"port") && config.forwarded_port)
        || (request.proxy_fields() != Some(ProxyFields::XForwarded)
            && !(config.keeps_request_fields && (reads_as(suffix, b"method") || reads_as(suffix, b"uri"))))
}

/// Writes the `Host` line, unless its value depends on the server.
fn write_host(lines: &mut Vec<u8>, host: &[u8], rewrite: &HostRewrite) {
    match rewrite {
        HostRewrite::Fixed(host) => write_host_line(lines, host.as_bytes()),
        HostRewrite::Preserve => write_host_line(lines, host),
        // `OutgoingRequest::write` adds the `Host` line when the server is known.
        HostRewrite::Server => {}
    }
}

fn write_host_line(lines: &mut Vec<u8>, host: &[u8]) {
    lines.extend_from_slice(b"Host: ");
    lines.extend_from_slice(host);
    lines.extend_from_slice(b"\r\n");
}

/// Returns the host of the request. The host in an absolute request target has priority over the `Host`
/// header (RFC 9112 §3.2.2).
fn host_of<'a>(request: &Request<'a>) -> &'a [u8] {
    if let Some(authority) = request.target().authority() {
        return authority.as_str().as_bytes();
    }
    let is_host = |line: &FieldLine<'_>| is_in_any_case(line.name.as_bytes(), b"host");
    request.field_lines().iter().find(is_host).map_or(b"", |line| line.value.as_bytes())
}

/// Returns `true` if the gateway forwards the `Upgrade` header, which asks the server to switch to another
/// protocol. The gateway does not forward `Upgrade` in a request with a body, because some servers ignore the
/// header (RFC 9110 §7.8) and read the body as the next request. It also does not forward `Upgrade` with an
/// HTTP version, such as `h2c`. After such an upgrade, the connection would be a tunnel, and requests in the
/// tunnel would bypass routes and policies.
fn asks_for_upgrade(request: &Request<'_>) -> bool {
    request.wants_tunnel()
        && request.has_whole_content()
        && request.content().is_empty()
        && !request.field_lines().all("upgrade").any(|value| list::members(value.as_bytes()).any(is_http))
}

/// Returns `true` if `protocol` is a version of HTTP (RFC 9110 §7.8).
fn is_http(protocol: &[u8]) -> bool {
    let name = protocol.split(|byte| *byte == b'/').next().unwrap_or_default();
    [b"h2c".as_slice(), b"h2", b"http"].iter().any(|http| name.eq_ignore_ascii_case(http))
}

/// Writes `Connection: upgrade`, and the protocols in the client's `Upgrade` header (RFC 9110 §7.8).
fn write_upgrade(lines: &mut Vec<u8>, request: &Request<'_>) {
    lines.extend_from_slice(b"Connection: upgrade\r\n");
    request.field_lines().write_kept(lines, |line| line.name.is("upgrade"));
}

/// The name of this gateway in the header `Via`, which `forwarded.rs` writes. All Thruway gateways use the same
/// name, so that the header reveals no host names.
const PSEUDONYM: &[u8] = b"thruway";

/// Maximum number of Thruway gateways that a request may pass through before this gateway. The gateway
/// assumes that a request above this maximum is in a loop.
const GATEWAYS_MAX: usize = 16;
