//! Writes messages (RFC 9112 §2.1).

use alloc::vec::Vec;

use thruway_message::token::is_token;
use thruway_message::{FieldLines, FieldLinesBuf, Method, StatusCode, Version};

use crate::body_length::BodyLength;
use crate::error::Error;
use crate::request_facts::ResponseBody;
use crate::request_target::parse_request_target;

/// The parts of a response head.
#[derive(Clone, Copy, Debug)]
pub struct ResponseToWrite<'a> {
    /// The status code.
    pub status: StatusCode,
    /// Field lines in wire format. Each line ends with CRLF. The lines must not include framing fields.
    pub field_lines: [&'a [u8]; 2],
    /// The framing of the body: see [`ResponseBody::for_response`].
    pub body: ResponseBody,
    /// `true` to keep the connection open after this response. Ignored with [`ResponseBody::UntilClose`],
    /// because this framing always closes the connection.
    pub is_persistent: bool,
    /// The HTTP version of the request.
    pub client_version: Version,
}

/// Appends a response head to `output`. No other function writes response fields that control the framing or
/// the connection.
///
/// ```
/// use thruway_http1::{ResponseBody, ResponseToWrite, write_response_head};
/// use thruway_message::{StatusCode, Version};
///
/// let mut output = Vec::new();
/// let response = ResponseToWrite {
///     status: StatusCode::OK,
///     field_lines: [b"Content-Type: text/plain\r\n", b""],
///     body: ResponseBody::Bytes(2),
///     is_persistent: true,
///     client_version: Version::Http11,
/// };
/// write_response_head(&mut output, &response);
/// assert_eq!(output, b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n");
/// ```
#[inline]
pub fn write_response_head(output: &mut Vec<u8>, response: &ResponseToWrite<'_>) {
    write_status_line(output, response.status);
    for field_lines in response.field_lines {
        output.extend_from_slice(field_lines);
    }
    write_connection(output, response);
    match response.body {
        ResponseBody::Bytes(bytes) | ResponseBody::OnlyFields(Some(bytes)) => {
            write_content_length(output, bytes);
        }
        ResponseBody::Chunked => output.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n"),
        ResponseBody::OnlyFields(None) if response.client_version != Version::Http10 => {
            output.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        }
        ResponseBody::Absent | ResponseBody::UntilClose | ResponseBody::OnlyFields(None) => {
            output.extend_from_slice(b"\r\n");
        }
    }
}

#[inline]
pub(crate) fn write_status_line(output: &mut Vec<u8>, status: StatusCode) {
    if status == StatusCode::OK {
        output.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    output.extend_from_slice(b"HTTP/1.1 ");
    output.extend_from_slice(itoa::Buffer::new().format(status.as_u16()).as_bytes());
    output.push(b' ');
    output.extend_from_slice(status.reason().as_bytes());
    output.extend_from_slice(b"\r\n");
}

/// Writes the `Connection` field. Interim responses except 101 have no `Connection` field. If the connection
/// stays open, responses to HTTP/1.1 clients also have no `Connection` field (RFC 9112 §9.3 and §9.6).
#[inline]
fn write_connection(output: &mut Vec<u8>, response: &ResponseToWrite<'_>) {
    let is_persistent = response.is_persistent && response.body != ResponseBody::UntilClose;
    let option: &[u8] = match (response.client_version, is_persistent) {
        _ if response.status == StatusCode::SWITCHING_PROTOCOLS => b"Connection: upgrade\r\n",
        _ if response.status.is_interim() => return,
        (Version::Http10, true) => b"Connection: keep-alive\r\n",
        (_, true) => return,
        (_, false) => b"Connection: close\r\n",
    };
    output.extend_from_slice(option);
}

/// Writes the `Content-Length` field and the empty line that ends the head.
#[inline]
fn write_content_length(output: &mut Vec<u8>, bytes: u64) {
    output.extend_from_slice(CONTENT_LENGTH);
    write_content_length_value(output, bytes);
}

/// Writes the value of the `Content-Length` field and the empty line that ends the head.
#[inline]
pub(crate) fn write_content_length_value(output: &mut Vec<u8>, bytes: u64) {
    write_decimal(output, bytes);
    output.extend_from_slice(b"\r\n\r\n");
}

/// Appends `number` in decimal. Short numbers are written directly to `output`, because this is faster
/// than a copy.
#[inline]
fn write_decimal(output: &mut Vec<u8>, number: u64) {
    let digit = |unit: u64| b'0' + (number / unit % 10) as u8;
    match number {
        0..10 => output.push(digit(1)),
        10..100 => output.extend_from_slice(&[digit(10), digit(1)]),
        100..1000 => output.extend_from_slice(&[digit(100), digit(10), digit(1)]),
        _ => output.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
    }
}

/// Appends `100 (Continue)`, the interim response that asks the client for the content (RFC 9110
/// §15.2.1).
pub fn write_continue(output: &mut Vec<u8>) {
    output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
}

/// Appends an interim response with the status `status` (RFC 9110 §15.2). Interim responses have no body,
/// so `field_lines` must not include framing fields.
pub fn write_interim_response(output: &mut Vec<u8>, status: StatusCode, field_lines: &FieldLinesBuf) {
    write_status_line(output, status);
    output.extend_from_slice(field_lines.bytes());
    output.extend_from_slice(b"\r\n");
}

/// The parts of a request head.
#[derive(Clone, Copy, Debug)]
pub struct RequestToWrite<'a> {
    /// The request method.
    pub method: Method<'a>,
    /// The request target, in the form that the method and the recipient require.
    pub target: &'a str,
    /// Field lines in wire format. Each line ends with CRLF. `Host` comes first. The lines must not include
    /// framing fields.
    pub field_lines: [&'a [u8]; 2],
    /// The framing of the body. Requests cannot use [`BodyLength::UntilClose`], so [`write_request_head`]
    /// uses [`BodyLength::Chunked`] instead.
    pub body: BodyLength,
}

/// Appends a request head to `output`.
///
/// # Errors
/// Returns an error if the method or the target is invalid, because invalid bytes could end the request line
/// early. After an error, `output` is unchanged.
///
/// ```
/// use thruway_http1::{BodyLength, RequestToWrite, write_request_head};
/// use thruway_message::Method;
///
/// let mut output = Vec::new();
/// let request = RequestToWrite {
///     method: Method::Get,
///     target: "/path",
///     field_lines: [b"Host: a.example\r\n", b""],
///     body: BodyLength::NONE,
/// };
/// write_request_head(&mut output, &request)?;
/// assert_eq!(output, b"GET /path HTTP/1.1\r\nHost: a.example\r\n\r\n");
/// # Ok::<_, thruway_http1::Error>(())
/// ```
pub fn write_request_head(output: &mut Vec<u8>, request: &RequestToWrite<'_>) -> Result<(), Error> {
    write_request_line(output, request.method, request.target)?;
    for field_lines in request.field_lines {
        output.extend_from_slice(field_lines);
    }
    write_end_of_request_head(output, request.method, request.body);
    Ok(())
}

/// Appends the request line to `output`. The caller then appends the field lines.
///
/// # Errors
/// Returns an error if the method or the target is invalid, as [`write_request_head`] does. After an error,
/// `output` is unchanged.
pub fn write_request_line(
    output: &mut Vec<u8>,
    method: Method<'_>,
    target: impl AsRef<[u8]>,
) -> Result<(), Error> {
    let (name, target) = (method.as_str().as_bytes(), target.as_ref());
    if !is_token(name) {
        return Err(Error::MethodInvalid);
    }
    parse_request_target(method, target)?;
    for part in [name, b" ", target, b" HTTP/1.1\r\n"] {
        output.extend_from_slice(part);
    }
    Ok(())
}

/// Appends the framing field of a request and the empty line that ends the head. The caller must not
/// write framing fields.
pub fn write_end_of_request_head(output: &mut Vec<u8>, method: Method<'_>, body: BodyLength) {
    match body {
        // RFC 9110 §8.6: a request without content has no `Content-Length` field if its method defines no
        // meaning for content.
        BodyLength::Bytes(0) if !matches!(method, Method::Post | Method::Put | Method::Patch) => {
            output.extend_from_slice(b"\r\n");
        }
        BodyLength::Bytes(bytes) => write_content_length(output, bytes),
        BodyLength::Chunked | BodyLength::UntilClose => {
            output.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        }
    }
}

/// Appends a chunk with `data`. Appends nothing if `data` is empty, because an empty chunk would end the
/// body (RFC 9112 §7.1).
pub fn write_chunk(output: &mut Vec<u8>, data: &[u8]) {
    if !data.is_empty() {
        write_chunk_start(output, data.len() as u64);
        output.extend_from_slice(data);
        write_chunk_end(output);
    }
}

/// Appends the chunk-size line of a chunk with `bytes` bytes of data. `bytes` must not be 0.
pub fn write_chunk_start(output: &mut Vec<u8>, bytes: u64) {
    debug_assert_ne!(bytes, 0, "an empty chunk ends the body");
    let digits = (u64::BITS - bytes.leading_zeros()).div_ceil(4).max(1);
    for digit in (0..digits).rev() {
        output.push(HEX_DIGITS[(bytes >> (digit * 4) & 0xf) as usize]);
    }
    output.extend_from_slice(b"\r\n");
}

/// Appends the CRLF that ends the data of a chunk.
pub fn write_chunk_end(output: &mut Vec<u8>) {
    output.extend_from_slice(b"\r\n");
}

/// Appends the last chunk and the trailer section, which end a chunked body.
pub fn write_last_chunk(output: &mut Vec<u8>, trailers: &FieldLinesBuf) {
    output.extend_from_slice(b"0\r\n");
    output.extend_from_slice(trailers.bytes());
    output.extend_from_slice(b"\r\n");
}

/// Appends `lines` in wire format, with one space after each colon. Names and values stay unchanged.
pub fn write_field_lines(output: &mut Vec<u8>, lines: FieldLines<'_>) {
    lines.write_kept(output, |_| true);
}

/// The `Content-Length` field without its value.
pub(crate) const CONTENT_LENGTH: &[u8; 16] = b"Content-Length: ";

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";
