//! Determines which requests a route matches.

use std::fmt;
use std::io::Write as _;
use std::net::Ipv6Addr;

use thruway_message::Authority;

use super::{Conditions, PathPattern};

/// The requests that a route matches: by host, path and further conditions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteMatch {
    /// Hosts of the route. A request matches if one of them matches. An empty list matches all hosts.
    pub hosts: Vec<HostMatch>,
    /// Paths of the route, in [normalized](crate::normalized_path) form. A path that is not normalized never
    /// matches a request.
    pub path: PathMatch,
    /// Further conditions of the route.
    pub conditions: Conditions,
    /// Names of the listeners whose requests the route matches. An empty list matches the requests of all
    /// listeners. [`ListenerRoutes`](crate::ListenerRoutes) evaluates the list, [`Routes`](crate::Routes)
    /// ignores it.
    pub listeners: Vec<String>,
}

/// Hosts of a route. The port and the case of a host do not matter.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum HostMatch {
    /// Any host.
    #[default]
    Any,
    /// All subdomains of this host, without the host itself: `*.example.com`.
    Below(String),
    /// This host only.
    Exact(String),
}

/// Paths of a route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PathMatch {
    /// This path only.
    Exact(String),
    /// Paths that match this pattern.
    Pattern(PathPattern),
    /// This path and all paths below it.
    Prefix(String),
}

/// Reason why a text is not a valid host pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidHost {
    /// The text is neither a host name nor an IP address.
    Host,
    /// The text contains a port.
    Port,
    /// The text contains `*` outside of the first label, or in a part of the first label. `*.example.com` is
    /// valid, `a*.example.com` is not.
    Wildcard,
}

impl RouteMatch {
    /// Returns a match for `path` on all hosts, without further conditions.
    pub fn at(path: PathMatch) -> Self {
        Self { hosts: Vec::new(), path, conditions: Conditions::default(), listeners: Vec::new() }
    }

    /// Returns the hosts of the route: at least one. A route for all hosts has [`HostMatch::Any`].
    pub fn hosts_or_any(&self) -> &[HostMatch] {
        if self.hosts.is_empty() { &[HostMatch::Any] } else { &self.hosts }
    }

    /// Returns `true` if the route matches all hosts.
    pub fn is_for_any_host(&self) -> bool {
        self.hosts_or_any().contains(&HostMatch::Any)
    }

    /// Returns `true` if the route matches requests of the listener with this name. `None` stands for a
    /// listener without a name.
    pub fn is_for_listener(&self, name: Option<&str>) -> bool {
        self.listeners.is_empty() || self.listeners.iter().any(|own| Some(&**own) == name)
    }

    /// Returns the number of further conditions. The list of listeners counts as one condition.
    pub fn condition_count(&self) -> usize {
        self.conditions.count() + usize::from(!self.listeners.is_empty())
    }

    /// Returns the most specific host of the route that matches `host`. `host` must not contain a port.
    pub fn host_for(&self, host: &str) -> Option<&HostMatch> {
        let matching = self.hosts_or_any().iter().filter(|own| own.includes(host));
        matching.max_by_key(|own| own.precedence())
    }

    /// Returns `true` if all requests match.
    pub(super) fn is_for_everything(&self) -> bool {
        let is_root = matches!(&self.path, PathMatch::Prefix(path) if prefix_of(path).is_empty());
        is_root && self.is_for_any_host() && self.conditions.count() == 0
    }
}

impl HostMatch {
    /// Parses a host name (`example.com`), a wildcard (`*.example.com`), or an IP address.
    ///
    /// # Errors
    /// Returns an error if `text` is not a valid host pattern.
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
    /// Returns a number that is greater for more specific hosts.
    const fn precedence(&self) -> usize {
        match self {
            Self::Any => 0,
            Self::Below(host) => host.len(),
            Self::Exact(_) => usize::MAX,
        }
    }

    /// Returns `true` if `host` matches. `host` must not contain a port.
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
    /// Returns the path as written in the config.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Exact(path) | Self::Prefix(path) => path,
            Self::Pattern(pattern) => pattern.as_str(),
        }
    }
}

/// Returns `path` without slashes at its end. The result is the prefix of all paths at and below `path`.
pub(super) fn prefix_of(path: &str) -> &str {
    path.trim_end_matches('/')
}

/// Returns the address if `host` is an IPv6 address in brackets. An IPv6 address can be written in several
/// ways, and a route matches all of them.
fn ipv6_of(host: &str) -> Option<Ipv6Addr> {
    host.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// Writes `host` in normalized form into `buffer`, for a comparison. Returns `None` if `host` is longer than
/// any valid host.
pub(super) fn comparable<'b>(host: &str, buffer: &'b mut [u8; HOST_BYTES_MAX]) -> Option<&'b [u8]> {
    if let Some(address) = ipv6_of(host) {
        let mut rest = &mut buffer[..];
        write!(rest, "[{address}]").ok()?;
        let length = HOST_BYTES_MAX - rest.len();
        return Some(&buffer[..length]);
    }
    // A final dot only marks a complete DNS name, so the comparison ignores it.
    let host = host.strip_suffix('.').unwrap_or(host).as_bytes();
    let buffer = buffer.get_mut(..host.len())?;
    buffer.copy_from_slice(host);
    buffer.make_ascii_lowercase();
    Some(buffer)
}

impl fmt::Display for RouteMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts[..] {
            [] | [HostMatch::Any] => {}
            [host] => host.fmt(f)?,
            hosts => {
                let hosts: Vec<_> = hosts.iter().map(HostMatch::to_string).collect();
                write!(f, "({})", hosts.join(", "))?;
            }
        }
        f.write_str(self.path.as_str())?;
        if let PathMatch::Prefix(_) = self.path {
            f.write_str(" and below")?;
        }
        if self.conditions.count() > 0 {
            write!(f, " ({})", self.conditions)?;
        }
        match &self.listeners[..] {
            [] => Ok(()),
            [listener] => write!(f, " on listener {listener}"),
            listeners => write!(f, " on listeners {}", listeners.join(", ")),
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

/// Maximum length of a host in bytes (RFC 1035 §2.3.4).
pub(super) const HOST_BYTES_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_match_is_a_name_an_address_or_a_wildcard() {
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
    fn host_match_includes_every_spelling_of_its_ipv6_address() {
        let route = HostMatch::parse("[::1]").unwrap();
        for host in ["[::1]", "[0:0:0:0:0:0:0:1]", "[::0.0.0.1]", "[0::01]"] {
            assert!(route.includes(host), "{host}");
        }
        assert!(!route.includes("[::2]"));
    }
}
