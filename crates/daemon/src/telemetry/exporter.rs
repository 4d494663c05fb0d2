//! The thread that sends spans to a collector. Requests never wait for this thread: they put their spans into
//! a bounded queue, and a full queue drops spans.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thruway_net::{Admitted, Clock, LogLimit};
use thruway_telemetry::{ExportOutcome, Resource, RetrySchedule, SpanBatch, SpanQueue, encode_request};
use tokio::runtime;
use tokio::sync::watch;
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

use super::collector_error::{CollectorError, CollectorResponse};
use super::grpc::GrpcCollector;
use super::http::HttpCollector;
use crate::config::{CollectorConfig, OtlpProtocol};

/// A running exporter.
pub(super) struct Exporter {
    orders: watch::Sender<Order>,
    thread: JoinHandle<()>,
}

/// The destination of the spans, and the attributes of this process.
#[derive(Clone)]
pub(super) struct ExportTarget {
    pub(super) resource: Resource,
    pub(super) collector: CollectorConfig,
}

/// The instructions for the thread.
#[derive(Clone)]
struct Order {
    target: Arc<ExportTarget>,
    /// Time at which the thread must end. `None` while the service runs.
    ends_at: Option<Duration>,
}

/// The state of the thread.
struct ExportLoop {
    queue: Arc<SpanQueue>,
    orders: watch::Receiver<Order>,
    target: Arc<ExportTarget>,
    collector: Collector,
    /// `true` if the last attempt has failed.
    is_failing: bool,
}

impl Exporter {
    /// Starts the thread, which sends the spans in `queue` to `target`.
    pub(super) fn start(queue: Arc<SpanQueue>, target: ExportTarget) -> io::Result<Self> {
        let order = Order { target: Arc::new(target), ends_at: None };
        let (orders, receiver) = watch::channel(order.clone());
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name("telemetry".to_owned()).spawn(move || {
            LocalSet::new().block_on(&runtime, async move {
                let collector = Collector::new(&order.target.collector);
                let target = order.target;
                let mut export = ExportLoop { queue, orders: receiver, target, collector, is_failing: false };
                export.run().await;
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

    /// Sends the remaining spans and ends the thread. Waits at most [`FINISH_TIME`].
    pub(super) fn finish(self) {
        let ends_at = Clock::system().now_exact() + FINISH_TIME;
        self.orders.send_modify(|order| order.ends_at = Some(ends_at));
        if self.thread.join().is_err() {
            tracing::error!("the thread that exports spans has panicked");
        }
    }
}

impl ExportLoop {
    async fn run(&mut self) {
        let mut flushed = Clock::system().now_exact();
        loop {
            let ends_at = self.orders.borrow().ends_at;
            let is_due = Clock::system().now_exact().saturating_sub(flushed) >= FLUSH_EVERY;
            if is_due || ends_at.is_some() || self.queue.bytes() >= FLUSH_BYTES {
                while let Some(batch) = self.queue.take() {
                    self.export(batch).await;
                }
                flushed = Clock::system().now_exact();
            }
            if ends_at.is_some() {
                return;
            }
            // An error means that the sender is gone, so the service has ended.
            if let Ok(Err(_)) = timeout(LOOK_EVERY, self.orders.changed()).await {
                return;
            }
        }
    }

    /// Sends `batch`, and repeats a failed attempt until the retry schedule gives up.
    async fn export(&mut self, batch: SpanBatch) {
        let mut schedule = RetrySchedule::start(Clock::system().now_exact());
        let failed = loop {
            self.follow_orders();
            let Attempt { outcome, reason } = self.attempt(&batch).await;
            let retry_after = match outcome {
                ExportOutcome::Accepted { rejected } => break self.accepted(&batch, rejected),
                ExportOutcome::Refused => break self.given_up(&batch, &reason),
                ExportOutcome::Unavailable { retry_after } => retry_after,
            };
            let delay = schedule.next_delay(Clock::system().now_exact(), retry_after, fastrand::f64());
            let Some(delay) = delay.and_then(|delay| self.within_end(delay)) else {
                break self.given_up(&batch, &reason);
            };
            self.note_retry(&reason);
            // A new target or the end of the service ends the delay. An error means that the sender is gone.
            if let Ok(Err(_)) = timeout(delay, self.orders.changed()).await {
                break self.given_up(&batch, &reason);
            }
        };
        self.queue.finish(batch, failed);
    }

    async fn attempt(&mut self, batch: &SpanBatch) -> Attempt {
        let message = encode_request(&self.target.resource, batch.bytes());
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
            self.collector = Collector::new(&target.collector);
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

    /// Logs an accepted batch after a failure. Returns the number of failed spans.
    fn accepted(&mut self, batch: &SpanBatch, rejected: u64) -> u64 {
        let rejected = rejected.min(batch.spans());
        if std::mem::take(&mut self.is_failing) {
            tracing::info!(collector = self.target.collector.url.origin(), "spans are exported again");
        }
        if rejected > 0 {
            static LIMIT: LogLimit = LogLimit::new();
            if let Some(Admitted { suppressed }) = LIMIT.admit() {
                tracing::warn!(rejected, suppressed, "the collector rejected spans");
            }
        }
        rejected
    }

    /// Logs the first failed attempt, because the next message follows only when the batch is given up.
    fn note_retry(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let collector = self.target.collector.url.origin();
            tracing::warn!(collector, reason, "cannot export spans, trying again for up to two minutes");
        }
    }

    /// Logs a batch that is given up. Returns the number of failed spans.
    fn given_up(&mut self, batch: &SpanBatch, reason: &str) -> u64 {
        static LIMIT: LogLimit = LogLimit::new();
        self.is_failing = true;
        if let Some(Admitted { suppressed }) = LIMIT.admit() {
            let (collector, spans) = (self.target.collector.url.origin(), batch.spans());
            tracing::warn!(
                collector,
                spans,
                reason,
                suppressed,
                "exporting spans failed, the spans are lost: check that the collector runs and accepts OTLP"
            );
        }
        batch.spans()
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
    fn new(config: &CollectorConfig) -> Self {
        match config.protocol {
            OtlpProtocol::Http => Self::Http(HttpCollector::new(config)),
            OtlpProtocol::Grpc => Self::Grpc(GrpcCollector::new(config)),
        }
    }

    /// Sends an `ExportTraceServiceRequest`.
    ///
    /// # Errors
    /// Returns an error if no response arrives.
    async fn send(&mut self, message: Vec<u8>) -> Result<CollectorResponse, CollectorError> {
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

/// Time between two looks at the queue.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Maximum time for which spans wait for other spans of their batch.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Size of the queue from which spans do not wait.
const FLUSH_BYTES: usize = 512 << 10;

/// Maximum duration of an attempt.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for the last export at the end of the service.
const FINISH_TIME: Duration = Duration::from_secs(2);
