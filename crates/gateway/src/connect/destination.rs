//! Where a client wants a tunnel to lead.

use thruway_message::Authority;

use super::ConnectConfig;

/// A host and a port that may be named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Destination {
    /// A name, or an address, which stands in brackets if it is of IPv6.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Destination {
    /// What `authority` names, if `config` allows that. A port there must be (RFC 9110 §9.3.6).
    pub(super) fn of(authority: Authority<'_>, config: &ConnectConfig) -> Option<Self> {
        let (host, port) = (authority.host(), authority.port()?);
        let is_allowed =
            config.ports.contains(&port) && config.hosts.iter().any(|allowed| allowed.includes(host));
        is_allowed.then(|| Self { host: host.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostMatch;

    #[test]
    fn what_is_not_named_is_not_allowed() {
        let hosts = ["a.example", "*.b.example", "192.0.2.1", "[2001:db8::1]"];
        let hosts = hosts.iter().map(|host| HostMatch::parse(host).unwrap()).collect();
        let config = ConnectConfig { ports: vec![443, 8443], ..ConnectConfig::to(hosts) };
        let is_allowed = |text: &str, config: &ConnectConfig| {
            Destination::of(Authority::parse(text.as_bytes()).unwrap(), config).is_some()
        };
        for (text, expected) in [
            ("a.example:443", true),
            ("A.Example.:8443", true),
            ("x.b.example:443", true),
            ("192.0.2.1:443", true),
            ("[2001:db8::1]:443", true),
            ("a.example:22", false),
            ("a.example:0", false),
            ("a.example", false),
            ("a.example:", false),
            ("b.example:443", false),
            ("xb.example:443", false),
            ("c.example:443", false),
            ("192.0.2.2:443", false),
            ("a.example.evil:443", false),
        ] {
            assert_eq!(is_allowed(text, &config), expected, "{text}");
        }
        let any = ConnectConfig::to(vec![HostMatch::Any]);
        assert!(is_allowed("c.example:443", &any) && !is_allowed("c.example:80", &any));
        assert!(!is_allowed("a.example:443", &ConnectConfig::to(Vec::new())));
    }
}
