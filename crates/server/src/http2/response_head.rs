//! Converts response heads to the types of the HTTP/2 library (RFC 9113 §8.2, §8.3.2).

use http::header::{CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SERVER};
use thruway_http1::ResponseBody;
use thruway_message::{FieldLinesBuf, StatusCode};

use crate::connection::OriginFields;
use crate::response::Response;

/// Returns the head of a final response. Takes `Content-Length` from `body`.
pub(super) fn response_head(
    response: &Response,
    body: ResponseBody,
    origin: &OriginFields,
) -> http::Response<()> {
    let length = match body {
        ResponseBody::Bytes(bytes) | ResponseBody::OnlyFields(Some(bytes)) => Some(bytes),
        _ => None,
    };
    let mut fields = match response.constant_lines().filter(|_| length.is_some()) {
        Some(lines) => origin.section(lines, || {
            let mut fields = fields_of(response, origin);
            // Reserves the last field of the cached section. Each response replaces the value 0 by its own
            // length.
            fields.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
            fields
        }),
        None => fields_of(response, origin),
    };
    if let Some(length) = length {
        fields.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    head_with(response.status(), fields)
}

/// Returns the fields of a final response, except `Content-Length`.
fn fields_of(response: &Response, origin: &OriginFields) -> HeaderMap {
    let mut fields = field_map(response.field_lines());
    let (server, date) = origin.values();
    let marks = response.marks();
    for (name, value, is_there) in [(SERVER, server, marks.has_server), (DATE, date, marks.has_date)] {
        if !is_there {
            fields.insert(name, value);
        }
    }
    fields
}

/// Returns the head of the response that turns a stream into a tunnel. The HTTP/1.1 status 101 becomes 200
/// (RFC 8441 §5).
pub(super) fn tunnel_head(response: &Response, origin: &OriginFields) -> http::Response<()> {
    let mut head = response_head(response, ResponseBody::Absent, origin);
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        *head.status_mut() = http::StatusCode::OK;
        head.headers_mut().remove(SEC_WEBSOCKET_ACCEPT);
    }
    head
}

/// Returns the head of an interim response.
pub(super) fn head_of(status: StatusCode, lines: &FieldLinesBuf) -> http::Response<()> {
    head_with(status, field_map(lines))
}

fn head_with(status: StatusCode, fields: HeaderMap) -> http::Response<()> {
    let mut head = http::Response::new(());
    *head.status_mut() =
        http::StatusCode::from_u16(status.as_u16()).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    *head.headers_mut() = fields;
    head
}

/// Converts field lines to a header map, without connection-specific fields (RFC 9113 §8.2.2).
pub(super) fn field_map(lines: &FieldLinesBuf) -> HeaderMap {
    let mut fields = HeaderMap::with_capacity((lines.bytes().len() / LINE_BYTES).min(LINES_MAX) + OWN_FIELDS);
    for line in lines {
        // Lines that are valid in HTTP/1.1 are valid in HTTP/2 too.
        let name = HeaderName::from_bytes(line.name.as_bytes());
        let value = HeaderValue::from_bytes(line.value.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value)
            && !line.name.is_of_connection()
        {
            fields.append(name, value);
        }
    }
    fields
}

/// Number of fields that the server adds: `Server`, `Date` and `Content-Length`.
const OWN_FIELDS: usize = 3;

/// Typical minimum length of a field line. The capacity of a map is the size of the field lines, divided by
/// this length. Counting the lines would cost more than an occasional reallocation.
const LINE_BYTES: usize = 16;

/// Maximum initial capacity of a header map, in lines. For very long lines, the estimate would exceed the
/// maximum capacity of a map.
const LINES_MAX: usize = 100;
