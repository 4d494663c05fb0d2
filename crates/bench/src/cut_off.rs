//! Evaluates the requests that are still in progress when a closed loop ends. The load generator cuts these
//! requests off. If a server stalls one second before the end, the completed requests do not show the stall,
//! because the server answered them before the stall. Only the few requests without a response show it.

use std::time::Duration;

use crate::record::Record;
use crate::times::Times;

/// Statistics of the requests that were cut off, and the response times including these requests.
pub(crate) struct CutOff {
    /// Response times of the answered requests, plus the waiting times of some requests that were cut off.
    /// These requests waited longer than the 99th percentile of the answered requests.
    pub(crate) times: Times,
    /// In `times`, values from this time on are lower bounds: the real response times may have been longer.
    pub(crate) at_least_from: Duration,
    /// Waiting time of the oldest request that was cut off.
    pub(crate) longest: Duration,
    /// Number of requests that were cut off.
    count: u64,
}

impl CutOff {
    /// Evaluates the requests that were cut off. Returns `None` if these requests change the 99th percentile
    /// and the longest time by at most 5 %.
    pub(crate) fn of(record: &Record) -> Option<Self> {
        let answered = &record.service;
        let usual = answered.percentile(99.0);
        let mut times = answered.clone();
        let late = times.add_above(usual, &record.cut_off_waits)?;
        let is_other =
            exceeds(times.percentile(99.0), usual, 1.05) || exceeds(times.max(), answered.max(), 1.05);
        let (longest, count) = (record.cut_off_waits.max(), record.cut_off_waits.count());
        is_other.then_some(Self { times, at_least_from: late, longest, count })
    }

    /// Returns `true` if the server has probably stalled. The oldest request that was cut off must have
    /// waited at least 1/20 of the measured time, and at least [`STALL_MIN`]. The oldest request must also
    /// have waited more than twice as long as any answered request, or the requests that were cut off must
    /// more than double the 99th percentile.
    ///
    /// If there are too few responses for this comparison, the check uses `silence`, the time from the last
    /// response to the end. `silence` must be at least half of the measured time, at least [`STALL_MIN`],
    /// and more than twice as long as the slowest response.
    pub(crate) fn is_stall(&self, answered: &Times, measured: Duration, silence: Duration) -> bool {
        if answered.count() < self.count * USUAL_MIN {
            let is_known = answered.count() > 0;
            let is_long = silence >= (measured / 2).max(STALL_MIN);
            return is_known && is_long && exceeds(silence, answered.max(), 2.0);
        }
        let is_long = self.longest >= (measured / 20).max(STALL_MIN);
        let [p99, with_them] = [answered, &self.times].map(|times| times.percentile(99.0));
        is_long && (exceeds(self.longest, answered.max(), 2.0) || exceeds(with_them, p99, 2.0))
    }
}

fn exceeds(time: Duration, other: Duration, factor: f64) -> bool {
    time > other.mul_f64(factor)
}

/// Shortest waiting time that counts as a stall. The machine itself may cause shorter pauses.
const STALL_MIN: Duration = Duration::from_millis(500);

/// Minimum number of responses for each request that was cut off. With fewer responses, the usual response
/// time is unknown.
const USUAL_MIN: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    /// Returns a record of a thousand responses of one millisecond each, some slower ones, and some requests
    /// that were cut off.
    fn record(slow: &[Duration], cut_off: &[Duration]) -> Record {
        let mut record = Record::new();
        (0..1000).for_each(|_| record.service.record(MILLISECOND));
        for time in slow {
            record.service.record(*time);
        }
        for time in cut_off {
            record.cut_off_waits.record(*time);
        }
        record
    }

    fn is_stall(record: &Record) -> Option<bool> {
        CutOff::of(record).map(|cut_off| cut_off.is_stall(&record.service, 10 * SECOND, Duration::ZERO))
    }

    #[test]
    fn stall_at_the_end_of_a_load_shows_in_the_times() {
        let stalled = record(&[], &[SECOND; 4]);
        let cut_off = CutOff::of(&stalled).unwrap();
        assert!(cut_off.is_stall(&stalled.service, 10 * SECOND, SECOND));
        assert!(cut_off.times.max() >= SECOND && cut_off.times.count() == 1004);
        assert!(cut_off.at_least_from <= cut_off.times.max() && cut_off.at_least_from > 900 * MILLISECOND);
        // A slow first request hides the stall from the maximum, but not from the percentiles.
        assert_eq!(is_stall(&record(&[2 * SECOND], &[SECOND; 40])), Some(true));
    }

    #[test]
    fn ordinary_in_flight_requests_are_no_stall() {
        assert_eq!(is_stall(&record(&[], &[MILLISECOND / 2; 16])), None);
        assert_eq!(is_stall(&record(&[], &[])), None);
        // Two of a thousand requests take a second, so most connections wait for such a request at any time.
        assert_eq!(is_stall(&record(&[SECOND; 2], &[SECOND / 2; 8])), None);
        // A little longer than any other response, but not much.
        assert_eq!(is_stall(&record(&[], &[20 * MILLISECOND])), Some(false));
        assert_eq!(is_stall(&record(&[SECOND], &[SECOND + SECOND / 2])), Some(false));
    }

    #[test]
    fn server_that_never_responded_has_times() {
        let mut record = Record::new();
        record.cut_off_waits.record(SECOND);
        let cut_off = CutOff::of(&record).unwrap();
        assert!(cut_off.times.max() >= SECOND && cut_off.times.count() == 1);
        // A server has not stalled if it still answers each connection from time to time.
        assert!(!cut_off.is_stall(&record.service, SECOND, SECOND));
    }

    /// Regression test: a server answered a hundred requests on 16 connections, and then none for ten
    /// seconds. It was considered slow rather than stalled.
    #[test]
    fn silence_far_longer_than_any_response_is_a_stall() {
        let is_stall = |answered: u32, each: Duration, silence: Duration| {
            let mut record = Record::new();
            (0..answered).for_each(|_| record.service.record(each));
            (0..16).for_each(|_| record.cut_off_waits.record(silence.max(MILLISECOND)));
            CutOff::of(&record).map(|cut_off| cut_off.is_stall(&record.service, 10 * SECOND, silence))
        };
        assert_eq!(is_stall(100, MILLISECOND, 9 * SECOND), Some(true));
        assert_eq!(is_stall(1, MILLISECOND, 5 * SECOND), Some(true));
        // With responses this slow, the next one may be on its way.
        assert_eq!(is_stall(16, 3 * SECOND, 5 * SECOND), Some(false));
        assert_eq!(is_stall(100, MILLISECOND, 4 * SECOND), Some(false));
        // In a short load, the machine may have caused the stall.
        let mut short = record(&[], &[400 * MILLISECOND; 200]);
        short.service = Times::exact();
        short.service.record(MILLISECOND);
        let stalls = |short: &Record| {
            CutOff::of(short).map(|cut_off| cut_off.is_stall(&short.service, SECOND / 2, 400 * MILLISECOND))
        };
        assert_eq!(stalls(&short), Some(false));
    }
}
