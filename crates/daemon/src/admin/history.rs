//! History of the service: one sample for each second of the last 24 hours, in fixed memory.
//!
//! ```text
//! Sampler ─▶ History::add ─▶ ring of samples ─▶ History::columns ─▶ JSON for /history and /events
//! ```

use std::time::Duration;

use serde::Serialize;

/// The measurements of one second.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Sample {
    /// Requests in this second.
    pub(super) requests: u32,
    /// Requests that ended with a 5xx status.
    pub(super) errors: u32,
    /// Median duration of the requests. `None` if there were no requests.
    pub(super) p50: Option<Duration>,
    /// Duration that 99 % of the requests did not exceed.
    pub(super) p99: Option<Duration>,
    /// Open client connections.
    pub(super) connections: u32,
    /// CPU time of the process in this second. More than 1,000 ms if several cores were busy.
    pub(super) cpu_ms: u32,
    /// Memory of the process (resident set), in KiB.
    pub(super) memory_kib: u32,
}

/// A ring with one slot for each second. The slot of a second also stores the second, so that a second
/// without a sample is a gap, not a sample of the day before.
#[derive(Debug)]
pub(super) struct History {
    slots: Box<[Slot]>,
    newest: Option<u64>,
}

/// The second plus 1, or 0 for an empty slot, and then the fields of the sample. All values of an empty slot
/// are 0, so the system provides memory only for used slots.
type Slot = [u32; 8];

/// A part of the history, as columns. All columns have the same length.
#[derive(Serialize, PartialEq, Debug)]
pub(super) struct Columns {
    /// Start of the first step, in seconds since 1970.
    start: u64,
    /// Length of a step. A value of a column describes one step.
    step_seconds: u64,
    /// Mean number of requests per second. `null` in a step without samples, as in all columns.
    requests: Vec<Option<f64>>,
    /// Mean number of requests per second that ended with a 5xx status.
    errors: Vec<Option<f64>>,
    /// Median duration in microseconds: the mean of the samples, weighted by their requests. `null` if there
    /// were no requests.
    p50_us: Vec<Option<u64>>,
    /// 99th percentile in microseconds: the maximum of the samples.
    p99_us: Vec<Option<u64>>,
    /// Maximum number of open client connections.
    connections: Vec<Option<u32>>,
    /// Mean CPU time of the process, in percent of one core.
    cpu_percent: Vec<Option<f64>>,
    /// Maximum memory of the process (resident set), in bytes.
    memory_bytes: Vec<Option<u64>>,
}

/// The seconds that [`History::columns`] returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    /// First second, on the clock of the history.
    pub(super) from: u64,
    /// Number of steps before this second. The clock had not started yet.
    pub(super) unknown: u64,
    /// Number of steps.
    pub(super) steps: u64,
    pub(super) step_seconds: u64,
}

impl History {
    /// Number of seconds in the history: 24 hours.
    pub(super) const SECONDS: u64 = 24 * 60 * 60;

    /// Size of the history in memory.
    #[expect(clippy::cast_possible_truncation, reason = "the number of seconds is small")]
    const BYTES: usize = Self::SECONDS as usize * size_of::<Slot>();

    pub(super) fn new() -> Self {
        let slots = vec![[0; 8]; Self::BYTES / size_of::<Slot>()];
        Self { slots: slots.into_boxed_slice(), newest: None }
    }

    /// Stores the sample of `second`, which replaces the sample of the same second one day before.
    pub(super) fn add(&mut self, second: u64, sample: &Sample) {
        let place = Self::place(second);
        self.slots[place] = sample.to_slot(second);
        self.newest = self.newest.max(Some(second));
    }

    /// Returns the second of the newest sample.
    pub(super) const fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// Returns the last `seconds` up to the newest sample, in steps of `step_seconds`. Returns at most 24
    /// hours, and at least one step.
    pub(super) fn range(&self, seconds: u64, step_seconds: u64) -> Range {
        let step_seconds = step_seconds.clamp(1, Self::SECONDS);
        let steps = (seconds.min(Self::SECONDS) / step_seconds).max(1);
        let end = self.newest.map_or(0, |newest| newest + 1);
        // Steps begin at multiples of their length, so that a step has the same samples in each answer.
        let end = end.div_ceil(step_seconds) * step_seconds;
        let from = end.saturating_sub(steps * step_seconds);
        let known = (end - from) / step_seconds;
        Range { from, unknown: steps - known, steps: known, step_seconds }
    }

    /// Returns the samples after the second `last`, but at most the last `steps_max`.
    pub(super) fn range_after(&self, last: Option<u64>, steps_max: u64) -> Range {
        let newest = self.newest.map_or(0, |newest| newest + 1);
        let from = last.map_or(0, |last| last + 1).max(newest.saturating_sub(steps_max));
        Range { from, unknown: 0, steps: newest.saturating_sub(from), step_seconds: 1 }
    }

    /// Returns the samples of `range`. `epoch` is the time of the second 0, in seconds since 1970.
    pub(super) fn columns(&self, range: Range, epoch: u64) -> Columns {
        let start = (epoch + range.from).saturating_sub(range.unknown * range.step_seconds);
        let mut columns = Columns::new(start, range.step_seconds);
        (0..range.unknown).for_each(|_| columns.push(&[]));
        for step in 0..range.steps {
            let from = range.from + step * range.step_seconds;
            let samples = (from..from + range.step_seconds).filter_map(|second| self.sample(second));
            columns.push(&samples.collect::<Vec<_>>());
        }
        columns
    }

    fn sample(&self, second: u64) -> Option<Sample> {
        Sample::of_slot(&self.slots[Self::place(second)], second)
    }

    const fn place(second: u64) -> usize {
        (second % Self::SECONDS) as usize
    }
}

const _: () = assert!(History::BYTES <= 8 << 20, "the history needs at most 8 MiB");

impl Sample {
    fn to_slot(self, second: u64) -> Slot {
        [
            stamp(second),
            self.requests,
            self.errors,
            microseconds(self.p50),
            microseconds(self.p99),
            self.connections,
            self.cpu_ms,
            self.memory_kib,
        ]
    }

    fn of_slot(slot: &Slot, second: u64) -> Option<Self> {
        let [at, requests, errors, p50, p99, connections, cpu_ms, memory_kib] = *slot;
        let duration = |us| (us != NO_DURATION).then(|| Duration::from_micros(u64::from(us)));
        let (p50, p99) = (duration(p50), duration(p99));
        (at == stamp(second)).then_some(Self { requests, errors, p50, p99, connections, cpu_ms, memory_kib })
    }
}

/// Returns the mark of `second` in a slot. 0 marks an empty slot.
#[expect(clippy::cast_possible_truncation, reason = "a clock with 32 bits wraps after 136 years")]
const fn stamp(second: u64) -> u32 {
    (second as u32).wrapping_add(1)
}

fn microseconds(duration: Option<Duration>) -> u32 {
    let longest = NO_DURATION - 1;
    duration
        .map_or(NO_DURATION, |duration| u32::try_from(duration.as_micros()).unwrap_or(longest).min(longest))
}

const NO_DURATION: u32 = u32::MAX;

impl Columns {
    const fn new(start: u64, step_seconds: u64) -> Self {
        Self {
            start,
            step_seconds,
            requests: Vec::new(),
            errors: Vec::new(),
            p50_us: Vec::new(),
            p99_us: Vec::new(),
            connections: Vec::new(),
            cpu_percent: Vec::new(),
            memory_bytes: Vec::new(),
        }
    }

    /// Adds a step with these samples.
    fn push(&mut self, samples: &[Sample]) {
        let max = |value: fn(&Sample) -> u32| samples.iter().map(value).max();
        self.requests.push(mean(samples, |sample| f64::from(sample.requests)));
        self.errors.push(mean(samples, |sample| f64::from(sample.errors)));
        self.p50_us.push(weighted_p50(samples));
        self.p99_us.push(samples.iter().filter_map(|sample| sample.p99).max().map(in_microseconds));
        self.connections.push(max(|sample| sample.connections));
        self.cpu_percent.push(mean(samples, |sample| f64::from(sample.cpu_ms) / 10.0));
        self.memory_bytes.push(max(|sample| sample.memory_kib).map(|kib| u64::from(kib) << 10));
    }
}

/// Returns the mean, rounded to two decimals.
fn mean(samples: &[Sample], value: impl Fn(&Sample) -> f64) -> Option<f64> {
    let count = u32::try_from(samples.len()).ok().filter(|count| *count > 0)?;
    let sum: f64 = samples.iter().map(value).sum();
    Some((sum / f64::from(count) * 100.0).round() / 100.0)
}

fn weighted_p50(samples: &[Sample]) -> Option<u64> {
    let known = samples.iter().filter_map(|sample| Some((u64::from(sample.requests.max(1)), sample.p50?)));
    let (requests, sum) = known.fold((0, 0), |(requests, sum), (weight, p50)| {
        (requests + weight, sum + weight * in_microseconds(p50))
    });
    u64::checked_div(sum, requests)
}

fn in_microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(requests: u32) -> Sample {
        let p50 = Some(Duration::from_micros(u64::from(requests)));
        Sample { requests, p50, p99: p50.map(|p50| 2 * p50), memory_kib: 2, ..Sample::default() }
    }

    fn requests(history: &History, seconds: u64, step_seconds: u64) -> Vec<Option<f64>> {
        history.columns(history.range(seconds, step_seconds), 0).requests
    }

    /// The range once ended in the future if the machine had started a short time ago.
    #[test]
    fn range_ends_at_the_newest_sample_of_a_young_machine() {
        let mut history = History::new();
        let range = |from, unknown| Range { from, unknown, steps: 360 - unknown, step_seconds: 20 };
        assert_eq!(history.range(7_200, 20), range(0, 360));
        history.add(95, &Sample::default());
        assert_eq!(history.range(7_200, 20), range(0, 355));
        let columns = history.columns(history.range(7_200, 20), 10_000);
        assert_eq!((columns.start, columns.connections.len()), (2_900, 360));
        assert_eq!(columns.connections.iter().rposition(Option::is_some), Some(359));
        history.add(7_219, &Sample::default());
        assert_eq!(history.range(7_200, 20), range(20, 0));
    }

    #[test]
    fn one_day_of_samples_fits_into_eight_mebibytes() {
        let mut history = History::new();
        for second in 0..3 * History::SECONDS {
            history.add(second, &sample(1));
        }
        let bytes = size_of_val(&*history.slots);
        assert!(bytes == History::BYTES && bytes <= 8 << 20, "{bytes}");
        let columns = history.columns(history.range(u64::MAX, 1), 0);
        assert_eq!(columns.start, 2 * History::SECONDS);
        assert_eq!(columns.requests.len(), 86_400);
        assert!(columns.requests.iter().all(Option::is_some));
    }

    #[test]
    fn sample_of_the_day_before_is_not_a_sample_of_today() {
        let mut history = History::new();
        history.add(5, &sample(7));
        history.add(History::SECONDS + 6, &sample(8));
        assert_eq!(requests(&history, 3, 1), [None, None, Some(8.0)]);
    }

    #[test]
    fn steps_show_means_and_maxima_of_their_samples() {
        let mut history = History::new();
        for (second, count) in [(10, 1), (11, 3), (14, 6)] {
            history.add(second, &sample(count));
        }
        assert_eq!(requests(&history, 10, 5), [None, Some(3.33)]);
        let columns = history.columns(history.range(10, 5), 1_000);
        assert_eq!((columns.start, columns.step_seconds), (1_005, 5));
        assert_eq!(columns.p50_us, [None, Some(4)], "weighted by requests: (1 + 9 + 36) / 10");
        assert_eq!(columns.p99_us, [None, Some(12)]);
        assert_eq!(columns.memory_bytes, [None, Some(2_048)]);
    }

    #[test]
    fn second_without_requests_has_no_latency() {
        let mut history = History::new();
        history.add(0, &Sample::default());
        let columns = history.columns(history.range(1, 1), 0);
        assert_eq!((columns.requests, columns.p50_us), (vec![Some(0.0)], vec![None]));
    }

    #[test]
    fn reader_that_was_slow_gets_a_bounded_number_of_samples() {
        let mut history = History::new();
        assert_eq!(history.range_after(None, 900).steps, 0);
        (0..5_000).for_each(|second| history.add(second, &sample(1)));
        let range = |from, steps| Range { from, unknown: 0, steps, step_seconds: 1 };
        assert_eq!(history.range_after(Some(4_997), 900), range(4_998, 2));
        assert_eq!(history.range_after(Some(3), 900), range(4_100, 900));
        assert_eq!(history.range_after(Some(4_999), 900).steps, 0);
    }
}
