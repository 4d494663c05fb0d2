//! Exemplars: measured values with the trace that they belong to. Dashboards use them to open a trace from a
//! histogram.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::trace_parent::{SpanId, TraceId};

/// A measured duration, and the span in which it was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exemplar {
    /// The trace. The exporter sends its spans to the collector.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
    /// The measured duration.
    pub value: Duration,
    /// Time of the measurement, in nanoseconds since the Unix epoch.
    pub unix_nanos: u64,
}

/// The newest exemplar of each of the `N` buckets of a histogram. The memory is fixed: nothing until the
/// first exemplar, and then 48 bytes for each bucket.
#[derive(Debug)]
pub struct Exemplars<const N: usize>(OnceLock<Box<Mutex<Slots<N>>>>);

type Slots<const N: usize> = [Option<Exemplar>; N];

impl<const N: usize> Exemplars<N> {
    /// Returns an empty store.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Replaces the exemplar of the bucket with this index. Ignores indexes above the last bucket. Never
    /// waits: the exemplar is lost while another thread uses the store.
    pub fn record(&self, bucket: usize, exemplar: Exemplar) {
        let slots = self.0.get_or_init(|| Box::new(Mutex::new([None; N])));
        if let Ok(mut slots) = slots.try_lock()
            && let Some(slot) = slots.get_mut(bucket)
        {
            *slot = Some(exemplar);
        }
    }

    /// Adds the exemplars to `newest`, which contains at most one exemplar for each bucket. Of two exemplars
    /// in the same bucket, the newer one stays. `bounds` contains the upper bounds of all buckets except the
    /// last.
    pub fn add_to(&self, newest: &mut Vec<Exemplar>, bounds: &[Duration]) {
        let Some(slots) = self.0.get() else { return };
        let slots = *slots.lock().unwrap_or_else(PoisonError::into_inner);
        for exemplar in slots.into_iter().flatten() {
            let bucket = exemplar.bucket(bounds);
            match newest.iter_mut().find(|other| other.bucket(bounds) == bucket) {
                Some(other) if other.unix_nanos < exemplar.unix_nanos => *other = exemplar,
                Some(_) => {}
                None => newest.push(exemplar),
            }
        }
    }
}

impl<const N: usize> Default for Exemplars<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl Exemplar {
    /// Returns the index of the bucket that counts the value. `bounds` contains the inclusive upper bounds of
    /// all buckets except the last.
    pub fn bucket(&self, bounds: &[Duration]) -> usize {
        bounds.partition_point(|bound| *bound < self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(10)];

    fn exemplar(milliseconds: u64, unix_nanos: u64) -> Exemplar {
        let value = Duration::from_millis(milliseconds);
        Exemplar { trace_id: TraceId::random(), span_id: SpanId::random(), value, unix_nanos }
    }

    fn record(exemplars: &Exemplars<3>, exemplar: Exemplar) {
        exemplars.record(exemplar.bucket(&BOUNDS), exemplar);
    }

    #[test]
    fn each_bucket_keeps_its_newest_exemplar() {
        let (one, other) = (Exemplars::<3>::new(), Exemplars::<3>::new());
        let mut newest = Vec::new();
        one.add_to(&mut newest, &BOUNDS);
        assert_eq!(newest, []);
        let [old, slow, lost, new] = [exemplar(1, 5), exemplar(11, 6), exemplar(0, 7), exemplar(1, 8)];
        record(&one, old);
        record(&one, slow);
        record(&other, lost);
        record(&other, new);
        one.add_to(&mut newest, &BOUNDS);
        assert_eq!(newest, [old, slow]);
        other.add_to(&mut newest, &BOUNDS);
        assert_eq!(newest, [new, slow]);
        one.add_to(&mut newest, &BOUNDS);
        assert_eq!(newest, [new, slow], "an older exemplar replaces no newer one");
    }

    #[test]
    fn store_in_use_loses_the_exemplar_and_does_not_wait() {
        let exemplars = Exemplars::<3>::new();
        record(&exemplars, exemplar(1, 5));
        let guard = exemplars.0.get().unwrap().lock().unwrap();
        record(&exemplars, exemplar(1, 6));
        drop(guard);
        exemplars.record(3, exemplar(1, 7));
        let mut newest = Vec::new();
        exemplars.add_to(&mut newest, &BOUNDS);
        assert_eq!(newest.iter().map(|exemplar| exemplar.unix_nanos).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn exemplar_has_the_documented_size() {
        assert_eq!(size_of::<Option<Exemplar>>(), 48);
    }
}
