//! Computes the planned start times of requests. This module does not wait, and does not send anything.

use std::time::Duration;

use thruway_net::Clock;

use crate::stop::Limit;

/// Distribution of requests over time.
#[derive(Clone, Copy, PartialEq, Debug)]
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
}

impl Pace {
    /// Returns a Poisson process with an average of `rate` requests per second. If `seed` is `None`,
    /// chooses a random seed of at most six digits, which is short enough to type.
    pub fn poisson(rate: f64, seed: Option<u64>) -> Self {
        let any_seed = || u64::from(Clock::system().now_exact().subsec_nanos()) % 1_000_000;
        Self::Poisson { rate, seed: seed.unwrap_or_else(any_seed) }
    }

    /// Returns the scheduled number of requests per second, or `None` for a closed loop.
    pub const fn rate(self) -> Option<f64> {
        match self {
            Self::Closed => None,
            Self::Constant { rate } | Self::Poisson { rate, .. } => Some(rate),
        }
    }

    /// Returns the approximate length of the time in which requests are scheduled, or `None` for a closed
    /// loop.
    #[expect(clippy::cast_precision_loss, reason = "exact to a nanosecond for months")]
    pub(crate) fn window(self, limit: Limit) -> Option<Duration> {
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
    pub const fn tried_again(self, try_number: u64) -> Self {
        match self {
            Self::Poisson { rate, seed } => {
                // The seeds of different tries are far apart, because worker number `i` of a load adds `i`
                // to the seed.
                let seed = seed.wrapping_add(try_number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                Self::Poisson { rate, seed }
            }
            other => other,
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
}

impl Schedule {
    /// Returns the schedule of one worker of a load that begins at `begin`. `worker` is the number of this
    /// worker, counted from 0, and `workers` is the number of all workers.
    pub fn new(pace: Pace, begin: Duration, worker: usize, workers: usize) -> Self {
        Self(match pace {
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
            StartTimes::Poisson { next, .. } => Some(*next),
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

    fn starts(pace: Pace, worker: usize, workers: usize, count: usize) -> Vec<Duration> {
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
        let mut all: Vec<_> = (0..3).flat_map(|worker| starts(pace, worker, 3, 1000)).collect();
        all.sort();
        for (place, at) in all.iter().enumerate() {
            assert_eq!(*at, Duration::from_secs(7) + Duration::from_millis(place as u64));
        }
    }

    #[test]
    fn arrival_times_repeat_for_the_same_attempt_and_differ_otherwise() {
        let pace = Pace::Poisson { rate: 1000.0, seed: 7 };
        let tried = |number| starts(pace.tried_again(number), 0, 2, 50);
        assert_eq!(tried(0), starts(pace, 0, 2, 50));
        assert_eq!(tried(3), tried(3));
        assert_ne!(tried(0), tried(1));
        // Another worker gets other start times.
        assert_ne!(starts(pace, 1, 2, 50), tried(1));
    }

    #[test]
    fn closed_loop_has_no_schedule() {
        assert_eq!(Schedule::new(Pace::Closed, Duration::ZERO, 0, 1).next(), None);
    }

    #[test]
    fn poisson_intervals_have_the_right_mean_and_deviation() {
        for workers in [1, 4] {
            let pace = Pace::Poisson { rate: 2000.0, seed: 42 };
            let mut all: Vec<_> =
                (0..workers).flat_map(|worker| starts(pace, worker, workers, 100_000 / workers)).collect();
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
