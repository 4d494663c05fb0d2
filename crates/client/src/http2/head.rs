//! Converts heads between HTTP/1.1 and the h2 library (RFC 9113 §8.2, §8.3). Requests are converted from
//! HTTP/1.1, and responses are converted to a form that does not depend on the HTTP version.

use http::header::{HOST, HeaderMap, HeaderName, HeaderValue, TE};
use http::uri::{Authority, PathAndQuery, Scheme};
use thruway_http1::{self as http1, HeadIndex, Limits, ServerConnection, ServerEvent};
use thruway_message::token::is_field_value;
use thruway_message::{
    FieldLineSpan, FieldLines, FieldLinesBuf, FieldName, Method, RequestHead, ResponseHead, StatusCode,
    Version,
};

use crate::upgrade::Upgrade;

/// A request for the h2 library, converted from an HTTP/1.1 request.
pub struct ConvertedRequest {
    /// The head of the request.
    pub head: http::Request<()>,
    /// Number of bytes in the HTTP/1.1 head. The start of the body may follow the head.
    pub used: usize,
    /// The upgrade that the request asks for, or `None` if the request asks for no upgrade.
    pub(super) upgrade: Option<Upgrade>,
}

impl ConvertedRequest {
    /// Converts the HTTP/1.1 request head at the start of `bytes`. Returns `None` if the head is invalid, or
    /// if HTTP/2 cannot express the request.
    pub fn of(bytes: &[u8], scheme: Scheme, asks_for_upgrade: bool) -> Option<Self> {
        let limits = Limits {
            request_target_bytes: u32::MAX,
            header_section_bytes: u32::MAX,
            field_lines: FIELD_LINES_MAX,
            content_bytes: u64::MAX,
            ..Limits::default()
        };
        let mut index = HeadIndex::with_capacity(FIELD_LINES);
        let (event, used) = ServerConnection::new(limits).handle_input(bytes, &mut index).ok()?;
        let Some(ServerEvent::Request) = event else { return None };
        let read = index.request_head(&bytes[..used]);
        let mut head = to_library(&read, scheme)?;
        let mut upgrade = None;
        if asks_for_upgrade && read.method == Method::Get {
            upgrade = Some(Upgrade::of(&read)?.ask(&mut head));
        }
        Some(Self { head, used, upgrade })
    }
}

fn to_library(head: &RequestHead<'_>, scheme: Scheme) -> Option<http::Request<()>> {
    let mut request = http::Request::new(());
    *request.method_mut() = http::Method::from_bytes(head.method.as_str().as_bytes()).ok()?;
    *request.version_mut() = http::Version::HTTP_2;
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(scheme);
    parts.authority = Some(Authority::try_from(head.field("host")?.as_bytes()).ok()?);
    parts.path_and_query = Some(PathAndQuery::try_from(head.target.to_string()).ok()?);
    *request.uri_mut() = http::Uri::from_parts(parts).ok()?;
    let fields = request.headers_mut();
    for line in head.field_lines.iter() {
        let name = HeaderName::from_bytes(line.name.as_bytes()).ok()?;
        if name != HOST && !is_left_out(line.name) {
            fields.append(name, HeaderValue::from_bytes(line.value.as_bytes()).ok()?);
        }
    }
    // The exchange forwards trailers. Some servers send trailers only to clients that send this field.
    fields.insert(TE, HeaderValue::from_static("trailers"));
    Some(request)
}

/// Converts a trailer section to the type of the h2 library.
pub(super) fn field_map(lines: &FieldLinesBuf) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for line in lines {
        let name = HeaderName::from_bytes(line.name.as_bytes());
        let value = HeaderValue::from_bytes(line.value.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value)
            && !is_left_out(line.name)
        {
            fields.append(name, value);
        }
    }
    fields
}

/// Returns `true` if a field must not be forwarded, because it applies to a single connection. `TE` also
/// applies to a single connection.
fn is_left_out(name: FieldName<'_>) -> bool {
    name.is_of_connection() || name.is("te")
}

/// The field lines of a received head or trailer section. Events borrow from this value.
#[derive(Default)]
pub(super) struct Received {
    status: Option<StatusCode>,
    bytes: Vec<u8>,
    spans: Vec<FieldLineSpan>,
}

impl Received {
    /// Converts a received head.
    pub(super) fn head(response: &http::Response<()>, limits: &Limits) -> Result<Self, http1::Error> {
        let status =
            StatusCode::new(response.status().as_u16()).map_err(|_| http1::Error::StatusLineInvalid)?;
        let too_large = http1::Error::HeaderSectionTooLarge;
        let lines =
            Self::lines(response.headers(), limits.field_lines, limits.header_section_bytes, too_large)?;
        Ok(Self { status: Some(status), ..lines })
    }

    /// Converts a received trailer section.
    pub(super) fn trailers(trailers: &HeaderMap, limits: &Limits) -> Result<Self, http1::Error> {
        for name in trailers.keys() {
            http1::check_trailer_name(name.as_str().as_bytes())?;
        }
        let too_large = http1::Error::TrailerSectionTooLarge;
        Self::lines(trailers, limits.field_lines, limits.trailer_section_bytes, too_large)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the limit of a section is far below 4 GiB")]
    fn lines(
        fields: &HeaderMap,
        lines_max: u32,
        bytes_max: u32,
        too_large: http1::Error,
    ) -> Result<Self, http1::Error> {
        let mut received = Self::default();
        let Self { bytes, spans, .. } = &mut received;
        for (name, value) in fields {
            if !is_field_value(value.as_bytes()) {
                return Err(http1::Error::FieldValueInvalid);
            }
            let name_start = bytes.len() as u32;
            bytes.extend_from_slice(name.as_str().as_bytes());
            let name_end = bytes.len() as u32;
            bytes.extend_from_slice(b": ");
            let value_start = bytes.len() as u32;
            bytes.extend_from_slice(value.as_bytes());
            spans.push(FieldLineSpan { name_start, name_end, value_start, value_end: bytes.len() as u32 });
            bytes.extend_from_slice(b"\r\n");
            if bytes.len() > bytes_max as usize {
                return Err(too_large);
            }
        }
        if spans.len() > lines_max as usize {
            return Err(http1::Error::FieldLinesTooMany);
        }
        Ok(received)
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status.unwrap_or(StatusCode::OK)
    }

    pub(super) fn as_head(&self) -> ResponseHead<'_> {
        let field_lines = self.field_lines();
        ResponseHead { status: self.status(), reason: b"", version: Version::Http2, field_lines }
    }

    pub(super) fn field_lines(&self) -> FieldLines<'_> {
        FieldLines::from_parsed(&self.bytes, &self.spans)
    }
}

/// Initial number of field lines in the index. This capacity is enough for most heads, and the index
/// grows for larger heads.
const FIELD_LINES: usize = 64;

/// Maximum number of field lines in a request. This number is larger than the limit of any gateway.
const FIELD_LINES_MAX: u32 = 20_000;
