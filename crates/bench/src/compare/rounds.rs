//! Measures several servers in turn, in an order that treats all servers equally.

use std::ops::ControlFlow;

use thruway_net::Clock;

/// Returns the order of the candidates in each round. The first of every two rounds has a random order, and
/// the second round has the reverse order (ABBA). With this order, a steady change of the machine affects all
/// candidates equally.
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

/// Calls `measure` once for each contender in each round, until all rounds are done or `measure` returns
/// `Break`. `measure` gets the contender and the number of the round, counted from 0.
///
/// # Errors
/// Returns the first error of `measure`.
pub fn measure_in_turn<T, E>(
    contenders: &mut [T],
    rounds: usize,
    mut measure: impl FnMut(&mut T, usize) -> Result<ControlFlow<()>, E>,
) -> Result<(), E> {
    #[expect(clippy::cast_possible_truncation, reason = "any number will do")]
    let seed = Clock::system().now_exact().as_nanos() as u64;
    for (round, places) in order(contenders.len(), rounds, seed).into_iter().enumerate() {
        for place in places {
            if measure(&mut contenders[place], round)?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_candidate_is_measured_once_per_round_until_the_break() {
        let mut measured = [0, 0, 0];
        let mut cells = 0;
        measure_in_turn(&mut measured, 5, |contender, round| {
            assert!(*contender == round || *contender == round + 1, "{contender} in round {round}");
            *contender += 1;
            cells += 1;
            Ok::<_, ()>(if cells == 13 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
        .unwrap();
        assert_eq!(measured.iter().sum::<usize>(), 13);
        assert!(measured.iter().all(|rounds| matches!(rounds, 4 | 5)), "{measured:?}");
    }
}
