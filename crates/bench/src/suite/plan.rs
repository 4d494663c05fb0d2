//! Which cases fit into a time: all are shortened alike, then measured less often, then the least important are left out.

use std::time::Duration;

use super::cases::{Amount, Between, Case};

/// How long and how often is to be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Each time.
    pub duration: Duration,
    /// How often each candidate is loaded in each case.
    pub rounds: usize,
    /// All of it together.
    pub limit: Duration,
}

/// A case that will be measured.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedCase {
    /// The case. Its number of requests may be less than in the table.
    pub case: Case,
    /// How many candidates it has.
    pub candidates: usize,
}

/// What will be measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// How long each time.
    pub duration: Duration,
    /// How often each candidate is loaded in each case.
    pub rounds: usize,
    /// What is measured, in this order.
    pub cases: Vec<PlannedCase>,
    /// The names of those for which there is no time.
    pub left_out: Vec<String>,
}

impl Plan {
    /// How long each candidate is loaded before it is measured.
    pub const WARM_UP: Duration = Duration::from_millis(200);

    /// As much of `cases` as fits.
    pub fn new(cases: Vec<PlannedCase>, asked: Asked) -> Self {
        let Asked { duration, rounds, limit } = asked;
        let mut plan = Self { duration, rounds, cases, left_out: Vec::new() };
        while plan.estimated_from(0, 0) > limit && plan.is_reduced(duration) {}
        plan
    }

    /// About how long it takes from cell `cell` of case `case` on. A cell is one candidate in one round.
    pub fn estimated_from(&self, case: usize, cell: usize) -> Duration {
        let of = |planned: &PlannedCase| {
            let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            let cells = self.cell(&planned.case) * count(planned.candidates * self.rounds);
            START * count(1 + planned.candidates) + cells
        };
        let rest = self.cases.get(case..).unwrap_or_default();
        let whole: Duration = rest.iter().map(of).sum();
        let done = rest.first().map_or(Duration::ZERO, |planned| {
            self.cell(&planned.case) * u32::try_from(cell).unwrap_or(u32::MAX)
        });
        whole.saturating_sub(done)
    }

    /// How long `case` is measured each time, if its amount is a time.
    pub fn duration_of(&self, case: &Case) -> Duration {
        // Other load generators count in whole seconds.
        if case.between == Between::Generators { self.duration.max(SECOND) } else { self.duration }
    }

    fn cell(&self, case: &Case) -> Duration {
        let measured = match case.amount {
            Amount::Time => self.duration_of(case),
            Amount::Requests(_, about) => about,
        };
        WARM_UP_AND_PAUSE + measured
    }

    /// Takes the next step to a shorter plan; false if there is none.
    fn is_reduced(&mut self, asked: Duration) -> bool {
        let shortest = SHORTEST.min(asked);
        if self.duration > shortest {
            let shorter = (self.duration * 9 / 10).max(shortest);
            let share = shorter.as_secs_f64() / self.duration.as_secs_f64();
            self.duration = shorter;
            for planned in &mut self.cases {
                planned.case.amount = planned.case.amount.in_less_time(share);
            }
        } else if self.rounds > ROUNDS_MIN {
            self.rounds -= 1;
        } else if self.cases.len() > 1 {
            self.leave_one_out();
        } else {
            return false;
        }
        true
    }

    /// The last of those with the highest rank.
    fn leave_one_out(&mut self) {
        let last = self.cases.iter().enumerate().max_by_key(|(place, planned)| (planned.case.rank, *place));
        if let Some(place) = last.map(|(place, _)| place) {
            self.left_out.insert(0, self.cases.remove(place).case.name);
        }
    }
}

impl Amount {
    /// What is counted in requests is shortened as what is counted in seconds is, unless it is short anyway.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a few requests more or less"
    )]
    fn in_less_time(self, share: f64) -> Self {
        match self {
            Self::Requests(requests, about) if about > SHORTEST => {
                Self::Requests((requests as f64 * share) as u64, about.mul_f64(share))
            }
            other => other,
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Below this, the first moments weigh too much.
const SHORTEST: Duration = Duration::from_millis(250);

/// Below this, there is no interval to speak of.
const ROUNDS_MIN: usize = 3;

/// To start a server and to end it.
const START: Duration = Duration::from_millis(250);

/// A load takes a moment to begin, and another to be seen to have ended.
const WARM_UP_AND_PAUSE: Duration = Duration::from_millis(350);

#[cfg(test)]
mod tests {
    use super::super::cases::{Workload, cases};
    use super::*;

    fn planned(candidates: usize) -> Vec<PlannedCase> {
        cases(&Workload::ALL).into_iter().map(|case| PlannedCase { case, candidates }).collect()
    }

    fn plan(limit: u64) -> Plan {
        let limit = Duration::from_secs(limit);
        Plan::new(planned(4), Asked { duration: SECOND, rounds: 5, limit })
    }

    #[test]
    fn what_fits_is_measured_as_it_was_asked_for() {
        let plan = plan(100_000);
        assert_eq!((plan.duration, plan.rounds, plan.left_out.len()), (SECOND, 5, 0));
        assert_eq!(plan.cases, planned(4));
    }

    #[test]
    fn what_does_not_fit_is_shortened_then_measured_less_often_then_left_out_by_rank() {
        let [long, short, shorter] = [1200, 560, 300].map(plan);
        assert!((SHORTEST..SECOND).contains(&long.duration) && long.rounds == 5, "{:?}", long.duration);
        assert!(long.left_out.is_empty());
        assert_eq!((short.duration, short.rounds), (SHORTEST, ROUNDS_MIN), "{}", short.left_out.len());
        assert!(!shorter.left_out.is_empty());
        let worst_kept = shorter.cases.iter().map(|planned| planned.case.rank).max().unwrap();
        for case in planned(4).into_iter().map(|planned| planned.case) {
            assert!(case.rank >= worst_kept || !shorter.left_out.contains(&case.name), "{}", case.name);
        }
        for (plan, limit) in [(long, 1200), (short, 560), (shorter, 300)] {
            assert!(plan.estimated_from(0, 0) <= Duration::from_secs(limit), "{limit}");
        }
    }

    #[test]
    fn counted_requests_become_fewer_unless_they_are_few() {
        let plan = plan(1200);
        let amount = |name: &str| {
            plan.cases.iter().find(|planned| planned.case.name == name).map(|planned| planned.case.amount)
        };
        let Some(Amount::Requests(requests, _)) = amount("keep-alive without -k") else { panic!("counted") };
        assert!((12_500..50_000).contains(&requests), "{requests}");
        let few = amount("stdio tools/call echo, 1000 requests");
        assert!(matches!(few, Some(Amount::Requests(1000, _))), "{few:?}");
    }

    #[test]
    fn one_case_is_left_however_short_the_time_is() {
        let asked = Asked { duration: SECOND, rounds: 2, limit: Duration::ZERO };
        let plan = Plan::new(planned(2), asked);
        assert_eq!((plan.cases.len(), plan.rounds), (1, 2));
        assert_eq!(plan.left_out.len(), planned(2).len() - 1);
    }

    #[test]
    fn the_time_left_becomes_less_with_every_cell() {
        let plan = plan(1200);
        let cells = plan.rounds * 4;
        let left: Vec<_> = (0..=cells).map(|cell| plan.estimated_from(0, cell)).collect();
        assert!(left.windows(2).all(|two| two[1] < two[0]));
        assert!(plan.estimated_from(1, 0) < left[cells]);
        assert_eq!(plan.estimated_from(plan.cases.len(), 0), Duration::ZERO);
    }
}
