//! The bounded queue between the workers and the thread that exports spans.
//!
//! Each worker has its own buffer, so workers do not wait for each other. The queue contains encoded spans,
//! because encoded spans need one copy and no allocation per text. A full queue drops new spans and counts
//! them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::otlp::{entry_bytes, write_span};
use crate::span::Span;

/// The queue of the encoded spans of all workers.
#[derive(Debug)]
pub struct SpanQueue {
    buffers: Mutex<Vec<Arc<Mutex<Encoded>>>>,
    /// Number of bytes in the buffers and in the batch that is being exported.
    bytes: AtomicUsize,
    bytes_max: usize,
    dropped: AtomicU64,
    exported: AtomicU64,
    failed: AtomicU64,
}

/// The buffer of one worker. After the worker has dropped the buffer, its spans are still exported.
#[derive(Debug)]
pub struct SpanBuffer {
    encoded: Arc<Mutex<Encoded>>,
    queue: Arc<SpanQueue>,
}

/// Encoded spans, as the entries of the list `ScopeSpans.spans` of OTLP.
#[derive(Default, Debug)]
struct Encoded {
    bytes: Vec<u8>,
    spans: u64,
}

/// Encoded spans that are exported together. After the export, call [`SpanQueue::finish`].
#[derive(Debug)]
pub struct SpanBatch(Encoded);

/// Numbers of spans since the start of the process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ExportCounts {
    /// Spans that the collector has accepted.
    pub exported: u64,
    /// Spans that were not queued, because the queue was full.
    pub dropped: u64,
    /// Spans that the collector has rejected, or that no collector has accepted in time.
    pub failed: u64,
}

impl SpanQueue {
    /// Default maximum number of bytes in the queue: 8 MiB, about 20,000 spans.
    pub const BYTES_MAX: usize = 8 << 20;

    /// Maximum number of bytes of a batch. Many gRPC servers accept messages of at most 4 MiB.
    pub const BATCH_BYTES_MAX: usize = 1 << 20;

    /// Creates a queue for `bytes_max` bytes of encoded spans.
    pub const fn new(bytes_max: usize) -> Self {
        Self {
            buffers: Mutex::new(Vec::new()),
            bytes: AtomicUsize::new(0),
            bytes_max,
            dropped: AtomicU64::new(0),
            exported: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Adds a buffer for one worker.
    pub fn add_buffer(self: &Arc<Self>) -> SpanBuffer {
        let encoded = Arc::new(Mutex::new(Encoded::default()));
        lock(&self.buffers).push(encoded.clone());
        SpanBuffer { encoded, queue: self.clone() }
    }

    /// Returns the number of bytes in the queue and in the batch that is being exported.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Takes spans for one batch. Returns `None` if the queue is empty.
    pub fn take(&self) -> Option<SpanBatch> {
        let mut batch = Encoded::default();
        lock(&self.buffers).retain(|buffer| {
            let mut encoded = lock(buffer);
            if batch.bytes.is_empty() && encoded.bytes.len() <= Self::BATCH_BYTES_MAX {
                batch = std::mem::take(&mut *encoded);
            } else {
                encoded.move_to(&mut batch);
            }
            // The worker of the buffer may have ended.
            encoded.spans > 0 || Arc::strong_count(buffer) > 1
        });
        (batch.spans > 0).then_some(SpanBatch(batch))
    }

    /// Counts the spans of `batch` and frees their space in the queue. `failed` is the number of spans that
    /// the collector has not accepted.
    pub fn finish(&self, batch: &SpanBatch, failed: u64) {
        let failed = failed.min(batch.spans());
        self.bytes.fetch_sub(batch.bytes().len(), Ordering::Relaxed);
        self.failed.fetch_add(failed, Ordering::Relaxed);
        self.exported.fetch_add(batch.spans() - failed, Ordering::Relaxed);
    }

    /// Returns the numbers of spans since the start of the process.
    pub fn counts(&self) -> ExportCounts {
        ExportCounts {
            exported: self.exported.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}

impl SpanBuffer {
    /// Adds `span`. If the queue is full, drops and counts the span. Waits at most until the exporting thread
    /// has taken the buffer, which is a move of a few words.
    pub fn push(&self, span: &Span<'_>) {
        if self.queue.bytes() >= self.queue.bytes_max {
            self.queue.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut encoded = lock(&self.encoded);
        let before = encoded.bytes.len();
        write_span(&mut encoded.bytes, span);
        encoded.spans += 1;
        self.queue.bytes.fetch_add(encoded.bytes.len() - before, Ordering::Relaxed);
    }
}

impl Encoded {
    /// Moves whole spans to `batch`, until the batch has its maximum size.
    fn move_to(&mut self, batch: &mut Self) {
        let (mut moved, mut spans) = (0, 0);
        while let Some(next) = entry_bytes(&self.bytes[moved..]) {
            let is_full = batch.bytes.len() + moved + next > SpanQueue::BATCH_BYTES_MAX;
            if is_full && (moved > 0 || !batch.bytes.is_empty()) {
                break;
            }
            (moved, spans) = (moved + next, spans + 1);
        }
        batch.bytes.extend_from_slice(&self.bytes[..moved]);
        batch.spans += spans;
        self.bytes.drain(..moved);
        self.spans -= spans;
    }
}

impl SpanBatch {
    /// Returns the encoded spans.
    pub fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// Returns the number of spans.
    pub const fn spans(&self) -> u64 {
        self.0.spans
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::{SpanKind, SpanStatus};
    use crate::trace_parent::{SpanId, TraceId, TraceParent};

    fn span(name: &str) -> Span<'_> {
        Span {
            own: TraceParent { trace_id: TraceId::random(), span_id: SpanId::random(), flags: 1 },
            parent: None,
            is_parent_remote: false,
            state: "",
            name,
            kind: SpanKind::Server,
            start_nanos: 1,
            end_nanos: 2,
            attributes: &[],
            event: None,
            status: SpanStatus::Unset,
        }
    }

    fn queue(bytes_max: usize) -> Arc<SpanQueue> {
        Arc::new(SpanQueue::new(bytes_max))
    }

    #[test]
    fn batch_contains_the_spans_of_all_workers() {
        let queue = queue(SpanQueue::BYTES_MAX);
        assert!(queue.take().is_none());
        let (one, other) = (queue.add_buffer(), queue.add_buffer());
        one.push(&span("a"));
        other.push(&span("b"));
        other.push(&span("c"));
        let batch = queue.take().unwrap();
        assert_eq!((batch.spans(), batch.bytes().len()), (3, queue.bytes()));
        assert!(queue.take().is_none());
        queue.finish(&batch, 1);
        assert_eq!(queue.bytes(), 0);
        assert_eq!(queue.counts(), ExportCounts { exported: 2, dropped: 0, failed: 1 });
    }

    #[test]
    fn full_queue_drops_and_counts_spans_within_its_bound() {
        let queue = queue(1000);
        let buffer = queue.add_buffer();
        (0..100).for_each(|_| buffer.push(&span("a")));
        let longest = 100;
        assert!(queue.bytes() < 1000 + longest, "{}", queue.bytes());
        let dropped = queue.counts().dropped;
        let batch = queue.take().unwrap();
        assert_eq!(batch.spans() + dropped, 100);
        // The batch counts until its export has ended.
        buffer.push(&span("a"));
        assert_eq!(queue.counts().dropped, dropped + 1);
        queue.finish(&batch, 0);
        buffer.push(&span("a"));
        assert_eq!(queue.take().unwrap().spans(), 1);
    }

    #[test]
    fn large_buffers_are_split_between_spans() {
        let queue = queue(SpanQueue::BYTES_MAX);
        let buffer = queue.add_buffer();
        let name = "n".repeat(1000);
        (0..3000).for_each(|_| buffer.push(&span(&name)));
        let batches: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
        assert!(batches.len() >= 3);
        assert_eq!(batches.iter().map(SpanBatch::spans).sum::<u64>(), 3000);
        for batch in &batches {
            assert!(batch.bytes().len() <= SpanQueue::BATCH_BYTES_MAX);
            let mut entries = Encoded { bytes: batch.bytes().to_vec(), spans: batch.spans() };
            let mut all = Encoded::default();
            entries.move_to(&mut all);
            assert_eq!((entries.spans, entries.bytes.len()), (0, 0));
        }
    }

    #[test]
    fn spans_of_an_ended_worker_are_exported() {
        let queue = queue(SpanQueue::BYTES_MAX);
        let buffer = queue.add_buffer();
        buffer.push(&span("a"));
        drop(buffer);
        assert_eq!(queue.take().unwrap().spans(), 1);
        assert!(lock(&queue.buffers).is_empty() || queue.take().is_none());
        assert!(lock(&queue.buffers).is_empty());
    }
}
