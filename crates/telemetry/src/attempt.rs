//! Requests to upstream servers, as steps of a trace.

use std::sync::Arc;
use std::time::Duration;

use crate::attributes::EncodedFields;

/// Attributes of a request to an upstream server.
#[derive(Clone, Debug)]
pub struct AttemptDetail {
    /// The server.
    pub target: Arc<AttemptTarget>,
    /// Number of earlier attempts.
    pub retries: u32,
    /// Status of the response.
    pub status: Option<u16>,
    /// Time at which the head of the response arrived.
    pub first_byte: Option<Duration>,
    /// Reason for the failure.
    pub error: Option<&'static str>,
}

/// An upstream server. All attempts at this server share the value, so they need no copies of its texts.
#[derive(PartialEq, Eq, Debug)]
pub struct AttemptTarget {
    url: Box<str>,
    attributes: EncodedFields,
    upstream_attribute: EncodedFields,
}

impl AttemptTarget {
    /// Creates the target for the server with the address `server`, as in the config. `upstream` is the name
    /// of its upstream. `scheme` is `https` or `http`.
    pub fn new(upstream: &str, server: &str, scheme: &str) -> Self {
        let (host, port) = host_and_port(server);
        let attributes = EncodedFields::attributes(|attributes| {
            attributes.add("server.address", host);
            attributes.add_some("server.port", port);
            attributes.add("thruway.upstream", upstream);
        });
        let upstream_attribute =
            EncodedFields::attributes(|attributes| attributes.add("thruway.upstream", upstream));
        Self { url: format!("{scheme}://{server}").into(), attributes, upstream_attribute }
    }

    /// Returns the URL of the server, without a path.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the attributes of the server and of its upstream.
    pub const fn attributes(&self) -> &EncodedFields {
        &self.attributes
    }

    /// Returns the attribute with the name of the upstream.
    pub const fn upstream_attribute(&self) -> &EncodedFields {
        &self.upstream_attribute
    }
}

/// Returns the host and the port of an authority or of a server address in the config.
pub fn host_and_port(server: &str) -> (&str, Option<u16>) {
    let bytes = server.as_bytes();
    let (mut port, mut factor) = (0u32, 1);
    // A port has at most five digits.
    for (place, byte) in bytes.iter().enumerate().rev().take(6) {
        match byte {
            b'0'..=b'9' if factor <= 10_000 => {
                port += u32::from(byte - b'0') * factor;
                factor *= 10;
            }
            b':' if factor > 1 => {
                let host = &server[..place];
                let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
                return (literal.unwrap_or(host), u16::try_from(port).ok());
            }
            _ => break,
        }
    }
    (server, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_separated() {
        for (server, expected) in [
            ("a.example:81", ("a.example", Some(81))),
            ("127.0.0.1:65535", ("127.0.0.1", Some(65_535))),
            ("[::1]:80", ("::1", Some(80))),
            ("a.example", ("a.example", None)),
            ("a:", ("a:", None)),
            ("a:123456", ("a:123456", None)),
            ("80", ("80", None)),
            ("", ("", None)),
        ] {
            assert_eq!(host_and_port(server), expected, "{server}");
        }
    }
}
