//! Sends the values of metrics to the collector. Values are cumulative, so a lost export is no gap in the
//! counters: the next export contains the newer values. The thread has at most one collection in memory.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thruway_net::Clock;
use thruway_telemetry::{ExportCounts, MetricsCollection, RetrySchedule};

use super::delivery::{Delivery, EncodedBatch, Entries, Order};

/// Returns the current values of all metrics. `None` if the service has ended.
pub(crate) type MetricsSource = Box<dyn Fn() -> Option<MetricsCollection> + Send + Sync>;

/// The source of the metrics, and the numbers of exported values.
#[derive(Default)]
pub(super) struct ExportedMetrics {
    source: OnceLock<MetricsSource>,
    exported: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

impl ExportedMetrics {
    /// Sets the source of the values. Later calls have no effect.
    pub(super) fn set_source(&self, source: MetricsSource) {
        // The service sets the source once.
        let _ = self.source.set(source);
    }

    /// Returns the numbers of values since the start of the process.
    pub(super) fn counts(&self) -> ExportCounts {
        ExportCounts {
            exported: self.exported.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }

    fn collect(&self) -> Option<MetricsCollection> {
        self.source.get()?()
    }

    fn count(&self, exported: u64, failed: u64) {
        self.exported.fetch_add(exported, Ordering::Relaxed);
        self.failed.fetch_add(failed, Ordering::Relaxed);
    }
}

impl fmt::Debug for ExportedMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExportedMetrics").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// Exports metrics until the service ends.
pub(super) struct MetricsExport {
    metrics: Arc<ExportedMetrics>,
    delivery: Delivery,
}

impl MetricsExport {
    pub(super) const fn new(metrics: Arc<ExportedMetrics>, delivery: Delivery) -> Self {
        Self { metrics, delivery }
    }

    pub(super) async fn run(mut self) {
        let mut began = Clock::system().now_exact();
        loop {
            let Order { target, ends_at } = self.delivery.order();
            let interval = target.metrics_interval;
            let elapsed = Clock::system().now_exact().saturating_sub(began);
            if let Some(interval) = interval
                && (elapsed >= interval || ends_at.is_some())
            {
                began = Clock::system().now_exact();
                self.export(interval).await;
            }
            if ends_at.is_some() {
                return;
            }
            let elapsed = Clock::system().now_exact().saturating_sub(began);
            let rest = interval.map_or(WAIT_MAX, |interval| interval.saturating_sub(elapsed));
            if !self.delivery.wait(rest).await {
                return;
            }
        }
    }

    /// Collects and sends the current values. Gives up after the time `interval`, because newer values are
    /// more useful than old values.
    async fn export(&mut self, interval: Duration) {
        let Some(collection) = self.metrics.collect() else { return };
        self.metrics.dropped.fetch_add(collection.dropped, Ordering::Relaxed);
        let mut schedule = RetrySchedule::start_within(Clock::system().now_exact(), interval);
        let mut left = collection.points();
        for batch in &collection.batches {
            let encoded = EncodedBatch { entries: Entries::Metrics(&batch.bytes), items: batch.points };
            let Some(rejected) = self.delivery.deliver(encoded, &mut schedule).await else { break };
            self.metrics.count(batch.points - rejected, rejected);
            left -= batch.points;
        }
        self.metrics.count(0, left);
    }
}

/// Maximum time between two looks at the settings while metrics are not exported.
const WAIT_MAX: Duration = Duration::from_hours(1);
