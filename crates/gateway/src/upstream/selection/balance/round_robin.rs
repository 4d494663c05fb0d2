//! One after the other.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Candidates;

/// The candidate whose turn it is. A turn of somebody who is none is passed over for good: if the next one had it too, it would
/// get twice as much as the others.
pub(crate) fn pick(candidates: &Candidates<'_>, turn: &AtomicUsize) -> Option<usize> {
    let round = candidates.round();
    let next = || turn.fetch_add(1, Ordering::Relaxed);
    let mut turns = (0..round.len()).map(|_| round[next() % round.len()]);
    if let Some(place) = turns.find(|&place| candidates.accept(place)) {
        return Some(place);
    }
    // All start slowly, or other workers have had the turns of all who are left.
    let start = next();
    let mut from_here = (0..round.len()).map(|n| round[start.wrapping_add(n) % round.len()]);
    from_here.find(|&place| candidates.include(place))
}

/// One round in which every server has its turns as far apart as can be: in each step all gain their weight, and the one
/// with the most pays what all have gained (the smooth weighted round robin of nginx).
pub(crate) fn smooth_round(weights: &[u32]) -> Box<[usize]> {
    let divisor = weights.iter().copied().fold(0, greatest_common_divisor).max(1);
    let weights: Vec<_> = weights.iter().map(|weight| i64::from(weight / divisor)).collect();
    let total: i64 = weights.iter().sum();
    let mut gained = vec![0; weights.len()];
    let step = |_| {
        gained.iter_mut().zip(&weights).for_each(|(gained, weight)| *gained += weight);
        // The first of equals: `max_by_key` would take the last.
        let most = (0..weights.len())
            .rev()
            .filter(|&place| weights[place] > 0)
            .max_by_key(|&place| gained[place])?;
        gained[most] -= total;
        Some(most)
    };
    (0..total).filter_map(step).collect()
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_spreads_the_turns_of_a_heavy_server() {
        assert_eq!(*smooth_round(&[5, 1, 1]), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(*smooth_round(&[2, 4]), [1, 0, 1]);
        assert_eq!(*smooth_round(&[1, 1, 1]), [0, 1, 2]);
        assert_eq!(*smooth_round(&[0, 3, 0]), [1]);
        assert!(smooth_round(&[]).is_empty() && smooth_round(&[0, 0]).is_empty());
    }
}
