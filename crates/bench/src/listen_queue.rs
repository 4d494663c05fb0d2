//! Counts connections that the kernel dropped because a listen queue was full. The client retries such a
//! connection after a second or more. The delay of such a retry would hide the real response times of the
//! server.

use std::fs;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thruway_client::UpstreamAddr;

/// Overflow counters of the kernel, for all listeners of a network namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListenQueue {
    /// Number of connections that were dropped because the queue of connections waiting for `accept` was
    /// full.
    pub overflows: u64,
    /// Number of connections that were dropped for any reason, including `overflows`.
    pub drops: u64,
}

impl ListenQueue {
    /// Reads the counters of the server's network namespace. If the process of the server is unknown but its
    /// address is a loopback address, reads the counters of this process's namespace. Returns `None` in all
    /// other cases, and for servers without a TCP address.
    pub(crate) fn look(server: Option<u32>, addresses: &[UpstreamAddr]) -> Option<Self> {
        let ips: Vec<_> = addresses.iter().filter_map(|address| Some(address.tcp()?.ip())).collect();
        let network = match server {
            Some(id) if !ips.is_empty() => id.to_string(),
            None if ips.iter().any(IpAddr::is_loopback) => "self".to_owned(),
            _ => return None,
        };
        Self::parse(&fs::read_to_string(format!("/proc/{network}/net/netstat")).ok()?)
    }

    /// Returns the increase of the counters since `before`.
    pub(crate) const fn since(self, before: Self) -> Self {
        Self {
            overflows: self.overflows.saturating_sub(before.overflows),
            drops: self.drops.saturating_sub(before.drops),
        }
    }

    /// Parses the two `TcpExt:` lines: one line contains names, the other line contains numbers.
    fn parse(netstat: &str) -> Option<Self> {
        let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
        let (names, values) = (lines.next()?, lines.next()?);
        let value = |wanted| {
            let mut columns = names.split_whitespace().zip(values.split_whitespace());
            columns.find(|(name, _)| *name == wanted)?.1.parse().ok()
        };
        Some(Self { overflows: value("ListenOverflows")?, drops: value("ListenDrops")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name_in_netstat() {
        let netstat =
            "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 20 30\nIpExt: A\nIpExt: 4\n";
        let found = ListenQueue::parse(netstat).unwrap();
        assert_eq!(found, ListenQueue { overflows: 20, drops: 30 });
        let before = ListenQueue { overflows: 5, drops: 30 };
        assert_eq!(found.since(before), ListenQueue { overflows: 15, drops: 0 });
        assert_eq!(ListenQueue::parse("TcpExt: A\nTcpExt: 1\n"), None);
        assert_eq!(ListenQueue::parse(""), None);
    }

    #[test]
    fn listen_queue_is_known_only_for_local_servers() {
        let at = |address: &str| vec![address.parse::<UpstreamAddr>().unwrap()];
        assert!(ListenQueue::look(None, &at("127.0.0.1:80")).is_some());
        assert!(ListenQueue::look(Some(std::process::id()), &at("192.0.2.1:80")).is_some());
        assert_eq!(ListenQueue::look(Some(std::process::id()), &[]), None, "pipes have none");
        assert_eq!(ListenQueue::look(None, &at("192.0.2.1:80")), None);
        assert_eq!(ListenQueue::look(None, &[UpstreamAddr::unix("/a.sock")]), None);
    }
}
