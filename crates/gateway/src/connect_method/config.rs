//! Settings of CONNECT tunnels. Also decides whether a client may request a destination.

use std::fmt;
use std::time::Duration;

use thruway_message::Authority;
use thruway_server::Networks;

use crate::HostMatch;

/// Allowed destinations and timeouts of CONNECT tunnels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectConfig {
    /// Host names and addresses that clients may request.
    pub hosts: Vec<HostMatch>,
    /// Ports that clients may request. Default: only port 443.
    pub ports: Vec<u16>,
    /// Networks that tunnels may reach although they are private or belong to this machine. Default: no
    /// networks.
    pub private: Networks,
    /// `true` allows tunnels to listeners of this process. The config must also allow the addresses of these
    /// listeners. Default `false`, so that clients do not reach these listeners just because they may open
    /// tunnels.
    pub own_listeners: bool,
    /// Maximum total time for the DNS lookup and for connecting. Default 5 s.
    pub connect_timeout: Duration,
    /// Maximum time without a byte in either direction of a tunnel. Default 10 minutes, the same as for
    /// forwarded TCP streams.
    pub idle: Duration,
}

impl ConnectConfig {
    /// Returns settings that allow tunnels to `hosts`, with the default values of all other settings.
    pub fn to(hosts: Vec<HostMatch>) -> Self {
        Self {
            hosts,
            ports: vec![443],
            private: Networks::default(),
            own_listeners: false,
            connect_timeout: Duration::from_secs(5),
            idle: Duration::from_mins(10),
        }
    }
}

/// Writes the allowed destinations as text, for users.
impl fmt::Display for ConnectConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> = self.hosts.iter().map(HostMatch::to_string).collect();
        let ports: Vec<_> = self.ports.iter().map(u16::to_string).collect();
        let plural = if ports.len() == 1 { "" } else { "s" };
        write!(f, "tunnels to {}, port{plural} {}", hosts.join(", "), ports.join(", "))?;
        if !self.private.is_empty() {
            write!(f, ", also to addresses in {}", self.private)?;
        }
        if self.own_listeners { f.write_str(", also to listeners of this process") } else { Ok(()) }
    }
}

/// The host and the port that a client requests with CONNECT.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Destination {
    /// Host name or IP address. An IPv6 address is in brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Destination {
    /// Returns the destination that a CONNECT request names in `authority`. Returns `None` if `config` does
    /// not allow the destination, or if the port is missing, because CONNECT requires a port (RFC 9110
    /// §9.3.6).
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
    fn connect_allows_only_configured_hosts_and_ports() {
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
