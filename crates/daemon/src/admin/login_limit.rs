//! Limits failed logins by client address, so that no client can try many passwords or tokens.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use thruway_net::ClientAddr;

/// The recent failed logins of each client network. At most [`NETWORKS_MAX`] networks have an entry.
#[derive(Default)]
pub(super) struct LoginLimit(Mutex<HashMap<ClientNetwork, Failures>>);

/// An IPv4 address, or the first 64 bits of an IPv6 address. `None` contains all clients of Unix sockets.
type ClientNetwork = Option<(bool, u64)>;

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    /// Time of the first failure, on the process clock.
    since: Duration,
}

impl Failures {
    /// Returns the time until the failures expire, or `None` if they have expired.
    fn remaining(self, now: Duration) -> Option<Duration> {
        (self.since + PERIOD).checked_sub(now).filter(|remaining| !remaining.is_zero())
    }
}

impl LoginLimit {
    /// Returns the time for which the client must wait, or `None` if it may log in now.
    pub(super) fn wait(&self, client: ClientAddr, now: Duration) -> Option<Duration> {
        let networks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = networks.get(&network_of(client))?;
        failures.remaining(now).filter(|_| failures.count >= FAILURES_MAX)
    }

    /// Counts a failed login. Returns `true` if the client must now wait.
    pub(super) fn note_failure(&self, client: ClientAddr, now: Duration) -> bool {
        let mut networks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let network = network_of(client);
        if networks.len() >= NETWORKS_MAX && !networks.contains_key(&network) {
            forget_some(&mut networks, now);
        }
        let failures = networks.entry(network).or_insert(Failures { count: 0, since: now });
        if failures.remaining(now).is_none() {
            *failures = Failures { count: 0, since: now };
        }
        failures.count += 1;
        failures.count == FAILURES_MAX
    }
}

/// Removes expired entries. If there are none, removes the oldest entry.
fn forget_some(networks: &mut HashMap<ClientNetwork, Failures>, now: Duration) {
    networks.retain(|_, failures| failures.remaining(now).is_some());
    if networks.len() >= NETWORKS_MAX {
        let oldest = networks.iter().min_by_key(|(_, failures)| failures.since);
        if let Some(oldest) = oldest.map(|(network, _)| *network) {
            networks.remove(&oldest);
        }
    }
}

fn network_of(client: ClientAddr) -> ClientNetwork {
    client.ip().map(|address| match address.to_canonical() {
        IpAddr::V4(address) => (false, u64::from(address.to_bits())),
        IpAddr::V6(address) => (true, u64::try_from(address.to_bits() >> 64).unwrap_or_default()),
    })
}

/// Number of failed logins in [`PERIOD`] after which a client must wait.
const FAILURES_MAX: u32 = 10;

/// Time from the first failed login of a client until its failures expire.
const PERIOD: Duration = Duration::from_mins(1);

/// Maximum number of networks with an entry. An entry has 48 bytes.
const NETWORKS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> ClientAddr {
        ClientAddr::Tcp(format!("{address}:5000").parse().unwrap())
    }

    fn fail(limit: &LoginLimit, address: &str, count: u32, now: Duration) {
        for _ in 0..count {
            limit.note_failure(client(address), now);
        }
    }

    #[test]
    fn client_must_wait_after_ten_failures_in_a_minute() {
        let (limit, start) = (LoginLimit::default(), Duration::from_secs(5));
        let a = client("192.0.2.1");
        fail(&limit, "192.0.2.1", 9, start);
        assert_eq!(limit.wait(a, start), None);
        assert!(limit.note_failure(a, start + Duration::from_secs(20)), "the tenth failure");
        assert_eq!(limit.wait(a, start + Duration::from_secs(20)), Some(Duration::from_secs(40)));
        assert_eq!(limit.wait(client("192.0.2.2"), start), None, "another client");
        assert_eq!(limit.wait(a, start + PERIOD), None);
        assert!(!limit.note_failure(a, start + PERIOD), "a new minute begins");
        assert_eq!(limit.wait(a, start + PERIOD), None);
    }

    #[test]
    fn addresses_of_an_ipv6_network_count_as_one_client() {
        let limit = LoginLimit::default();
        fail(&limit, "[2001:db8::1]", 5, Duration::ZERO);
        fail(&limit, "[2001:db8::2]", 5, Duration::ZERO);
        assert!(limit.wait(client("[2001:db8::3]"), Duration::ZERO).is_some());
        assert_eq!(limit.wait(client("[2001:db8:0:1::1]"), Duration::ZERO), None);
        fail(&limit, "[::ffff:192.0.2.1]", 10, Duration::ZERO);
        assert!(limit.wait(client("192.0.2.1"), Duration::ZERO).is_some());
    }

    #[test]
    fn number_of_clients_with_failures_is_bounded() {
        let limit = LoginLimit::default();
        let addresses = || (0..2 * NETWORKS_MAX).map(|n| format!("10.0.{}.{}", n / 256, n % 256));
        for (place, address) in addresses().enumerate() {
            fail(&limit, &address, FAILURES_MAX, Duration::from_micros(u64::try_from(place).unwrap()));
        }
        let waiting = addresses().filter(|address| limit.wait(client(address), PERIOD / 2).is_some());
        assert_eq!(waiting.count(), NETWORKS_MAX);
        assert!(limit.wait(client("10.0.7.255"), PERIOD / 2).is_some(), "the newest entry stays");
        limit.note_failure(client("10.1.0.0"), PERIOD * 3);
        assert_eq!(limit.0.lock().unwrap().len(), 1, "expired entries are removed first");
    }
}
