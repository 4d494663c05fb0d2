//! Candidates for the next request, in tiers. The first tier with a candidate provides the server.

use std::sync::Arc;

use crate::upstream::membership::server_list::ServerList;
use crate::upstream::server::Server;

/// Conditions that all servers of a tier meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tier {
    is_backup: bool,
    /// Requires servers that are available.
    is_available: bool,
    /// Requires servers at which this request has not failed yet.
    is_untried: bool,
}

/// The candidates of one tier.
#[derive(Debug)]
pub(crate) struct Candidates<'s> {
    pub(crate) servers: &'s ServerList,
    pub(crate) tier: Tier,
    pub(crate) tried: &'s [usize],
    pub(crate) now: u64,
}

impl<'s> Candidates<'s> {
    pub(crate) const fn servers(&self) -> &'s [Arc<Server>] {
        &self.servers.list
    }

    pub(crate) const fn round(&self) -> &'s [usize] {
        &self.servers.round
    }

    /// Returns `true` if the server with the index `place` is a candidate.
    #[inline]
    pub(crate) fn include(&self, place: usize) -> bool {
        let server = &self.servers.list[place];
        self.would_include(server) && server.has_capacity()
    }

    /// Returns `true` if a server meets all conditions of the tier, even if the server has no capacity.
    pub(crate) fn has_busy(&self) -> bool {
        self.servers.list.iter().any(|server| self.would_include(server))
    }

    #[inline]
    fn would_include(&self, server: &Server) -> bool {
        let Tier { is_backup, is_available, is_untried } = self.tier;
        server.takes_new_clients()
            && server.is_backup == is_backup
            && (!is_available || server.is_available(self.now))
            && !(is_untried && self.tried.contains(&server.number))
    }

    /// Returns `true` if the server with the index `place` is a candidate and accepts this request. During
    /// a slow start, a server accepts only a random part of the requests.
    #[inline]
    pub(crate) fn accept(&self, place: usize) -> bool {
        let wants = || match self.servers.list[place].percent_wanted(self.now) {
            100.. => true,
            percent => fastrand::u64(..100) < percent,
        };
        self.include(place) && wants()
    }
}

const fn tier(is_backup: bool, is_available: bool, is_untried: bool) -> Tier {
    Tier { is_backup, is_available, is_untried }
}

/// The tiers, in the order in which they are tried. Backup servers get requests only if no other server is
/// available. If no server is available at all, unavailable servers get requests. In this case, the health
/// checks may be wrong, and the alternative would be an error response. A server gets the same request twice
/// only if there is no other server.
pub(crate) const TIERS: [Tier; 8] = [
    tier(false, true, true),
    tier(true, true, true),
    tier(false, false, true),
    tier(true, false, true),
    tier(false, true, false),
    tier(true, true, false),
    tier(false, false, false),
    tier(true, false, false),
];
