//! Networks, as they are written in configs.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use thruway_net::ClientAddr;

/// Some clients by their addresses: `10.0.0.0/8`, `2001:db8::/32`, `192.0.2.1`, or `unix` for all that come over Unix sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Network {
    /// Addresses that begin with the same bits.
    Ip {
        /// The first address.
        first: IpAddr,
        /// How many bits they have in common.
        prefix_bits: u8,
    },
    /// Unix sockets.
    Unix,
}

/// Why a text is no network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidNetwork {
    /// It is neither an address nor `unix`.
    Address,
    /// The address goes on behind the bits that are compared.
    HostBits,
    /// There are not so many bits in an address.
    PrefixBits,
}

impl Network {
    /// Whether `address` is one of these.
    pub fn contains(&self, address: ClientAddr) -> bool {
        match (self, address) {
            (Self::Unix, ClientAddr::Unix) => true,
            (Self::Ip { first, prefix_bits }, ClientAddr::Tcp(address)) => {
                // A socket for both versions shows IPv4 addresses as IPv6 addresses.
                let address = address.ip().to_canonical();
                address.is_ipv4() == first.is_ipv4()
                    && (bits(address) ^ bits(*first)) & !host_mask(*prefix_bits) == 0
            }
            _ => false,
        }
    }

    fn of_bits(first: IpAddr, prefix_bits: u8) -> Result<Self, InvalidNetwork> {
        let all = if first.is_ipv4() { 32 } else { 128 };
        if prefix_bits > all {
            return Err(InvalidNetwork::PrefixBits);
        }
        if bits(first) & host_mask(prefix_bits) != 0 {
            return Err(InvalidNetwork::HostBits);
        }
        match first.to_canonical() {
            canonical if first.is_ipv6() && canonical.is_ipv4() && prefix_bits >= MAPPED_BITS => {
                Ok(Self::Ip { first: canonical, prefix_bits: prefix_bits - MAPPED_BITS })
            }
            _ => Ok(Self::Ip { first, prefix_bits }),
        }
    }
}

/// The address with its first bit as the first of 128.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The bits behind the first `prefix_bits`.
fn host_mask(prefix_bits: u8) -> u128 {
    u128::MAX.checked_shr(u32::from(prefix_bits)).unwrap_or(0)
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        if text == "unix" {
            return Ok(Self::Unix);
        }
        let (address, prefix_bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let first: IpAddr = address.parse().map_err(|_| InvalidNetwork::Address)?;
        let all = if first.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match prefix_bits {
            None => all,
            // A sign is none of a prefix.
            Some(bits) if !bits.bytes().all(|octet| octet.is_ascii_digit()) => {
                return Err(InvalidNetwork::PrefixBits);
            }
            Some(bits) => bits.parse().map_err(|_| InvalidNetwork::PrefixBits)?,
        };
        Self::of_bits(first, prefix_bits)
    }
}

impl InvalidNetwork {
    /// What to write instead.
    pub const HINT: &str =
        "a network is `10.0.0.0/8`, `2001:db8::/32`, one address, or `unix` for all Unix sockets";
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip { first, prefix_bits } => write!(f, "{first}/{prefix_bits}"),
            Self::Unix => f.write_str("unix"),
        }
    }
}

impl fmt::Display for InvalidNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "this is no network",
            Self::HostBits => "the address of a network ends with zeros behind its prefix",
            Self::PrefixBits => "a prefix has up to 32 bits, or up to 128 in IPv6",
        })
    }
}

impl std::error::Error for InvalidNetwork {}

/// IPv4 addresses stand at the end of such IPv6 addresses (RFC 4291 §2.5.5.2).
const MAPPED_BITS: u8 = 96;
