//! Which of the four forms a request target has (RFC 9112 §3.2).

use thruway_message::{AbsoluteForm, Authority, Method, OriginForm, RequestTarget};

use crate::error::Error;
use crate::scan;

/// Where the path of the target at `start` ends, and where the target does: at the first octet that no target
/// may hold.
#[inline]
pub(crate) fn ends(view: &[u8], start: usize) -> (usize, usize) {
    let path_end = scan::path_end(view, start);
    match view.get(path_end) {
        Some(b'?') => (path_end, scan::query_end(view, path_end + 1)),
        _ => (path_end, path_end),
    }
}

/// The target written as `octets`, all of it, in a form that goes with `method` (RFC 9112 §3.2): for those
/// who did not get it in a request line.
///
/// # Errors
/// It has an octet that no target may hold, or a form that does not go with the method.
pub fn parse_request_target<'i>(method: Method<'_>, octets: &'i [u8]) -> Result<RequestTarget<'i>, Error> {
    let (path_end, end) = ends(octets, 0);
    if end < octets.len() {
        return Err(Error::RequestTargetInvalid);
    }
    parse(method, octets, path_end)
}

/// Whether the target written as `octets` has the origin form (RFC 9112 §3.2.1).
#[inline]
pub(crate) fn is_origin_form(is_connect: bool, octets: &[u8]) -> bool {
    !is_connect && matches!(octets, [b'/', ..])
}

/// The target written as `octets`, in which scanning has found nothing that a target may not hold. Its path,
/// if it has one, ends at `path_end`.
#[inline]
pub(crate) fn parse<'i>(
    method: Method<'_>,
    octets: &'i [u8],
    path_end: usize,
) -> Result<RequestTarget<'i>, Error> {
    match octets {
        _ if is_origin_form(method == Method::Connect, octets) => {
            Ok(RequestTarget::Origin(OriginForm::from_parsed(octets, path_end)))
        }
        b"*" if method == Method::Options => Ok(RequestTarget::Asterisk),
        _ if method == Method::Connect => parse_authority(octets),
        _ => parse_absolute(octets, path_end),
    }
}

/// `absolute-URI` with an authority (RFC 9112 §3.2.2, RFC 3986 §4.3).
#[cold]
fn parse_absolute(octets: &[u8], path_end: usize) -> Result<RequestTarget<'_>, Error> {
    let colon = memchr::memchr(b':', octets).ok_or(Error::RequestTargetInvalid)?;
    let after = octets[colon..].strip_prefix(b"://").ok_or(Error::RequestTargetInvalid)?;
    let authority_end = after.iter().position(|octet| matches!(octet, b'/' | b'?')).unwrap_or(after.len());
    let origin_start = octets.len() - after.len() + authority_end;
    let authority = Authority::parse(&after[..authority_end]).map_err(|_| Error::RequestTargetInvalid)?;
    if authority.host().is_empty() || !is_scheme(&octets[..colon]) {
        return Err(Error::RequestTargetInvalid);
    }
    let scheme = core::str::from_utf8(&octets[..colon]).map_err(|_| Error::RequestTargetInvalid)?;
    let origin = OriginForm::from_parsed(&octets[origin_start..], path_end - origin_start);
    Ok(RequestTarget::Absolute(AbsoluteForm { scheme, authority, origin }))
}

/// `uri-host ":" port`; a tunnel needs both (RFC 9112 §3.2.3, RFC 9110 §9.3.6).
#[cold]
fn parse_authority(octets: &[u8]) -> Result<RequestTarget<'_>, Error> {
    let authority = Authority::parse(octets).map_err(|_| Error::RequestTargetInvalid)?;
    if authority.host().is_empty() || authority.port().is_none_or(|port| port == 0) {
        return Err(Error::RequestTargetInvalid);
    }
    Ok(RequestTarget::Authority(authority))
}

/// `scheme = ALPHA *( ALPHA / DIGIT / "+" / "-" / "." )` (RFC 3986 §3.1).
fn is_scheme(octets: &[u8]) -> bool {
    octets.first().is_some_and(u8::is_ascii_alphabetic)
        && octets.iter().all(|octet| octet.is_ascii_alphanumeric() || matches!(octet, b'+' | b'-' | b'.'))
}
