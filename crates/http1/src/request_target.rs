//! The four forms of a request target (RFC 9112 §3.2).

use thruway_message::{AbsoluteForm, Authority, Method, OriginForm, RequestTarget, is_plain_path};

use crate::error::Error;
use crate::scan;

/// Returns the end of the path and the end of the target. The target begins at `start`. The target ends at
/// the first byte that a target must not contain.
#[inline]
pub(crate) fn ends(view: &[u8], start: usize) -> (usize, usize) {
    let path_end = scan::path_end(view, start);
    match view.get(path_end) {
        Some(b'?') => (path_end, scan::query_end(view, path_end + 1)),
        _ => (path_end, path_end),
    }
}

/// Parses `bytes` as a request target, in a form that is valid for `method` (RFC 9112 §3.2). Use this
/// function for targets that do not come from a request line.
///
/// # Errors
/// Returns an error if the target has an invalid byte, or if its form is not valid for the method.
pub fn parse_request_target<'i>(method: Method<'_>, bytes: &'i [u8]) -> Result<RequestTarget<'i>, Error> {
    let (path_end, end) = ends(bytes, 0);
    if end < bytes.len() {
        return Err(Error::RequestTargetInvalid);
    }
    parse(method, bytes, path_end, scan::is_plain_path(bytes, 0, path_end))
}

/// Returns `true` if the target in `bytes` has the origin form (RFC 9112 §3.2.1). The target of a CONNECT
/// request never has this form.
#[inline]
pub(crate) fn is_origin_form(is_connect: bool, bytes: &[u8]) -> bool {
    !is_connect && matches!(bytes, [b'/', ..])
}

/// Parses `bytes` as a request target. `bytes` must contain only bytes that a target may contain.
/// `path_end` is the end of the path, if the target has a path. `has_plain_path` describes this path, if the
/// target has the origin form.
#[inline]
pub(crate) fn parse<'i>(
    method: Method<'_>,
    bytes: &'i [u8],
    path_end: usize,
    has_plain_path: bool,
) -> Result<RequestTarget<'i>, Error> {
    match bytes {
        _ if is_origin_form(method == Method::Connect, bytes) => {
            Ok(RequestTarget::Origin(OriginForm::from_parsed(bytes, path_end, has_plain_path)))
        }
        b"*" if method == Method::Options => Ok(RequestTarget::Asterisk),
        _ if method == Method::Connect => parse_authority(bytes),
        _ => parse_absolute(bytes, path_end),
    }
}

/// Parses an `absolute-URI` with an authority (RFC 9112 §3.2.2, RFC 3986 §4.3).
#[cold]
fn parse_absolute(bytes: &[u8], path_end: usize) -> Result<RequestTarget<'_>, Error> {
    let colon = memchr::memchr(b':', bytes).ok_or(Error::RequestTargetInvalid)?;
    let after = bytes[colon..].strip_prefix(b"://").ok_or(Error::RequestTargetInvalid)?;
    let authority_end = after.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(after.len());
    let origin_start = bytes.len() - after.len() + authority_end;
    let authority = Authority::parse(&after[..authority_end]).map_err(|_| Error::RequestTargetInvalid)?;
    if authority.host().is_empty() || !is_scheme(&bytes[..colon]) {
        return Err(Error::RequestTargetInvalid);
    }
    let scheme = core::str::from_utf8(&bytes[..colon]).map_err(|_| Error::RequestTargetInvalid)?;
    let has_plain_path = is_plain_path(&bytes[origin_start..path_end]);
    let origin = OriginForm::from_parsed(&bytes[origin_start..], path_end - origin_start, has_plain_path);
    Ok(RequestTarget::Absolute(AbsoluteForm { scheme, authority, origin }))
}

/// Parses `uri-host ":" port`. A tunnel needs a host and a port (RFC 9112 §3.2.3, RFC 9110 §9.3.6).
#[cold]
fn parse_authority(bytes: &[u8]) -> Result<RequestTarget<'_>, Error> {
    let authority = Authority::parse(bytes).map_err(|_| Error::RequestTargetInvalid)?;
    if authority.host().is_empty() || authority.port().is_none_or(|port| port == 0) {
        return Err(Error::RequestTargetInvalid);
    }
    Ok(RequestTarget::Authority(authority))
}

/// Returns `true` if `bytes` matches `scheme = ALPHA *( ALPHA / DIGIT / "+" / "-" / "." )` (RFC 3986
/// §3.1).
fn is_scheme(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}
