//! Serves `/metrics`: counters, gauges and histograms.

use std::time::{Duration, SystemTime};

use thruway_gateway::{MirrorCounts, ResponseCounts, RouteMeter, ServerState, ServerStatus, WaitingCounts};
use thruway_net::Clock;
use thruway_net::tls::TlsFailure;
use thruway_server::{DroppedLines, Request, Response, StatusCode, Version};
use thruway_telemetry::{
    Exemplar, ExportCounts, HistogramPoint, MetricKind as Kind, MetricsCollection, MetricsEncoder,
};

use super::exposition::{Exposition, MetricFamily};
use super::fleet::write_fleet;
use super::mcp::write_mcp;
use super::negotiation::MetricsFormat;
use super::process::write_resources;
use super::state::ServiceState;
use super::store::write_store;
use crate::running_state::RunningConfig;
use crate::telemetry::LiveTelemetry;
use crate::tls::{ListenerCertificate, TlsManager};

pub(super) fn answer(admin: &ServiceState, request: &Request<'_>) -> Response {
    let format = MetricsFormat::accepted(request.field("accept").map(|accept| accept.as_bytes()));
    Response::ok(format.fields(), metrics_in(format, admin))
}

/// Returns all metrics in the text format of Prometheus.
pub(crate) fn metrics(admin: &ServiceState) -> String {
    metrics_in(MetricsFormat::Prometheus, admin)
}

/// Returns all metrics for an export.
pub(crate) fn collected_metrics(admin: &ServiceState) -> MetricsCollection {
    let now = Clock::system().time_of_day_exact();
    let (start, now) = (unix_nanos(admin.started_at), unix_nanos(now));
    let encoder = MetricsEncoder::new(start, now, MetricsEncoder::BYTES_MAX);
    let mut exposition = Exposition::for_export(encoder);
    write_all(&mut exposition, admin);
    exposition.into_collection()
}

fn metrics_in(format: MetricsFormat, admin: &ServiceState) -> String {
    let mut exposition = Exposition::new(format);
    write_all(&mut exposition, admin);
    exposition.into_text()
}

fn write_all(exposition: &mut Exposition, admin: &ServiceState) {
    let running = admin.running_state.load();
    write_process(exposition, admin);
    write_resources(exposition);
    write_logs(exposition, admin);
    write_routes(exposition, &running);
    write_active_requests(exposition, &running);
    write_unrouted(exposition, &running);
    write_policies(exposition, &running);
    write_mirrors(exposition, &running);
    write_streams(exposition, admin, &running);
    write_upstreams(exposition, &running);
    write_servers(exposition, &running);
    write_mcp(exposition, &running);
    write_certificates(exposition, &admin.tls_manager);
    write_staples(exposition, &admin.tls_manager);
    write_store(exposition, &running.store);
    write_fleet(exposition, admin.fleet(), &running);
    write_exports(exposition, admin.running_state.telemetry());
}

fn write_process(exposition: &mut Exposition, admin: &ServiceState) {
    let uptime = Clock::system().now_exact().saturating_sub(admin.started);
    let loads = admin.server.loads();
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    exposition
        // Prometheus 2.42 refuses the type `info` of OpenMetrics.
        .family("thruway_build_info", Kind::Gauge, "Version of Thruway, in the label. The value is always 1.")
        .sample(&version, 1_u64);
    exposition
        .family("process_uptime_seconds", Kind::Gauge, "Time since the process started.")
        .sample(&[], uptime.as_secs_f64());
    exposition
        .family("thruway_client_connections", Kind::Gauge, "Open client connections.")
        .sample(&[], loads.iter().map(|load| load.connections).sum::<usize>());
    exposition
        .family(
            "thruway_client_connections_accepted_total",
            Kind::Counter,
            "Accepted client connections since the process started.",
        )
        .sample(&[], loads.iter().map(|load| load.connections_total).sum::<u64>());
    let help = "Client errors since the process started: request bodies that were incomplete, malformed or too \
                slow, and connections without a valid PROXY header.";
    exposition
        .family("thruway_client_errors_total", Kind::Counter, help)
        .sample(&[], loads.iter().map(|load| load.client_faults_total).sum::<u64>());
    let help = "Failed TLS handshakes with clients since the process started, by cause.";
    let mut family = exposition.family("thruway_client_tls_failures_total", Kind::Counter, help);
    for (place, cause) in TlsFailure::NAMES.into_iter().enumerate() {
        let count: u64 = loads.iter().map(|load| load.tls_failures_total[place]).sum();
        family.sample(&[("error_type", cause)], count);
    }
}

/// Writes the numbers of exported spans if tracing is or was on, and the numbers of exported values of
/// metrics if their export is or was on.
fn write_exports(exposition: &mut Exposition, telemetry: &LiveTelemetry) {
    let mut write = |name, help, count| exposition.family(name, Kind::Counter, help).sample(&[], count);
    if let Some(ExportCounts { exported, dropped, failed }) = telemetry.span_counts() {
        write("thruway_spans_exported_total", "Spans that the collector has accepted.", exported);
        let help = "Spans that were dropped because the queue was full.";
        write("thruway_spans_dropped_total", help, dropped);
        let help = "Spans that the collector has rejected, or that no collector has accepted in time.";
        write("thruway_spans_failed_total", help, failed);
    }
    if let Some(ExportCounts { exported, dropped, failed }) = telemetry.metric_counts() {
        let help = "Values of metrics that the collector has accepted.";
        write("thruway_metric_values_exported_total", help, exported);
        let help = "Values of metrics that were dropped because an export was too large.";
        write("thruway_metric_values_dropped_total", help, dropped);
        let help =
            "Values of metrics that the collector has rejected, or that no collector has accepted in time.";
        write("thruway_metric_values_failed_total", help, failed);
    }
}

/// Writes the numbers of lines that the access log and the audit logs did not write.
fn write_logs(exposition: &mut Exposition, admin: &ServiceState) {
    let mut write = |name, logs, dropped: DroppedLines| {
        let help = format!(
            "Lines that {logs} did not write. Reason `buffer_full`: the target is too slow; `target_failed`: \
             the target refused the line, or was absent at the end."
        );
        let mut lines = exposition.family(name, Kind::Counter, &help);
        lines.sample(&[("reason", "buffer_full")], dropped.buffer_full);
        lines.sample(&[("reason", "target_failed")], dropped.target_failed);
    };
    write("thruway_access_log_dropped_lines_total", "the access log", admin.log.dropped());
    let of_audit = admin.audit_logs.dropped();
    write("thruway_mcp_audit_log_dropped_lines_total", "the audit logs of MCP endpoints", of_audit);
}

/// Writes `http.server.active_requests` of the OpenTelemetry semantic conventions.
fn write_active_requests(exposition: &mut Exposition, running: &RunningConfig) {
    let help = "Requests from clients without a response header yet.";
    let mut family = exposition.family("http_server_active_requests", Kind::UpDownCounter, help);
    for route in &running.routes {
        for count in route.meter.iter().flat_map(|meter| meter.active()) {
            let labels = [
                ("http_route", route.label.as_str()),
                ("http_request_method", count.method),
                ("url_scheme", if count.is_https { "https" } else { "http" }),
            ];
            family.sample(&labels, count.requests);
        }
    }
}

/// Writes `http.server.request.duration` of the OpenTelemetry semantic conventions.
fn write_routes(exposition: &mut Exposition, running: &RunningConfig) {
    let help = "Duration of requests from clients: from the request header to the response header.";
    let mut family = exposition.family("http_server_request_duration_seconds", Kind::Histogram, help);
    for route in &running.routes {
        for durations in route.meter.iter().flat_map(|meter| meter.durations()) {
            let status = durations.attributes.map(|attributes| StatusLabels::of(attributes.status));
            let mut labels = vec![("http_route", route.label.as_str())];
            match &durations.attributes {
                Some(attributes) => labels.extend([
                    ("http_request_method", attributes.method),
                    ("url_scheme", if attributes.is_https { "https" } else { "http" }),
                    ("network_protocol_version", protocol_version(attributes.version)),
                ]),
                None => labels.push(OVERFLOW),
            }
            labels.extend(status.iter().flat_map(StatusLabels::pairs));
            family.histogram(&labels, &http_point(durations.sum, &durations.buckets, &durations.exemplars));
        }
    }
}

/// Returns the value of `network.protocol.version`.
fn protocol_version(version: Version) -> &'static str {
    match version {
        Version::Http2 => "2",
        other => other.as_str().trim_start_matches("HTTP/"),
    }
}

/// Label of the sample that counts all further requests, if a route or server has reached its maximum number
/// of samples.
const OVERFLOW: (&str, &str) = ("otel_metric_overflow", "true");

/// The labels for a response status.
struct StatusLabels {
    status: StatusCode,
    code: String,
}

impl StatusLabels {
    fn of(status: StatusCode) -> Self {
        Self { status, code: status.as_u16().to_string() }
    }

    /// Returns `http.response.status_code` if a response was sent, and `error.type` if the request failed.
    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let code = ("http_response_status_code", &*self.code);
        let error = match self.status.as_u16() {
            499 => [Some(("error_type", "client_disconnected")), None],
            500.. => [Some(code), Some(("error_type", &*self.code))],
            _ => [Some(code), None],
        };
        error.into_iter().flatten()
    }
}

fn write_unrouted(exposition: &mut Exposition, running: &RunningConfig) {
    exposition
        .family("thruway_unrouted_requests_total", Kind::Counter, "Requests that matched no route.")
        .sample(&[], running.unrouted.get());
}

fn write_policies(exposition: &mut Exposition, running: &RunningConfig) {
    let mut refusals =
        exposition.family("thruway_policy_refusals_total", Kind::Counter, "Requests that a policy refused.");
    for route in &running.routes {
        for (policy, count) in &route.refusals {
            refusals.sample(&[("route", &route.label), ("policy", policy)], count.get());
        }
    }
}

fn write_mirrors(exposition: &mut Exposition, running: &RunningConfig) {
    let mut requests = exposition.family(
        "thruway_mirror_requests_total",
        Kind::Counter,
        "Requests to routes with a mirror. Outcome `mirrored`: copied; `busy`: not copied, because too many copies were in progress; `arriving`: not copied, because the body was incomplete; `refused`: not copied, because the path could not be rewritten or the request was in a loop.",
    );
    for route in &running.routes {
        let Some(mirror) = &route.mirror else { continue };
        let MirrorCounts { mirrored, busy, arriving, refused } = mirror.counts();
        let outcomes = [("mirrored", mirrored), ("busy", busy), ("arriving", arriving), ("refused", refused)];
        for (outcome, count) in outcomes {
            requests.sample(&[("route", &route.label), ("outcome", outcome)], count);
        }
    }
}

fn write_streams(exposition: &mut Exposition, admin: &ServiceState, running: &RunningConfig) {
    let counts =
        || admin.tcp_listeners(running).map(|(listener, listening)| (listener, listening.forward.counts()));
    let mut open = exposition.family("thruway_tcp_streams", Kind::Gauge, "Open TCP streams.");
    for (listener, counts) in counts() {
        open.sample(&[("listener", &listener)], counts.open);
    }
    let help = "Ended TCP streams by reason.";
    let mut ended = exposition.family("thruway_tcp_streams_ended_total", Kind::Counter, help);
    for (listener, counts) in counts() {
        for (end, count) in counts.ended {
            ended.sample(&[("listener", &listener), ("reason", end)], count);
        }
    }
    let help = "Bytes of TCP streams, from clients and to clients.";
    let mut bytes = exposition.family("thruway_tcp_bytes_total", Kind::Counter, help);
    for (listener, counts) in counts() {
        bytes.sample(&[("listener", &listener), ("direction", "received")], counts.received_bytes);
        bytes.sample(&[("listener", &listener), ("direction", "sent")], counts.sent_bytes);
    }
}

fn write_upstreams(exposition: &mut Exposition, running: &RunningConfig) {
    let mut waiting = exposition.family(
        "thruway_upstream_queued_requests",
        Kind::Gauge,
        "Requests that wait in the queue for a server.",
    );
    for upstream in &running.upstreams {
        waiting.sample(&[("upstream", upstream.name())], upstream.waiting());
    }
    write_waiting_times(exposition, running);
    write_response_times(exposition, running);
    let help = "Idle connections to servers.";
    let mut idle = exposition.family("thruway_upstream_idle_connections", Kind::Gauge, help);
    for upstream in &running.upstreams {
        idle.sample(&[("upstream", upstream.name())], upstream.idle_connections());
    }
    let help = "Open connections to servers, except connections for health checks.";
    let mut open = exposition.family("thruway_upstream_connections", Kind::Gauge, help);
    for upstream in &running.upstreams {
        open.sample(&[("upstream", upstream.name())], upstream.open_connections());
    }
    let mut retries = exposition.family("thruway_upstream_retries_total", Kind::Counter, "Retried requests.");
    for upstream in &running.upstreams {
        retries.sample(&[("upstream", upstream.name())], upstream.retries());
    }
    let mut failures = exposition.family(
        "thruway_upstream_failures_total",
        Kind::Counter,
        "Requests for which no server was available, by error type (RFC 9209).",
    );
    for upstream in &running.upstreams {
        for (reason, count) in upstream.failures() {
            failures.sample(&[("upstream", upstream.name()), ("error_type", reason)], count);
        }
    }
}

fn write_waiting_times(exposition: &mut Exposition, running: &RunningConfig) {
    let mut times = exposition.family(
        "thruway_upstream_queue_duration_seconds",
        Kind::Histogram,
        "Time that a request waited in the queue. Requests that did not wait are not counted.",
    );
    for upstream in &running.upstreams {
        let WaitingCounts { buckets, time } = upstream.waiting_counts();
        let (bounds, buckets) = (&WaitingCounts::BOUNDS, &buckets);
        let point = HistogramPoint { bounds, buckets, sum: time, exemplars: &[] };
        times.histogram(&[("upstream", upstream.name())], &point);
    }
}

fn write_response_times(exposition: &mut Exposition, running: &RunningConfig) {
    let mut times = exposition.family(
        "thruway_upstream_request_duration_seconds",
        Kind::Histogram,
        "Time from the arrival of a request to the response header, including queue and retries.",
    );
    for upstream in &running.upstreams {
        let ResponseCounts { buckets, time, exemplars } = upstream.response_counts();
        times.histogram(&[("upstream", upstream.name())], &http_point(time, &buckets, &exemplars));
    }
}

/// Returns the state of a histogram of HTTP requests.
const fn http_point<'p>(sum: Duration, buckets: &'p [u64], exemplars: &'p [Exemplar]) -> HistogramPoint<'p> {
    HistogramPoint { bounds: &RouteMeter::BOUNDS, buckets, sum, exemplars }
}

fn write_servers(exposition: &mut Exposition, running: &RunningConfig) {
    let servers: Vec<Server<'_>> = running
        .upstreams
        .iter()
        .flat_map(|upstream| {
            let statuses = upstream.server_statuses().into_iter();
            statuses.map(|status| Server {
                upstream: upstream.name(),
                address: match status.address.tcp() {
                    Some(address) => address.ip().to_string(),
                    None => status.address.to_string().trim_start_matches("unix:").to_owned(),
                },
                port: status.address.tcp().map(|address| address.port().to_string()),
                status,
            })
        })
        .collect();
    write_server_durations(exposition, &servers);
    let mut write = |name, kind, help, sample: &dyn Fn(&Server<'_>, &mut MetricFamily<'_>)| {
        let mut family = exposition.family(name, kind, help);
        for server in &servers {
            sample(server, &mut family);
        }
    };
    write(
        "thruway_server_requests_total",
        Kind::Counter,
        "Requests sent to the server.",
        &|server, family| {
            family.sample(
                &server.labels(),
                server.status.connections_opened + server.status.connections_reused,
            );
        },
    );
    write(
        "thruway_server_requests_in_flight",
        Kind::Gauge,
        "Requests in progress on the server.",
        &|server, family| {
            family.sample(&server.labels(), server.status.in_flight);
        },
    );
    let help = "Requests that opened a new connection to the server.";
    write("thruway_server_connections_opened_total", Kind::Counter, help, &|server, family| {
        family.sample(&server.labels(), server.status.connections_opened);
    });
    let help = "Requests that reused a connection to the server.";
    write("thruway_server_connections_reused_total", Kind::Counter, help, &|server, family| {
        family.sample(&server.labels(), server.status.connections_reused);
    });
    let help = "Failed requests, by error type (RFC 9209).";
    write("thruway_server_failures_total", Kind::Counter, help, &|server, family| {
        for (reason, count) in &server.status.failures {
            family.sample(&[&server.labels()[..], &[("error_type", *reason)]].concat(), *count);
        }
    });
    write(
        "thruway_server_state",
        Kind::Gauge,
        "1 for the current state of the server, 0 for the other states.",
        &|server, family| {
            for state in ServerState::ALL {
                let is_it = state == server.status.state;
                family.sample(&[&server.labels()[..], &[("state", state.as_str())]].concat(), is_it);
            }
        },
    );
}

/// Writes `http.client.request.duration` of the OpenTelemetry semantic conventions.
fn write_server_durations(exposition: &mut Exposition, servers: &[Server<'_>]) {
    let help = "Duration of requests to servers: from the end of the request to the response header. For requests \
                without a body, the duration includes the time to connect.";
    let mut family = exposition.family("http_client_request_duration_seconds", Kind::Histogram, help);
    for server in servers {
        for durations in &server.status.durations {
            let status = durations.attributes.map(|attributes| StatusLabels::of(attributes.status));
            let mut labels = server.labels();
            labels.push(match &durations.attributes {
                Some(attributes) => ("http_request_method", attributes.method),
                None => OVERFLOW,
            });
            labels.extend(status.iter().flat_map(StatusLabels::pairs));
            family.histogram(&labels, &http_point(durations.sum, &durations.buckets, &durations.exemplars));
        }
    }
}

fn write_certificates(exposition: &mut Exposition, tls_manager: &TlsManager) {
    let help = "Expiry of a certificate, in seconds since 1970.";
    let mut ends = exposition.family("thruway_certificate_not_after_timestamp_seconds", Kind::Gauge, help);
    for ListenerCertificate { listener, certificate } in tls_manager.listener_certificates() {
        let (listener, file) = (listener.to_string(), certificate.path.to_string_lossy());
        let labels = [("listener", &*listener), ("file", &*file)];
        ends.sample(&labels, since_epoch(certificate.contents.validity.not_after));
    }
    let orders = tls_manager.acme_statuses();
    let help = "Number of consecutive failed orders for a certificate.";
    let mut failures = exposition.family("thruway_acme_consecutive_failures", Kind::Gauge, help);
    for order in &orders {
        failures.sample(&[("name", order.names.first())], order.failures);
    }
    let help = "Time of the next order for a certificate, in seconds since 1970.";
    let mut next = exposition.family("thruway_acme_next_order_timestamp_seconds", Kind::Gauge, help);
    for order in &orders {
        next.sample(&[("name", order.names.first())], since_epoch(order.next_at));
    }
}

fn write_staples(exposition: &mut Exposition, tls_manager: &TlsManager) {
    let staples = tls_manager.ocsp_statuses();
    let help = "Expiry of the stapled OCSP response, in seconds since 1970.";
    let mut ends = exposition.family("thruway_ocsp_next_update_timestamp_seconds", Kind::Gauge, help);
    for staple in &staples {
        if let Some(next_update) = staple.next_update {
            ends.sample(&[("file", &staple.path.to_string_lossy())], since_epoch(next_update));
        }
    }
    let help = "Number of consecutive failed OCSP requests.";
    let mut failures = exposition.family("thruway_ocsp_consecutive_failures", Kind::Gauge, help);
    for staple in &staples {
        failures.sample(&[("file", &staple.path.to_string_lossy())], staple.failures);
    }
}

fn since_epoch(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn unix_nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// An upstream server with the values of its labels.
struct Server<'r> {
    upstream: &'r str,
    /// `server.address`: the IP address, or the path of a Unix socket.
    address: String,
    /// `server.port`. `None` for a Unix socket.
    port: Option<String>,
    status: ServerStatus,
}

impl Server<'_> {
    fn labels(&self) -> Vec<(&str, &str)> {
        let port = self.port.as_deref().map(|port| ("server_port", port));
        [("upstream", self.upstream), ("server_address", &self.address)].into_iter().chain(port).collect()
    }
}
