//! `/etc/hosts` (hosts(5)).

use std::net::IpAddr;

/// The addresses that `text` has for `name`, whose case makes no difference.
pub(super) fn find(text: &str, name: &str) -> Vec<IpAddr> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
    });
    lines.collect()
}
