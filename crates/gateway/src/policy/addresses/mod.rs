//! Clients that may ask, or may not, by their addresses.
//!
//! Who is in `deny` is refused; then, if there is `allow`, who is not in it. More exact ranges do not go before others.
//! What is looked at is [`Request::client`].

mod decide;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use thruway_server::Request;

use super::{Refusal, Verdict};

use decide::RangeSet;

/// Which clients may ask.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AddressesConfig {
    /// Only these; all if `None`.
    pub allow: Option<Vec<AddressRange>>,
    /// Not these, whatever `allow` says.
    pub deny: Vec<AddressRange>,
}

/// Addresses with the same first bits: `10.0.0.0/8`, `2001:db8::/32`, `127.0.0.1`; or `unix`, the clients of Unix sockets, which
/// have no address and so are in no other range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressRange {
    /// `None` for Unix sockets.
    ends: Option<(IpAddr, IpAddr)>,
    prefix: u8,
}

/// Why a text is no range of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidAddressRange {
    /// Beyond the prefix there are bits that are not zero; this was probably meant.
    HostBits(AddressRange),
    /// An IPv4 address is written as one of IPv6; clients are known by the former.
    Mapped,
    /// The prefix is longer than an address.
    Prefix,
    /// It is no address with or without a prefix.
    Syntax,
}

/// The policy.
#[derive(Debug)]
pub(super) struct Addresses {
    allow: Option<RangeSet>,
    deny: RangeSet,
}

impl Addresses {
    pub(super) fn new(config: AddressesConfig) -> Self {
        Self { allow: config.allow.map(RangeSet::new), deny: RangeSet::new(config.deny) }
    }

    pub(super) fn decide(&self, request: &Request<'_>) -> Verdict<'static> {
        let address = request.client().ip().map(|address| address.to_canonical());
        if self.deny.contains(address) || self.allow.as_ref().is_some_and(|allow| !allow.contains(address)) {
            return Verdict::Refuse(Refusal::Address);
        }
        Verdict::Continue
    }
}

impl FromStr for AddressRange {
    type Err = InvalidAddressRange;

    fn from_str(text: &str) -> Result<Self, InvalidAddressRange> {
        if text == "unix" {
            return Ok(Self { ends: None, prefix: 0 });
        }
        let (address, prefix) = text.split_once('/').map_or((text, None), |(start, end)| (start, Some(end)));
        let address: IpAddr = address.parse().map_err(|_| InvalidAddressRange::Syntax)?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix: u8 = match prefix {
            None => bits,
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                digits.parse().map_err(|_| InvalidAddressRange::Prefix)?
            }
            Some(_) => return Err(InvalidAddressRange::Syntax),
        };
        if prefix > bits {
            return Err(InvalidAddressRange::Prefix);
        }
        if address != address.to_canonical() {
            return Err(InvalidAddressRange::Mapped);
        }
        let range = Self { ends: Some(ends(address, prefix)), prefix };
        match range.ends {
            Some((first, _)) if first != address => Err(InvalidAddressRange::HostBits(range)),
            _ => Ok(range),
        }
    }
}

/// The first and the last address with the first bits of `address`.
fn ends(address: IpAddr, prefix: u8) -> (IpAddr, IpAddr) {
    match address {
        IpAddr::V4(address) => {
            let host = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
            let bits = address.to_bits();
            (IpAddr::V4((bits & !host).into()), IpAddr::V4((bits | host).into()))
        }
        IpAddr::V6(address) => {
            let host = u128::MAX.checked_shr(prefix.into()).unwrap_or(0);
            let bits = address.to_bits();
            (IpAddr::V6((bits & !host).into()), IpAddr::V6((bits | host).into()))
        }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ends {
            None => f.write_str("unix"),
            Some((first, last)) if first == last => first.fmt(f),
            Some((first, _)) => write!(f, "{first}/{}", self.prefix),
        }
    }
}

impl fmt::Display for AddressesConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list =
            |ranges: &[AddressRange]| ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match (&self.allow, &self.deny[..]) {
            (None, deny) => write!(f, "all clients but {}", list(deny)),
            (Some(allow), []) => write!(f, "clients from {}", list(allow)),
            (Some(allow), deny) => write!(f, "clients from {}, but not from {}", list(allow), list(deny)),
        }
    }
}

impl fmt::Display for InvalidAddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostBits(range) => write!(f, "the range of these addresses is `{range}`"),
            Self::Mapped => f.write_str("an IPv4 address is written as such, without `::ffff:`"),
            Self::Prefix => f.write_str("the prefix is longer than an address: 32 bits, of IPv6 128"),
            Self::Syntax => f.write_str("this is no range of addresses"),
        }
    }
}

impl std::error::Error for InvalidAddressRange {}
