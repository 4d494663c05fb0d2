//! Parses `request-line = method SP request-target SP HTTP-version CRLF` (RFC 9112 §3).

use thruway_message::{Method, OriginForm, RequestTarget, Version};

use crate::error::Error;
use crate::scan::parse_line_end;
use crate::{request_target, scan};

/// The positions of the parts of a request line in the input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLine {
    /// `None` if the method is [`Method::Other`].
    method: Option<Method<'static>>,
    method_start: usize,
    target_start: usize,
    /// The end of the path, if the target has a path.
    path_end: usize,
    target_end: usize,
    /// `true` if the target has the origin form and a plain path.
    has_plain_path: bool,
    pub(crate) version: Version,
    /// The start of the header section.
    pub(crate) end: usize,
}

impl RequestLine {
    /// Returns the method. `input` must be the input from which this request line was parsed.
    #[inline]
    pub(crate) fn method<'i>(&self, input: &'i [u8]) -> Method<'i> {
        match self.method {
            Some(method) => method,
            None => Method::from_token(&input[self.method_start..self.target_start - 1])
                .expect("the parser accepts only valid methods"),
        }
    }

    /// Returns the request target. `input` must be the input from which this request line was parsed.
    #[inline]
    pub(crate) fn target<'i>(&self, input: &'i [u8]) -> RequestTarget<'i> {
        let bytes = &input[self.target_start..self.target_end];
        let path_length = self.path_end - self.target_start;
        if request_target::is_origin_form(self.method == Some(Method::Connect), bytes) {
            return RequestTarget::Origin(OriginForm::from_parsed(bytes, path_length, self.has_plain_path));
        }
        self.rarer_target(input, bytes, path_length)
    }

    #[cold]
    fn rarer_target<'i>(&self, input: &'i [u8], bytes: &'i [u8], path_length: usize) -> RequestTarget<'i> {
        request_target::parse(self.method(input), bytes, path_length, self.has_plain_path)
            .expect("the parser accepts only valid request targets")
    }
}

impl Default for RequestLine {
    fn default() -> Self {
        Self {
            method: Some(Method::Get),
            method_start: 0,
            target_start: 0,
            path_end: 0,
            target_end: 0,
            has_plain_path: false,
            version: Version::Http11,
            end: 0,
        }
    }
}

/// Parses the request line at the start of `input` into `line`. Returns `false` if the request line is
/// incomplete. Ignores one empty line before the request line (RFC 9112 §2.2).
#[inline]
pub(crate) fn parse(input: &[u8], target_bytes_max: u32, line: &mut RequestLine) -> Result<bool, Error> {
    let method_start = match input {
        [b'\r', b'\n', ..] => 2,
        [] | [b'\r'] => return Ok(false),
        _ => 0,
    };
    let Some((method, target_start)) = parse_method(input, method_start)? else {
        return Ok(false);
    };
    // The parser ignores bytes beyond the limit, so that the result does not depend on the size of
    // `input`.
    let target_end_max = target_start.saturating_add(target_bytes_max as usize);
    let view = &input[..input.len().min(target_end_max.saturating_add(1))];
    let (path_end, target_end) = request_target::ends(view, target_start);
    match view.get(target_end) {
        _ if target_end > target_end_max => return Err(Error::RequestTargetTooLong),
        None => return Ok(false),
        Some(b' ') => {}
        // An HTTP/0.9 request ends here, without a version.
        Some(b'\r' | b'\n') => return Err(Error::VersionInvalid),
        Some(_) => return Err(Error::RequestTargetInvalid),
    }
    let Some((version, end)) = parse_version(input, target_end + 1)? else {
        return Ok(false);
    };
    let has_plain_path = scan::is_plain_path(input, target_start, path_end);
    request_target::parse(method, &input[target_start..target_end], path_end - target_start, has_plain_path)?;
    // Separate assignments are faster than building a new value and copying it.
    line.method = method.registered();
    line.method_start = method_start;
    line.target_start = target_start;
    line.path_end = path_end;
    line.target_end = target_end;
    line.has_plain_path = has_plain_path;
    line.version = version;
    line.end = end;
    Ok(true)
}

/// Parses the method at `start`. Returns the method and the start of the target, or `None` if the method
/// is incomplete.
#[inline]
fn parse_method(input: &[u8], start: usize) -> Result<Option<(Method<'_>, usize)>, Error> {
    match &input[start..] {
        [b'G', b'E', b'T', b' ', ..] => return Ok(Some((Method::Get, start + 4))),
        [b'P', b'O', b'S', b'T', b' ', ..] => return Ok(Some((Method::Post, start + 5))),
        _ => {}
    }
    let view = &input[..input.len().min(start + METHOD_BYTES_MAX + 1)];
    let end = scan::token_end(view, start);
    match view.get(end) {
        _ if end - start > METHOD_BYTES_MAX => Err(Error::MethodTooLong),
        None => Ok(None),
        Some(b' ') if end > start => {
            let method = Method::from_token(&view[start..end]).map_err(|_| Error::MethodInvalid)?;
            Ok(Some((method, end + 1)))
        }
        Some(_) => Err(Error::MethodInvalid),
    }
}

/// Parses the version at `start` and the line end. Returns the version and the start of the header
/// section, or `None` if the line is incomplete.
#[inline]
fn parse_version(input: &[u8], start: usize) -> Result<Option<(Version, usize)>, Error> {
    let rest = &input[start..];
    match rest.first_chunk::<10>() {
        Some(b"HTTP/1.1\r\n") => Ok(Some((Version::Http11, start + 10))),
        Some(b"HTTP/1.0\r\n") => Ok(Some((Version::Http10, start + 10))),
        _ => parse_unusual_version(input, start),
    }
}

/// Handles an unsupported version, an invalid line end, or an incomplete line.
#[cold]
#[inline(never)]
fn parse_unusual_version(input: &[u8], start: usize) -> Result<Option<(Version, usize)>, Error> {
    let Some(version) = parse_version_name(&input[start..])? else {
        return Ok(None);
    };
    let end = start + VERSION_BYTES;
    match parse_line_end(input, end) {
        Err(Error::FieldValueInvalid) => Err(Error::VersionInvalid),
        Err(error) => Err(error),
        Ok(None) => Ok(None),
        Ok(Some(next)) => version.map(|version| Some((version, next))),
    }
}

/// Parses `HTTP/` digit `.` digit (RFC 9112 §2.3). Returns `None` if the version is incomplete. The inner
/// result is an error if the version is well-formed but not supported.
pub(crate) fn parse_version_name(bytes: &[u8]) -> Result<Option<Result<Version, Error>>, Error> {
    let arrived = &bytes[..bytes.len().min(VERSION_BYTES)];
    let fits = arrived.iter().zip(b"HTTP/0.0").all(|(byte, pattern)| match pattern {
        b'0' => byte.is_ascii_digit(),
        other => byte == other,
    });
    match arrived {
        _ if !fits => Err(Error::VersionInvalid),
        b"HTTP/1.1" => Ok(Some(Ok(Version::Http11))),
        b"HTTP/1.0" => Ok(Some(Ok(Version::Http10))),
        whole if whole.len() == VERSION_BYTES => Ok(Some(Err(Error::VersionNotSupported))),
        _ => Ok(None),
    }
}

/// Length of a version such as `HTTP/1.1`, in bytes.
pub(crate) const VERSION_BYTES: usize = 8;

/// Maximum length of a method, in bytes. The longest registered method, `UPDATEREDIRECTREF`, has 17
/// characters.
const METHOD_BYTES_MAX: usize = 64;
