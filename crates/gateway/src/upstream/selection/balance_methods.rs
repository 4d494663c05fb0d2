//! Load balancing methods. A method selects the server for the next request from the candidates. To add a
//! method, extend [`Balance`] and [`pick`].
//!
//! The methods take no lock and allocate no memory. The only state that they change is the position of round
//! robin.

use std::cmp;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::balance_config::{Balance, mix};
use super::candidates::Candidates;
use crate::upstream::server::Server;

/// Returns the index of the next server with the method `balance`. Returns `None` if there are no
/// candidates. `turn` is the position of round robin, and `key` is the hash of the request's key.
pub(crate) fn pick(
    balance: &Balance,
    candidates: &Candidates<'_>,
    turn: &AtomicUsize,
    key: Option<u64>,
) -> Option<usize> {
    match (balance, key) {
        (Balance::RoundRobin, _) => round_robin(candidates, turn),
        (Balance::LeastConnections, _) => least_connections(candidates, turn),
        (Balance::RandomOfTwo, _) | (Balance::Hash { .. }, None) => best_of_two(candidates, by_requests),
        (Balance::PeakEwma, _) => best_of_two(candidates, |a, b| by_time(a, b, candidates.now)),
        (Balance::Hash { load_max_percent, .. }, Some(key)) => hash_owner(candidates, key, *load_max_percent),
    }
}

// Round robin.

/// Returns the next candidate in round robin order. If it is the turn of an unavailable server, the position
/// moves on for all requests. Otherwise, the next server would get its own requests and the requests of the
/// unavailable server.
fn round_robin(candidates: &Candidates<'_>, turn: &AtomicUsize) -> Option<usize> {
    let round = candidates.round();
    let next = || turn.fetch_add(1, Ordering::Relaxed);
    let mut turns = (0..round.len()).map(|_| round[next() % round.len()]);
    if let Some(place) = turns.find(|&place| candidates.accept(place)) {
        return Some(place);
    }
    // All servers are in slow start, or other workers have used the turns of the available servers.
    let start = next();
    let mut from_here = (0..round.len()).map(|n| round[start.wrapping_add(n) % round.len()]);
    from_here.find(|&place| candidates.include(place))
}

// Least connections.

fn least_connections(candidates: &Candidates<'_>, turn: &AtomicUsize) -> Option<usize> {
    let servers = candidates.servers();
    // Each search starts at another server, so that the workers do not all choose the first of several equal
    // servers.
    let start = turn.fetch_add(1, Ordering::Relaxed);
    let places = (0..servers.len()).map(|n| start.wrapping_add(n) % servers.len());
    let least = |may_decline: bool| {
        let accepts = |place| if may_decline { candidates.accept(place) } else { candidates.include(place) };
        let accepted = places.clone().filter(|&place| accepts(place));
        accepted.min_by(|&a, &b| by_requests(&servers[a], &servers[b]))
    };
    least(true).or_else(|| least(false))
}

/// Compares the requests in flight per unit of weight. The comparison uses two multiplications instead of a
/// division.
fn by_requests(a: &Server, b: &Server) -> cmp::Ordering {
    let load = |of: &Server, other: &Server| of.in_flight() as u64 * u64::from(other.weight);
    load(a, b).cmp(&load(b, a))
}

// The power of two choices.

/// Draws two candidates at random, and returns the candidate that `by` orders first.
fn best_of_two(candidates: &Candidates<'_>, by: impl Fn(&Server, &Server) -> cmp::Ordering) -> Option<usize> {
    let first = draw(candidates, None)?;
    let Some(second) = draw(candidates, Some(first)) else { return Some(first) };
    let servers = candidates.servers();
    let is_second_better = by(&servers[first], &servers[second]) == cmp::Ordering::Greater;
    Some(if is_second_better { second } else { first })
}

/// Draws a random candidate other than `other`. A server with twice the weight is drawn twice as often.
fn draw(candidates: &Candidates<'_>, other: Option<usize>) -> Option<usize> {
    let round = candidates.round();
    if round.is_empty() {
        return None;
    }
    let random = || fastrand::usize(..round.len());
    let accepted = |place: &usize| Some(*place) != other && candidates.accept(*place);
    if let Some(place) = (0..DRAWS_MAX).map(|_| round[random()]).find(accepted) {
        return Some(place);
    }
    // There are probably few candidates. Therefore, this search replaces further draws. It starts at a random
    // position.
    let (after, before) = (&round[random()..], round);
    let mut places = after.iter().chain(before).copied();
    places.find(|place| Some(*place) != other && candidates.include(*place))
}

/// Compares the expected duration of the next request at two servers. The expected duration is the average
/// response time, multiplied by (requests in flight / weight + 1).
fn by_time(a: &Server, b: &Server, now: u64) -> cmp::Ordering {
    cost(a, now).cmp(&cost(b, now))
}

fn cost(server: &Server, now: u64) -> u64 {
    let in_flight = server.in_flight() as u64;
    let microseconds = match server.health().latency.microseconds(now) {
        // If no response time of the server is known, one request measures it. Until the response to this
        // request arrives, further requests avoid the server.
        0 if in_flight > 0 => UNKNOWN_MICROSECONDS,
        known => known,
    };
    let weight = u64::from(server.weight.max(1));
    microseconds.saturating_mul(in_flight + weight) / weight
}

// Weighted rendezvous hashing with bounded load: requests with the same key go to the same server.
//
// For each key, every server has a score, and the server with the highest score gets the request. If a server
// is removed, only its keys move, and they spread over all other servers. The method stores no table of keys.
// If a server is above its load limit, the server with the next lower score gets the request. This limit
// ensures that one popular key cannot overload a server.

/// Returns the candidate with the highest score for `key`, among the candidates below their load limit. The
/// limit is `load_max_percent` of a server's share of the load. If all candidates have reached their
/// limits, the limits do not apply.
fn hash_owner(candidates: &Candidates<'_>, key: u64, load_max_percent: u32) -> Option<usize> {
    let servers = candidates.servers();
    let places = (0..servers.len()).filter(|&place| candidates.include(place));
    let (mut load, mut weight) = (0, 0);
    for place in places.clone() {
        load += servers[place].in_flight() as u64;
        weight += u64::from(servers[place].weight);
    }
    let is_within = |place: &usize| {
        let server = &servers[*place];
        (server.in_flight() as u64) < load_max(load, server, weight, load_max_percent)
    };
    let highest = |places: &mut dyn Iterator<Item = usize>| {
        let score = |place: usize| score(&servers[place], key, servers[place].percent_wanted(candidates.now));
        places.map(|place| (score(place), place)).max_by(|a, b| a.0.total_cmp(&b.0))
    };
    // Other workers send requests at the same time, so possibly no candidate is below its limit.
    let chosen = highest(&mut places.clone().filter(is_within)).or_else(|| highest(&mut places.clone()));
    chosen.map(|(_, place)| place)
}

/// Returns the load limit of `server`, which is a number of requests in flight. `load` is the number of
/// requests in flight at all candidates, without the new request. `weight` is the sum of the weights of all
/// candidates.
fn load_max(load: u64, server: &Server, weight: u64, percent: u32) -> u64 {
    let share = (load + 1).saturating_mul(u64::from(server.weight)).saturating_mul(u64::from(percent));
    share.div_ceil(weight.max(1).saturating_mul(100))
}

/// Returns the score of `server` for `key`. A server with twice the weight has the highest score for twice as
/// many keys. During a slow start, the server has only `percent` of its weight. While `percent` grows, the
/// server gets back more and more of its keys, and keeps each key that it got back.
#[expect(clippy::cast_precision_loss, reason = "`f64` holds integers of 53 bits exactly")]
fn score(server: &Server, key: u64, percent: u64) -> f64 {
    let uniform = ((mix(key ^ server.seed) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    let weight = f64::from(server.weight) * percent as f64 / 100.0;
    -weight / uniform.ln()
}

/// Maximum number of random draws for one candidate. If half of the servers are unavailable, all eight
/// draws fail in one of 256 cases.
const DRAWS_MAX: usize = 8;

const UNKNOWN_MICROSECONDS: u64 = 10_000_000;
