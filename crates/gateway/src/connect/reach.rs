//! Which addresses tunnels may lead to. Those of the whole internet are those of the registries of IANA (RFC 6890) that are global, and no
//! others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use thruway_client::UpstreamAddr;
use thruway_net::{is_listened_on, is_of_this_machine};
use thruway_server::ClientAddr;

use super::ConnectConfig;

impl ConnectConfig {
    /// Whether a tunnel may lead to this address. One that carries another within leads there too.
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

/// The address of IPv4 that one of IPv6 is translated to, or wrapped up for: NAT64 (RFC 6052 §2.1), 6to4 (RFC 3056), and what was meant to be
/// compatible (RFC 4291 §2.5.5.1).
const fn carried_by(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let (high, low) = match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => (high, low),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => (high, low),
        _ => return None,
    };
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Some(Ipv4Addr::new(a, b, c, d))
}

/// Whether everybody on the internet means the same by `address`. Those that carry others within are none.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

const fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !match a {
        // This network, this machine, private, and what is multicast or reserved.
        0 | 10 | 127 | 224..=255 => true,
        // Behind the NAT of a carrier.
        100 => matches!(b, 64..=127),
        // On one link.
        169 => b == 254,
        172 => matches!(b, 16..=31),
        // Private; of protocols, documents, and anycast of 6to4.
        192 => b == 168 || matches!((b, c), (0, 0 | 2) | (88, 99)),
        // For benchmarks and documents.
        198 => matches!((b, c), (18..=19, _) | (51, 100)),
        203 => b == 0 && c == 113,
        _ => false,
    }
}

/// Global unicast (`2000::/3`) without what is for protocols (`2001::/23`, in which Teredo is), documents, and 6to4.
const fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let is_special =
        matches!((first, second), (0x2001, 0..=0x1ff | 0xdb8) | (0x2002, _) | (0x3fff, 0..=0xfff));
    first & 0xe000 == 0x2000 && !is_special
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use thruway_net::{ListenAddr, bind};

    use super::*;
    use crate::HostMatch;

    fn reaching(private: &[&str]) -> ConnectConfig {
        let private = private.iter().map(|network| network.parse().unwrap()).collect();
        ConnectConfig { private, ..ConnectConfig::to(vec![HostMatch::Any]) }
    }

    fn may_reach(config: &ConnectConfig, ip: &str) -> bool {
        config.may_reach(&SocketAddr::new(ip.parse().unwrap(), 443).into())
    }

    #[test]
    fn what_leads_through_another_address_must_be_allowed_to_lead_there() {
        let config = reaching(&["64:ff9b::/96", "2002::/16", "::/96", "10.1.0.0/16"]);
        for open in ["64:ff9b::101:101", "64:ff9b::a01:203", "2002:a01:203::1", "::ffff:10.1.2.3", "10.1.2.3"]
        {
            assert!(may_reach(&config, open), "{open}");
        }
        for closed in
            ["64:ff9b::7f00:1", "64:ff9b::a02:1", "2002:7f00:1::1", "::127.0.0.1", "::ffff:10.2.0.1"]
        {
            assert!(!may_reach(&config, closed), "{closed}");
        }
    }

    #[test]
    fn an_address_that_is_none_leads_nowhere() {
        let config = reaching(&["0.0.0.0/0", "::/0"]);
        assert!(may_reach(&config, "127.0.0.1") && may_reach(&config, "::1"));
        assert!(
            !may_reach(&config, "0.0.0.0")
                && !may_reach(&config, "::")
                && !may_reach(&config, "::ffff:0.0.0.0")
        );
    }

    /// Once whoever could reach a private network through the gateway could reach its admin listener there.
    #[test]
    fn listeners_of_this_process_are_not_reached_unless_that_is_said() {
        let config = reaching(&["127.0.0.0/8"]);
        let own = bind(&"127.0.0.1:0".parse().unwrap(), 1, 1).unwrap();
        let ListenAddr::Tcp(address) = *own.address() else { panic!("it is one of TCP") };
        let another = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(config.may_reach(&another.local_addr().unwrap().into()));
        assert!(!config.may_reach(&address.into()));
        let config = ConnectConfig { own_listeners: true, ..config };
        assert!(config.may_reach(&address.into()));
    }

    #[test]
    fn only_addresses_of_the_whole_internet_are_public() {
        for public in
            ["1.1.1.1", "9.255.255.255", "172.15.0.1", "172.32.0.1", "192.0.1.1", "100.63.0.1", "223.1.1.1"]
                .into_iter()
                .chain(["2606:4700::1111", "2001:200::1", "2a00::1", "::ffff:1.1.1.1", "3ffe::1"])
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for special in
            ["0.0.0.0", "0.1.2.3", "127.0.0.1", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"]
                .into_iter()
                .chain([
                    "169.254.169.254",
                    "100.64.0.1",
                    "100.127.255.255",
                    "192.0.0.1",
                    "192.0.2.1",
                    "198.18.0.1",
                ])
                .chain([
                    "198.51.100.1",
                    "203.0.113.1",
                    "192.88.99.1",
                    "224.0.0.1",
                    "240.0.0.1",
                    "255.255.255.255",
                ])
                .chain([
                    "::",
                    "::1",
                    "::ffff:127.0.0.1",
                    "::ffff:10.0.0.1",
                    "::127.0.0.1",
                    "fe80::1",
                    "fec0::1",
                    "fc00::1",
                ])
                .chain([
                    "fd00::1",
                    "ff02::1",
                    "2001:db8::1",
                    "2001::1",
                    "2001:1ff::1",
                    "2002:7f00:1::",
                    "64:ff9b::7f00:1",
                ])
                .chain(["100::1", "3fff:fff::1", "5f00::1", "4000::1"])
        {
            assert!(!is_public(special.parse().unwrap()), "{special}");
        }
    }
}
