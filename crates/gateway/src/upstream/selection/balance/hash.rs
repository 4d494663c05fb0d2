//! The same server for the same key: weighted rendezvous hashing with bounded load.
//!
//! Each server has a score for each key, and the highest wins. A server that goes takes nothing along but its own keys, and
//! they spread over all others; there is no table that would have to be made again. Beyond its bound, a server is passed over
//! for the one with the next score, so that one popular key does not bring it down.

use super::{Candidates, Server};
use crate::upstream::selection::random::mix;

/// The candidate with the highest score for `key` among those within `load_max_percent` of their share of the load.
pub(crate) fn pick(candidates: &Candidates<'_>, key: u64, load_max_percent: u32) -> Option<usize> {
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
    // All are beyond it only if others were chosen since it was reckoned.
    let chosen = highest(&mut places.clone().filter(is_within)).or_else(|| highest(&mut places.clone()));
    chosen.map(|(_, place)| place)
}

/// How many requests `server` may be answering when one more comes to the `load` of all, who have `weight` together.
fn load_max(load: u64, server: &Server, weight: u64, percent: u32) -> u64 {
    let share = (load + 1).saturating_mul(u64::from(server.weight)).saturating_mul(u64::from(percent));
    share.div_ceil(weight.max(1).saturating_mul(100))
}

/// How much `server` wants `key`. Whoever has twice the weight wins twice as often; who starts slowly, at `percent` of it, gets back more and
/// more of its keys, and keeps those that it has got.
#[expect(clippy::cast_precision_loss, reason = "53 bits are what the type holds")]
fn score(server: &Server, key: u64, percent: u64) -> f64 {
    let uniform = ((mix(key ^ server.seed) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    let weight = f64::from(server.weight) * percent as f64 / 100.0;
    -weight / uniform.ln()
}
