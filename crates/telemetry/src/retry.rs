//! Decides when a failed export is repeated. The caller passes the time, so tests need no real time.

use std::time::Duration;

/// The outcome of an attempt to export a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportOutcome {
    /// The collector has accepted the batch, except this number of spans or values.
    Accepted {
        /// Number of spans or values that the collector has rejected.
        rejected: u64,
    },
    /// The export can be repeated, because the collector is unavailable or overloaded.
    Unavailable {
        /// Delay that the collector has requested.
        retry_after: Option<Duration>,
    },
    /// The collector refuses the batch. The export must not be repeated.
    Refused,
}

/// The schedule of the attempts to export one batch.
#[derive(Clone, Copy, Debug)]
pub struct RetrySchedule {
    began: Duration,
    give_up_after: Duration,
    attempts: u32,
}

impl ExportOutcome {
    /// Returns the outcome for the status of an HTTP response without an error in its body. OTLP lists the
    /// statuses that permit a retry: 429, 502, 503 and 504.
    pub const fn of_http(status: u16, retry_after: Option<Duration>) -> Self {
        match status {
            200..=299 => Self::Accepted { rejected: 0 },
            429 | 502..=504 => Self::Unavailable { retry_after },
            _ => Self::Refused,
        }
    }

    /// Returns the outcome for the status of a gRPC response. OTLP lists the statuses that permit a retry.
    /// `RESOURCE_EXHAUSTED` permits a retry only if the server sends the time to wait.
    pub const fn of_grpc(status: u32, retry_after: Option<Duration>) -> Self {
        match status {
            0 => Self::Accepted { rejected: 0 },
            // CANCELLED, DEADLINE_EXCEEDED, ABORTED, OUT_OF_RANGE, UNAVAILABLE, DATA_LOSS
            1 | 4 | 10 | 11 | 14 | 15 => Self::Unavailable { retry_after },
            8 if retry_after.is_some() => Self::Unavailable { retry_after },
            _ => Self::Refused,
        }
    }
}

impl RetrySchedule {
    /// Default time after which a batch is given up, so that newer spans get their turn: two minutes.
    pub const GIVE_UP_AFTER: Duration = Duration::from_mins(2);

    /// Starts a schedule at the time `now`.
    pub const fn start(now: Duration) -> Self {
        Self::start_within(now, Self::GIVE_UP_AFTER)
    }

    /// Starts a schedule at the time `now`, which gives up the batch after the time `give_up_after`.
    pub const fn start_within(now: Duration, give_up_after: Duration) -> Self {
        Self { began: now, give_up_after, attempts: 0 }
    }

    /// Returns the time to wait after a failed attempt. `retry_after` is the time that the collector has sent. The
    /// caller waits at least one second in this case, because a collector may send 0. `jitter` is a random number
    /// from 0 to 1. Returns `None` if the batch must be given up.
    pub fn next_delay(
        &mut self,
        now: Duration,
        retry_after: Option<Duration>,
        jitter: f64,
    ) -> Option<Duration> {
        let backoff = FIRST_DELAY.saturating_mul(1 << self.attempts.min(16)).min(DELAY_MAX);
        self.attempts += 1;
        let delay = match retry_after {
            Some(retry_after) => retry_after.max(FIRST_DELAY),
            None => backoff.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0),
        };
        let end = now.saturating_sub(self.began).saturating_add(delay);
        (end <= self.give_up_after).then_some(delay)
    }
}

/// Delay before the first retry. The delay doubles with each retry.
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// Maximum delay without `Retry-After`.
const DELAY_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_maximum() {
        let mut schedule = RetrySchedule::start(Duration::ZERO);
        let delays = [(); 7].map(|()| schedule.next_delay(Duration::ZERO, None, 1.0).unwrap().as_secs());
        assert_eq!(delays, [1, 2, 4, 8, 16, 30, 30]);
        let mut schedule = RetrySchedule::start(Duration::ZERO);
        assert_eq!(schedule.next_delay(Duration::ZERO, None, 0.0), Some(Duration::from_millis(500)));
    }

    #[test]
    fn retry_after_replaces_the_delay() {
        let mut schedule = RetrySchedule::start(Duration::ZERO);
        let seven = Some(Duration::from_secs(7));
        assert_eq!(schedule.next_delay(Duration::ZERO, seven, 0.3), seven);
    }

    /// Regression test: the exporter sent a batch without pauses to a collector that responded `Retry-After: 0`.
    #[test]
    fn short_retry_after_causes_no_busy_loop() {
        let mut schedule = RetrySchedule::start(Duration::ZERO);
        for short in [Duration::ZERO, Duration::from_millis(1)] {
            assert_eq!(schedule.next_delay(Duration::ZERO, Some(short), 0.0), Some(Duration::from_secs(1)));
        }
    }

    #[test]
    fn batch_is_given_up_after_two_minutes() {
        let began = Duration::from_hours(1);
        let mut schedule = RetrySchedule::start(began);
        assert_eq!(schedule.next_delay(began, Some(Duration::from_secs(121)), 0.0), None);
        assert!(
            schedule
                .next_delay(began + Duration::from_secs(119), Some(Duration::from_secs(1)), 0.0)
                .is_some()
        );
        assert_eq!(schedule.next_delay(began + Duration::from_mins(2), None, 1.0), None);
        assert_eq!(schedule.next_delay(began, Some(Duration::MAX), 0.0), None);
    }

    #[test]
    fn batch_is_given_up_after_the_time_of_the_caller() {
        let mut schedule = RetrySchedule::start_within(Duration::ZERO, Duration::from_secs(10));
        let second = Some(Duration::from_secs(1));
        assert!(schedule.next_delay(Duration::from_secs(9), second, 0.0).is_some());
        assert_eq!(schedule.next_delay(Duration::from_millis(9_001), second, 0.0), None);
    }

    #[test]
    fn statuses_permit_retries_as_otlp_requires() {
        let retried = |outcome| matches!(outcome, ExportOutcome::Unavailable { .. });
        let http: Vec<_> =
            (100..600).filter(|status| retried(ExportOutcome::of_http(*status, None))).collect();
        assert_eq!(http, [429, 502, 503, 504]);
        let grpc: Vec<_> = (0..17).filter(|status| retried(ExportOutcome::of_grpc(*status, None))).collect();
        assert_eq!(grpc, [1, 4, 10, 11, 14, 15]);
        assert!(retried(ExportOutcome::of_grpc(8, Some(Duration::from_secs(1)))));
        assert_eq!(ExportOutcome::of_http(200, None), ExportOutcome::Accepted { rejected: 0 });
        assert_eq!(ExportOutcome::of_http(400, None), ExportOutcome::Refused);
    }
}
