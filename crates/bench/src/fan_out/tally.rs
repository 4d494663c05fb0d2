//! Counts the results of publications. The caller passes the current time.

use std::time::Duration;

use crate::failure::Failure;
use crate::over_time::OverTime;
use crate::record::{Interval, Record};

/// Counters for the publications of a load. The publications run one after the other.
pub(super) struct Tally {
    pub(super) record: Record,
    measured_from: Duration,
    length: Duration,
    over_time: OverTime,
    current: Interval,
    failures_in_a_row: u32,
}

impl Tally {
    /// Creates empty counters. The measured time begins at `measured_from`, and consists of intervals of
    /// the duration `length`.
    pub(super) fn new(measured_from: Duration, length: Duration) -> Self {
        Self {
            record: Record::new(),
            measured_from,
            length,
            over_time: OverTime::new(length),
            current: Interval::new(0),
            failures_in_a_row: 0,
        }
    }

    /// Counts a publication that started at `started` and ended at `now`. `outcome` is the duration of the
    /// complete publication, or the reason why it failed.
    pub(super) fn count(&mut self, started: Duration, now: Duration, outcome: Result<Duration, &Failure>) {
        let at = started.saturating_sub(self.measured_from);
        self.turn_to(u64::try_from(at.as_nanos() / self.length.as_nanos().max(1)).unwrap_or(u64::MAX));
        self.record.last_end = now;
        match outcome {
            Ok(time) => {
                self.failures_in_a_row = 0;
                self.record.answered += 1;
                self.record.last_answer = now;
                self.current.answered += 1;
                self.take(time);
            }
            Err(failure) => {
                self.failures_in_a_row += 1;
                self.record.is_given_up = self.failures_in_a_row >= FAILURES_MAX;
                self.record.fail(failure);
                self.current.failed += 1;
                if failure.kind.counts_as_waited() {
                    self.take(now.saturating_sub(started));
                }
            }
        }
    }

    /// Returns all counters.
    pub(super) fn conclude(mut self) -> (Record, OverTime) {
        self.over_time.add(&self.current);
        (self.record, self.over_time)
    }

    fn take(&mut self, time: Duration) {
        self.record.service.record(time);
        self.record.response.record(time);
        self.current.response.record(time);
    }

    fn turn_to(&mut self, index: u64) {
        if index != self.current.index {
            self.over_time.add(&self.current);
            self.current = Interval::new(index);
        }
    }
}

/// Number of consecutive failed publications that end the load.
const FAILURES_MAX: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;

    const SECOND: Duration = Duration::from_secs(1);

    /// Regression test: a report has at most 128 parts, so the parts of a long load get longer. The position
    /// of a publication was divided by the length of a part twice.
    #[test]
    fn publications_of_a_long_load_are_counted_in_the_right_interval() {
        let mut tally = Tally::new(SECOND, SECOND);
        for second in 1..=1000 {
            tally.count(SECOND * second, SECOND * second, Ok(Duration::from_millis(2)));
        }
        let (record, over_time) = tally.conclude();
        let parts: Vec<_> = over_time.parts().map(|(at, part)| (at, part.answered)).collect();
        assert_eq!(record.answered, 1000);
        assert_eq!((over_time.part_length(), parts.len()), (SECOND * 8, 125));
        assert!(
            parts.iter().enumerate().all(|(i, part)| *part == (SECOND * 8 * u32::try_from(i).unwrap(), 8))
        );
    }

    /// Regression test: timeouts were not counted as times, so a load with missing notifications looked as
    /// fast as before.
    #[test]
    fn timeouts_count_as_times_and_other_failures_do_not() {
        let mut tally = Tally::new(Duration::ZERO, SECOND);
        tally.count(SECOND, SECOND * 6, Err(&Failure::of(FailureKind::TimedOut)));
        tally.count(SECOND * 6, SECOND * 7, Err(&Failure::of(FailureKind::ToolError)));
        assert!(!tally.record.is_given_up);
        tally.count(SECOND * 7, SECOND * 8, Err(&Failure::of(FailureKind::ToolError)));
        assert!(tally.record.is_given_up);
        let (record, over_time) = tally.conclude();
        assert_eq!((record.service.count(), record.response.count(), record.failed()), (1, 1, 3));
        assert!(record.service.max() >= SECOND * 5);
        assert_eq!(record.last_end, SECOND * 8);
        assert_eq!(over_time.parts().map(|(_, part)| part.failed).sum::<u64>(), 3);
    }
}
