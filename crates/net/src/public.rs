//! Finds out if an IP address is globally reachable, according to the IANA registries (RFC 6890).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the IPv4 address that an IPv6 address contains, because packets to `address` may reach that IPv4
/// address. Recognizes addresses of NAT64 (RFC 6052 §2.1) and 6to4 (RFC 3056), and the deprecated
/// IPv4-compatible addresses (RFC 4291 §2.5.5.1).
pub const fn carried_by(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let (high, low) = match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => (high, low),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => (high, low),
        _ => return None,
    };
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Some(Ipv4Addr::new(a, b, c, d))
}

/// Returns `true` if `address` is globally reachable. For an IPv4-mapped address (RFC 4291 §2.5.5.2),
/// checks the IPv4 address. Returns `false` for an IPv6 address that contains an IPv4 address in a
/// different form.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

const fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !match a {
        // "This network", private networks, loopback, multicast and reserved addresses.
        0 | 10 | 127 | 224..=255 => true,
        // Carrier-grade NAT (`100.64.0.0/10`).
        100 => matches!(b, 64..=127),
        // Link-local addresses.
        169 => b == 254,
        172 => matches!(b, 16..=31),
        // Private networks, protocol assignments, documentation, and 6to4 relays.
        192 => b == 168 || matches!((b, c), (0, 0 | 2) | (88, 99)),
        // Addresses for benchmarks and documentation.
        198 => matches!((b, c), (18..=19, _) | (51, 100)),
        203 => b == 0 && c == 113,
        _ => false,
    }
}

/// Returns `true` for global unicast addresses (`2000::/3`). Returns `false` for addresses of protocols
/// (`2001::/23`, such as Teredo), documentation addresses and 6to4 addresses.
const fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let is_special =
        matches!((first, second), (0x2001, 0..=0x1ff | 0xdb8) | (0x2002, _) | (0x3fff, 0..=0xfff));
    first & 0xe000 == 0x2000 && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_globally_routable_addresses_are_public() {
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
