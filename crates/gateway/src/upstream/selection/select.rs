//! Who may get the next request, and who gets it.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::upstream::health::admin_state::Standing;
use crate::upstream::health::ejection::Admission;
use crate::upstream::request_key::RequestKey;
use crate::upstream::selection::balance::{Balance, smooth_round};
use crate::upstream::selection::random;
use crate::upstream::server::Server;

/// The servers of an upstream, until its names resolve to others.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) list: Box<[Arc<Server>]>,
    /// Places in the order of one round, each as often as its weight says.
    round: Box<[usize]>,
}

/// Which servers are asked before which others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tier {
    is_backup: bool,
    /// Only those that may get requests.
    is_available: bool,
    /// Only those where this request has not failed yet.
    is_untried: bool,
}

/// The servers of one tier, from which one is picked.
#[derive(Debug)]
pub(crate) struct Candidates<'s> {
    servers: &'s Servers,
    tier: Tier,
    tried: &'s [usize],
    pub(crate) now: u64,
}

/// Who gets a request.
#[derive(Debug)]
pub(crate) enum Selected<'s> {
    /// This one, which counts it already.
    Server(&'s Arc<Server>, Admission),
    /// Nobody: those who may get it have no room.
    Busy,
    /// Nobody: there is none.
    Nobody,
}

impl Servers {
    pub(crate) fn new(list: impl IntoIterator<Item = Arc<Server>>) -> Self {
        let list: Box<[_]> = list.into_iter().collect();
        let weights: Vec<_> = list.iter().map(|server| server.weight).collect();
        Self { round: smooth_round(&weights), list }
    }

    /// How many may not get requests, and how many there are at all.
    pub(crate) fn out_of(&self, now: u64) -> (usize, usize) {
        let counted = self.list.iter().filter(|server| server.takes_new_clients());
        (counted.clone().filter(|server| !server.is_available(now)).count(), counted.count())
    }

    /// Selects who gets the next request and lets it [begin](Server::begin): none of those `tried` if there is another. Of
    /// those of the first tier that is not empty, `balance` picks one.
    pub(crate) fn select<'s>(
        &'s self,
        balance: &Balance,
        turn: &AtomicUsize,
        key: &RequestKey,
        tried: &[usize],
        now: u64,
    ) -> Selected<'s> {
        let begin = |server: &'s Arc<Server>| match server.begin(now) {
            Admission::Refused => None,
            admission => Some(Selected::Server(server, admission)),
        };
        let sticky = key.sticky.and_then(|token| self.sticky(token, tried, now));
        if let Some(selected) = sticky.and_then(begin) {
            return selected;
        }
        for tier in TIERS {
            let candidates = Candidates { servers: self, tier, tried, now };
            // Who refuses is no candidate any more.
            while let Some(place) = balance.pick(&candidates, turn, key.hash) {
                if let Some(selected) = begin(&self.list[place]) {
                    return selected;
                }
            }
            if candidates.is_anybody_busy() {
                return Selected::Busy;
            }
        }
        Selected::Nobody
    }

    /// The server that a cookie names, if it may get requests. It needs no weight: to take that away lets a server end what it
    /// has begun.
    fn sticky(&self, token: u64, tried: &[usize], now: u64) -> Option<&Arc<Server>> {
        let server = self.list.iter().find(|server| server.token == token)?;
        let may_be = server.condition.standing.get() != Standing::Disabled
            && server.is_available(now)
            && server.has_room()
            && !tried.contains(&server.number);
        may_be.then_some(server)
    }
}

impl<'s> Candidates<'s> {
    pub(crate) const fn servers(&self) -> &'s [Arc<Server>] {
        &self.servers.list
    }

    pub(crate) const fn round(&self) -> &'s [usize] {
        &self.servers.round
    }

    /// Whether the server at `place` is one.
    #[inline]
    pub(crate) fn include(&self, place: usize) -> bool {
        let server = &self.servers.list[place];
        self.would_include(server) && server.has_room()
    }

    /// Whether somebody would be one, but for want of room.
    fn is_anybody_busy(&self) -> bool {
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

    /// Whether the server at `place` is one, and wants this request: while it starts slowly, it wants some only.
    #[inline]
    pub(crate) fn accept(&self, place: usize) -> bool {
        let wants = || match self.servers.list[place].percent_wanted(self.now) {
            100.. => true,
            percent => random::below(100) < percent,
        };
        self.include(place) && wants()
    }
}

const fn tier(is_backup: bool, is_available: bool, is_untried: bool) -> Tier {
    Tier { is_backup, is_available, is_untried }
}

/// Backups stand in when no other may get requests. When nobody may, everybody is asked all the same: that all are out says
/// more about how we look at them than about them, and worse than an error it cannot become. A server is asked twice for the
/// same request only if there is no other.
const TIERS: [Tier; 8] = [
    tier(false, true, true),
    tier(true, true, true),
    tier(false, false, true),
    tier(true, false, true),
    tier(false, true, false),
    tier(true, true, false),
    tier(false, false, false),
    tier(true, false, false),
];
