use std::net::IpAddr;

use super::*;

fn set(ranges: &[&str]) -> RangeSet {
    RangeSet::new(ranges.iter().map(|range| range.parse().unwrap()).collect())
}

fn contains(set: &RangeSet, address: &str) -> bool {
    set.contains(Some(address.parse::<IpAddr>().unwrap().to_canonical()))
}

#[test]
fn ranges_are_read_and_written_alike() {
    for text in ["10.0.0.0/8", "0.0.0.0/0", "127.0.0.1", "2001:db8::/32", "::/0", "::1", "unix"] {
        assert_eq!(text.parse::<AddressRange>().unwrap().to_string(), text);
    }
    assert_eq!("10.0.0.1/32".parse::<AddressRange>().unwrap().to_string(), "10.0.0.1");
}

#[test]
fn what_is_no_range_is_refused() {
    let meant = "10.0.0.0/8".parse().unwrap();
    for (text, error) in [
        ("10.1.2.3/8", InvalidAddressRange::HostBits(meant)),
        ("::ffff:10.0.0.0/104", InvalidAddressRange::Mapped),
        ("10.0.0.0/33", InvalidAddressRange::Prefix),
        ("::/129", InvalidAddressRange::Prefix),
        ("::/256", InvalidAddressRange::Prefix),
        ("10.0.0.0/", InvalidAddressRange::Prefix),
        ("10.0.0.0/+8", InvalidAddressRange::Syntax),
        ("10.0.0/8", InvalidAddressRange::Syntax),
        ("example.com", InvalidAddressRange::Syntax),
        ("", InvalidAddressRange::Syntax),
    ] {
        assert_eq!(text.parse::<AddressRange>(), Err(error), "{text}");
    }
}

#[test]
fn addresses_are_found_in_ranges_that_overlap() {
    let set = set(&["10.1.0.0/16", "10.0.0.0/8", "10.0.0.0/24", "192.0.2.1", "2001:db8::/32", "11.0.0.0/8"]);
    for inside in
        ["10.0.0.0", "10.1.2.3", "10.255.255.255", "11.0.0.0", "192.0.2.1", "2001:db8::1", "::ffff:10.0.0.1"]
    {
        assert!(contains(&set, inside), "{inside}");
    }
    for outside in ["9.255.255.255", "12.0.0.0", "192.0.2.2", "2001:db9::", "::1", "::a00:1"] {
        assert!(!contains(&set, outside), "{outside}");
    }
    assert!(!set.contains(None));
}

#[test]
fn all_of_one_family_is_nothing_of_the_other() {
    assert!(contains(&set(&["0.0.0.0/0"]), "255.255.255.255") && !contains(&set(&["0.0.0.0/0"]), "::1"));
    assert!(contains(&set(&["::/0"]), "::1") && !contains(&set(&["::/0"]), "127.0.0.1"));
    assert!(set(&["unix"]).contains(None) && !contains(&set(&["unix"]), "127.0.0.1"));
    assert!(!set(&["::/0", "0.0.0.0/0"]).contains(None));
}
