//! Header fields that belong to one connection, so the gateway does not forward them (RFC 9110 §7.6.1).

use thruway_message::token::is_in_any_case;
use thruway_message::{FieldLine, FieldLines, FieldLinesBuf, FieldName, list};

/// The options in the `Connection` header of a message. An option can be the name of another header field.
/// The gateway does not forward that field, because it belongs to the connection.
pub(super) struct ConnectionOptions<'a> {
    field_lines: FieldLines<'a>,
    /// `true` if there is an option other than `close` and `keep-alive`. Most messages have no such option.
    has_names: bool,
}

impl<'a> ConnectionOptions<'a> {
    #[inline]
    pub(super) fn of(field_lines: FieldLines<'a>) -> Self {
        let mut has_names = false;
        for value in field_lines.all("connection") {
            has_names |= !list::members(value.as_bytes()).all(is_plain);
        }
        Self { field_lines, has_names }
    }

    /// Returns `true` if the header field `name` belongs to this connection and must not be forwarded.
    #[inline]
    pub(super) fn include(&self, name: FieldName<'_>) -> bool {
        is_connection_field(name) || (self.has_names && self.name(name))
    }

    fn name(&self, name: FieldName<'_>) -> bool {
        let Ok(name) = str::from_utf8(name.as_bytes()) else { return false };
        !affects_handling(name.as_bytes())
            && self.field_lines.all("connection").any(|value| list::contains_token(value.as_bytes(), name))
    }
}

/// Returns `true` for the options `keep-alive` and `close`, which are not names of header fields.
fn is_plain(option: &[u8]) -> bool {
    option.eq_ignore_ascii_case(b"keep-alive") || option.eq_ignore_ascii_case(b"close")
}

/// Returns `true` for header fields that always belong to the connection. Fields that frame the message
/// also belong to the connection, because the gateway writes new framing fields.
#[inline]
fn is_connection_field(name: FieldName<'_>) -> bool {
    let name = name.as_bytes();
    match name.len() {
        2 => reads_as(name, b"te"),
        7 => reads_as(name, b"upgrade"),
        10 => reads_as(name, b"connection") || reads_as(name, b"keep-alive"),
        14 => reads_as(name, b"content-length") || reads_as(name, b"http2-settings"),
        16 => reads_as(name, b"proxy-connection"),
        17 => reads_as(name, b"transfer-encoding"),
        _ => false,
    }
}

/// Returns `true` if a server may treat the field name `name` as the field name `known`, which contains only
/// lower-case letters, digits and hyphens. Servers that pass header fields to programs as variables, such as
/// CGI servers, replace hyphens by underscores. Therefore, a client could use a name with underscores to spoof
/// a header that the gateway sets.
#[inline]
pub(super) fn reads_as<const N: usize>(name: &[u8], known: &[u8; N]) -> bool {
    // The first comparison reads whole machine words. Few names have the same length as a known name and are
    // different.
    is_in_any_case(name, known)
        || (name.len() == N && known.contains(&b'-') && has_underscores_of(name, known))
}

#[cold]
#[inline(never)]
fn has_underscores_of(name: &[u8], known: &[u8]) -> bool {
    read_alike(name, known)
}

/// Returns `true` if a server may treat `name` and `other` as the same field name.
pub(crate) fn read_alike(name: &[u8], other: &[u8]) -> bool {
    name.len() == other.len() && name.iter().zip(other).all(|(byte, other)| folded(*byte) == folded(*other))
}

#[inline]
const fn folded(byte: u8) -> u8 {
    if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() }
}

/// Returns `true` for fields that affect how a recipient handles the message, such as `Host`. The gateway
/// ignores such a field name in `Connection`. Otherwise, a client could remove the host with `Connection:
/// Host`. The gateway also drops such fields from trailers (RFC 9110 §6.5.1).
fn affects_handling(name: &[u8]) -> bool {
    const NAMES: [&str; 7] =
        ["host", "content-type", "authorization", "cookie", "cache-control", "forwarded", "via"];
    NAMES.iter().any(|known| read_alike(name, known.as_bytes())) || x_forwarded(name).is_some()
}

/// Returns the part of `name` after `X-Forwarded-`. Returns `None` if `name` does not begin with
/// `X-Forwarded-`.
#[inline]
pub(super) fn x_forwarded(name: &[u8]) -> Option<&[u8]> {
    let (start, rest) = name.split_at_checked(12)?;
    (start[0] | 0x20 == b'x' && reads_as(start, b"x-forwarded-")).then_some(rest)
}

/// Returns the trailer fields in `lines` that the gateway forwards.
pub(super) fn trailers<'a>(lines: impl Iterator<Item = FieldLine<'a>>) -> FieldLinesBuf {
    let is_passed_on =
        |line: &FieldLine<'_>| !is_connection_field(line.name) && !affects_handling(line.name.as_bytes());
    let mut passed_on = FieldLinesBuf::new();
    lines.filter(is_passed_on).for_each(|line| passed_on.append_line(line));
    passed_on
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hyphen_and_underscore_are_equal_in_header_names() {
        assert!(read_alike(b"X_Remote-user", b"x-remote_USER") && reads_as(b"X_A", b"x-a"));
        assert!(!read_alike(b"X-A", b"X-B") && !read_alike(b"X-A", b"X-AB"));
        for other in [b"XMA", b"X-B", b"X_C", b"XoA", b"X=A"] {
            assert!(!reads_as(other, b"x-a"), "{}", other.escape_ascii());
        }
    }
    use thruway_http1::{HeadIndex, Limits, ServerConnection};

    /// Names of the request's header fields that the gateway forwards.
    fn forwarded(lines: &str) -> Vec<String> {
        let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").into_bytes();
        let mut index = HeadIndex::with_capacity(32);
        let mut connection = ServerConnection::new(Limits::default());
        let (event, used) = connection.handle_input(&bytes, &mut index).unwrap();
        assert!(event.is_some());
        let head = index.request_head(&bytes[..used]);
        let options = ConnectionOptions::of(head.field_lines);
        let names = head.field_lines.iter().filter(|line| !options.include(line.name));
        names.map(|line| line.name.to_string().to_lowercase()).collect()
    }

    #[test]
    fn hop_by_hop_headers_are_not_forwarded() {
        assert_eq!(
            forwarded(
                "Connection: close\r\nKeep-Alive: 5\r\nTE: trailers\r\nProxy-Connection: x\r\nAccept: a\r\n"
            ),
            ["host", "accept"]
        );
    }

    #[test]
    fn headers_listed_in_connection_are_not_forwarded() {
        assert_eq!(
            forwarded(
                "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nX-Other: 2\r\nConnection: x-more\r\nX-MORE: 3\r\n"
            ),
            ["host", "x-other"]
        );
    }

    #[test]
    fn client_cannot_remove_security_headers_with_connection_option() {
        assert_eq!(
            forwarded(
                "Connection: host, authorization, x-forwarded-for\r\nAuthorization: a\r\nX-Forwarded-For: b\r\n"
            ),
            ["host", "authorization", "x-forwarded-for"]
        );
    }
}
