//! Counts the calls of members and of their tools.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use thruway_telemetry::{Exemplar, Exemplars};

/// Number and duration of the calls of a member or tool, since the start of the gateway. A request that the
/// client repeats with answers to questions counts as another call.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct CallCounts {
    /// Number of ended calls, with the failed and the canceled calls.
    pub calls: u64,
    /// Number of calls that ended with an error of the gateway, of the member or of the tool.
    pub errors: u64,
    /// Sum of the durations of all calls.
    pub duration: Duration,
    /// Number of calls for each range of durations: one value for each bound in
    /// [`BOUNDS`](MemberCalls::BOUNDS), and one for longer calls.
    pub buckets: [u64; BUCKETS],
}

/// The calls of a member: tool calls, requested prompts and read resources.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct MemberCalls {
    /// All calls of the member.
    pub all: CallCounts,
    /// At most one exemplar for each range of durations: the newest call with a sampled trace, as far as
    /// known.
    pub exemplars: Vec<Exemplar>,
    /// The calls of each called tool by public name, sorted by name.
    pub tools: Vec<(String, CallCounts)>,
    /// The calls of tools that `tools` does not contain: tools that were not in the last list of the member,
    /// and all further tools after the first 500.
    pub other_tools: CallCounts,
}

impl MemberCalls {
    /// Upper bounds of the durations in [`buckets`](CallCounts::buckets), inclusive.
    pub const BOUNDS: [Duration; BOUNDS_US.len()] = {
        let (mut bounds, mut index) = ([Duration::ZERO; BOUNDS_US.len()], 0);
        while index < bounds.len() {
            bounds[index] = Duration::from_micros(BOUNDS_US[index]);
            index += 1;
        }
        bounds
    };
}

/// The counters of a member.
#[derive(Default, Debug)]
pub(super) struct MemberCounters {
    all: CallCounters,
    exemplars: Exemplars<BUCKETS>,
    /// The counters of each called tool, by public name.
    tools: RwLock<HashMap<Box<str>, Arc<CallCounters>>>,
    other_tools: Arc<CallCounters>,
}

/// The counters of a member or tool. They have a fixed size, so the counters of all tools of a member need at
/// most 200 KiB with their names.
#[derive(Default, Debug)]
pub(super) struct CallCounters {
    errors: AtomicU64,
    nanoseconds: AtomicU64,
    /// Number of calls for each range of durations.
    buckets: [AtomicU64; BUCKETS],
}

impl MemberCounters {
    /// Returns the counters of the tool with the public name `public`. Calls `is_listed` if the tool has no
    /// counters yet. Tools without a list entry share their counters, so that a client cannot create
    /// counters.
    pub(super) fn of_tool(&self, public: &str, is_listed: impl FnOnce() -> bool) -> Arc<CallCounters> {
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = tools.get(public) {
            return known.clone();
        }
        let is_full = tools.len() >= TOOLS_MAX;
        drop(tools);
        if is_full || !is_listed() {
            return self.other_tools.clone();
        }
        let mut tools = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        tools.entry(public.into()).or_default().clone()
    }

    /// Counts a call of the member. `tool` contains the counters of the called tool.
    pub(super) fn record(&self, tool: Option<&CallCounters>, is_error: bool, duration: Duration) {
        let bucket = MemberCalls::BOUNDS.partition_point(|bound| *bound < duration);
        for counters in [Some(&self.all), tool].into_iter().flatten() {
            counters.record(is_error, duration, bucket);
        }
    }

    /// Adds an exemplar for a counted call.
    pub(super) fn add_exemplar(&self, exemplar: Exemplar) {
        self.exemplars.record(exemplar.bucket(&MemberCalls::BOUNDS), exemplar);
    }

    /// Returns the current values.
    pub(super) fn counts(&self) -> MemberCalls {
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        let mut tools: Vec<_> =
            tools.iter().map(|(name, counters)| (String::from(&**name), counters.counts())).collect();
        tools.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut exemplars = Vec::new();
        self.exemplars.add_to(&mut exemplars, &MemberCalls::BOUNDS);
        MemberCalls { all: self.all.counts(), exemplars, tools, other_tools: self.other_tools.counts() }
    }
}

impl CallCounters {
    /// Counts a call. `bucket` is the index of the range of `duration`.
    fn record(&self, is_error: bool, duration: Duration, bucket: usize) {
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        if is_error {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    fn counts(&self) -> CallCounts {
        let buckets = self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
        CallCounts {
            calls: buckets.iter().sum(),
            errors: self.errors.load(Ordering::Relaxed),
            duration: Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)),
            buckets,
        }
    }
}

/// Upper bounds of the durations, in microseconds. Local tools need less than a millisecond, and remote tools up to
/// minutes.
const BOUNDS_US: [u64; 17] = [
    250,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    120_000_000,
];

/// Number of ranges of durations.
const BUCKETS: usize = BOUNDS_US.len() + 1;

/// Maximum number of tools of a member with their own counters.
const TOOLS_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_for_the_member_and_for_the_tool() {
        let counters = MemberCounters::default();
        let (a, b) = (counters.of_tool("b", || true), counters.of_tool("a", || true));
        counters.record(Some(&a), false, Duration::from_millis(1));
        counters.record(Some(&a), true, Duration::from_micros(1001));
        counters.record(Some(&b), false, Duration::from_mins(10));
        counters.record(None, true, Duration::ZERO);
        let counts = counters.counts();
        assert_eq!((counts.all.calls, counts.all.errors), (4, 2));
        assert_eq!(counts.all.duration, Duration::from_micros(600_002_001));
        assert_eq!(
            (counts.all.buckets[0], counts.all.buckets[2..4].iter().sum::<u64>(), counts.all.buckets[17]),
            (1, 2, 1)
        );
        let tools: Vec<_> =
            counts.tools.iter().map(|(name, tool)| (&**name, tool.calls, tool.errors)).collect();
        assert_eq!(tools, [("a", 1, 0), ("b", 2, 1)]);
        assert_eq!(counts.tools[0].1.buckets[17], 1);
        assert_eq!(counts.tools[1].1.buckets[1..5], [0, 1, 1, 0]);
        assert_eq!(counts.other_tools, CallCounts::default());
    }

    #[test]
    fn number_of_tools_with_counters_is_bounded() {
        let counters = MemberCounters::default();
        for _ in 0..2 {
            counters.record(Some(&counters.of_tool("unknown", || false)), false, Duration::ZERO);
        }
        for tool in 0..TOOLS_MAX + 3 {
            counters.record(Some(&counters.of_tool(&tool.to_string(), || true)), false, Duration::ZERO);
        }
        let counts = counters.counts();
        assert_eq!((counts.tools.len(), counts.other_tools.calls), (TOOLS_MAX, 5));
    }
}
