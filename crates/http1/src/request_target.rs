//! Which of the four forms a request target has (RFC 9112 §3.2).

use thruway_message::{AbsoluteForm, Authority, Method, OriginForm, RequestTarget};

use crate::Error;

/// The target written as `octets`, which are visible ASCII.
#[inline]
pub(crate) fn parse<'i>(method: Method<'_>, octets: &'i [u8]) -> Result<RequestTarget<'i>, Error> {
    match octets {
        [b'/', ..] if method != Method::Connect => parse_origin(octets).map(RequestTarget::Origin),
        b"*" if method == Method::Options => Ok(RequestTarget::Asterisk),
        _ if method == Method::Connect => parse_authority(octets),
        _ => parse_absolute(octets),
    }
}

/// `absolute-path [ "?" query ]` (RFC 9112 §3.2.1). There is no fragment in a target, and in a path no backslash, which
/// some read as a slash. Neither is a character of a URI; but browsers send a backslash in a query as it is.
#[inline]
fn parse_origin(octets: &[u8]) -> Result<OriginForm<'_>, Error> {
    let origin = OriginForm::from_parsed(octets);
    let (path, query) = octets.split_at(origin.path_octets().len());
    if path.iter().any(|octet| matches!(octet, b'#' | b'\\')) || query.contains(&b'#') {
        return Err(Error::RequestTargetInvalid);
    }
    Ok(origin)
}

/// `absolute-URI` with an authority (RFC 9112 §3.2.2, RFC 3986 §4.3).
#[cold]
fn parse_absolute(octets: &[u8]) -> Result<RequestTarget<'_>, Error> {
    let colon = memchr::memchr(b':', octets).ok_or(Error::RequestTargetInvalid)?;
    let after = octets[colon..].strip_prefix(b"://").ok_or(Error::RequestTargetInvalid)?;
    let authority_end = after.iter().position(|octet| matches!(octet, b'/' | b'?')).unwrap_or(after.len());
    let authority = Authority::parse(&after[..authority_end]).map_err(|_| Error::RequestTargetInvalid)?;
    if authority.host().is_empty() || !is_scheme(&octets[..colon]) {
        return Err(Error::RequestTargetInvalid);
    }
    let scheme = core::str::from_utf8(&octets[..colon]).map_err(|_| Error::RequestTargetInvalid)?;
    let origin = parse_origin(&after[authority_end..])?;
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
