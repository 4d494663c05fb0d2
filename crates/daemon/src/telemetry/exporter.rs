//! The thread that sends spans and metrics to a collector. Requests never wait for this thread: they put
//! their spans into a bounded queue, and a full queue drops spans. The thread reads the counters of metrics.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thruway_net::{Clock, lower_thread_priority};
use thruway_telemetry::{RetrySchedule, SpanQueue};
use tokio::runtime;
use tokio::sync::watch;
use tokio::task::LocalSet;

use super::delivery::{Delivery, EncodedBatch, Entries, ExportTarget, Order};
use super::http::Signal;
use super::metrics::{ExportedMetrics, MetricsExport};

/// A running exporter.
pub(super) struct Exporter {
    orders: watch::Sender<Order>,
    thread: JoinHandle<()>,
}

impl Exporter {
    /// Starts the thread, which sends the spans in `queue` and the values of `metrics` to `target`.
    pub(super) fn start(
        queue: Arc<SpanQueue>,
        metrics: Arc<ExportedMetrics>,
        target: ExportTarget,
    ) -> io::Result<Self> {
        let (orders, receiver) = watch::channel(Order { target: Arc::new(target), ends_at: None });
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name("telemetry".to_owned()).spawn(move || {
            if let Err(error) = lower_thread_priority() {
                tracing::debug!(%error, "cannot lower the priority of the thread that exports spans");
            }
            LocalSet::new().block_on(&runtime, async move {
                let spans = SpanExport::new(queue, Delivery::new(Signal::Traces, receiver.clone()));
                let metrics = MetricsExport::new(metrics, Delivery::new(Signal::Metrics, receiver));
                tokio::join!(spans.run(), metrics.run());
            });
            // A name lookup may still block a thread of the runtime.
            runtime.shutdown_background();
        })?;
        Ok(Self { orders, thread })
    }

    /// Sends later batches to `target`. If a batch waits for its next attempt, the attempt begins now.
    pub(super) fn set_target(&self, target: ExportTarget) {
        self.orders.send_modify(|order| order.target = Arc::new(target));
    }

    /// Stops the export of metrics. The export of spans continues.
    pub(super) fn stop_metrics(&self) {
        let stop = |target: &ExportTarget| ExportTarget { metrics_interval: None, ..target.clone() };
        self.orders.send_modify(|order| order.target = Arc::new(stop(&order.target)));
    }

    /// Sends the remaining spans and the last values of metrics, and ends the thread. Waits at most
    /// [`FINISH_TIME`].
    pub(super) fn finish(self) {
        let ends_at = Clock::system().now_exact() + FINISH_TIME;
        self.orders.send_modify(|order| order.ends_at = Some(ends_at));
        if self.thread.join().is_err() {
            tracing::error!("the thread that exports spans and metrics has panicked");
        }
    }
}

/// Exports spans until the service ends.
struct SpanExport {
    queue: Arc<SpanQueue>,
    delivery: Delivery,
}

impl SpanExport {
    const fn new(queue: Arc<SpanQueue>, delivery: Delivery) -> Self {
        Self { queue, delivery }
    }

    async fn run(mut self) {
        let mut flushed = Clock::system().now_exact();
        loop {
            let is_last = self.delivery.order().ends_at.is_some();
            let is_due = Clock::system().now_exact().saturating_sub(flushed) >= FLUSH_EVERY;
            if is_due || is_last || self.queue.bytes() >= FLUSH_BYTES {
                self.export().await;
                flushed = Clock::system().now_exact();
            }
            if is_last || !self.delivery.wait(LOOK_EVERY).await {
                return;
            }
        }
    }

    async fn export(&mut self) {
        while let Some(mut batch) = self.queue.take() {
            let mut schedule = RetrySchedule::start(Clock::system().now_exact());
            let items = batch.spans();
            let encoded = EncodedBatch { entries: Entries::Spans(&mut batch), items };
            let rejected = self.delivery.deliver(encoded, &mut schedule).await;
            let failed = rejected.unwrap_or(items);
            self.queue.finish(batch, failed);
        }
    }
}

/// Time between two looks at the queue.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Maximum time for which spans wait for other spans of their batch.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Size of the queue from which spans do not wait.
const FLUSH_BYTES: usize = 512 << 10;

/// Time for the last export at the end of the service.
const FINISH_TIME: Duration = Duration::from_secs(2);
