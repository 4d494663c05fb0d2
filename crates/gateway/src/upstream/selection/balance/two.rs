//! The better of two that are drawn (the power of two choices).

use std::cmp::Ordering;

use super::{Candidates, Server};
use crate::upstream::selection::random;

/// The better one of two candidates, the lesser one `by` something.
pub(crate) fn pick(candidates: &Candidates<'_>, by: impl Fn(&Server, &Server) -> Ordering) -> Option<usize> {
    let first = draw(candidates, None)?;
    let Some(second) = draw(candidates, Some(first)) else { return Some(first) };
    let servers = candidates.servers();
    let is_second_better = by(&servers[first], &servers[second]) == Ordering::Greater;
    Some(if is_second_better { second } else { first })
}

/// A candidate at random, one of twice the weight twice as often; not `other`.
fn draw(candidates: &Candidates<'_>, other: Option<usize>) -> Option<usize> {
    let round = candidates.round();
    if round.is_empty() {
        return None;
    }
    let random = || usize::try_from(random::below(round.len() as u64)).unwrap_or_default();
    let accepted = |place: &usize| Some(*place) != other && candidates.accept(*place);
    if let Some(place) = (0..DRAWS_MAX).map(|_| round[random()]).find(accepted) {
        return Some(place);
    }
    // There are few: they are looked for, from anywhere on.
    let (after, before) = (&round[random()..], round);
    let mut places = after.iter().chain(before).copied();
    places.find(|place| Some(*place) != other && candidates.include(*place))
}

/// Compares how long the next request would take: the average response time, once more for each request that the server
/// is answering for each unit of weight.
pub(crate) fn by_time(a: &Server, b: &Server, now: u64) -> Ordering {
    cost(a, now).cmp(&cost(b, now))
}

fn cost(server: &Server, now: u64) -> u64 {
    let in_flight = server.in_flight() as u64;
    let microseconds = match server.condition.latency.microseconds(now) {
        // Nothing is known: one request finds out, others do not go where perhaps nothing is answered.
        0 if in_flight > 0 => UNKNOWN_MICROSECONDS,
        known => known,
    };
    let weight = u64::from(server.weight.max(1));
    microseconds.saturating_mul(in_flight + weight) / weight
}

/// With half of the servers out, one in 250 draws is none.
const DRAWS_MAX: usize = 8;

const UNKNOWN_MICROSECONDS: u64 = 10_000_000;
