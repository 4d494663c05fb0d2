//! Connections for which listeners of this machine had no room: whoever opened them tries again after a
//! second or more, and what was measured tells more of that than of the server.

use std::fs;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thruway_client::UpstreamAddr;

/// How often that has happened, as the kernel counts it for all listeners of a network namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListenQueue {
    /// The queue of connections that nobody had accepted yet was full.
    pub overflows: u64,
    /// A connection was not taken for any reason, that one included.
    pub drops: u64,
}

impl ListenQueue {
    /// What was counted so far where a server is: in the network of its process, or in that of this one if it
    /// listens at a loopback address. Nothing if it is elsewhere, or does not listen on TCP.
    pub(crate) fn look(server: Option<u32>, addresses: &[UpstreamAddr]) -> Option<Self> {
        let ips: Vec<_> = addresses.iter().filter_map(|address| Some(address.tcp()?.ip())).collect();
        let network = match server {
            Some(id) if !ips.is_empty() => id.to_string(),
            None if ips.iter().any(IpAddr::is_loopback) => "self".to_owned(),
            _ => return None,
        };
        Self::parse(&fs::read_to_string(format!("/proc/{network}/net/netstat")).ok()?)
    }

    /// What has come since.
    pub(crate) const fn since(self, before: Self) -> Self {
        Self {
            overflows: self.overflows.saturating_sub(before.overflows),
            drops: self.drops.saturating_sub(before.drops),
        }
    }

    /// Of a line of names and a line of numbers.
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
    fn the_counts_are_found_by_their_names() {
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
    fn only_of_servers_on_this_machine_it_is_known() {
        let at = |address: &str| vec![address.parse::<UpstreamAddr>().unwrap()];
        assert!(ListenQueue::look(None, &at("127.0.0.1:80")).is_some());
        assert!(ListenQueue::look(Some(std::process::id()), &at("192.0.2.1:80")).is_some());
        assert_eq!(ListenQueue::look(Some(std::process::id()), &[]), None, "pipes have none");
        assert_eq!(ListenQueue::look(None, &at("192.0.2.1:80")), None);
        assert_eq!(ListenQueue::look(None, &[UpstreamAddr::unix("/a.sock")]), None);
    }
}
