//! Lists of networks, for rules about client addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::address::ClientAddr;

/// A set of addresses with a common prefix, such as `10.0.0.0/8`, `2001:db8::/32` or `192.0.2.1`. The
/// network `unix` contains all clients of Unix sockets. Clients of Unix sockets have no IP address, so no
/// other network contains them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    /// The addresses, or `None` for the network `unix`.
    addresses: Option<IpNet>,
}

/// A list of networks. A lookup is a binary search, so it needs few comparisons even in a long list.
///
/// ```
/// use thruway_net::{ClientAddr, InvalidNetwork, Network, Networks};
///
/// let networks: Networks = ["10.0.0.0/8".parse::<Network>()?, "unix".parse()?].into_iter().collect();
/// assert!(networks.contains(ClientAddr::Tcp(([10, 1, 2, 3], 80).into())));
/// assert!(networks.contains(ClientAddr::Unix));
/// assert!(!networks.contains(ClientAddr::Tcp(([192, 0, 2, 1], 80).into())));
/// # Ok::<_, InvalidNetwork>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Networks {
    /// The networks in their original order.
    listed: Vec<Network>,
    /// The first and the last address of each network, sorted. Networks inside a larger listed network are
    /// left out.
    ranges: Vec<(IpAddr, IpAddr)>,
    has_unix: bool,
}

/// Reason why a text is not a valid network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidNetwork {
    /// The text is neither `unix` nor an IP address with an optional prefix length.
    Address,
    /// Bits after the prefix are not zero. Contains the same network with zeros in these bits, because the
    /// operator probably meant that network.
    HostBits(Network),
    /// The text is an IPv4-mapped IPv6 address. Such a network would never match, because IPv4 clients are
    /// always compared by their IPv4 addresses.
    Mapped,
    /// The prefix length is malformed, or larger than the number of bits in the address.
    PrefixBits,
}

impl Networks {
    /// Returns `true` if the list is empty.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// Returns `true` if one of the networks contains `address`.
    #[inline]
    pub fn contains(&self, address: ClientAddr) -> bool {
        // Converts IPv4-mapped addresses, because a socket for both IP versions reports IPv4 clients with
        // such addresses.
        let Some(address) = address.ip().map(|address| address.to_canonical()) else { return self.has_unix };
        let after = self.ranges.partition_point(|(first, _)| *first <= address);
        after.checked_sub(1).is_some_and(|place| address <= self.ranges[place].1)
    }
}

impl FromIterator<Network> for Networks {
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Self {
        let listed: Vec<_> = networks.into_iter().collect();
        let has_unix = listed.iter().any(|network| network.addresses.is_none());
        let mut ranges: Vec<_> = listed.iter().filter_map(Network::ends).collect();
        // If several ranges have the same start, the longest range comes first, so that `retain` removes
        // the shorter ranges.
        ranges.sort_by(|(first, last), (other_first, other_last)| {
            (first, other_last).cmp(&(other_first, last))
        });
        let mut last_of_all = None;
        ranges.retain(|(_, last)| {
            let is_new = last_of_all.is_none_or(|last_of_all| *last > last_of_all);
            last_of_all = last_of_all.max(Some(*last));
            is_new
        });
        Self { listed, ranges, has_unix }
    }
}

impl Network {
    /// Returns the first and the last address of the network.
    fn ends(&self) -> Option<(IpAddr, IpAddr)> {
        self.addresses.map(|addresses| (addresses.network(), addresses.broadcast()))
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        if text == "unix" {
            return Ok(Self { addresses: None });
        }
        let (address, prefix_bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| InvalidNetwork::Address)?;
        if address != address.to_canonical() {
            return Err(InvalidNetwork::Mapped);
        }
        let addresses = match prefix_bits {
            None => IpNet::from(address),
            // The integer parser accepts a sign, but a prefix length must not have a sign.
            Some(bits) if bits.starts_with('+') => return Err(InvalidNetwork::PrefixBits),
            Some(bits) => {
                let bits = bits.parse().map_err(|_| InvalidNetwork::PrefixBits)?;
                IpNet::new(address, bits).map_err(|_| InvalidNetwork::PrefixBits)?
            }
        };
        let network = Self { addresses: Some(addresses.trunc()) };
        if addresses.network() == address { Ok(network) } else { Err(InvalidNetwork::HostBits(network)) }
    }
}

impl InvalidNetwork {
    /// Hint that shows the operator the valid forms of a network.
    pub const HINT: &str = "write a network as `10.0.0.0/8` or `2001:db8::/32`, a single address, or `unix` for all Unix sockets";
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.addresses {
            None => f.write_str("unix"),
            Some(network) if network.prefix_len() == network.max_prefix_len() => network.addr().fmt(f),
            Some(network) => network.fmt(f),
        }
    }
}

impl fmt::Display for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, network) in self.listed.iter().enumerate() {
            write!(f, "{}{network}", if place == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Display for InvalidNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => f.write_str("not a network"),
            Self::HostBits(meant) => {
                write!(f, "bits after the prefix are set; the network of this address is `{meant}`")
            }
            Self::Mapped => f.write_str("write an IPv4 address without `::ffff:`"),
            Self::PrefixBits => f.write_str("the prefix length must be at most 32, or at most 128 for IPv6"),
        }
    }
}

impl std::error::Error for InvalidNetwork {}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(texts: &[&str]) -> Networks {
        texts.iter().map(|text| text.parse::<Network>().unwrap()).collect()
    }

    fn contains(networks: &Networks, address: &str) -> bool {
        networks.contains(ClientAddr::Tcp((address.parse::<IpAddr>().unwrap(), 1).into()))
    }

    #[test]
    fn networks_round_trip_through_text() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "127.0.0.1", "2001:db8::/32", "::/0", "::1", "unix"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        assert_eq!(
            networks(&["10.0.0.1/32", "unix", "10.0.0.0/8"]).to_string(),
            "10.0.0.1, unix, 10.0.0.0/8"
        );
    }

    #[test]
    fn invalid_networks_are_rejected() {
        let [ipv4, ipv6] = ["10.0.0.0/8", "2001:db8::/64"].map(|text| text.parse().unwrap());
        for (text, error) in [
            ("", InvalidNetwork::Address),
            ("localhost", InvalidNetwork::Address),
            ("10.0.0.0:80", InvalidNetwork::Address),
            ("10.0.0/8", InvalidNetwork::Address),
            ("[::1]", InvalidNetwork::Address),
            ("10.1.2.3/8", InvalidNetwork::HostBits(ipv4)),
            ("2001:db8::1/64", InvalidNetwork::HostBits(ipv6)),
            ("::ffff:10.0.0.0/104", InvalidNetwork::Mapped),
            ("10.0.0.0/", InvalidNetwork::PrefixBits),
            ("10.0.0.0/33", InvalidNetwork::PrefixBits),
            ("10.0.0.0/+8", InvalidNetwork::PrefixBits),
            ("::/129", InvalidNetwork::PrefixBits),
            ("::/256", InvalidNetwork::PrefixBits),
        ] {
            assert_eq!(text.parse::<Network>(), Err(error), "{text}");
        }
    }

    #[test]
    fn address_lookup_works_with_overlapping_networks() {
        let networks = networks(&[
            "10.1.0.0/16",
            "10.0.0.0/8",
            "10.0.0.0/24",
            "192.0.2.1",
            "2001:db8::/33",
            "11.0.0.0/8",
        ]);
        for inside in ["10.0.0.0", "10.1.2.3", "10.255.255.255", "11.0.0.0", "192.0.2.1", "::ffff:10.0.0.1"] {
            assert!(contains(&networks, inside), "{inside}");
        }
        assert!(contains(&networks, "2001:db8:7fff::1") && !contains(&networks, "2001:db8:8000::1"));
        for outside in ["9.255.255.255", "12.0.0.0", "192.0.2.2", "2001:db9::", "::1", "::a00:1"] {
            assert!(!contains(&networks, outside), "{outside}");
        }
        assert!(!networks.contains(ClientAddr::Unix));
    }

    #[test]
    fn networks_of_one_address_family_do_not_match_others() {
        let [ipv4, ipv6, unix] = [["0.0.0.0/0"], ["::/0"], ["unix"]].map(|list| networks(&list));
        assert!(contains(&ipv4, "255.255.255.255") && !contains(&ipv4, "::1"));
        assert!(contains(&ipv6, "::1") && !contains(&ipv6, "127.0.0.1"));
        assert!(unix.contains(ClientAddr::Unix) && !contains(&unix, "127.0.0.1"));
        assert!(!networks(&["::/0", "0.0.0.0/0"]).contains(ClientAddr::Unix));
        assert!(!contains(&networks(&[]), "127.0.0.1") && !networks(&[]).contains(ClientAddr::Unix));
    }
}
