//! Several servers under loads in turn, in an order that is fair to all of them.

use std::ops::ControlFlow;

use thruway_bench::compare::order;
use thruway_net::Clock;

use crate::config::Failure;

/// Measures each of `contenders` once in each of `rounds`, or until one of them says that it is over. `measure` is told the
/// contender and the round, counted from 0.
pub(super) fn measure_in_turn<T>(
    contenders: &mut [T],
    rounds: usize,
    mut measure: impl FnMut(&mut T, usize) -> Result<ControlFlow<()>, Failure>,
) -> Result<(), Failure> {
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
    fn each_is_measured_once_in_each_round_until_it_is_over() {
        let mut measured = [0, 0, 0];
        let mut cells = 0;
        measure_in_turn(&mut measured, 5, |contender, round| {
            assert!(*contender == round || *contender == round + 1, "{contender} in round {round}");
            *contender += 1;
            cells += 1;
            Ok(if cells == 13 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
        .unwrap();
        assert_eq!(measured.iter().sum::<usize>(), 13);
        assert!(measured.iter().all(|rounds| matches!(rounds, 4 | 5)), "{measured:?}");
    }
}
