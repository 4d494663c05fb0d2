//! The head of a message (RFC 9110 §2.5 and §6). A request head consists of the method, the target, the
//! protocol version and the header section. A response head consists of the protocol version, the status and
//! the header section. [`RequestHead`] and [`ResponseHead`] borrow from the parsed bytes.
//! [`OwnedRequestHead`] and [`OwnedResponseHead`] contain a copy of these bytes.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::authority::Authority;
use crate::field_line::{FieldLine, FieldValue};
use crate::field_lines::{FieldLineSpan, FieldLines};
use crate::method::Method;
use crate::request_target::{AbsoluteForm, OriginForm, RequestTarget};
use crate::status_code::StatusCode;

/// The protocol version of a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Version {
    /// HTTP/1.0, RFC 1945.
    Http10,
    /// HTTP/1.1, RFC 9112.
    Http11,
    /// HTTP/2, RFC 9113.
    Http2,
}

impl Version {
    /// Returns the name of the version for start lines and logs, such as `HTTP/1.1`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2.0",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A request head that borrows from the parsed bytes.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The method.
    pub method: Method<'a>,
    /// The request target.
    pub target: RequestTarget<'a>,
    /// The HTTP version of the request.
    pub version: Version,
    /// The header section, in wire order and with the original case of names.
    pub field_lines: FieldLines<'a>,
}

impl<'a> RequestHead<'a> {
    /// Returns the host and port of the request. The host and port come from the target, or from the `Host`
    /// field if the target has no authority (RFC 9110 §7.1, RFC 9112 §3.2.2). Returns `None` if the request
    /// has no valid host.
    pub fn authority(&self) -> Option<Authority<'a>> {
        self.target.authority().or_else(|| Authority::parse(self.field("host")?.as_bytes()).ok())
    }

    /// Returns the value of the first field line named `name`, ignoring case, or `None` if there is no
    /// such line.
    pub fn field(&self, name: &str) -> Option<FieldValue<'a>> {
        self.field_lines.field(name)
    }
}

/// A response head that borrows from the parsed bytes.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The status code.
    pub status: StatusCode,
    /// The reason phrase that the server sent. Clients should ignore the reason phrase (RFC 9112 §4).
    pub reason: &'a [u8],
    /// The HTTP version of the response.
    pub version: Version,
    /// The header section, in wire order and with the original case of names.
    pub field_lines: FieldLines<'a>,
}

impl<'a> ResponseHead<'a> {
    /// Returns the value of the first field line named `name`, ignoring case, or `None` if there is no
    /// such line.
    pub fn field(&self, name: &str) -> Option<FieldValue<'a>> {
        self.field_lines.field(name)
    }
}

/// An owned copy of a request head, for callers that need the head longer than the parsed bytes.
#[derive(Clone, Debug)]
pub struct OwnedRequestHead {
    bytes: Vec<u8>,
    spans: Vec<FieldLineSpan>,
    method: OwnedMethod,
    target: OwnedTarget,
    version: Version,
}

/// The method of an [`OwnedRequestHead`]. `Other` has the position of the method's name in the copied
/// bytes.
#[derive(Clone, Debug)]
enum OwnedMethod {
    Registered(Method<'static>),
    Other(Range<usize>),
}

#[derive(Clone, Debug)]
enum OwnedTarget {
    Origin(OwnedOrigin),
    Absolute { scheme: Range<usize>, authority: Range<usize>, origin: OwnedOrigin },
    Authority(Range<usize>),
    Asterisk,
}

/// The position of a path and its query in the copied bytes, the number of bytes in the path, and
/// [`OriginForm::has_plain_path`].
#[derive(Clone, Debug)]
struct OwnedOrigin {
    path_and_query: Range<usize>,
    path_length: usize,
    has_plain_path: bool,
}

impl OwnedOrigin {
    #[inline]
    fn at(path_and_query: Range<usize>, origin: OriginForm<'_>) -> Self {
        let (path_length, has_plain_path) = (origin.path_bytes().len(), origin.has_plain_path());
        Self { path_and_query, path_length, has_plain_path }
    }
}

impl OwnedRequestHead {
    /// Makes this value a copy of `head`. Uses its memory again.
    pub fn replace(&mut self, head: &RequestHead<'_>) {
        let lines = head.field_lines;
        self.bytes.clear();
        self.spans.clear();
        let is_whole = lines.bytes().len() <= WHOLE_BYTES_MAX;
        if is_whole {
            // Copies the whole buffer that contains the field lines, so that the spans stay valid.
            self.bytes.extend_from_slice(lines.bytes());
            self.spans.extend_from_slice(lines.spans());
        } else {
            self.append_lines(lines);
        }
        self.set_start_line(head, is_whole);
    }

    fn append_lines(&mut self, lines: FieldLines<'_>) {
        let bytes = &mut self.bytes;
        self.spans.extend(lines.iter().map(|line| append_line(bytes, line)));
    }

    /// Copies the method and the target. If the buffer with the field lines was copied as a whole (`is_whole`), it
    /// usually contains the target too.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs as much as the copy")]
    fn set_start_line(&mut self, head: &RequestHead<'_>, is_whole: bool) {
        self.method = match head.method.registered() {
            Some(method) => OwnedMethod::Registered(method),
            None => OwnedMethod::Other(append(&mut self.bytes, head.method.as_str().as_bytes())),
        };
        self.target = match head.target {
            RequestTarget::Origin(origin) => {
                let copied =
                    is_whole.then(|| position_in(head.field_lines.bytes(), origin.as_bytes())).flatten();
                let path_and_query = copied.unwrap_or_else(|| append(&mut self.bytes, origin.as_bytes()));
                OwnedTarget::Origin(OwnedOrigin::at(path_and_query, origin))
            }
            target => append_target(&mut self.bytes, target),
        };
        self.version = head.version;
    }

    /// Returns the number of bytes of memory that this value keeps for its copies.
    pub const fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * size_of::<FieldLineSpan>()
    }

    /// Returns a head that borrows from this copy.
    pub fn as_head(&self) -> RequestHead<'_> {
        RequestHead {
            method: self.method(),
            target: self.target(),
            version: self.version,
            field_lines: FieldLines::from_parsed(&self.bytes, &self.spans),
        }
    }

    fn method(&self) -> Method<'_> {
        match &self.method {
            OwnedMethod::Registered(method) => *method,
            OwnedMethod::Other(name) => Method::Other(self.text(name)),
        }
    }

    fn target(&self) -> RequestTarget<'_> {
        match &self.target {
            OwnedTarget::Origin(origin) => RequestTarget::Origin(self.origin(origin)),
            OwnedTarget::Absolute { scheme, authority, origin } => RequestTarget::Absolute(AbsoluteForm {
                scheme: self.text(scheme),
                authority: self.authority(authority),
                origin: self.origin(origin),
            }),
            OwnedTarget::Authority(authority) => RequestTarget::Authority(self.authority(authority)),
            OwnedTarget::Asterisk => RequestTarget::Asterisk,
        }
    }

    // The copied bytes come from a valid head, so the functions below never return their default values.

    fn text(&self, range: &Range<usize>) -> &str {
        core::str::from_utf8(&self.bytes[range.clone()]).unwrap_or_default()
    }

    fn origin(&self, origin: &OwnedOrigin) -> OriginForm<'_> {
        let bytes = &self.bytes[origin.path_and_query.clone()];
        OriginForm::from_parsed(bytes, origin.path_length, origin.has_plain_path)
    }

    fn authority(&self, range: &Range<usize>) -> Authority<'_> {
        Authority::parse(&self.bytes[range.clone()]).unwrap_or_default()
    }
}

impl From<RequestHead<'_>> for OwnedRequestHead {
    fn from(head: RequestHead<'_>) -> Self {
        let mut copy = Self {
            bytes: Vec::with_capacity(start_line_bytes(&head) + field_line_bytes(head.field_lines)),
            spans: Vec::with_capacity(head.field_lines.spans().len()),
            method: OwnedMethod::Registered(Method::Get),
            target: OwnedTarget::Asterisk,
            version: head.version,
        };
        copy.append_lines(head.field_lines);
        copy.set_start_line(&head, false);
        copy
    }
}

/// An owned copy of a response head, for callers that need the head longer than the parsed bytes.
#[derive(Clone, Debug)]
pub struct OwnedResponseHead {
    bytes: Box<[u8]>,
    spans: Box<[FieldLineSpan]>,
    status: StatusCode,
    reason: Range<usize>,
    version: Version,
}

impl OwnedResponseHead {
    /// Returns a head that borrows from this copy.
    pub fn as_head(&self) -> ResponseHead<'_> {
        ResponseHead {
            status: self.status,
            reason: &self.bytes[self.reason.clone()],
            version: self.version,
            field_lines: FieldLines::from_parsed(&self.bytes, &self.spans),
        }
    }
}

impl From<ResponseHead<'_>> for OwnedResponseHead {
    fn from(head: ResponseHead<'_>) -> Self {
        let lines = head.field_lines;
        // Copies the whole buffer that contains the field lines, so that the spans stay valid. Almost all
        // bytes in this buffer belong to field lines.
        let mut bytes = Vec::with_capacity(lines.bytes().len() + head.reason.len());
        bytes.extend_from_slice(lines.bytes());
        let reason = append(&mut bytes, head.reason);
        let (status, version) = (head.status, head.version);
        Self { bytes: bytes.into_boxed_slice(), spans: lines.spans().into(), status, reason, version }
    }
}

/// Returns the number of bytes that the method and the target occupy in a copy of the head.
fn start_line_bytes(head: &RequestHead<'_>) -> usize {
    let method = if head.method.registered().is_some() { 0 } else { head.method.as_str().len() };
    let target = match head.target {
        RequestTarget::Origin(origin) => origin.as_bytes().len(),
        RequestTarget::Absolute(AbsoluteForm { scheme, authority, origin }) => {
            scheme.len() + authority.as_str().len() + origin.as_bytes().len()
        }
        RequestTarget::Authority(authority) => authority.as_str().len(),
        RequestTarget::Asterisk => 0,
    };
    method + target
}

/// Returns the total number of bytes of all names and values.
fn field_line_bytes(lines: FieldLines<'_>) -> usize {
    lines.iter().map(|line| line.name.as_bytes().len() + line.value.as_bytes().len()).sum()
}

fn append_target(bytes: &mut Vec<u8>, target: RequestTarget<'_>) -> OwnedTarget {
    match target {
        RequestTarget::Origin(origin) => OwnedTarget::Origin(append_origin(bytes, origin)),
        RequestTarget::Absolute(absolute) => OwnedTarget::Absolute {
            scheme: append(bytes, absolute.scheme.as_bytes()),
            authority: append(bytes, absolute.authority.as_str().as_bytes()),
            origin: append_origin(bytes, absolute.origin),
        },
        RequestTarget::Authority(authority) => {
            OwnedTarget::Authority(append(bytes, authority.as_str().as_bytes()))
        }
        RequestTarget::Asterisk => OwnedTarget::Asterisk,
    }
}

fn append_origin(bytes: &mut Vec<u8>, origin: OriginForm<'_>) -> OwnedOrigin {
    OwnedOrigin::at(append(bytes, origin.as_bytes()), origin)
}

#[expect(clippy::cast_possible_truncation, reason = "the original spans are u32 too")]
fn append_line(bytes: &mut Vec<u8>, line: FieldLine<'_>) -> FieldLineSpan {
    let name = append(bytes, line.name.as_bytes());
    let value = append(bytes, line.value.as_bytes());
    FieldLineSpan {
        name_start: name.start as u32,
        name_end: name.end as u32,
        value_start: value.start as u32,
        value_end: value.end as u32,
    }
}

fn append(bytes: &mut Vec<u8>, more: &[u8]) -> Range<usize> {
    let start = bytes.len();
    bytes.extend_from_slice(more);
    start..bytes.len()
}

/// Returns the position of `part` in `whole`, if `part` borrows from `whole`.
#[inline]
fn position_in(whole: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let end = start + part.len();
    (end <= whole.len()).then_some(start..end)
}

/// Maximum length of a buffer with field lines that is copied as a whole.
const WHOLE_BYTES_MAX: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn head<'a>(
        method: &'a [u8],
        target: RequestTarget<'a>,
        bytes: &'a [u8],
        spans: &'a [FieldLineSpan],
    ) -> RequestHead<'a> {
        RequestHead {
            method: Method::from_token(method).unwrap(),
            target,
            version: Version::Http11,
            field_lines: FieldLines::from_parsed(bytes, spans),
        }
    }

    #[test]
    fn owned_response_head_equals_its_source() {
        let bytes = b"HTTP/1.0 404 Not here\r\nA: b\r\n\r\n";
        let spans = [FieldLineSpan { name_start: 23, name_end: 24, value_start: 26, value_end: 27 }];
        let borrowed = ResponseHead {
            status: StatusCode::NOT_FOUND,
            reason: &bytes[13..21],
            version: Version::Http10,
            field_lines: FieldLines::from_parsed(bytes, &spans),
        };
        let owned = OwnedResponseHead::from(borrowed);
        let copy = owned.as_head();
        assert_eq!(
            (copy.status, copy.reason, copy.version),
            (StatusCode::NOT_FOUND, &b"Not here"[..], Version::Http10)
        );
        assert!(copy.field_lines.iter().eq(borrowed.field_lines.iter()));
        assert_eq!(copy.field("a").unwrap(), "b");
    }

    #[test]
    fn replaced_head_has_one_copy_of_its_target() {
        let bytes = b"GET /a?b HTTP/1.1\r\nHost: a\r\n\r\n";
        let spans = [FieldLineSpan { name_start: 19, name_end: 23, value_start: 25, value_end: 26 }];
        let target = RequestTarget::Origin(OriginForm::from_parsed(&bytes[4..8], 2, true));
        let borrowed = head(b"GET", target, bytes, &spans);
        let mut copy = OwnedRequestHead::from(head(b"PUT", RequestTarget::Asterisk, b"", &[]));
        copy.replace(&borrowed);
        assert_eq!(copy.bytes, bytes);
        let copy = copy.as_head();
        assert_eq!((copy.method, copy.target), (Method::Get, target));
        assert_eq!(copy.field("host").unwrap(), "a");
    }

    #[test]
    fn owned_request_head_equals_its_source() {
        let bytes = b"GET / HTTP/1.1\r\nHost: a.example:1\r\nX:\r\n\r\n";
        let spans = [
            FieldLineSpan { name_start: 16, name_end: 20, value_start: 22, value_end: 33 },
            FieldLineSpan { name_start: 35, name_end: 36, value_start: 37, value_end: 37 },
        ];
        let authority = Authority::parse(b"b.example:2").unwrap();
        let origin = OriginForm::new("/a?b");
        let mut replaced = OwnedRequestHead::from(head(b"GET", RequestTarget::Asterisk, b"A: b", &[]));
        for (method, target) in [
            (&b"GET"[..], RequestTarget::Origin(origin)),
            (b"M-SEARCH", RequestTarget::Absolute(AbsoluteForm { scheme: "http", authority, origin })),
            (b"CONNECT", RequestTarget::Authority(authority)),
            (b"OPTIONS", RequestTarget::Asterisk),
        ] {
            let borrowed = head(method, target, bytes, &spans);
            let owned = OwnedRequestHead::from(borrowed);
            assert_eq!(
                owned.bytes.len(),
                start_line_bytes(&borrowed) + field_line_bytes(borrowed.field_lines)
            );
            replaced.replace(&borrowed);
            for copy in [owned.as_head(), replaced.as_head()] {
                assert_eq!(
                    (copy.method, copy.target, copy.version),
                    (borrowed.method, borrowed.target, borrowed.version)
                );
                assert!(copy.field_lines.iter().eq(borrowed.field_lines.iter()));
                assert_eq!(copy.target.to_string(), target.to_string());
            }
        }
    }
}
