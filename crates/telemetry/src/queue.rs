//! The bounded queue between the workers and the thread that exports spans.
//!
//! Each worker has its own buffer, so workers do not wait for each other. The queue contains encoded spans,
//! because encoded spans need one copy and no allocation per text. A worker fills batches, and the exporting
//! thread takes whole batches, so it holds the lock of a buffer only for a short time. A full queue drops new
//! spans and counts them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::attributes::SpanAttributes;
use crate::batch::{BATCH_BYTES_MAX, Encoded, SpanBatch};
use crate::otlp::write_span;
use crate::span::Span;

/// The queue of the encoded spans of all workers.
#[derive(Debug)]
pub struct SpanQueue {
    buffers: Mutex<Vec<Arc<Mutex<WorkerSpans>>>>,
    /// Memory of exported batches, for later batches.
    unused: Mutex<Vec<Vec<u8>>>,
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
    spans: Arc<Mutex<WorkerSpans>>,
    queue: Arc<SpanQueue>,
}

/// Adds spans to the buffer of a worker. The spans enter the queue when this value is dropped.
#[derive(Debug)]
pub struct SpanWriter<'a> {
    spans: MutexGuard<'a, WorkerSpans>,
    queue: &'a SpanQueue,
    /// Number of bytes in the queue, including the spans of this writer.
    queue_bytes: usize,
    /// Number of bytes that this writer has added.
    added: usize,
}

/// The spans of one worker.
#[derive(Debug)]
struct WorkerSpans {
    /// Full batches, oldest first.
    full: VecDeque<Encoded>,
    /// The batch that receives new spans.
    current: Encoded,
}

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
    pub const BATCH_BYTES_MAX: usize = BATCH_BYTES_MAX;

    /// Creates a queue for `bytes_max` bytes of encoded spans.
    pub const fn new(bytes_max: usize) -> Self {
        Self {
            buffers: Mutex::new(Vec::new()),
            unused: Mutex::new(Vec::new()),
            bytes: AtomicUsize::new(0),
            bytes_max,
            dropped: AtomicU64::new(0),
            exported: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Adds a buffer for one worker.
    pub fn add_buffer(self: &Arc<Self>) -> SpanBuffer {
        let current = Encoded::in_memory(Vec::new());
        let spans = Arc::new(Mutex::new(WorkerSpans { full: VecDeque::new(), current }));
        lock(&self.buffers).push(spans.clone());
        SpanBuffer { spans, queue: self.clone() }
    }

    /// Returns the number of bytes in the queue and in the batch that is being exported.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Takes spans for one batch. Returns `None` if the queue is empty.
    pub fn take(&self) -> Option<SpanBatch> {
        let mut batch = Encoded::default();
        lock(&self.buffers).retain(|buffer| {
            let mut spans = lock(buffer);
            if batch.spans == 0 {
                batch = spans.oldest(&self.unused);
            } else if spans.full.is_empty() && batch.has_space(spans.current.entries().len()) {
                batch.append(&mut spans.current);
            }
            // The worker of the buffer may have ended.
            !spans.is_empty() || Arc::strong_count(buffer) > 1
        });
        (batch.spans > 0).then(|| SpanBatch::new(batch))
    }

    /// Counts the spans of `batch` and frees their space in the queue. `failed` is the number of spans that
    /// the collector has not accepted.
    pub fn finish(&self, batch: SpanBatch, failed: u64) {
        let (bytes, spans) = (batch.bytes().len(), batch.spans());
        let failed = failed.min(spans);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.failed.fetch_add(failed, Ordering::Relaxed);
        self.exported.fetch_add(spans - failed, Ordering::Relaxed);
        let Some(memory) = batch.into_memory() else { return };
        let mut unused = lock(&self.unused);
        if unused.len() < UNUSED_MAX {
            unused.push(memory);
        }
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
    /// Locks the buffer for the spans of one request. Waits at most until the exporting thread has taken a
    /// batch.
    pub fn writer(&self) -> SpanWriter<'_> {
        let queue_bytes = self.queue.bytes();
        SpanWriter { spans: lock(&self.spans), queue: &self.queue, queue_bytes, added: 0 }
    }
}

impl SpanWriter<'_> {
    /// Adds `span`. `add` adds its attributes. If the queue is full, drops and counts the span.
    #[inline]
    pub fn write(&mut self, span: &Span<'_>, add: impl FnOnce(&mut SpanAttributes<'_>)) {
        if self.queue_bytes >= self.queue.bytes_max {
            self.queue.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let current = &mut self.spans.current;
        let before = current.bytes.len();
        write_span(&mut current.bytes, span, add);
        current.spans += 1;
        let bytes = current.bytes.len() - before;
        self.added += bytes;
        self.queue_bytes += bytes;
        if !current.has_space(SPAN_BYTES_MAX) {
            self.spans.begin_batch(&self.queue.unused);
        }
    }
}

impl Drop for SpanWriter<'_> {
    fn drop(&mut self) {
        if self.added > 0 {
            self.queue.bytes.fetch_add(self.added, Ordering::Relaxed);
        }
    }
}

impl WorkerSpans {
    fn is_empty(&self) -> bool {
        self.full.is_empty() && self.current.spans == 0
    }

    /// Removes and returns the oldest spans.
    fn oldest(&mut self, unused: &Mutex<Vec<Vec<u8>>>) -> Encoded {
        if self.full.is_empty() && self.current.spans > 0 {
            self.begin_batch(unused);
        }
        self.full.pop_front().unwrap_or_default()
    }

    /// Ends the current batch.
    fn begin_batch(&mut self, unused: &Mutex<Vec<Vec<u8>>>) {
        let memory = lock(unused).pop().unwrap_or_default();
        self.full.push_back(std::mem::replace(&mut self.current, Encoded::in_memory(memory)));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum number of bytes of a span: 24 attributes with long texts.
const SPAN_BYTES_MAX: usize = 32 << 10;

/// Maximum number of unused buffers that are kept.
const UNUSED_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::read_field;
    use crate::span::{SpanKind, SpanStatus};
    use crate::trace_parent::{SpanId, TraceId, TraceParent};

    fn span(name: &str) -> Span<'_> {
        Span {
            own: TraceParent { trace_id: TraceId::random(), span_id: SpanId::random(), flags: 1 },
            parent: None,
            is_parent_remote: false,
            state: "",
            name,
            target: None,
            kind: SpanKind::Server,
            start_nanos: 1,
            end_nanos: 2,
            first_byte_nanos: None,
            status: SpanStatus::Unset,
        }
    }

    /// Adds a span without attributes.
    fn push(buffer: &SpanBuffer, name: &str) {
        buffer.writer().write(&span(name), |_| {});
    }

    fn queue(bytes_max: usize) -> Arc<SpanQueue> {
        Arc::new(SpanQueue::new(bytes_max))
    }

    #[test]
    fn batch_contains_the_spans_of_all_workers() {
        let queue = queue(SpanQueue::BYTES_MAX);
        assert!(queue.take().is_none());
        let (one, other) = (queue.add_buffer(), queue.add_buffer());
        push(&one, "a");
        push(&other, "b");
        push(&other, "c");
        let batch = queue.take().unwrap();
        assert_eq!((batch.spans(), batch.bytes().len()), (3, queue.bytes()));
        assert!(queue.take().is_none());
        queue.finish(batch, 1);
        assert_eq!(queue.bytes(), 0);
        assert_eq!(queue.counts(), ExportCounts { exported: 2, dropped: 0, failed: 1 });
    }

    #[test]
    fn full_queue_drops_and_counts_spans_within_its_bound() {
        let queue = queue(1000);
        let buffer = queue.add_buffer();
        (0..100).for_each(|_| push(&buffer, "a"));
        let longest = 100;
        assert!(queue.bytes() < 1000 + longest, "{}", queue.bytes());
        let dropped = queue.counts().dropped;
        let batch = queue.take().unwrap();
        assert_eq!(batch.spans() + dropped, 100);
        // Until its export has ended, the batch counts toward the maximum of the queue.
        push(&buffer, "a");
        assert_eq!(queue.counts().dropped, dropped + 1);
        queue.finish(batch, 0);
        push(&buffer, "a");
        assert_eq!(queue.take().unwrap().spans(), 1);
    }

    #[test]
    fn large_buffers_are_split_between_spans() {
        let queue = queue(SpanQueue::BYTES_MAX);
        let buffer = queue.add_buffer();
        let name = "n".repeat(1000);
        (0..3000).for_each(|_| push(&buffer, &name));
        let batches: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
        assert!(batches.len() >= 3);
        assert_eq!(batches.iter().map(SpanBatch::spans).sum::<u64>(), 3000);
        for batch in batches {
            assert!(batch.bytes().len() <= SpanQueue::BATCH_BYTES_MAX);
            let mut entries = (batch.bytes(), 0);
            while let Some((_, _, rest)) = read_field(entries.0) {
                entries = (rest, entries.1 + 1);
            }
            assert_eq!(entries, (&[][..], batch.spans()));
            queue.finish(batch, 0);
        }
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn spans_of_an_ended_worker_are_exported() {
        let queue = queue(SpanQueue::BYTES_MAX);
        let buffer = queue.add_buffer();
        push(&buffer, "a");
        drop(buffer);
        assert_eq!(queue.take().unwrap().spans(), 1);
        assert!(lock(&queue.buffers).is_empty() || queue.take().is_none());
        assert!(lock(&queue.buffers).is_empty());
    }
}
