//! Fits the cases into a time: shortens all alike, then measures less often, then leaves out the least
//! important ones.

use std::time::Duration;

use crate::case::{Amount, Case, ComparisonKind, LoadCondition, Request};

/// The wanted durations and rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RequestedPlan {
    /// Each time.
    pub(crate) duration: Duration,
    /// Number of rounds of each case.
    pub(crate) rounds: usize,
    /// All of it together.
    pub(crate) limit: Duration,
}

/// A case that will be measured.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PlannedCase {
    /// The case. Its number of requests may be less than in the table.
    pub(crate) case: Case,
    /// Number of its candidates.
    pub(crate) candidates: usize,
}

/// The cases to measure.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Plan {
    /// Duration of each measurement.
    pub(crate) duration: Duration,
    /// Number of rounds of each case.
    pub(crate) rounds: usize,
    /// The planned cases in order: first the main case of each workload, because the run may take longer than
    /// expected.
    pub(crate) cases: Vec<PlannedCase>,
    /// Names of the cases that do not fit into the time.
    pub(crate) left_out: Vec<String>,
}

impl Plan {
    /// Warm-up of cases with few connections.
    pub(crate) const WARM_UP: Duration = Duration::from_millis(200);

    /// Returns the warm-up of `case`: each connection gets a response, from slower servers too. All
    /// connections are open before.
    pub(crate) fn warm_up_of(case: &Case) -> Duration {
        match case {
            // The server counts all requests.
            _ if case.is_counted() => Duration::ZERO,
            // At a rate that slow servers have too.
            _ if case.holds_connections() => SECOND * 2,
            _ if case.is_crowded() => SECOND,
            _ if is_heavy(case) => SECOND / 2,
            _ => Self::WARM_UP,
        }
    }

    /// As much of `cases` as fits.
    pub(crate) fn new(mut cases: Vec<PlannedCase>, asked: RequestedPlan) -> Self {
        cases.sort_by_key(|planned| planned.case.rank);
        let RequestedPlan { duration, rounds, limit } = asked;
        let mut plan = Self { duration, rounds, cases, left_out: Vec::new() };
        while plan.estimated_from(0, 0) > limit && plan.is_reduced(duration) {}
        plan
    }

    /// About how long it takes from cell `cell` of case `case` on. A cell is one candidate in one round.
    pub(crate) fn estimated_from(&self, case: usize, cell: usize) -> Duration {
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

    /// Returns the time of each measurement of `case`, if its amount is a time.
    pub(crate) fn duration_of(&self, case: &Case) -> Duration {
        match case {
            // A dozen requests on each connection.
            _ if case.is_crowded() && !case.holds_connections() => self.duration.max(SECOND * 2),
            _ if case.is_crowded() || needs_a_second(case) => self.duration.max(SECOND),
            _ => self.duration,
        }
    }

    fn cell(&self, case: &Case) -> Duration {
        let measured = match case.amount {
            Amount::Time => self.duration_of(case),
            Amount::Requests(_, about) => about,
        };
        Self::warm_up_of(case) + measured + PAUSE
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
            let last = self.cases.pop();
            self.left_out.extend(last.map(|planned| planned.case.name));
        } else {
            return false;
        }
        true
    }
}

impl Amount {
    /// Returns fewer requests for a shorter time, unless the load is short anyway.
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

/// Other load generators count in whole seconds; where much is on its way at the same time, the first answers
/// take long; and a few reloads must fall into the time.
fn needs_a_second(case: &Case) -> bool {
    let counts_seconds = matches!(case.between, ComparisonKind::Generators | ComparisonKind::Clients);
    is_heavy(case) || counts_seconds || case.circumstance == LoadCondition::Reloads
}

fn is_heavy(case: &Case) -> bool {
    let bytes = match case.request {
        Request::Get(_, bytes) => bytes,
        Request::Mcp(_) => 0,
    };
    bytes * u64::from(case.connections) > HEAVY_BYTES
}

const SECOND: Duration = Duration::from_secs(1);

/// Below this, the first moments weigh too much.
const SHORTEST: Duration = Duration::from_millis(250);

/// Below this, there is no interval to speak of.
const ROUNDS_MIN: usize = 3;

const HEAVY_BYTES: u64 = 40 << 20;

/// To start a server and to end it.
const START: Duration = Duration::from_millis(250);

/// A load takes a moment to begin, and another to be seen to have ended.
const PAUSE: Duration = Duration::from_millis(150);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Peers, Workload};
    use crate::cases::cases;

    /// Returns every case, with `candidates` of them unless the case names its own.
    fn planned(candidates: usize) -> Vec<PlannedCase> {
        let count = |case: &Case| match case.peers {
            Peers::All => candidates,
            Peers::AllAnd(named) => candidates + named.len(),
            Peers::Only(named) => 1 + named.len().min(candidates),
            // Ours beside ours.
            Peers::None => 2,
        };
        let all = cases(Workload::published()).into_iter();
        all.map(|case| PlannedCase { candidates: count(&case), case }).collect()
    }

    fn plan(limit: u64) -> Plan {
        let limit = Duration::from_secs(limit);
        Plan::new(planned(4), RequestedPlan { duration: SECOND, rounds: 5, limit })
    }

    #[test]
    fn what_fits_is_measured_as_it_was_asked_for() {
        let plan = plan(100_000);
        assert_eq!((plan.duration, plan.rounds, plan.left_out.len()), (SECOND, 5, 0));
        let mut all = planned(4);
        all.sort_by_key(|planned| planned.case.rank);
        assert_eq!(plan.cases, all);
    }

    #[test]
    fn what_does_not_fit_is_shortened_then_measured_less_often_then_left_out_by_rank() {
        let [long, short, shorter] = [1800, 700, 300].map(plan);
        assert!((SHORTEST..SECOND).contains(&long.duration) && long.rounds == 5, "{:?}", long.duration);
        assert!(long.left_out.is_empty());
        assert_eq!((short.duration, short.rounds), (SHORTEST, ROUNDS_MIN), "{}", short.left_out.len());
        assert!(!shorter.left_out.is_empty());
        let worst_kept = shorter.cases.iter().map(|planned| planned.case.rank).max().unwrap();
        for case in planned(4).into_iter().map(|planned| planned.case) {
            assert!(case.rank >= worst_kept || !shorter.left_out.contains(&case.name), "{}", case.name);
        }
        for (plan, limit) in [(long, 1800), (short, 700), (shorter, 300)] {
            assert!(plan.estimated_from(0, 0) <= Duration::from_secs(limit), "{limit}");
        }
    }

    #[test]
    fn the_whole_suite_fits_into_half_an_hour() {
        let asked = RequestedPlan { duration: SECOND, rounds: 6, limit: Duration::from_mins(30) };
        let plan = Plan::new(planned(4), asked);
        assert_eq!(plan.left_out.len(), 0);
        // Fewer have no interval of 95 %.
        assert_eq!(plan.rounds, 6);
    }

    #[test]
    fn counted_requests_become_fewer_unless_they_are_few() {
        let plan = plan(1800);
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
        let asked = RequestedPlan { duration: SECOND, rounds: 2, limit: Duration::ZERO };
        let plan = Plan::new(planned(2), asked);
        assert_eq!((plan.cases.len(), plan.rounds), (1, 2));
        assert_eq!(plan.left_out.len(), planned(2).len() - 1);
    }

    #[test]
    fn what_is_heavy_is_not_shortened_below_a_second() {
        let plan = plan(650);
        let duration = |name: &str| {
            let planned = plan.cases.iter().find(|planned| planned.case.name == name);
            planned.map(|planned| plan.duration_of(&planned.case))
        };
        assert_eq!(duration("gateway 1 MB c=200"), Some(SECOND));
        assert_eq!(duration("connections held c=10000"), Some(SECOND));
        for crowded in ["connections busy c=10000", "gateway 2 B c=10000"] {
            assert_eq!(duration(crowded), Some(SECOND * 2), "{crowded}");
        }
        assert_eq!(duration("gateway 4 KB c=200"), Some(SHORTEST));
    }

    /// Ten thousand connections had a fifth of a second, in which slow servers answer less than half of them.
    #[test]
    fn many_connections_and_large_answers_are_warmed_up_for_longer() {
        let all = cases(Workload::all());
        let warm_up = |name: &str| all.iter().find(|case| case.name == name).map(Plan::warm_up_of);
        assert_eq!(warm_up("connections busy c=100"), Some(Plan::WARM_UP));
        assert_eq!(warm_up("connections busy c=10000"), Some(SECOND));
        assert_eq!(warm_up("gateway held c=10000"), Some(SECOND * 2));
        assert_eq!(warm_up("gateway 1 MB c=200"), Some(SECOND / 2));
        // Where connections are held, each is used: requests go to the one that has waited longest.
        for case in all.iter().filter(|case| case.holds_connections()) {
            let requests = case.rate.unwrap() * Plan::warm_up_of(case).as_secs_f64();
            assert!(requests >= f64::from(case.connections), "{}", case.name);
        }
    }

    #[test]
    fn the_time_left_becomes_less_with_every_cell() {
        let plan = plan(1500);
        let cells = plan.rounds * 4;
        let left: Vec<_> = (0..=cells).map(|cell| plan.estimated_from(0, cell)).collect();
        assert!(left.windows(2).all(|two| two[1] < two[0]));
        assert!(plan.estimated_from(1, 0) < left[cells]);
        assert_eq!(plan.estimated_from(plan.cases.len(), 0), Duration::ZERO);
    }
}
