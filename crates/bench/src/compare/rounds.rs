//! The order in which servers are loaded, fair to all of them.

/// In which order `candidates` are loaded in each of `rounds`: at random, and in every second round the other way round
/// (ABBA), so that what changes steadily over time hits all alike.
pub fn order(candidates: usize, rounds: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut order: Vec<Vec<usize>> = Vec::new();
    for round in 0..rounds {
        let mut places: Vec<usize> = (0..candidates).collect();
        if round % 2 == 1 {
            places = order[round - 1].iter().rev().copied().collect();
        } else {
            random.shuffle(&mut places);
        }
        order.push(places);
    }
    order
}
