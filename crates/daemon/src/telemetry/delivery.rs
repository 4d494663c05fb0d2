//! Sends batches of one kind of telemetry to the collector, and repeats failed attempts.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use thruway_net::{Admitted, Clock, LogLimit};
use thruway_telemetry::{ExportOutcome, Framing, Resource, RetrySchedule, SpanBatch, encode_request};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::collector_error::{CollectorError, CollectorResponse};
use super::grpc::GrpcCollector;
use super::http::{HttpCollector, Signal};
use crate::config::{CollectorConfig, OtlpProtocol};

/// The destination of spans and metrics, and the attributes of this process.
#[derive(Clone)]
pub(super) struct ExportTarget {
    pub(super) resource: Resource,
    pub(super) collector: CollectorConfig,
    /// Time between two exports of metrics. `None` if metrics are not exported.
    pub(super) metrics_interval: Option<Duration>,
}

/// The instructions for the thread.
#[derive(Clone)]
pub(super) struct Order {
    pub(super) target: Arc<ExportTarget>,
    /// Time at which the thread must end. `None` while the service runs.
    pub(super) ends_at: Option<Duration>,
}

/// A batch of encoded spans or metrics.
pub(super) struct EncodedBatch<'b> {
    /// The encoded entries.
    pub(super) entries: Entries<'b>,
    /// Number of spans or values in the batch.
    pub(super) items: u64,
}

/// The encoded entries of a batch.
pub(super) enum Entries<'b> {
    Spans(&'b mut SpanBatch),
    Metrics(&'b [u8]),
}

impl Entries<'_> {
    /// Returns the request for an attempt to send the entries.
    fn request(&mut self, resource: &Resource, framing: Framing) -> Bytes {
        match self {
            Self::Spans(batch) => Bytes::from_owner(batch.request(resource, framing)),
            Self::Metrics(entries) => encode_request(resource, entries, framing).into(),
        }
    }
}

/// The connection to the collector for one kind of telemetry.
pub(super) struct Delivery {
    signal: Signal,
    orders: watch::Receiver<Order>,
    target: Arc<ExportTarget>,
    collector: Collector,
    /// `true` if the last attempt has failed.
    is_failing: bool,
    lost_log: LogLimit,
    rejected_log: LogLimit,
}

impl Delivery {
    pub(super) fn new(signal: Signal, orders: watch::Receiver<Order>) -> Self {
        let target = orders.borrow().target.clone();
        let collector = Collector::new(&target.collector, signal);
        let (lost_log, rejected_log) = (LogLimit::new(), LogLimit::new());
        Self { signal, orders, target, collector, is_failing: false, lost_log, rejected_log }
    }

    /// Returns the current instructions.
    pub(super) fn order(&self) -> Order {
        self.orders.borrow().clone()
    }

    /// Waits for new instructions, at most for the time `within`. Returns `false` if the service has ended
    /// without instructions.
    pub(super) async fn wait(&mut self, within: Duration) -> bool {
        !matches!(timeout(within, self.orders.changed()).await, Ok(Err(_)))
    }

    /// Sends `batch`, and repeats a failed attempt until `schedule` gives up. Returns the number of spans or
    /// values that the collector has rejected. Returns `None` if no attempt was successful.
    pub(super) async fn deliver(
        &mut self,
        mut batch: EncodedBatch<'_>,
        schedule: &mut RetrySchedule,
    ) -> Option<u64> {
        let reason = loop {
            self.follow_orders();
            let Attempt { outcome, reason } = self.attempt(&mut batch.entries).await;
            let retry_after = match outcome {
                ExportOutcome::Accepted { rejected } => return Some(self.accepted(batch.items, rejected)),
                ExportOutcome::Refused => break reason,
                ExportOutcome::Unavailable { retry_after } => retry_after,
            };
            let delay = schedule.next_delay(Clock::system().now_exact(), retry_after, fastrand::f64());
            let Some(delay) = delay.and_then(|delay| self.within_end(delay)) else { break reason };
            self.note_retry(&reason);
            // A new target or the end of the service ends the delay.
            if !self.wait(delay).await {
                break reason;
            }
        };
        self.given_up(batch.items, &reason);
        None
    }

    async fn attempt(&mut self, entries: &mut Entries<'_>) -> Attempt {
        let message = entries.request(&self.target.resource, self.collector.framing());
        let end = pin!(end_of_service(self.orders.clone()));
        let sent = send_until(self.collector.send(message), end);
        match timeout(EXPORT_TIMEOUT, sent).await {
            Ok(Some(Ok(response))) => {
                Attempt { outcome: response.outcome, reason: response.status.to_string() }
            }
            Ok(Some(Err(error))) => Attempt::unavailable(error.to_string()),
            Ok(None) => {
                self.collector.disconnect();
                Attempt::unavailable("the service ends, and the collector has not responded".to_owned())
            }
            Err(_) => {
                self.collector.disconnect();
                Attempt::unavailable(format!("no response within {} s", EXPORT_TIMEOUT.as_secs()))
            }
        }
    }

    /// Uses the newest target.
    fn follow_orders(&mut self) {
        let target = self.orders.borrow_and_update().target.clone();
        if !Arc::ptr_eq(&target, &self.target) {
            self.collector = Collector::new(&target.collector, self.signal);
            self.target = target;
        }
    }

    /// Returns `time`, or the time until the thread must end if that is shorter. `None` if the thread must
    /// end now.
    fn within_end(&self, time: Duration) -> Option<Duration> {
        let Some(ends_at) = self.orders.borrow().ends_at else { return Some(time) };
        let left = ends_at.saturating_sub(Clock::system().now_exact());
        (!left.is_zero()).then(|| time.min(left))
    }

    /// Logs an accepted batch after a failure. Returns the number of rejected spans or values.
    fn accepted(&mut self, count: u64, rejected: u64) -> u64 {
        let (rejected, items) = (rejected.min(count), self.signal.items());
        if std::mem::take(&mut self.is_failing) {
            tracing::info!(collector = self.target.collector.url.origin(), "{items} are exported again");
        }
        if rejected > 0
            && let Some(Admitted { suppressed }) = self.rejected_log.admit()
        {
            tracing::warn!(rejected, suppressed, "the collector rejected {items}");
        }
        rejected
    }

    /// Logs the first failed attempt, because the next message follows only when the batch is given up.
    fn note_retry(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let (collector, items) = (self.target.collector.url.origin(), self.signal.items());
            tracing::warn!(collector, reason, "cannot export {items}, trying again");
        }
    }

    /// Logs a batch that is given up.
    fn given_up(&mut self, count: u64, reason: &str) {
        self.is_failing = true;
        if let Some(Admitted { suppressed }) = self.lost_log.admit() {
            let collector = self.target.collector.url.origin();
            let items = self.signal.items();
            tracing::warn!(
                collector,
                count,
                reason,
                suppressed,
                "exporting {items} failed, they are lost: check that the collector runs and accepts OTLP"
            );
        }
    }
}

/// The outcome of an attempt to export a batch.
struct Attempt {
    outcome: ExportOutcome,
    /// Status of the response, or the reason why there is no response.
    reason: String,
}

impl Attempt {
    const fn unavailable(reason: String) -> Self {
        Self { outcome: ExportOutcome::Unavailable { retry_after: None }, reason }
    }
}

/// Waits until the thread must end. Returns at once if the sender of the orders is gone.
async fn end_of_service(mut orders: watch::Receiver<Order>) {
    let order = orders.wait_for(|order| order.ends_at.is_some()).await;
    let ends_at = order.ok().and_then(|order| order.ends_at);
    let left = ends_at.unwrap_or_default().saturating_sub(Clock::system().now_exact());
    sleep(left).await;
}

/// Returns the output of `sending`, or `None` if `end` completes first.
async fn send_until<T>(
    sending: impl Future<Output = T>,
    mut end: Pin<&mut impl Future<Output = ()>>,
) -> Option<T> {
    let mut sending = pin!(sending);
    poll_fn(|cx| match sending.as_mut().poll(cx) {
        Poll::Ready(sent) => Poll::Ready(Some(sent)),
        Poll::Pending => end.as_mut().poll(cx).map(|()| None),
    })
    .await
}

/// The connection to a collector.
enum Collector {
    Http(HttpCollector),
    Grpc(GrpcCollector),
}

impl Collector {
    fn new(config: &CollectorConfig, signal: Signal) -> Self {
        match config.protocol {
            OtlpProtocol::Http => Self::Http(HttpCollector::new(config, signal)),
            OtlpProtocol::Grpc => Self::Grpc(GrpcCollector::new(config, signal)),
        }
    }

    const fn framing(&self) -> Framing {
        match self {
            Self::Http(_) => Framing::None,
            Self::Grpc(_) => Framing::Grpc,
        }
    }

    /// Sends an `ExportTraceServiceRequest` or an `ExportMetricsServiceRequest` with its framing.
    ///
    /// # Errors
    /// Returns an error if no response arrives.
    async fn send(&mut self, message: Bytes) -> Result<CollectorResponse, CollectorError> {
        match self {
            Self::Http(collector) => collector.send(message).await,
            Self::Grpc(collector) => collector.send(message).await,
        }
    }

    /// Closes the connection after a timeout, so that the next attempt opens another one.
    fn disconnect(&mut self) {
        if let Self::Grpc(collector) = self {
            collector.disconnect();
        }
    }
}

/// Maximum duration of an attempt.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
