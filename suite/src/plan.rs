//! Fits the cases into the time limit: first shortens all measurements, then runs fewer rounds, and then
//! skips the least important cases.

use std::time::Duration;

use crate::case::{Case, ComparisonKind, LoadCondition, Request};

/// A case that will be measured.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PlannedCase {
    /// The case, which may have fewer requests than in `cases.toml`.
    pub(crate) case: Case,
    /// Number of candidates.
    pub(crate) candidates: usize,
}

/// The cases to measure.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Plan {
    /// Duration of each measurement.
    pub(crate) duration: Duration,
    /// Number of rounds of each case.
    pub(crate) rounds: usize,
    /// The planned cases in order. The main cases come first, because the run may take longer than expected.
    pub(crate) cases: Vec<PlannedCase>,
    /// Names of the cases that do not fit into the time limit.
    pub(crate) left_out: Vec<String>,
}

impl Plan {
    /// Warm-up of cases with few connections.
    pub(crate) const WARM_UP: Duration = Duration::from_millis(200);

    /// Plans as many of `cases` as fit into `limit`. Each measurement takes at most `duration`, unless the
    /// case needs longer measurements, and each case has at most `rounds` rounds.
    pub(crate) fn new(
        mut cases: Vec<PlannedCase>,
        duration: Duration,
        rounds: usize,
        limit: Duration,
    ) -> Self {
        cases.sort_by_key(|planned| planned.case.rank);
        let mut plan = Self { duration, rounds, cases, left_out: Vec::new() };
        while plan.estimated() > limit && plan.is_reduced(duration) {}
        plan
    }

    /// Returns the warm-up of `case`. The warm-up starts when all connections are open. It is long enough for
    /// a response on each connection, even from slow servers.
    pub(crate) fn warm_up_of(case: &Case) -> Duration {
        match case {
            // No warm-up, because the server counts all requests.
            _ if case.is_counted() => Duration::ZERO,
            // In two seconds, the constant rate of these cases uses each connection once.
            _ if case.holds_connections() => SECOND * 2,
            _ if case.is_crowded() => SECOND,
            _ if is_heavy(case) => SECOND / 2,
            _ => Self::WARM_UP,
        }
    }

    /// Returns the duration of each measurement of `case`. It has no effect on cases with a number of
    /// requests.
    pub(crate) fn duration_of(&self, case: &Case) -> Duration {
        match case {
            // This duration is enough for about a dozen requests on each connection.
            _ if case.is_crowded() && !case.holds_connections() => self.duration.max(SECOND * 2),
            _ if case.is_crowded() || needs_a_second(case) => self.duration.max(SECOND),
            _ => self.duration.max(Duration::from_millis(case.at_least_ms)),
        }
    }

    fn estimated(&self) -> Duration {
        let of = |PlannedCase { case, candidates }: &PlannedCase| {
            let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            let measured = match case.requests {
                None => self.duration_of(case),
                Some(_) => Duration::from_millis(case.about_ms),
            };
            let each = Self::warm_up_of(case) + measured + PAUSE;
            START * count(1 + candidates) + each * count(candidates * self.rounds)
        };
        self.cases.iter().map(of).sum()
    }

    /// Makes the plan shorter by one step. Returns `false` if this is impossible.
    fn is_reduced(&mut self, wanted: Duration) -> bool {
        let shortest = SHORTEST.min(wanted);
        if self.duration > shortest {
            self.duration = (self.duration * 9 / 10).max(shortest);
            for planned in &mut self.cases {
                shorten(&mut planned.case);
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

/// Removes a tenth of the requests, unless the load is already short.
fn shorten(case: &mut Case) {
    if u128::from(case.about_ms) > SHORTEST.as_millis() {
        case.requests = case.requests.map(|requests| requests * 9 / 10);
        case.about_ms = case.about_ms * 9 / 10;
    }
}

/// Returns `true` if a case needs a duration of at least a second. Some load generators count in whole
/// seconds. With much data in flight, the first responses take long. Cases with reloads need time for several
/// reloads.
fn needs_a_second(case: &Case) -> bool {
    let counts_seconds = matches!(case.between, ComparisonKind::Generators | ComparisonKind::Clients);
    is_heavy(case) || counts_seconds || case.circumstance == LoadCondition::Reloads
}

fn is_heavy(case: &Case) -> bool {
    matches!(case.request, Request::Get(_, bytes) if bytes * u64::from(case.connections) > HEAVY_BYTES)
}

const SECOND: Duration = Duration::from_secs(1);

/// Minimum duration. In shorter measurements, the start has too much weight.
const SHORTEST: Duration = Duration::from_millis(250);

/// Minimum number of rounds. With fewer rounds, an interval has no meaning.
const ROUNDS_MIN: usize = 3;

const HEAVY_BYTES: u64 = 40 << 20;

/// Time to start and end a server.
const START: Duration = Duration::from_millis(250);

/// Time to start a load and to detect its end.
const PAUSE: Duration = Duration::from_millis(150);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{CASES, Peers, Workload};

    /// Returns all published cases, with four candidates unless the case names its peers.
    fn planned() -> Vec<PlannedCase> {
        let count = |case: &Case| match &case.peers {
            Peers::All => 4,
            Peers::AllAnd(named) => 4 + named.len(),
            Peers::Only(named) => 1 + named.len().min(4),
            // Two Thruway candidates.
            Peers::None => 2,
        };
        let all = CASES.iter().filter(|case| Workload::published().contains(&case.workload));
        all.map(|case| PlannedCase { candidates: count(case), case: case.clone() }).collect()
    }

    fn plan(limit: u64) -> Plan {
        Plan::new(planned(), SECOND, 6, Duration::from_secs(limit))
    }

    fn planned_case<'a>(plan: &'a Plan, name: &str) -> &'a Case {
        &plan.cases.iter().find(|planned| planned.case.name == name).unwrap().case
    }

    #[test]
    fn plan_shortens_cases_then_rounds_then_skips_by_rank() {
        let all = plan(100_000);
        assert_eq!((all.duration, all.rounds, all.cases.len()), (SECOND, 6, planned().len()));
        // With fewer than 6 rounds there is no 95 % interval. With 6 rounds, the whole suite fits into half
        // an hour.
        let [long, short, shorter] = [1800, 700, 300].map(plan);
        assert!((SHORTEST..SECOND).contains(&long.duration) && long.rounds == 6, "{:?}", long.duration);
        assert!(long.left_out.is_empty());
        assert_eq!((short.duration, short.rounds), (SHORTEST, ROUNDS_MIN), "{}", short.left_out.len());
        assert!(!shorter.left_out.is_empty());
        let worst_kept = shorter.cases.iter().map(|planned| planned.case.rank).max().unwrap();
        for case in planned().into_iter().map(|planned| planned.case) {
            assert!(case.rank >= worst_kept || !shorter.left_out.contains(&case.name), "{}", case.name);
        }
        for (plan, limit) in [(long, 1800), (short, 700), (shorter, 300)] {
            assert!(plan.estimated() <= Duration::from_secs(limit), "{limit}");
        }
        let least = Plan::new(planned(), SECOND, 2, Duration::ZERO);
        assert_eq!((least.cases.len(), least.rounds), (1, 2));
        assert_eq!(least.left_out.len(), planned().len() - 1);
    }

    #[test]
    fn request_counts_shrink_and_heavy_cases_keep_one_second() {
        let (long, short) = (plan(1800), plan(650));
        let requests = planned_case(&long, "keep-alive without -k").requests.unwrap();
        assert!((11_000..50_000).contains(&requests), "{requests}");
        assert_eq!(planned_case(&long, "stdio tools/call echo, 1000 requests").requests, Some(1000));
        for (name, duration) in [
            ("gateway 1 MB c=200", SECOND),
            ("connections held c=10000", SECOND),
            ("connections busy c=10000", SECOND * 2),
            ("gateway 2 B c=10000", SECOND * 2),
            ("gateway 4 KB c=200", SHORTEST),
        ] {
            assert_eq!(short.duration_of(planned_case(&short, name)), duration, "{name}");
        }
    }

    #[test]
    fn a_case_with_a_minimum_duration_ignores_a_shorter_duration() {
        let cases = CASES.iter().filter(|case| case.name == "federation call c=16");
        let cases = cases.map(|case| PlannedCase { candidates: 6, case: case.clone() }).collect();
        let plan = Plan::new(cases, SHORTEST, 6, SECOND * 1000);
        assert_eq!(plan.duration_of(planned_case(&plan, "federation call c=16")), SECOND * 4);
    }

    /// Cases with ten thousand connections once had a warm-up of 0.2 s. In this time, slow servers responded
    /// on fewer than half of the connections.
    #[test]
    fn many_connections_and_large_responses_need_longer_warm_up() {
        let plan = plan(100_000);
        for (name, warm_up) in [
            ("connections busy c=100", Plan::WARM_UP),
            ("connections busy c=10000", SECOND),
            ("gateway held c=10000", SECOND * 2),
            ("gateway 1 MB c=200", SECOND / 2),
        ] {
            assert_eq!(Plan::warm_up_of(planned_case(&plan, name)), warm_up, "{name}");
        }
        // In cases with held connections, the warm-up must use each connection. Each request goes to the
        // connection that has waited longest.
        for case in CASES.iter().filter(|case| case.holds_connections()) {
            let requests = case.rate.unwrap() * Plan::warm_up_of(case).as_secs_f64();
            assert!(requests >= f64::from(case.connections), "{}", case.name);
        }
    }
}
