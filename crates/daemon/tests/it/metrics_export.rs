//! Exemplars in `/metrics`, and the export of metrics to a collector.

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use thruway_daemon::Daemon;
use thruway_net::Clock;
use thruway_server::{Listener, OwnedRequest, Response, RunningServer, Server};
use thruway_testkit::otlp_metrics::decode_metrics;

use crate::client::{TIMEOUT, address_of, connect, end, get, tcp};
use crate::collector::{ACCEPTED, metric, receive_metrics, serve, total_count};
use crate::tracing::PARENT;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn daemon(server: &str, telemetry: &str) -> Daemon {
    let text = format!(
        "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/api\"\nupstream = \"u\"\n\
         [[routes]]\npath_exact = \"/fixed\"\nrespond.body = \"fixed\"\n\
         [upstreams.u]\nservers = [\"{server}\"]\n{telemetry}\n"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Daemon::from_file(file.path()).unwrap()
}

/// Returns the response to a request with `fields`.
fn request(address: &thruway_server::ListenAddr, target: &str, fields: &str) -> String {
    let mut stream = connect(address);
    let host = tcp(address);
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn sampled(daemon: &Daemon, target: &str) {
    request(&address_of(daemon), target, &format!("traceparent: {PARENT}\r\n"));
}

fn count(daemon: &Daemon, name: &str) -> u64 {
    let metrics = daemon.handle().metrics();
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().unwrap())
}

fn wait_for_count(daemon: &Daemon, name: &str) {
    while count(daemon, name) == 0 {
        thread::yield_now();
    }
}

#[test]
fn openmetrics_has_exemplars_of_sampled_requests() {
    let (server, _requests) = serve(&[OK]);
    let (collector, _exports) = serve(&[ACCEPTED]);
    let admin = "[admin]\naddress = \"127.0.0.1:0\"";
    let telemetry = format!("{admin}\n[telemetry]\notlp = \"http://{collector}\"\nsample_ratio = 0");
    let daemon = daemon(&server.to_string(), &telemetry);
    let scrape =
        |accept: &str| request(&daemon.admin_addresses()[0], "/metrics", &format!("Accept: {accept}\r\n"));
    let exemplars = |text: &str| {
        let lines = text.lines().filter(|line| line.contains(" # {"));
        lines.map(|line| line.split_once('{').unwrap().0.to_owned()).collect::<Vec<_>>()
    };
    for target in ["/api", "/fixed"] {
        request(&address_of(&daemon), target, "");
    }
    assert_eq!(exemplars(&scrape("application/openmetrics-text")), [""; 0]);
    for target in ["/api", "/fixed"] {
        sampled(&daemon, target);
    }
    let text = scrape("application/openmetrics-text");
    let expected = [
        "http_server_request_duration_seconds_bucket",
        "http_server_request_duration_seconds_bucket",
        "thruway_upstream_request_duration_seconds_bucket",
        "http_client_request_duration_seconds_bucket",
    ];
    assert_eq!(exemplars(&text), expected, "{text}");
    let exemplar = "# {trace_id=\"0af7651916cd43dd8448eb211c80319c\",span_id=\"";
    assert_eq!(text.matches(exemplar).count(), 4);
    assert_eq!(exemplars(&scrape("text/plain")), [""; 0]);
    end(daemon);
}

#[test]
fn metrics_are_exported_with_the_names_of_opentelemetry() {
    let (server, _requests) = serve(&[OK]);
    let (collector, exports) = serve(&[ACCEPTED]);
    let telemetry = format!(
        "[telemetry]\notlp = \"http://{collector}\"\nservice_name = \"edge\"\nmetrics = true\n\
         metrics_interval = \"1s\""
    );
    let daemon = daemon(&server.to_string(), &telemetry);
    sampled(&daemon, "/api");
    get(&address_of(&daemon), "/fixed");

    let server_duration = "http.server.request.duration";
    let (resource, metrics) = receive_metrics(&exports, |metrics| total_count(metrics, server_duration) == 2);
    assert_eq!(resource["service.name"], "edge");
    let durations = metric(&metrics, server_duration).unwrap();
    assert_eq!((&*durations.unit, durations.kind, durations.points.len()), ("s", "histogram", 2));
    let api = &durations.points[0];
    let names = ["http.route", "http.request.method", "url.scheme", "http.response.status_code"];
    assert_eq!(names.map(|name| &*api.attributes[name]), ["/api and below", "GET", "http", "200"]);
    assert_eq!((api.count, api.buckets.iter().sum::<u64>()), (1, 1));
    assert_eq!((api.buckets.len(), api.bounds.len()), (16, 15));
    assert!(api.bounds.is_sorted() && api.value > 0.0);
    assert!(0 < api.nanos.0 && api.nanos.0 < api.nanos.1);
    let [exemplar] = &api.exemplars[..] else { panic!("{api:?}") };
    assert_eq!(exemplar.trace_id, "0af7651916cd43dd8448eb211c80319c");
    assert!(exemplar.value > 0.0 && exemplar.nanos <= api.nanos.1);

    let client = metric(&metrics, "http.client.request.duration").unwrap();
    assert_eq!((&*client.unit, client.points.len()), ("s", 1));
    assert_eq!(client.points[0].attributes["server.port"], server.port().to_string());
    assert_eq!(client.points[0].exemplars[0].trace_id, exemplar.trace_id);
    assert_ne!(client.points[0].exemplars[0].span_id, exemplar.span_id, "the attempt has its own span");
    let active = metric(&metrics, "http.server.active_requests").unwrap();
    assert_eq!((&*active.unit, active.kind), ("{request}", "sum"));
    let accepted = metric(&metrics, "thruway.client_connections_accepted").unwrap();
    assert_eq!((accepted.kind, &*accepted.points[0].value.to_string()), ("monotonic sum", "2"));
    assert_eq!(metric(&metrics, "process.uptime").unwrap().kind, "gauge");

    // Each metric of a scrape is exported too.
    let text = daemon.handle().metrics();
    let scraped = text.lines().filter(|line| line.starts_with("# TYPE"));
    let empty = |name: &str| !text.lines().any(|line| line.starts_with(name));
    let scraped = scraped.filter(|line| !empty(line.split(' ').nth(2).unwrap())).count();
    let own = text.lines().filter(|line| line.starts_with("# TYPE thruway_metric_values")).count();
    assert_eq!((own, scraped), (3, metrics.len()), "{text}");

    wait_for_count(&daemon, "thruway_metric_values_exported_total");
    assert_eq!(count(&daemon, "thruway_metric_values_failed_total"), 0);
    end(daemon);
}

#[test]
fn last_values_are_exported_at_the_end_without_traces() {
    let (collector, exports) = serve(&[ACCEPTED]);
    let telemetry = format!(
        "[telemetry]\notlp = \"http://{collector}\"\ntraces = false\nmetrics = true\n\
         metrics_interval = \"1h\""
    );
    let daemon = daemon("127.0.0.1:1", &telemetry);
    sampled(&daemon, "/fixed");
    assert!(!daemon.handle().metrics().contains("thruway_spans"));
    end(daemon);
    let (_, metrics) = receive_metrics(&exports, |_| true);
    let durations = metric(&metrics, "http.server.request.duration").unwrap();
    assert_eq!((durations.points[0].count, durations.points[0].exemplars.len()), (1, 0));
    assert!(exports.try_recv().is_err(), "the process exports no spans");
}

#[test]
fn refused_values_are_counted_and_newer_values_follow() {
    let (collector, exports) = serve(&["HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", ACCEPTED]);
    let telemetry = format!(
        "[telemetry]\notlp = \"http://{collector}\"\ntraces = false\nmetrics = true\n\
         metrics_interval = \"1s\""
    );
    let daemon = daemon("127.0.0.1:1", &telemetry);
    receive_metrics(&exports, |_| true);
    wait_for_count(&daemon, "thruway_metric_values_failed_total");
    receive_metrics(&exports, |metrics| metric(metrics, "thruway.metric_values_failed").is_some());
    wait_for_count(&daemon, "thruway_metric_values_exported_total");
    end(daemon);
}

#[test]
fn requests_and_shutdown_do_not_wait_for_a_lost_collector_of_metrics() {
    let refusing = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for (scheme, collector) in [("http", silent.local_addr().unwrap()), ("grpc", refusing)] {
        let telemetry = format!(
            "[telemetry]\notlp = \"{scheme}://{collector}\"\nmetrics = true\nmetrics_interval = \"1s\""
        );
        let daemon = daemon("127.0.0.1:1", &telemetry);
        for _ in 0..20 {
            assert_eq!(get(&address_of(&daemon), "/fixed").1, "fixed");
        }
        let clock = Clock::system();
        let started = clock.now_exact();
        end(daemon);
        let elapsed = clock.now_exact().saturating_sub(started);
        assert!(elapsed.as_secs() < 15, "{elapsed:?}");
    }
}

/// A collector for gRPC. It sends the paths and the messages of the calls to a channel.
fn grpc_collector() -> (RunningServer, Receiver<(String, Vec<u8>)>) {
    let (sender, calls) = channel();
    let handler = move |request: OwnedRequest| accept_call(request, sender.clone());
    let listener = Listener::new("127.0.0.1:0".parse().unwrap()).http2_only();
    let server = Server::new(handler).listen_on(listener).workers(1).start().unwrap();
    (server, calls)
}

async fn accept_call(mut request: OwnedRequest, calls: Sender<(String, Vec<u8>)>) -> Response {
    let path = request.target().path().to_owned();
    let body = request.content().collect(1 << 20).await.unwrap();
    let _ = calls.send((path, body.to_vec()));
    Response::text("").with_field("Content-Type", "application/grpc").with_field("grpc-status", "0")
}

#[test]
fn metrics_are_exported_over_grpc() {
    let (collector, calls) = grpc_collector();
    let telemetry = format!(
        "[telemetry]\notlp = \"grpc://{}\"\nmetrics = true\nmetrics_interval = \"1s\"",
        collector.addresses()[0]
    );
    let daemon = daemon("127.0.0.1:1", &telemetry);
    get(&address_of(&daemon), "/fixed");
    loop {
        let (path, message) = calls.recv_timeout(TIMEOUT).unwrap();
        if path == "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export" {
            let (_, metrics) = decode_metrics(&message[5..]);
            if total_count(&metrics, "http.server.request.duration") == 1 {
                break;
            }
        }
    }
    wait_for_count(&daemon, "thruway_metric_values_exported_total");
    end(daemon);
    collector.drain();
    collector.join();
}

#[test]
fn reload_starts_and_stops_the_export_of_metrics() {
    let (collector, exports) = serve(&[ACCEPTED]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.toml");
    let write = |telemetry: &str| {
        std::fs::write(&path, crate::client::file_answering("fixed", telemetry)).unwrap();
    };
    write("");
    let daemon = Daemon::from_file(&path).unwrap();
    let telemetry = format!("[telemetry]\notlp = \"http://{collector}\"\nsample_ratio = 0\n");
    write(&format!("{telemetry}metrics = true\nmetrics_interval = \"1s\""));
    daemon.reload().unwrap();
    get(&address_of(&daemon), "/");
    receive_metrics(&exports, |metrics| total_count(metrics, "http.server.request.duration") == 1);
    write(&telemetry);
    daemon.reload().unwrap();
    end(daemon);
    while let Ok((head, _)) = exports.try_recv() {
        assert!(head.starts_with("POST /v1/metrics"), "only an export before the reload: {head}");
    }
}
