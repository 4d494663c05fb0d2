//! Converts the request heads of the HTTP/2 library to [`RequestHead`] (RFC 9113 §8.2, §8.3).
//!
//! The library checks header names and values, pseudo-header fields, connection-specific fields, `#` in
//! `:path`, and the length of the body. It resets the streams of requests that violate these rules
//! (`docs/decisions/0060-a-patched-h2.md`). This module checks the other rules.

use std::cell::Cell;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use h2::ext::Protocol;
use http::header::{CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderValue, SEC_WEBSOCKET_KEY};
use http::request::Parts;
use thruway_http1::{
    self as http1, BodyLength, Limits, RequestFacts, ResponseTo, parse_content_length, parse_request_target,
};
use thruway_message::token::{is_field_value, is_token};
use thruway_message::{Authority, FieldLineSpan, FieldLines, Method, RequestHead, RequestTarget, Version};
use thruway_net::{Worker, random_bytes};

/// A buffer for one request head. It contains the field lines in HTTP/1.1 format, and their positions.
#[derive(Default)]
pub(super) struct HeadBuffer {
    bytes: Vec<u8>,
    spans: Vec<FieldLineSpan>,
}

/// The buffer that a worker keeps for the next head.
#[derive(Default)]
struct KeptHead(Cell<Option<HeadBuffer>>);

/// Reason why a request does not reach the handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// The request is malformed, and its stream is reset (RFC 9113 §8.1.1).
    Malformed(Malformed),
    /// The request violates a rule or a limit that applies to all HTTP versions, and gets an error response.
    Answered(http1::Error),
}

/// Reason why a request is malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Malformed {
    /// `:authority` is not a valid host with an optional port (RFC 9113 §8.3.1). With CONNECT, the port is
    /// required.
    AuthorityInvalid,
    /// The request has neither `:authority` nor `Host` (RFC 9113 §8.3.1).
    AuthorityMissing,
    /// `Content-Length` is not a number, or occurs more than once (RFC 9110 §8.6).
    ContentLengthInvalid,
    /// A value begins or ends with whitespace (RFC 9113 §8.2.1).
    FieldValueInvalid,
    /// `Host` differs from `:authority` (RFC 9113 §8.3.1).
    HostDiffers,
    /// `Host` is not a valid host with an optional port, or occurs more than once (RFC 9110 §7.2).
    HostInvalid,
    /// `:path` is not a path. With OPTIONS, `:path` may also be `*` (RFC 9113 §8.3.1).
    PathInvalid,
    /// `:protocol` is not a protocol name (RFC 8441 §4).
    ProtocolInvalid,
}

impl Malformed {
    /// Returns a description of the violated rule, for logs.
    pub(super) const fn message(self) -> &'static str {
        match self {
            Self::AuthorityInvalid => "`:authority` must be a host and an optional port",
            Self::AuthorityMissing => "a request must have `:authority` or `Host`",
            Self::ContentLengthInvalid => "`Content-Length` must be one decimal number",
            Self::FieldValueInvalid => "a field value must not begin or end with whitespace",
            Self::HostDiffers => "`Host` must equal `:authority`",
            Self::HostInvalid => "`Host` must be one host and an optional port",
            Self::ProtocolInvalid => "`:protocol` must be a token",
            Self::PathInvalid => "`:path` must begin with a slash",
        }
    }
}

impl HeadBuffer {
    /// Takes the buffer that `worker` has kept, or creates a buffer.
    pub(super) fn take(worker: &Worker) -> Self {
        worker.state::<KeptHead>().0.take().unwrap_or_default()
    }

    /// Returns the buffer to `worker`, unless the buffer has become too large.
    pub(super) fn give_back(mut self, worker: &Worker) {
        self.bytes.clear();
        self.spans.clear();
        if self.bytes.capacity() <= KEPT_BYTES_MAX {
            worker.state::<KeptHead>().0.set(Some(self));
        }
    }

    /// Converts the head of a request. `has_ended` is `true` if the request ends with its head.
    pub(super) fn read<'a>(
        &'a mut self,
        parts: &'a Parts,
        has_ended: bool,
        limits: &Limits,
    ) -> Result<(RequestHead<'a>, RequestFacts), Refusal> {
        let method =
            Method::from_token(parts.method.as_str().as_bytes()).map_err(|_| http1::Error::MethodInvalid)?;
        let protocol = parts.extensions.get::<Protocol>();
        // Handlers see an extended CONNECT request as an HTTP/1.1 upgrade, which has the same purpose (RFC
        // 8441 §5).
        let method = if protocol.is_some() { Method::Get } else { method };
        let wants_tunnel = method == Method::Connect || protocol.is_some();
        let target = target(parts, method, limits)?;
        // The bytes that the client sends through a tunnel are not a request body.
        let body_length = body_length(parts, has_ended || wants_tunnel, limits)?;
        let host = if method == Method::Connect { authority_of(parts)? } else { host(parts)? };
        self.write_field_lines(parts, host, limits)?;
        if let Some(protocol) = protocol {
            self.write_upgrade(protocol.as_str(), limits)?;
        }
        let facts = RequestFacts {
            version: Version::Http2,
            response_to: ResponseTo::from(method),
            body_length,
            is_persistent: true,
            expects_continue: expects_continue(parts)? && body_length != BodyLength::NONE,
            wants_tunnel,
        };
        let field_lines = FieldLines::from_parsed(&self.bytes, &self.spans);
        Ok((RequestHead { method, target, version: Version::Http2, field_lines }, facts))
    }

    /// Writes the header section. Writes `Host` first, and joins all cookies in one line, as in HTTP/1.1 (RFC
    /// 9113 §8.2.3).
    fn write_field_lines(&mut self, parts: &Parts, host: &[u8], limits: &Limits) -> Result<(), Refusal> {
        self.write_line(b"host", &[host], limits)?;
        let mut has_cookies = false;
        for (name, value) in &parts.headers {
            match name {
                &HOST | &SEC_WEBSOCKET_KEY => {}
                &COOKIE if std::mem::replace(&mut has_cookies, true) => {}
                &COOKIE => {
                    let cookies: Vec<_> =
                        parts.headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
                    self.write_line(b"cookie", &cookies, limits)?;
                }
                name => self.write_line(name.as_str().as_bytes(), &[value.as_bytes()], limits)?,
            }
        }
        Ok(())
    }

    /// Writes the lines of an HTTP/1.1 upgrade to `protocol`. A WebSocket handshake over HTTP/2 has no key
    /// (RFC 8441 §5). The handler or the upstream server needs one (RFC 6455 §4.1), so this function adds a
    /// random key.
    fn write_upgrade(&mut self, protocol: &str, limits: &Limits) -> Result<(), Refusal> {
        if !is_token(protocol.as_bytes()) {
            return Err(Malformed::ProtocolInvalid.into());
        }
        self.write_line(b"connection", &[b"upgrade"], limits)?;
        self.write_line(b"upgrade", &[protocol.as_bytes()], limits)?;
        if protocol.eq_ignore_ascii_case("websocket") {
            self.write_line(b"sec-websocket-key", &[websocket_key().as_bytes()], limits)?;
        }
        Ok(())
    }

    /// Writes a field line. Joins several values with `; `, as in `Cookie`.
    #[expect(clippy::cast_possible_truncation, reason = "the limit of a header section is far below 4 GiB")]
    fn write_line(&mut self, name: &[u8], values: &[&[u8]], limits: &Limits) -> Result<(), Refusal> {
        let Self { bytes, spans } = self;
        let name_start = bytes.len() as u32;
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(b": ");
        let value_start = bytes.len() as u32;
        for (place, value) in values.iter().enumerate() {
            if !is_field_value(value) {
                return Err(Malformed::FieldValueInvalid.into());
            }
            bytes.extend_from_slice(if place == 0 { b"" } else { b"; " });
            bytes.extend_from_slice(value);
        }
        let value_end = bytes.len() as u32;
        bytes.extend_from_slice(b"\r\n");
        spans.push(FieldLineSpan {
            name_start,
            name_end: name_start + name.len() as u32,
            value_start,
            value_end,
        });
        if bytes.len() > limits.header_section_bytes as usize {
            return Err(http1::Error::HeaderSectionTooLarge.into());
        }
        if spans.len() > limits.field_lines as usize {
            return Err(http1::Error::FieldLinesTooMany.into());
        }
        Ok(())
    }
}

/// Returns the request target without a scheme, because handlers use the scheme of the connection.
/// [`Connection`](super::connection) checks `:scheme`.
fn target<'a>(parts: &'a Parts, method: Method<'_>, limits: &Limits) -> Result<RequestTarget<'a>, Refusal> {
    if method == Method::Connect {
        return parse_request_target(method, authority_of(parts)?)
            .map_err(|_| Malformed::AuthorityInvalid.into());
    }
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str()).as_bytes();
    if path.len() > limits.request_target_bytes as usize {
        return Err(http1::Error::RequestTargetTooLong.into());
    }
    match parse_request_target(method, path) {
        Ok(target @ (RequestTarget::Origin(_) | RequestTarget::Asterisk)) => Ok(target),
        Ok(_) | Err(_) => Err(Malformed::PathInvalid.into()),
    }
}

/// Returns `:authority`. Fails if the request does not contain it.
fn authority_of(parts: &Parts) -> Result<&[u8], Malformed> {
    parts.uri.authority().map(|authority| authority.as_str().as_bytes()).ok_or(Malformed::AuthorityMissing)
}

/// Returns the host and port of the request from `:authority`, or else from `Host`. Fails if the request
/// contains both and they differ.
fn host(parts: &Parts) -> Result<&[u8], Malformed> {
    let mut fields = parts.headers.get_all(HOST).iter();
    let field = fields.next().map(HeaderValue::as_bytes);
    if fields.next().is_some() || field.is_some_and(|field| !Authority::is_valid(field)) {
        return Err(Malformed::HostInvalid);
    }
    let Ok(authority) = authority_of(parts) else {
        return field.filter(|field| !field.is_empty()).ok_or(Malformed::AuthorityMissing);
    };
    if !Authority::is_valid(authority) {
        return Err(Malformed::AuthorityInvalid);
    }
    match field {
        Some(field) if !field.eq_ignore_ascii_case(authority) => Err(Malformed::HostDiffers),
        _ => Ok(authority),
    }
}

/// Returns the framing of the body. Either there is no body, or its length is known, or the end of the stream
/// marks its end.
fn body_length(parts: &Parts, has_ended: bool, limits: &Limits) -> Result<BodyLength, Refusal> {
    let mut fields = parts.headers.get_all(CONTENT_LENGTH).iter();
    let length = fields.next().map(|value| parse_content_length(value.as_bytes()));
    if fields.next().is_some() {
        return Err(Malformed::ContentLengthInvalid.into());
    }
    let length = length.transpose().map_err(|_| Malformed::ContentLengthInvalid)?;
    match length {
        _ if has_ended => Ok(BodyLength::NONE),
        Some(bytes) if bytes > limits.content_bytes => Err(http1::Error::ContentTooLarge.into()),
        // A trailer section may follow even if the body is empty.
        Some(0) | None => Ok(BodyLength::Chunked),
        Some(bytes) => Ok(BodyLength::Bytes(bytes)),
    }
}

/// Returns `true` for `Expect: 100-continue`. Any other value of `Expect` is an error (RFC 9110 §10.1.1).
fn expects_continue(parts: &Parts) -> Result<bool, Refusal> {
    let mut values = parts.headers.get_all(EXPECT).iter().peekable();
    let is_expecting = values.peek().is_some();
    if values.any(|value| !value.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        return Err(http1::Error::ExpectationUnknown.into());
    }
    Ok(is_expecting)
}

impl From<Malformed> for Refusal {
    fn from(rule: Malformed) -> Self {
        Self::Malformed(rule)
    }
}

impl From<http1::Error> for Refusal {
    fn from(rule: http1::Error) -> Self {
        Self::Answered(rule)
    }
}

/// Returns a new key for the handshake of a WebSocket: 16 random bytes in base64 (RFC 6455 §4.1).
fn websocket_key() -> String {
    STANDARD.encode(random_bytes::<16>())
}

/// Maximum size of the buffer that a worker keeps for the next head.
const KEPT_BYTES_MAX: usize = 64 << 10;
