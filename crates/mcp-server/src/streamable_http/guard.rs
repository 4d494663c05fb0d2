//! Protection against DNS rebinding. In such an attack, a web page in a browser sends requests to a server on
//! the user's machine, with a host name that the attacker has pointed to this machine. The server detects the
//! attack, because the page cannot forge the headers `Host` and `Origin`.

use thruway_message::{Authority, FieldLines};

/// The hosts that the headers `Host` and `Origin` of a request may name.
#[derive(Clone, Debug)]
pub(super) enum Guard {
    /// This machine and the listed hosts.
    Hosts(Vec<String>),
    /// Any host.
    Open,
}

impl Default for Guard {
    fn default() -> Self {
        Self::Hosts(Vec::new())
    }
}

impl Guard {
    pub(super) fn allow(&mut self, host: &str) {
        match self {
            Self::Hosts(hosts) => hosts.push(host.to_ascii_lowercase()),
            Self::Open => {}
        }
    }

    pub(super) fn allows(&self, fields: FieldLines<'_>) -> bool {
        let Self::Hosts(hosts) = self else { return true };
        let host = fields.field("host").map(|value| value.as_bytes());
        let mut origins = fields.all("origin").map(|value| value.as_bytes());
        host.is_some_and(|host| is_allowed(host, hosts))
            && origins.all(|origin| origin_host(origin).is_some_and(|host| is_allowed(host, hosts)))
    }
}

/// Returns the host and the port of an origin. Returns `None` for an origin without a host, such as `null`.
fn origin_host(origin: &[u8]) -> Option<&[u8]> {
    let rest = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"))?;
    Some(rest)
}

fn is_allowed(authority: &[u8], hosts: &[String]) -> bool {
    let Ok(authority) = Authority::parse(authority) else { return false };
    let host = authority.host();
    LOCAL.iter().any(|local| host.eq_ignore_ascii_case(local))
        || hosts.iter().any(|allowed| host.eq_ignore_ascii_case(allowed))
}

const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(guard: &Guard, fields: &[(&str, &str)]) -> bool {
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        guard.allows(crate::testing::field_lines(fields, &mut bytes, &mut spans))
    }

    #[test]
    fn localhost_names_are_allowed_by_default() {
        let guard = Guard::default();
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]", "[::1]:8080"] {
            assert!(allows(&guard, &[("Host", host)]), "{host}");
            assert!(allows(&guard, &[("Host", host), ("Origin", &format!("http://{host}"))]), "{host}");
        }
    }

    #[test]
    fn foreign_hosts_and_origins_are_rejected_by_default() {
        let guard = Guard::default();
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::2]", "a@localhost"]
        {
            assert!(!allows(&guard, &[("Host", host)]), "{host}");
            assert!(
                !allows(&guard, &[("Host", "localhost"), ("Origin", &format!("http://{host}"))]),
                "{host}"
            );
        }
        for origin in ["null", "localhost", "file://", "http://localhost/path"] {
            assert!(!allows(&guard, &[("Host", "localhost"), ("Origin", origin)]), "{origin}");
        }
        assert!(!allows(&guard, &[]));
        let two_origins =
            [("Host", "localhost"), ("Origin", "http://localhost"), ("Origin", "http://evil.example")];
        assert!(!allows(&guard, &two_origins), "each `Origin` header should be checked");
    }

    #[test]
    fn allowed_host_and_open_guard_accept_other_hosts() {
        let mut guard = Guard::default();
        guard.allow("API.example");
        assert!(allows(&guard, &[("Host", "api.example:443"), ("Origin", "https://api.example")]));
        assert!(!allows(&guard, &[("Host", "other.example")]));
        assert!(allows(&Guard::Open, &[("Host", "other.example"), ("Origin", "null")]));
    }
}
