//! Which of the servers that may get the next request gets it.
//!
//! All of this is choosing: what a server has to do with is read, nothing is changed but the turn of a round. Nothing is
//! locked and nothing allocated.

mod hash;
mod round_robin;
mod two;

use std::cmp;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::upstream::request_key::HashBy;
use crate::upstream::selection::select::Candidates;
use crate::upstream::server::Server;

pub(crate) use round_robin::smooth_round;

/// How the next server is found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Balance {
    /// One after the other, each as often as its weight says, and evenly spread.
    #[default]
    RoundRobin,
    /// The one that is answering the fewest requests, in relation to its weight.
    LeastConnections,
    /// The one of two that is answering fewer requests, in relation to its weight. The two are drawn, a heavy server more
    /// often. Nearly as even as [`LeastConnections`](Self::LeastConnections), looks at two servers only, and several
    /// gateways do not all take the same one.
    RandomOfTwo,
    /// The one of two that would answer sooner: by a moving average of its response times, in which failures count as slow,
    /// and by how many requests it is answering. A server that answers 503 with `Retry-After` gets nothing until then, for
    /// 10 s at most.
    PeakEwma,
    /// Requests with the same key go to the same server, as long as it is there and not too busy. When a server goes, only
    /// its keys go elsewhere.
    Hash {
        /// What is the key. Requests without it go to one of two, as with [`RandomOfTwo`](Self::RandomOfTwo).
        by: HashBy,
        /// How much a server may have to do with, in hundredths of its share of all requests that are being answered; beyond,
        /// the next server gets them. From 100 on: less spreads more evenly, more keeps keys together. Default 125.
        load_max_percent: u32,
    },
}

impl Balance {
    /// By the hash of `by`, and with the default bound on a server's load.
    pub const fn hash(by: HashBy) -> Self {
        Self::Hash { by, load_max_percent: 125 }
    }

    /// What is hashed, if anything is.
    pub const fn hash_by(&self) -> Option<&HashBy> {
        match self {
            Self::Hash { by, .. } => Some(by),
            _ => None,
        }
    }

    /// The place of the candidate that is next; `None` if there is none. `turn` is what round robin remembers, and `key` what
    /// the request has of what is hashed.
    pub(crate) fn pick(
        &self,
        candidates: &Candidates<'_>,
        turn: &AtomicUsize,
        key: Option<u64>,
    ) -> Option<usize> {
        match (self, key) {
            (Self::RoundRobin, _) => round_robin::pick(candidates, turn),
            (Self::LeastConnections, _) => least_connections(candidates, turn),
            (Self::RandomOfTwo, _) | (Self::Hash { .. }, None) => two::pick(candidates, by_requests),
            (Self::PeakEwma, _) => two::pick(candidates, |a, b| two::by_time(a, b, candidates.now)),
            (Self::Hash { load_max_percent, .. }, Some(key)) => {
                hash::pick(candidates, key, *load_max_percent)
            }
        }
    }
}

fn least_connections(candidates: &Candidates<'_>, turn: &AtomicUsize) -> Option<usize> {
    let servers = candidates.servers();
    // Where to begin to look, so that not all workers take the first of equals.
    let start = turn.fetch_add(1, Ordering::Relaxed);
    let places = (0..servers.len()).map(|n| start.wrapping_add(n) % servers.len());
    let least = |may_decline: bool| {
        let accepts = |place| if may_decline { candidates.accept(place) } else { candidates.include(place) };
        let accepted = places.clone().filter(|&place| accepts(place));
        accepted.min_by(|&a, &b| by_requests(&servers[a], &servers[b]))
    };
    least(true).or_else(|| least(false))
}

/// Compares requests for each unit of weight, without dividing.
fn by_requests(a: &Server, b: &Server) -> cmp::Ordering {
    let load = |of: &Server, other: &Server| of.in_flight() as u64 * u64::from(other.weight);
    load(a, b).cmp(&load(b, a))
}

#[cfg(test)]
mod tests;
