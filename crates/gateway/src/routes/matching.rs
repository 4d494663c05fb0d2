//! Which requests a route is for.

use std::fmt;
use std::io::Write as _;
use std::net::Ipv6Addr;

use thruway_message::Authority;

use super::{Conditions, PathPattern};

/// Which requests a route is for: those for its host, at its path, that fulfil its conditions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteMatch {
    /// The hosts.
    pub host: HostMatch,
    /// The paths, [normalized](crate::normalized_path) as those of requests are: others are never reached.
    pub path: PathMatch,
    /// Other conditions.
    pub conditions: Conditions,
}

/// The hosts a route is for. Ports make no difference, nor does the case.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum HostMatch {
    /// Any host.
    #[default]
    Any,
    /// All hosts below this one, which is not among them: `*.example.com`.
    Below(String),
    /// This host only.
    Exact(String),
}

/// The paths a route is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PathMatch {
    /// This path only.
    Exact(String),
    /// The paths of this shape.
    Pattern(PathPattern),
    /// This path and all below it.
    Prefix(String),
}

/// Why a text names no hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidHost {
    /// It is neither a name nor an address.
    Host,
    /// It has a port.
    Port,
    /// `*` is not before the first dot.
    Wildcard,
}

impl RouteMatch {
    /// Everything at `path`.
    pub fn at(path: PathMatch) -> Self {
        Self { host: HostMatch::Any, path, conditions: Conditions::default() }
    }

    /// Returns `true` if all requests match.
    pub(super) fn is_for_everything(&self) -> bool {
        let is_root = matches!(&self.path, PathMatch::Prefix(path) if prefix_of(path).is_empty());
        is_root && self.host == HostMatch::Any && self.conditions.count() == 0
    }
}

impl HostMatch {
    /// The hosts written as `text`: `example.com`, `*.example.com`, or an address.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn parse(text: &str) -> Result<Self, InvalidHost> {
        let (host, is_below) = text.strip_prefix("*.").map_or((text, false), |host| (host, true));
        if host.contains('*') {
            return Err(InvalidHost::Wildcard);
        }
        let authority = Authority::parse(host.as_bytes()).map_err(|_| InvalidHost::Host)?;
        if authority.host().len() < host.len() {
            return Err(InvalidHost::Port);
        }
        let host = match ipv6_of(host) {
            Some(address) => format!("[{address}]"),
            None => host.trim_end_matches('.').to_ascii_lowercase(),
        };
        if host.is_empty() || host.len() > HOST_BYTES_MAX {
            return Err(InvalidHost::Host);
        }
        Ok(if is_below { Self::Below(host) } else { Self::Exact(host) })
    }
}

impl HostMatch {
    /// Returns `true` if `host`, without a port, matches.
    pub(crate) fn includes(&self, host: &str) -> bool {
        let mut buffer = [0; HOST_BYTES_MAX];
        match (self, comparable(host, &mut buffer)) {
            (Self::Any, _) => true,
            (_, None) => false,
            (Self::Exact(own), Some(host)) => own.as_bytes() == host,
            (Self::Below(own), Some(host)) => {
                let before = host.strip_suffix(own.as_bytes());
                before.is_some_and(|before| before.len() > 1 && before.ends_with(b"."))
            }
        }
    }
}

impl fmt::Display for HostMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Below(host) => write!(f, "*.{host}"),
            Self::Exact(host) => f.write_str(host),
        }
    }
}

impl PathMatch {
    /// Returns the text of the config.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Exact(path) | Self::Prefix(path) => path,
            Self::Pattern(pattern) => pattern.as_str(),
        }
    }
}

/// Returns the prefix of the paths at and below `path`.
pub(super) fn prefix_of(path: &str) -> &str {
    path.trim_end_matches('/')
}

/// Returns the address if `host` is an IPv6 address in brackets. It has many spellings, and a route is for
/// all.
fn ipv6_of(host: &str) -> Option<Ipv6Addr> {
    host.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// Puts `host` as it is compared into `buffer`; `None` if it is longer than any host of a route.
pub(super) fn comparable<'b>(host: &str, buffer: &'b mut [u8; HOST_BYTES_MAX]) -> Option<&'b [u8]> {
    if let Some(address) = ipv6_of(host) {
        let mut rest = &mut buffer[..];
        write!(rest, "[{address}]").ok()?;
        let length = HOST_BYTES_MAX - rest.len();
        return Some(&buffer[..length]);
    }
    // A final dot says only that the name is complete.
    let host = host.strip_suffix('.').unwrap_or(host).as_bytes();
    let buffer = buffer.get_mut(..host.len())?;
    buffer.copy_from_slice(host);
    buffer.make_ascii_lowercase();
    Some(buffer)
}

impl fmt::Display for RouteMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            HostMatch::Any => {}
            HostMatch::Below(host) => write!(f, "*.{host}")?,
            HostMatch::Exact(host) => f.write_str(host)?,
        }
        f.write_str(self.path.as_str())?;
        if let PathMatch::Prefix(_) = self.path {
            f.write_str(" and below")?;
        }
        match self.conditions.count() {
            0 => Ok(()),
            _ => write!(f, " ({})", self.conditions),
        }
    }
}

impl fmt::Display for InvalidHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "a host is a name or an address",
            Self::Port => "a host must not have a port",
            Self::Wildcard => "`*` must be the whole first label: `*.example.com`",
        })
    }
}

impl std::error::Error for InvalidHost {}

/// RFC 1035 §2.3.4, as a text.
pub(super) const HOST_BYTES_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_addresses_or_all_below_a_name() {
        let parse = HostMatch::parse;
        assert_eq!(parse("Example.com"), Ok(HostMatch::Exact("example.com".to_owned())));
        assert_eq!(parse("example.com."), Ok(HostMatch::Exact("example.com".to_owned())));
        assert_eq!(parse("[::1]"), Ok(HostMatch::Exact("[::1]".to_owned())));
        assert_eq!(parse("[0:0::1]"), Ok(HostMatch::Exact("[::1]".to_owned())));
        assert_eq!(parse("*.Example.com"), Ok(HostMatch::Below("example.com".to_owned())));
        for (text, error) in [
            ("", InvalidHost::Host),
            ("*.", InvalidHost::Host),
            ("a b", InvalidHost::Host),
            ("example.com..", InvalidHost::Host),
            ("%61dmin.example", InvalidHost::Host),
            ("::1", InvalidHost::Host),
            ("example.com:80", InvalidHost::Port),
            ("*", InvalidHost::Wildcard),
            ("a.*.com", InvalidHost::Wildcard),
            ("*a.com", InvalidHost::Wildcard),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }

    /// Regression test: a request for `[0:0:0:0:0:0:0:1]` bypassed a route for `[::1]`.
    #[test]
    fn every_spelling_of_an_ipv6_address_is_for_its_route() {
        let route = HostMatch::parse("[::1]").unwrap();
        for host in ["[::1]", "[0:0:0:0:0:0:0:1]", "[::0.0.0.1]", "[0::01]"] {
            assert!(route.includes(host), "{host}");
        }
        assert!(!route.includes("[::2]"));
    }
}
