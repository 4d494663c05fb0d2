//! Recently removed servers. The gateway removes a server if the last DNS response does not contain its
//! address.
//!
//! The DNS response for a name with many servers often contains only some of the addresses. If a later DNS
//! response contains the address of a removed server again, the server gets its previous state back. This
//! state includes its admin state, its failures and its requests in flight.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thruway_client::UpstreamAddr;

use crate::upstream::server::{RetainedState, Server};

/// Servers that were removed in the last ten minutes, in the order of their removal.
#[derive(Debug, Default)]
pub(crate) struct RemovedServers(Mutex<VecDeque<Known>>);

/// A removed server and its state.
#[derive(Debug)]
struct Known {
    address: UpstreamAddr,
    state: Arc<RetainedState>,
    since: Duration,
}

impl RemovedServers {
    /// Keeps the state of `server` after its removal.
    pub(crate) fn add(&self, server: &Server, now: Duration) {
        let (address, state) = (server.address.clone(), server.state.clone());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.address != address && known.is_fresh(now));
        if known.len() == KNOWN_MAX {
            known.pop_front();
        }
        known.push_back(Known { address, state, since: now });
    }

    /// Returns the kept state of the server at `address`, if any.
    pub(crate) fn find(&self, address: &UpstreamAddr, now: Duration) -> Option<Arc<RetainedState>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().find(|known| known.address == *address && known.is_fresh(now));
        found.map(|known| known.state.clone())
    }
}

impl Known {
    fn is_fresh(&self, now: Duration) -> bool {
        now.saturating_sub(self.since) < KEPT
    }
}

/// Time for which the state of a removed server is kept. If an address returns to DNS later, it probably
/// belongs to another server.
const KEPT: Duration = Duration::from_mins(10);

/// Maximum number of removed servers that one upstream keeps.
const KNOWN_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::UpstreamConfig;
    use crate::upstream::scene::address;

    fn server(port: usize) -> Server {
        Server::new(&UpstreamConfig::new("a", [address(port)]), 0, address(port))
    }

    #[test]
    fn removed_server_is_remembered_for_ten_minutes() {
        let (removed, one) = (RemovedServers::default(), server(1));
        removed.add(&one, Duration::from_secs(5));
        let found = |seconds| removed.find(&address(1), Duration::from_secs(seconds));
        assert!(found(604).is_some_and(|found| Arc::ptr_eq(&found, &one.state)));
        assert!(found(605).is_none() && removed.find(&address(2), Duration::ZERO).is_none());
    }

    #[test]
    fn remembered_servers_are_bounded_and_unique() {
        let removed = RemovedServers::default();
        for port in (1..=KNOWN_MAX + 1).chain([2]) {
            removed.add(&server(port), Duration::ZERO);
        }
        let is_known = |port| removed.find(&address(port), Duration::ZERO).is_some();
        assert!(!is_known(1) && is_known(2) && is_known(3) && is_known(KNOWN_MAX + 1));
        assert_eq!(removed.0.lock().unwrap().len(), KNOWN_MAX);
    }
}
