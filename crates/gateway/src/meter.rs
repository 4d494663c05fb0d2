//! Durations of requests, with the attributes of the OpenTelemetry HTTP metrics.
//!
//! Each worker counts in a separate shard. Counting takes no lock, and two workers never write to the same
//! cache line. Counting allocates memory only for the first request with new attributes.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thruway_net::Worker;
use thruway_server::{Method, Request, StatusCode, Version};
use thruway_telemetry::{Exemplar, Exemplars, RequestTrace};

/// Counts the requests of one route and their durations, for the OpenTelemetry metrics
/// `http.server.request.duration` and `http.server.active_requests`.
#[derive(Debug)]
pub struct RouteMeter {
    durations: DurationMeter<ServerAttributes>,
    active: Box<[ActiveRequests]>,
}

/// Requests of one worker by [`ActiveKind`]. The alignment keeps the counters of two workers in different
/// cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct ActiveRequests {
    begun: [AtomicU64; ActiveKind::COUNT],
    /// Requests that got a response, or ended without one.
    responded: [AtomicU64; ActiveKind::COUNT],
}

/// Method and scheme of a request: the index of the method in [`METHODS`], plus the number of methods for
/// `https`.
#[derive(Clone, Copy)]
struct ActiveKind(usize);

/// Attributes of a request from a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ServerAttributes {
    /// `http.request.method`: the name of a [known method](Method), or `_OTHER`.
    pub method: &'static str,
    /// `true` if `url.scheme` is `https`.
    pub is_https: bool,
    /// `network.protocol.version`.
    pub version: Version,
    /// `http.response.status_code`. The status is 499 if the client left before the response. The gateway
    /// never sends this status.
    pub status: StatusCode,
}

/// Attributes of a request to an upstream server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ClientAttributes {
    /// `http.request.method`: the name of a [known method](Method), or `_OTHER`.
    pub method: &'static str,
    /// `http.response.status_code`.
    pub status: StatusCode,
}

/// Number and durations of all requests with the same attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestDurations<K> {
    /// The attributes of the requests. Each worker has separate counters for at most
    /// [`RouteMeter::ATTRIBUTES_MAX`] sets of attributes. `None` for the shared counter of all other sets.
    pub attributes: Option<K>,
    /// Number of requests in each bucket of durations. [`RouteMeter::BOUNDS`] contains the upper bound of
    /// each bucket except the last. A request counts in the first bucket whose bound is at least its
    /// duration. If no bound is large enough, the request counts in the last bucket.
    pub buckets: [u64; BUCKETS],
    /// Sum of all durations.
    pub sum: Duration,
    /// At most one exemplar for each bucket: the newest request with an exported trace, as far as known.
    pub exemplars: Vec<Exemplar>,
}

impl<K> RequestDurations<K> {
    /// Returns the number of requests.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

impl RouteMeter {
    /// Upper bounds of the duration buckets. The last bucket has no bound.
    pub const BOUNDS: [Duration; BUCKETS - 1] = [
        Duration::from_micros(250),
        Duration::from_micros(500),
        Duration::from_millis(1),
        Duration::from_micros(2_500),
        Duration::from_millis(5),
        Duration::from_millis(10),
        Duration::from_millis(25),
        Duration::from_millis(50),
        Duration::from_millis(100),
        Duration::from_millis(250),
        Duration::from_millis(500),
        Duration::from_secs(1),
        Duration::from_millis(2_500),
        Duration::from_secs(5),
        Duration::from_secs(10),
    ];

    /// Maximum number of different sets of attributes that each worker counts separately.
    pub const ATTRIBUTES_MAX: usize = 32;

    /// Returns a meter with `workers` shards, one for each worker. If there are more workers, several
    /// workers share a shard.
    pub fn new(workers: usize) -> Self {
        let active = (0..workers.max(1)).map(|_| ActiveRequests {
            begun: std::array::from_fn(|_| AtomicU64::new(0)),
            responded: std::array::from_fn(|_| AtomicU64::new(0)),
        });
        Self { durations: DurationMeter::new(workers), active: active.collect() }
    }

    /// Counts a request that got its response after `duration`. `worker` is the index of the worker. The
    /// first worker has the index 0.
    pub fn record(&self, worker: usize, attributes: ServerAttributes, duration: Duration) {
        self.durations.record(worker, attributes, duration);
    }

    /// Adds an exemplar for a recorded request with the same worker and the same attributes. The meter keeps
    /// one exemplar for each worker, each set of attributes and each bucket.
    pub fn add_exemplar(&self, worker: usize, attributes: ServerAttributes, exemplar: Exemplar) {
        self.durations.add_exemplar(worker, attributes, exemplar);
    }

    /// Returns the durations of all requests so far, ordered by attributes.
    pub fn durations(&self) -> Vec<RequestDurations<ServerAttributes>> {
        self.durations.durations()
    }

    /// Returns the number of requests that have no response yet, for each method and scheme of earlier and
    /// current requests.
    pub fn active(&self) -> Vec<ActiveCount> {
        let sum = |counters: fn(&ActiveRequests) -> &[AtomicU64; ActiveKind::COUNT], place: usize| {
            let counters = self.active.iter().map(|shard| &counters(shard)[place]);
            counters.map(|counter| counter.load(Ordering::Relaxed)).sum::<u64>()
        };
        let counts = (0..ActiveKind::COUNT).map(|place| {
            // Reads the ends first. Otherwise, a request that begins and ends meanwhile could be counted as
            // ended, but not as begun.
            let responded = sum(|shard| &shard.responded, place);
            let begun = sum(|shard| &shard.begun, place);
            let (method, is_https) = (METHODS[place % METHODS.len()], place >= METHODS.len());
            (begun, ActiveCount { method, is_https, requests: begun.saturating_sub(responded) })
        });
        counts.filter(|(begun, _)| *begun > 0).map(|(_, count)| count).collect()
    }

    fn active_of(&self, worker: usize) -> &ActiveRequests {
        &self.active[worker % self.active.len()]
    }
}

/// Requests without a response that have the same method and scheme.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ActiveCount {
    /// `http.request.method`: the name of a [known method](Method), or `_OTHER`.
    pub method: &'static str,
    /// `true` if `url.scheme` is `https`.
    pub is_https: bool,
    /// Number of the requests.
    pub requests: u64,
}

impl ActiveKind {
    const COUNT: usize = 2 * METHODS.len();

    fn of(request: &Request<'_>) -> Self {
        let https = if request.scheme() == "https" { METHODS.len() } else { 0 };
        Self(method_index(request.method()) + https)
    }
}

impl ServerAttributes {
    /// Returns the attributes of `request`, with the response status `status`.
    pub fn of(request: &Request<'_>, status: StatusCode) -> Self {
        let (method, is_https) = (method_attribute(request.method()), request.scheme() == "https");
        Self { method, is_https, version: request.version(), status }
    }
}

/// Returns the value of `http.request.method` for `method`. All unknown methods share one value, because
/// clients can send any method name.
pub(crate) fn method_attribute(method: Method<'_>) -> &'static str {
    METHODS[method_index(method)]
}

/// Values of `http.request.method`.
const METHODS: [&str; 10] =
    ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE", "_OTHER"];

/// Returns the index of the value for `method` in [`METHODS`].
const fn method_index(method: Method<'_>) -> usize {
    match method {
        Method::Connect => 0,
        Method::Delete => 1,
        Method::Get => 2,
        Method::Head => 3,
        Method::Options => 4,
        Method::Patch => 5,
        Method::Post => 6,
        Method::Put => 7,
        Method::Trace => 8,
        Method::Other(_) => 9,
    }
}

/// A request that has no response yet. The meter counts the request when its response begins, or when this
/// value is dropped.
pub(crate) struct PendingRequest {
    /// The meter for the request. `None` after the meter has counted the request.
    meter: Option<Arc<RouteMeter>>,
    /// Attributes of the request. Before the response, the status in these attributes is 499, so that the
    /// meter counts 499 if the client leaves.
    attributes: ServerAttributes,
    kind: ActiveKind,
    began: Duration,
    worker: Rc<Worker>,
}

impl PendingRequest {
    /// Starts to measure the duration of `request`.
    pub(crate) fn new(meter: Arc<RouteMeter>, request: &Request<'_>) -> Self {
        Self::since(meter, request, request.worker().clock().now_exact())
    }

    /// Starts to measure the duration of `request`, which began at the time `began`.
    pub(crate) fn since(meter: Arc<RouteMeter>, request: &Request<'_>, began: Duration) -> Self {
        let worker = request.worker().clone();
        let attributes = ServerAttributes::of(request, CLIENT_CLOSED_REQUEST);
        let kind = ActiveKind::of(request);
        meter.active_of(worker.index()).begun[kind.0].fetch_add(1, Ordering::Relaxed);
        Self { meter: Some(meter), attributes, kind, began, worker }
    }

    /// Returns the time at which the request began.
    pub(crate) const fn began(&self) -> Duration {
        self.began
    }

    /// Counts the request with the status of its response.
    pub(crate) fn respond(mut self, status: StatusCode) {
        self.count(status);
    }

    /// Counts the request with the status of its response. Adds an exemplar if `trace` is exported.
    pub(crate) fn respond_traced(mut self, status: StatusCode, trace: &RequestTrace) {
        let Some(meter) = self.meter.take() else { return };
        let elapsed = self.count_in(&meter, status);
        let now = || self.worker.clock().time_of_day();
        if let Some(exemplar) = trace.exemplar(None, elapsed, status.as_u16() >= 500, now) {
            let attributes = ServerAttributes { status, ..self.attributes };
            meter.add_exemplar(self.worker.index(), attributes, exemplar);
        }
    }

    fn count(&mut self, status: StatusCode) {
        if let Some(meter) = self.meter.take() {
            self.count_in(&meter, status);
        }
    }

    /// Counts the request in `meter`, and returns its duration.
    #[inline]
    fn count_in(&self, meter: &RouteMeter, status: StatusCode) -> Duration {
        let active = meter.active_of(self.worker.index());
        active.responded[self.kind.0].fetch_add(1, Ordering::Relaxed);
        let elapsed = self.worker.clock().now_exact().saturating_sub(self.began);
        meter.record(self.worker.index(), ServerAttributes { status, ..self.attributes }, elapsed);
        elapsed
    }
}

/// Counts a request that got no response. Possible reasons: the client has left, the graceful shutdown has
/// stopped the request, or the handler has panicked.
impl Drop for PendingRequest {
    fn drop(&mut self) {
        if self.meter.is_none() {
            return;
        }
        self.count(match std::thread::panicking() {
            true => StatusCode::INTERNAL_SERVER_ERROR,
            false if self.worker.is_cut_off() => StatusCode::SERVICE_UNAVAILABLE,
            false => CLIENT_CLOSED_REQUEST,
        });
    }
}

/// Durations of requests by attributes, with one shard for each worker.
#[derive(Debug)]
pub(crate) struct DurationMeter<K> {
    shards: Box<[Shard<K>]>,
}

/// Counters of one worker. The alignment to two cache lines keeps the counters of two workers in different
/// cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<K> {
    /// Durations for each set of attributes. Unused entries are at the end. Workers that share a shard may
    /// add entries at the same time.
    series: [OnceLock<Box<Series<K>>>; RouteMeter::ATTRIBUTES_MAX],
    overflow: Durations,
}

#[derive(Debug)]
struct Series<K> {
    attributes: K,
    durations: Durations,
}

/// Durations of requests with the same attributes.
#[derive(Default, Debug)]
struct Durations {
    histogram: Histogram<BUCKETS>,
    exemplars: Exemplars<BUCKETS>,
}

impl<K: Copy + Ord> DurationMeter<K> {
    pub(crate) fn new(workers: usize) -> Self {
        Self { shards: (0..workers.max(1)).map(|_| Shard::default()).collect() }
    }

    pub(crate) fn record(&self, worker: usize, attributes: K, duration: Duration) {
        self.durations_of(worker, attributes).histogram.record(&RouteMeter::BOUNDS, duration);
    }

    #[inline]
    fn durations_of(&self, worker: usize, attributes: K) -> &Durations {
        let shard = &self.shards[worker % self.shards.len()];
        let new = || Box::new(Series { attributes, durations: Durations::default() });
        let series = shard.series.iter().map(|series| series.get_or_init(new));
        let durations = series.into_iter().find(|series| series.attributes == attributes);
        durations.map_or(&shard.overflow, |series| &series.durations)
    }

    /// Adds an exemplar for a recorded request.
    pub(crate) fn add_exemplar(&self, worker: usize, attributes: K, exemplar: Exemplar) {
        let bucket = exemplar.bucket(&RouteMeter::BOUNDS);
        self.durations_of(worker, attributes).exemplars.record(bucket, exemplar);
    }

    pub(crate) fn durations(&self) -> Vec<RequestDurations<K>> {
        let mut sums = BTreeMap::new();
        let mut add = |attributes: Option<K>, durations: &Durations| {
            let new = || RequestDurations {
                attributes,
                buckets: [0; BUCKETS],
                sum: Duration::ZERO,
                exemplars: Vec::new(),
            };
            let total = sums.entry(attributes).or_insert_with(new);
            // Reads the exemplars first, so that the request of each exemplar is counted.
            durations.exemplars.add_to(&mut total.exemplars, &RouteMeter::BOUNDS);
            total.sum += durations.histogram.add_to(&mut total.buckets);
        };
        for shard in &self.shards {
            for series in shard.series.iter().map_while(OnceLock::get) {
                add(Some(series.attributes), &series.durations);
            }
            add(None, &shard.overflow);
        }
        sums.into_values().filter(|durations| durations.count() > 0).collect()
    }
}

impl<K> Default for Shard<K> {
    fn default() -> Self {
        Self { series: std::array::from_fn(|_| OnceLock::new()), overflow: Durations::default() }
    }
}

/// Counts durations in buckets. A duration counts in the first bucket whose upper bound is at least the
/// duration. The last bucket has no upper bound.
#[derive(Debug)]
pub(crate) struct Histogram<const N: usize> {
    buckets: [AtomicU64; N],
    microseconds: AtomicU64,
}

impl<const N: usize> Histogram<N> {
    /// Counts the duration `time`. `bounds` contains the upper bounds of all buckets except the last
    /// bucket. All calls must pass the same bounds.
    #[inline]
    pub(crate) fn record(&self, bounds: &[Duration], time: Duration) {
        let bucket = bounds.partition_point(|bound| *bound < time);
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.microseconds.fetch_add(microseconds, Ordering::Relaxed);
    }

    /// Adds the counters of this histogram to `buckets`, and returns the sum of all durations.
    pub(crate) fn add_to(&self, buckets: &mut [u64; N]) -> Duration {
        for (sum, count) in buckets.iter_mut().zip(&self.buckets) {
            *sum += count.load(Ordering::Relaxed);
        }
        Duration::from_micros(self.microseconds.load(Ordering::Relaxed))
    }
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)), microseconds: AtomicU64::new(0) }
    }
}

/// Status in metrics for a request whose client left before the response. The gateway never sends this
/// status.
const CLIENT_CLOSED_REQUEST: StatusCode = match StatusCode::new(499) {
    Ok(status) => status,
    Err(_) => panic!("499 has three digits"),
};

pub(crate) const BUCKETS: usize = 16;

#[cfg(test)]
mod tests {
    use thruway_net::Clock;
    use thruway_telemetry::{Sampling, Tracer};

    use super::*;

    fn attributes(method: &'static str, status: u16) -> ServerAttributes {
        let status = StatusCode::new(status).unwrap();
        ServerAttributes { method, is_https: false, version: Version::Http11, status }
    }

    #[test]
    fn duration_counts_in_first_bucket_with_sufficient_bound() {
        let meter = RouteMeter::new(2);
        for microseconds in [0, 250, 251, 10_000_000, 10_000_001] {
            meter.record(0, attributes("GET", 200), Duration::from_micros(microseconds));
        }
        let [durations] = &meter.durations()[..] else { panic!("the attributes are equal") };
        let buckets = [0, 1, 14, 15].map(|bucket| durations.buckets[bucket]);
        assert_eq!((buckets, durations.count()), ([2, 1, 1, 1], 5));
        assert_eq!(durations.sum, Duration::from_micros(20_000_502));
    }

    #[test]
    fn requests_are_counted_by_attributes_across_workers() {
        let meter = RouteMeter::new(2);
        for (worker, method, status) in [(0, "GET", 200), (1, "GET", 200), (2, "POST", 200), (1, "GET", 404)]
        {
            meter.record(worker, attributes(method, status), Duration::from_millis(1));
        }
        let counts: Vec<_> =
            meter.durations().iter().map(|series| (series.attributes, series.count())).collect();
        let expected = [("GET", 200, 2), ("GET", 404, 1), ("POST", 200, 1)];
        assert_eq!(counts, expected.map(|(method, status, count)| (Some(attributes(method, status)), count)));
    }

    #[test]
    fn excess_attribute_sets_share_one_series() {
        let meter = RouteMeter::new(1);
        let most = u16::try_from(RouteMeter::ATTRIBUTES_MAX).unwrap();
        for status in (200..202 + most).chain([200]) {
            meter.record(0, attributes("GET", status), Duration::ZERO);
        }
        let durations = meter.durations();
        assert_eq!((durations.len(), durations[0].attributes, durations[0].count()), (33, None, 2));
        assert_eq!((durations[1].attributes, durations[1].count()), (Some(attributes("GET", 200)), 2));
    }

    #[test]
    fn traced_request_leaves_an_exemplar_in_its_series() {
        let (meter, worker) = (Arc::new(RouteMeter::new(1)), Worker::for_test(Clock::system()));
        let tracer = Tracer::new(Sampling { ratio: 0.0, slow: Duration::MAX });
        let trace = tracer.begin(None, "", Duration::ZERO);
        for status in [StatusCode::OK, StatusCode::BAD_GATEWAY] {
            let pending = PendingRequest {
                meter: Some(meter.clone()),
                attributes: attributes("GET", 499),
                kind: ActiveKind(2),
                began: worker.clock().now_exact(),
                worker: worker.clone(),
            };
            pending.respond_traced(status, &trace);
        }
        let [unsampled, failed] = &meter.durations()[..] else { panic!("two statuses") };
        assert_eq!((unsampled.count(), &*unsampled.exemplars), (1, &[][..]));
        let [exemplar] = &failed.exemplars[..] else { panic!("the trace of a failure is exported") };
        assert_eq!(exemplar.trace_id, trace.trace_parent().trace_id);
        assert_eq!(
            (failed.buckets[exemplar.bucket(&RouteMeter::BOUNDS)], failed.sum <= exemplar.value),
            (1, true)
        );
    }

    #[test]
    fn request_without_response_is_counted_once() {
        let meter = Arc::new(RouteMeter::new(1));
        let worker = Worker::for_test(Clock::system());
        let pending = || PendingRequest {
            meter: Some(meter.clone()),
            attributes: attributes("GET", 499),
            kind: ActiveKind(2),
            began: Duration::ZERO,
            worker: worker.clone(),
        };
        let statuses = || -> Vec<_> {
            let durations = meter.durations();
            durations
                .iter()
                .map(|series| (series.attributes.unwrap().status.as_u16(), series.count()))
                .collect()
        };
        pending().respond(StatusCode::OK);
        assert_eq!(statuses(), [(200, 1)]);
        drop(pending());
        assert_eq!(statuses(), [(200, 1), (499, 1)]);
        worker.cut_off_for_test();
        drop(pending());
        assert_eq!(statuses(), [(200, 1), (499, 1), (503, 1)]);
    }
}
