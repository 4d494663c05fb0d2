//! Host and port (RFC 9110 §4.2 and §7.2, RFC 3986 §3.2.2).

use core::fmt;

/// A valid host with an optional port: `uri-host [ ":" port ]`. An authority never contains user
/// information, which RFC 9110 §4.2.4 forbids in messages.
///
/// ```
/// use thruway_message::Authority;
///
/// let authority = Authority::parse(b"[::1]:8080")?;
/// assert_eq!((authority.host(), authority.port()), ("[::1]", Some(8080)));
/// # Ok::<_, thruway_message::InvalidAuthority>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Authority<'a> {
    text: &'a str,
    host_length: u32,
}

impl<'a> Authority<'a> {
    /// Parses `bytes` as a host with an optional port. An empty authority is valid, because a client
    /// sends an empty `Host` field if its URI has no host.
    ///
    /// # Errors
    /// Returns an error if the host is neither a registered name nor an IP address, or contains `%` or an
    /// empty label. Also returns an error if the host is longer than 253 bytes without its final dot, or
    /// if the port is not a number up to 65535.
    #[expect(clippy::cast_possible_truncation, reason = "the limit of an authority is far below 4 GiB")]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, InvalidAuthority> {
        let host_length = host_length(bytes)?;
        let text = core::str::from_utf8(bytes).map_err(|_| InvalidAuthority)?;
        Ok(Self { text, host_length: host_length as u32 })
    }

    /// Returns `true` if `bytes` is a valid authority. This check is cheaper than [`parse`](Self::parse).
    pub fn is_valid(bytes: &[u8]) -> bool {
        host_length(bytes).is_ok()
    }

    /// Returns the whole authority in its original form.
    pub const fn as_str(&self) -> &'a str {
        self.text
    }

    /// Returns the host in its original form. The brackets of an IPv6 address belong to the host.
    pub fn host(&self) -> &'a str {
        &self.text[..self.host_length as usize]
    }

    /// Returns the port, or `None` if the authority has no port or an empty port.
    pub fn port(&self) -> Option<u16> {
        self.text.get(self.host_length as usize + 1..)?.parse().ok()
    }
}

/// Returns the number of bytes of the host in the authority `bytes`. A host name ends before the colon,
/// and an IP literal ends after its closing bracket.
fn host_length(bytes: &[u8]) -> Result<usize, InvalidAuthority> {
    let length = match bytes {
        [b'[', literal @ ..] => match memchr::memchr(b']', literal) {
            Some(end) if is_ip_literal(&literal[..end]) => end + 2,
            _ => return Err(InvalidAuthority),
        },
        _ => registered_name_length(bytes),
    };
    // A dot may follow a host name of the maximum length.
    let has_final_dot = length > 0 && bytes[length - 1] == b'.';
    if length - usize::from(has_final_dot) > HOST_BYTES_MAX {
        return Err(InvalidAuthority);
    }
    // A port without a host is invalid (RFC 9110 §4.2.1). An empty authority is valid, because a client
    // sends an empty `Host` field if its URI has no host.
    if is_port_suffix(&bytes[length..]) && (length > 0 || bytes.is_empty()) {
        Ok(length)
    } else {
        Err(InvalidAuthority)
    }
}

/// Returns the number of bytes of the registered name at the start of `bytes`. The name ends before an
/// empty label, so the caller rejects an authority that contains an empty label. Some servers drop
/// surplus dots and would treat `admin.example..` as `admin.example`. One dot at the end is part of the
/// name.
fn registered_name_length(bytes: &[u8]) -> usize {
    let mut is_label_empty = true;
    let is_of_name = |byte: &&u8| {
        let ends_empty_label = **byte == b'.' && is_label_empty;
        is_label_empty = **byte == b'.';
        REGISTERED_NAME[**byte as usize] && !ends_empty_label
    };
    bytes.iter().take_while(is_of_name).count()
}

/// Maximum length of a host without its final dot, in bytes. A DNS name has at most 253 characters (RFC
/// 1123 §2.1, RFC 1035 §2.3.4).
const HOST_BYTES_MAX: usize = 253;

/// Returns `true` if `bytes` is valid between the brackets of an IP literal (RFC 3986 §3.2.2). Valid bytes
/// are an IPv6 address, or an address of a future IP version. An address of a future version begins with `v`.
fn is_ip_literal(bytes: &[u8]) -> bool {
    match bytes {
        [b'v' | b'V', rest @ ..] => {
            let dot = rest.iter().position(|byte| *byte == b'.').unwrap_or(0);
            dot > 0
                && rest[..dot].iter().all(u8::is_ascii_hexdigit)
                && rest.len() > dot + 1
                && rest[dot + 1..].iter().all(|byte| *byte == b':' || REGISTERED_NAME[*byte as usize])
        }
        _ => core::str::from_utf8(bytes).is_ok_and(|text| text.parse::<core::net::Ipv6Addr>().is_ok()),
    }
}

/// Returns `true` if `bytes` is empty, or consists of a colon and a port. RFC 3986 §3.2.3 allows an empty
/// port.
fn is_port_suffix(bytes: &[u8]) -> bool {
    match bytes {
        [] | [b':'] => true,
        [b':', digits @ ..] => is_port(digits),
        _ => false,
    }
}

/// Returns `true` if `digits` is a decimal number up to 65535.
fn is_port(digits: &[u8]) -> bool {
    let mut port = 0;
    for digit in digits {
        let value = u32::from(digit.wrapping_sub(b'0'));
        port = port * 10 + value;
        if value > 9 || port > u32::from(u16::MAX) {
            return false;
        }
    }
    true
}

/// The bytes that a registered name may contain: `unreserved / sub-delims` (RFC 3986 §3.2.2). An IPv4 address
/// contains only such bytes.
///
/// RFC 3986 also allows percent-encoding, but this parser rejects percent-encoding for security. Suppose that
/// one server decodes `%61dmin.example`, and another server compares it byte by byte. The two servers see
/// different hosts, so a request could bypass a rule for `admin.example`. Clients do not need
/// percent-encoding, because they send internationalized names in ASCII form (RFC 5891 §4.4).
static REGISTERED_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "`byte` is less than 256")]
        let c = byte as u8;
        table[byte] = c.is_ascii_alphanumeric()
            || matches!(c, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')')
            || matches!(c, b'*' | b'+' | b',' | b';' | b'=');
        byte += 1;
    }
    table
};

impl fmt::Display for Authority<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

impl fmt::Debug for Authority<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

/// The error for an invalid host or port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidAuthority;

impl fmt::Display for InvalidAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an authority must be a host, optionally with a colon and a port")
    }
}

impl core::error::Error for InvalidAuthority {}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn authority_is_parsed_into_host_and_port() {
        for (text, host, port) in [
            ("example.com", "example.com", None),
            ("example.com:8080", "example.com", Some(8080)),
            ("127.0.0.1:1", "127.0.0.1", Some(1)),
            ("[::1]", "[::1]", None),
            ("[2001:db8::1]:443", "[2001:db8::1]", Some(443)),
            ("[v1.a:b]", "[v1.a:b]", None),
            ("under_score", "under_score", None),
            ("empty-port:", "empty-port", None),
            ("", "", None),
        ] {
            let authority = Authority::parse(text.as_bytes()).unwrap();
            assert_eq!((authority.host(), authority.port()), (host, port), "{text}");
        }
    }

    #[test]
    fn invalid_authorities_are_rejected() {
        for bad in [
            "a b",
            "a/b",
            "user@host",
            "a:b",
            "a:65536",
            "a:-1",
            "a:+1",
            "a:80:80",
            ":80",
            ":",
            "[]",
            "[::1%25lo]",
            "[v1.]",
            "[vg.a]",
            "[v1a]",
            "a%",
            "a%4",
            "%61dmin.example",
            "admin.exampl%65",
            "a%20b:80",
            "[fe80::1%25eth0]",
            "[v1.a%62]",
            "[::1",
            "::1",
            "[::1]x",
            "[not]",
            "[v.a]",
            // Servers that drop dots would treat these as another host.
            "admin.example..",
            "admin.example..:80",
            "a..b",
            ".example.com",
            ".",
            "a%2",
            "a%zz",
            "a,b c",
            "a?b",
            "a#b",
            "é",
            "a\"b",
            "a\\b",
        ] {
            assert!(Authority::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    /// Host routes compare up to 253 characters. A host of 254 without a final dot once passed the limit and
    /// bypassed the route of its domain.
    #[test]
    fn host_length_is_limited() {
        let name = |length| "a".repeat(length);
        let address = |length: usize| format!("[v1.{}]", "a".repeat(length - 5));
        let cases = [
            (name(253), true),
            (name(253) + ".", true),
            (name(254), false),
            (name(254) + ".", false),
            (address(253), true),
            (address(254), false),
        ];
        for (host, is_valid) in cases {
            assert_eq!(Authority::parse(host.as_bytes()).is_ok(), is_valid, "{} bytes", host.len());
        }
    }
}
