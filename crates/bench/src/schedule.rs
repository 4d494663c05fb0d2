//! Computes the planned start times of requests. This module does not wait, and does not send anything.

use std::sync::Arc;
use std::time::Duration;

use thruway_net::Clock;

use crate::stages::{StageUnit, Stages};
use crate::stop::Limit;

/// Distribution of requests over time.
#[derive(Clone, PartialEq, Debug)]
pub enum Pace {
    /// A closed loop: each connection sends its next request when it has received the previous response.
    Closed,
    /// An open loop: requests start at equal intervals, even if earlier requests have no response yet.
    Constant {
        /// Requests per second of all workers together; more than 0.
        rate: f64,
    },
    /// An open loop in which requests start at random times (a Poisson process), as if many independent
    /// clients sent the requests.
    Poisson {
        /// Average number of requests per second of all workers together; more than 0.
        rate: f64,
        /// Seed of the random intervals: the same seed gives the same intervals.
        seed: u64,
    },
    /// A load that changes over time. The targets of the stages are rates (an open loop) or connections (a
    /// closed loop).
    Stages {
        /// The stages.
        stages: Arc<Stages>,
        /// If set, requests start at random times (a Poisson process) with this seed. Only for rates.
        seed: Option<u64>,
    },
}

impl Pace {
    /// Returns a Poisson process with an average of `rate` requests per second. If `seed` is `None`,
    /// chooses a random seed of at most six digits, which is short enough to type.
    pub fn poisson(rate: f64, seed: Option<u64>) -> Self {
        Self::Poisson { rate, seed: seed.unwrap_or_else(Self::random_seed) }
    }

    /// Returns a random seed of at most six digits.
    pub fn random_seed() -> u64 {
        u64::from(Clock::system().now_exact().subsec_nanos()) % 1_000_000
    }

    /// Returns the scheduled number of requests per second, or `None` for a closed loop. For stages, this is
    /// the average.
    pub fn rate(&self) -> Option<f64> {
        match self {
            Self::Closed => None,
            Self::Constant { rate } | Self::Poisson { rate, .. } => Some(*rate),
            Self::Stages { stages, .. } => stages.average_rate(),
        }
    }

    /// Returns `true` for an open loop.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Closed => false,
            Self::Constant { .. } | Self::Poisson { .. } => true,
            Self::Stages { stages, .. } => stages.unit() == StageUnit::RequestsPerSecond,
        }
    }

    /// Returns the stages, if there are any.
    pub fn stages(&self) -> Option<&Arc<Stages>> {
        if let Self::Stages { stages, .. } = self { Some(stages) } else { None }
    }

    /// Returns the approximate length of the time in which requests are scheduled, or `None` for a closed
    /// loop.
    #[expect(clippy::cast_precision_loss, reason = "exact to a nanosecond for months")]
    pub(crate) fn window(&self, limit: Limit) -> Option<Duration> {
        let rate = self.rate()?;
        Some(match limit {
            Limit::Duration(duration) => duration,
            // The load cannot last longer than `Duration::MAX`.
            Limit::Requests(requests) => {
                Duration::try_from_secs_f64(requests as f64 / rate).unwrap_or(Duration::MAX)
            }
        })
    }

    /// Returns the same pace with another seed for each `try_number`. A pace without a seed stays the same.
    #[must_use]
    pub fn tried_again(&self, try_number: u64) -> Self {
        // The seeds of different tries are far apart, because worker number `i` of a load adds `i` to the
        // seed.
        let other = |seed: &u64| seed.wrapping_add(try_number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        match self {
            Self::Poisson { rate, seed } => Self::Poisson { rate: *rate, seed: other(seed) },
            Self::Stages { stages, seed } => {
                Self::Stages { stages: stages.clone(), seed: seed.as_ref().map(other) }
            }
            same => same.clone(),
        }
    }
}

/// The planned start times of one worker's requests.
#[derive(Debug)]
pub struct Schedule(StartTimes);

#[derive(Debug)]
enum StartTimes {
    Closed,
    Constant {
        begin: Duration,
        rate: f64,
        /// Number of the next request among the requests of all workers, counted from 0.
        place: u64,
        step: u64,
    },
    Poisson {
        next: Duration,
        rate: f64,
        random: fastrand::Rng,
    },
    Stages {
        begin: Duration,
        stages: Arc<Stages>,
        /// Number of the next request among the requests of all workers. In a Poisson process, the distances
        /// between these numbers are random.
        place: f64,
        step: f64,
        random: Option<fastrand::Rng>,
        next: Duration,
    },
}

impl Schedule {
    /// Returns the schedule of one worker of a load that begins at `begin`. `worker` is the number of this
    /// worker, counted from 0, and `workers` is the number of all workers.
    pub fn new(pace: &Pace, begin: Duration, worker: usize, workers: usize) -> Self {
        Self(match pace.clone() {
            Pace::Closed => StartTimes::Closed,
            Pace::Constant { rate } => {
                StartTimes::Constant { begin, rate, place: worker as u64, step: workers as u64 }
            }
            Pace::Poisson { rate, seed } => {
                let random = fastrand::Rng::with_seed(seed.wrapping_add(worker as u64));
                #[expect(clippy::cast_precision_loss, reason = "workers are few")]
                let mut starts = StartTimes::Poisson { next: begin, rate: rate / workers as f64, random };
                starts.advance();
                starts
            }
            Pace::Stages { ref stages, .. } if stages.unit() == StageUnit::Connections => StartTimes::Closed,
            #[expect(clippy::cast_precision_loss, reason = "workers are few")]
            Pace::Stages { stages, seed } => {
                let random = seed.map(|seed| fastrand::Rng::with_seed(seed.wrapping_add(worker as u64)));
                let first = if random.is_some() { 0.0 } else { worker as f64 };
                let (step, next) = (workers as f64, begin + stages.start_of_request(first));
                let mut starts = StartTimes::Stages { begin, stages, place: first, step, random, next };
                if seed.is_some() {
                    starts.advance();
                }
                starts
            }
        })
    }

    /// Returns the planned start of the next request. Returns `None` in a closed loop, where each response
    /// starts the next request.
    #[inline]
    pub fn next(&self) -> Option<Duration> {
        match &self.0 {
            StartTimes::Closed => None,
            #[expect(clippy::cast_precision_loss, reason = "exact to a nanosecond for months")]
            StartTimes::Constant { begin, rate, place, .. } => {
                Some(*begin + Duration::from_secs_f64(*place as f64 / rate))
            }
            StartTimes::Poisson { next, .. } | StartTimes::Stages { next, .. } => Some(*next),
        }
    }

    /// Removes the next request from the schedule, because the caller has started this request or has given
    /// it up.
    #[inline]
    pub fn advance(&mut self) {
        self.0.advance();
    }
}

impl StartTimes {
    fn advance(&mut self) {
        match self {
            Self::Closed => {}
            Self::Constant { place, step, .. } => *place += *step,
            Self::Stages { begin, stages, place, step, random, next } => {
                // The argument of the logarithm is never 0: see below.
                let distance = random.as_mut().map_or(1.0, |random| -(1.0 - random.f64()).ln());
                *place += distance * *step;
                *next = *begin + stages.start_of_request(*place);
            }
            Self::Poisson { next, rate, random } => {
                // The argument of the logarithm is never 0, because the random number is less than 1. The
                // logarithm of 0 would give an infinite interval.
                *next += Duration::from_secs_f64(-(1.0 - random.f64()).ln() / *rate);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(pace: &Pace, worker: usize, workers: usize, count: usize) -> Vec<Duration> {
        let mut schedule = Schedule::new(pace, Duration::from_secs(7), worker, workers);
        let next = || {
            let at = schedule.next().unwrap();
            schedule.advance();
            at
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    #[test]
    fn workers_share_a_constant_rate_evenly() {
        let pace = Pace::Constant { rate: 1000.0 };
        let mut all: Vec<_> = (0..3).flat_map(|worker| starts(&pace, worker, 3, 1000)).collect();
        all.sort();
        for (place, at) in all.iter().enumerate() {
            assert_eq!(*at, Duration::from_secs(7) + Duration::from_millis(place as u64));
        }
    }

    #[test]
    fn arrival_times_repeat_for_the_same_attempt_and_differ_otherwise() {
        let pace = Pace::Poisson { rate: 1000.0, seed: 7 };
        let tried = |number| starts(&pace.tried_again(number), 0, 2, 50);
        assert_eq!(tried(0), starts(&pace, 0, 2, 50));
        assert_eq!(tried(3), tried(3));
        assert_ne!(tried(0), tried(1));
        // Another worker gets other start times.
        assert_ne!(starts(&pace, 1, 2, 50), tried(1));
    }

    #[test]
    fn stages_give_all_workers_together_the_requests_of_the_ramp() {
        let stages = Arc::new("1s:1000,1s:1000".parse::<Stages>().unwrap());
        for (seed, most) in [(None, 2), (Some(3), 150)] {
            let pace = Pace::Stages { stages: stages.clone(), seed };
            assert!((pace.rate().unwrap() - 750.0).abs() < 1e-9 && pace.is_open());
            let mut all: Vec<_> = (0..3).flat_map(|worker| starts(&pace, worker, 3, 1000)).collect();
            all.sort();
            let end = Duration::from_secs(7) + stages.duration();
            let first = all.iter().filter(|at| **at < Duration::from_secs(8)).count();
            let both = all.iter().filter(|at| **at < end).count();
            assert!(first.abs_diff(500) <= most && both.abs_diff(1500) <= most, "{first}, {both}");
        }
    }

    #[test]
    fn closed_loop_has_no_schedule() {
        assert_eq!(Schedule::new(&Pace::Closed, Duration::ZERO, 0, 1).next(), None);
    }

    #[test]
    fn poisson_intervals_have_the_right_mean_and_deviation() {
        for workers in [1, 4] {
            let pace = Pace::Poisson { rate: 2000.0, seed: 42 };
            let mut all: Vec<_> =
                (0..workers).flat_map(|worker| starts(&pace, worker, workers, 100_000 / workers)).collect();
            all.sort();
            // After the end of the slowest worker, the sum is no longer a Poisson process.
            all.truncate(90_000);
            let distances: Vec<f64> =
                all.windows(2).map(|two| two[1].abs_diff(two[0]).as_secs_f64()).collect();
            let count = 89_999.0;
            let mean = distances.iter().sum::<f64>() / count;
            let deviation =
                (distances.iter().map(|distance| (distance - mean).powi(2)).sum::<f64>() / count).sqrt();
            assert!((mean * 2000.0 - 1.0).abs() < 0.01, "{mean}");
            assert!((deviation / mean - 1.0).abs() < 0.02, "{deviation}");
        }
    }
}
