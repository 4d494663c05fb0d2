//! Decides whether a tunnel may reach an address. By default, tunnels may only reach addresses that the
//! IANA registries (RFC 6890) list as global.

use std::net::{IpAddr, SocketAddr};

use thruway_client::UpstreamAddr;
use thruway_net::{carried_by, is_listened_on, is_of_this_machine, is_public};
use thruway_server::ClientAddr;

use super::config::ConnectConfig;

impl ConnectConfig {
    /// Returns `true` if a tunnel may reach `address`. If an IPv6 address contains an IPv4 address, as in
    /// NAT64, the config must allow both addresses.
    pub(super) fn may_reach(&self, address: &UpstreamAddr) -> bool {
        let Some(address) = address.tcp() else { return false };
        let ip = address.ip().to_canonical();
        if ip.is_unspecified() || (is_listened_on(address) && !self.own_listeners) {
            return false;
        }
        self.is_open(ip) && carried_by(ip).is_none_or(|carried| self.is_open(carried.into()))
    }

    fn is_open(&self, ip: IpAddr) -> bool {
        let is_private = self.private.contains(ClientAddr::Tcp(SocketAddr::new(ip, 0)));
        is_private || (is_public(ip) && !is_of_this_machine(ip))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use thruway_net::{ListenAddr, bind};

    use super::*;
    use crate::HostMatch;

    fn config_with_private(private: &[&str]) -> ConnectConfig {
        let private = private.iter().map(|network| network.parse().unwrap()).collect();
        ConnectConfig { private, ..ConnectConfig::to(vec![HostMatch::Any]) }
    }

    fn may_reach(config: &ConnectConfig, ip: &str) -> bool {
        config.may_reach(&SocketAddr::new(ip.parse().unwrap(), 443).into())
    }

    #[test]
    fn address_embedded_in_ipv6_must_be_allowed_too() {
        let config = config_with_private(&["64:ff9b::/96", "2002::/16", "::/96", "10.1.0.0/16"]);
        for allowed in
            ["64:ff9b::101:101", "64:ff9b::a01:203", "2002:a01:203::1", "::ffff:10.1.2.3", "10.1.2.3"]
        {
            assert!(may_reach(&config, allowed), "{allowed}");
        }
        for denied in
            ["64:ff9b::7f00:1", "64:ff9b::a02:1", "2002:7f00:1::1", "::127.0.0.1", "::ffff:10.2.0.1"]
        {
            assert!(!may_reach(&config, denied), "{denied}");
        }
    }

    #[test]
    fn unspecified_address_is_never_reachable() {
        let config = config_with_private(&["0.0.0.0/0", "::/0"]);
        assert!(may_reach(&config, "127.0.0.1") && may_reach(&config, "::1"));
        assert!(
            !may_reach(&config, "0.0.0.0")
                && !may_reach(&config, "::")
                && !may_reach(&config, "::ffff:0.0.0.0")
        );
    }

    /// Regression test: if the config allowed tunnels to a private network, clients could also reach the
    /// gateway's admin listener in that network.
    #[test]
    fn own_listeners_are_unreachable_unless_enabled() {
        let config = config_with_private(&["127.0.0.0/8"]);
        let own = bind(&"127.0.0.1:0".parse().unwrap(), 1, 1).unwrap();
        let ListenAddr::Tcp(address) = *own.address() else { panic!("expected a TCP address") };
        let another = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(config.may_reach(&another.local_addr().unwrap().into()));
        assert!(!config.may_reach(&address.into()));
        let config = ConnectConfig { own_listeners: true, ..config };
        assert!(config.may_reach(&address.into()));
    }
}
