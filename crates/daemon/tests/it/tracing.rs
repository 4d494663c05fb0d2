//! Distributed tracing: propagation to upstream servers, and exports to collectors that fail.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use thruway_daemon::Daemon;
use thruway_net::Clock;
use thruway_server::ListenAddr;

use crate::client::{TIMEOUT, address_of, connect, end, get, tcp};
use crate::collector::{ACCEPTED, receive_spans, serve};

pub(crate) const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn daemon(server: &str, telemetry: &str) -> Daemon {
    let text = format!(
        "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/api\"\nupstream = \"u\"\n\
         [[routes]]\npath_exact = \"/fixed\"\nrespond.body = \"fixed\"\n\
         [upstreams.u]\nservers = [{server}]\n{telemetry}\n"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Daemon::from_file(file.path()).unwrap()
}

pub(crate) fn telemetry(collector: SocketAddr) -> String {
    format!(
        "[telemetry]\notlp = \"http://{collector}\"\nservice_name = \"edge\"\nheaders = {{ X-Key = \"k\" }}"
    )
}

/// Sends a request with `fields`, and returns the response.
fn request(address: &ListenAddr, target: &str, fields: &str) -> String {
    let mut stream = connect(address);
    let host = tcp(address);
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut values =
        head.lines().filter_map(|line| line.split_once(": ")).filter(|(other, _)| *other == name);
    let value = values.next().map(|(_, value)| value);
    assert!(values.next().is_none(), "{head}");
    value
}

fn count(daemon: &Daemon, name: &str) -> u64 {
    let metrics = daemon.handle().metrics();
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
}

/// Waits until the counter `name` has at least the value `wanted`.
pub(crate) fn wait_for_count(daemon: &Daemon, name: &str, wanted: u64) {
    while count(daemon, name) < wanted {
        thread::yield_now();
    }
}

#[test]
fn request_through_the_gateway_becomes_one_trace() {
    let (server, requests) = serve(&[OK]);
    let (collector, exports) = serve(&[ACCEPTED]);
    let daemon = daemon(&format!("\"{server}\""), &telemetry(collector));
    let fields = format!("traceparent: {PARENT}\r\ntracestate: a=1\r\n");
    assert!(request(&address_of(&daemon), "/api/x?key=secret", &fields).ends_with("ok"));

    let (resource, spans) = receive_spans(&exports, 4);
    assert_eq!((&*resource["service.name"], spans.len()), ("edge", 4));
    let of_name =
        |name: &str| spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{spans:?}"));
    let (root, attempt) = (of_name("GET /api and below"), of_name("GET"));
    let (routing, connecting) = (of_name("routing and policies"), of_name("connect"));
    assert!(
        spans.iter().all(|span| span.trace_id == "0af7651916cd43dd8448eb211c80319c" && span.state == "a=1")
    );
    assert_eq!((&*root.parent, root.kind), ("b7ad6b7169203331", 2));
    assert_eq!((&*attempt.parent, attempt.kind), (&*root.span_id, 3));
    assert_eq!((&*routing.parent, routing.kind), (&*root.span_id, 1));
    assert_eq!((&*connecting.parent, connecting.kind), (&*attempt.span_id, 1));
    for span in &spans {
        assert!(root.nanos.0 <= span.nanos.0 && span.nanos.0 <= span.nanos.1 && span.nanos.1 <= root.nanos.1);
    }
    assert_eq!(attempt.attributes["url.full"], format!("http://{server}/api/x"));
    assert_eq!(attempt.attributes["server.port"], server.port().to_string());
    assert_eq!(root.attributes["http.route"], "/api and below");
    assert!(!format!("{spans:?}").contains("secret"), "spans do not contain queries");

    let (head, _) = requests.recv_timeout(TIMEOUT).unwrap();
    let sent = format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", attempt.span_id);
    assert_eq!(field(&head, "traceparent"), Some(&*sent));
    assert_eq!(field(&head, "tracestate"), Some("a=1"));
    wait_for_count(&daemon, "thruway_spans_exported_total", 4);
    end(daemon);
}

#[test]
fn trace_headers_pass_unchanged_without_tracing() {
    let (server, requests) = serve(&[OK]);
    let daemon = daemon(&format!("\"{server}\""), "");
    for (parent, state) in [(PARENT, "a=1"), ("malformed", "a==")] {
        let fields = format!("traceparent: {parent}\r\ntracestate: {state}\r\n");
        request(&address_of(&daemon), "/api", &fields);
        let (head, _) = requests.recv_timeout(TIMEOUT).unwrap();
        assert_eq!((field(&head, "traceparent"), field(&head, "tracestate")), (Some(parent), Some(state)));
    }
    assert!(!daemon.handle().metrics().contains("thruway_spans"));
    end(daemon);
}

#[test]
fn each_attempt_has_its_own_span_in_the_header() {
    let (failing, failed) = serve(&[""]);
    let (server, requests) = serve(&[OK]);
    let (collector, exports) = serve(&[ACCEPTED]);
    let servers = format!("\"{failing}\", {{ address = \"{server}\", backup = true }}");
    let daemon = daemon(&servers, &telemetry(collector));
    assert!(request(&address_of(&daemon), "/api", "").ends_with("ok"));

    let parents = [failed, requests].map(|requests| {
        let (head, _) = requests.recv_timeout(TIMEOUT).unwrap();
        field(&head, "traceparent").unwrap().to_owned()
    });
    let (_, spans) = receive_spans(&exports, 6);
    let attempts: Vec<_> = spans.iter().filter(|span| span.kind == 3).collect();
    assert_eq!(attempts.len(), 2, "{spans:?}");
    for (attempt, parent) in attempts.iter().zip(&parents) {
        assert_eq!(*parent, format!("00-{}-{}-01", attempt.trace_id, attempt.span_id));
    }
    assert!(attempts[0].is_error && !attempts[1].is_error);
    assert_eq!(attempts[0].attributes["error.type"], "connection_terminated");
    assert_eq!(attempts[1].attributes["http.request.resend_count"], "1");
    end(daemon);
}

#[test]
fn broken_body_of_the_server_is_an_error_of_the_request_and_its_attempt() {
    let (end_server, wait) = channel();
    let server = broken_server(wait);
    let (collector, exports) = serve(&[ACCEPTED]);
    let unsampled = format!("{}\nsample_ratio = 0", telemetry(collector));
    let daemon = daemon(&format!("\"{server}\""), &unsampled);
    let mut stream = connect(&address_of(&daemon));
    stream.write_all(b"GET /api HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut response = [0; 15];
    stream.read_exact(&mut response).unwrap();
    assert_eq!(&response, b"HTTP/1.1 200 OK");
    drop(end_server);
    let (_, spans) = receive_spans(&exports, 4);
    for (name, kind) in [("GET /api and below", 2), ("GET", 3)] {
        let span = spans.iter().find(|span| span.name == name && span.kind == kind).unwrap();
        assert!(span.is_error, "{spans:?}");
        assert_eq!(span.attributes["error.type"], "http_response_incomplete");
        assert_eq!(span.attributes["http.response.status_code"], "200");
    }
    end(daemon);
}

/// A server that sends a part of a body, and closes the connection when the sender of `wait` is dropped.
fn broken_server(wait: Receiver<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart").unwrap();
        let _ = wait.recv();
    });
    address
}

#[test]
fn upgraded_connection_has_an_attempt_until_its_end() {
    let (server, _requests) =
        serve(&["HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"]);
    let (collector, exports) = serve(&[ACCEPTED]);
    let daemon = daemon(&format!("\"{server}\""), &telemetry(collector));
    let mut stream = connect(&address_of(&daemon));
    stream
        .write_all(b"GET /api HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
        .unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 101");
    drop(stream);
    let (_, spans) = receive_spans(&exports, 4);
    let of_kind = |kind| spans.iter().find(|span| span.kind == kind).unwrap();
    let (request, attempt) = (of_kind(2), of_kind(3));
    assert_eq!(attempt.attributes["http.response.status_code"], "101");
    assert_eq!((&attempt.parent, attempt.nanos.1), (&request.span_id, request.nanos.1));
    end(daemon);
}

#[test]
fn tunnel_of_connect_has_an_attempt() {
    let (collector, exports) = serve(&[ACCEPTED]);
    let route = "[[routes]]\npath = \"/\"\n\
                 connect = { hosts = [\"127.0.0.1\"], ports = [1], private = [\"127.0.0.0/8\"] }";
    let daemon = daemon("\"127.0.0.1:1\"", &format!("{}\n{route}", telemetry(collector)));
    let mut stream = connect(&address_of(&daemon));
    stream.write_all(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n").unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 502");
    let (_, spans) = receive_spans(&exports, 4);
    let of_kind = |kind| spans.iter().find(|span| span.kind == kind).unwrap();
    let (request, attempt) = (of_kind(2), of_kind(3));
    assert_eq!((&*attempt.name, &attempt.parent), ("CONNECT", &request.span_id));
    assert_eq!(attempt.attributes["server.address"], "127.0.0.1");
    assert_eq!(attempt.attributes["server.port"], "1");
    assert_eq!(attempt.attributes["error.type"], "connection_refused");
    assert!(attempt.is_error && request.is_error);
    let connecting = spans.iter().find(|span| span.name == "connect").unwrap();
    assert_eq!(connecting.parent, attempt.span_id);
    end(daemon);
}

#[test]
fn routes_without_upstream_have_a_span_too() {
    let (collector, exports) = serve(&[ACCEPTED]);
    let daemon = daemon("\"127.0.0.1:1\"", &telemetry(collector));
    request(&address_of(&daemon), "/fixed", "");
    request(&address_of(&daemon), "/absent", "");
    let (_, spans) = receive_spans(&exports, 2);
    let shown: Vec<_> =
        spans.iter().map(|span| (&*span.name, &*span.attributes["http.response.status_code"])).collect();
    assert_eq!(shown, [("GET /fixed", "200"), ("GET", "404")]);
    end(daemon);
}

#[test]
fn overloaded_collector_gets_the_same_batch_again() {
    let (server, _requests) = serve(&[OK]);
    let (collector, exports) = serve(&[
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
        "",
        ACCEPTED,
    ]);
    let daemon = daemon(&format!("\"{server}\""), &telemetry(collector));
    request(&address_of(&daemon), "/api", "");
    let bodies: Vec<_> = (0..4).map(|_| exports.recv_timeout(TIMEOUT).unwrap().1).collect();
    assert!(bodies.iter().all(|body| *body == bodies[0]));
    wait_for_count(&daemon, "thruway_spans_exported_total", 4);
    assert_eq!(count(&daemon, "thruway_spans_failed_total"), 0);
    end(daemon);
}

#[test]
fn refused_batch_is_counted_and_not_repeated() {
    let (collector, exports) = serve(&["HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", ACCEPTED]);
    let daemon = daemon("\"127.0.0.1:1\"", &telemetry(collector));
    request(&address_of(&daemon), "/fixed", "");
    exports.recv_timeout(TIMEOUT).unwrap();
    wait_for_count(&daemon, "thruway_spans_failed_total", 1);
    request(&address_of(&daemon), "/fixed", "");
    exports.recv_timeout(TIMEOUT).unwrap();
    wait_for_count(&daemon, "thruway_spans_exported_total", 1);
    end(daemon);
}

#[test]
fn requests_and_shutdown_do_not_wait_for_a_lost_collector() {
    // The first collector refuses connections, and the second one accepts connections without a response.
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for (scheme, collector) in [("http", silent.local_addr().unwrap()), ("grpc", refusing)] {
        let daemon = daemon("\"127.0.0.1:1\"", &format!("[telemetry]\notlp = \"{scheme}://{collector}\""));
        for _ in 0..20 {
            assert_eq!(get(&address_of(&daemon), "/fixed").1, "fixed");
        }
        assert_eq!(count(&daemon, "thruway_spans_exported_total"), 0);
        let clock = Clock::system();
        let started = clock.now_exact();
        end(daemon);
        let elapsed = clock.now_exact().saturating_sub(started);
        assert!(elapsed < Duration::from_secs(15), "{elapsed:?}");
    }
}

/// Regression test: the shutdown waited until an attempt in progress had timed out, which took ten seconds.
#[test]
fn shutdown_interrupts_an_export_in_progress() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let collector = silent.local_addr().unwrap();
    for scheme in ["http", "grpc"] {
        let daemon = daemon("\"127.0.0.1:1\"", &format!("[telemetry]\notlp = \"{scheme}://{collector}\""));
        assert_eq!(get(&address_of(&daemon), "/fixed").1, "fixed");
        let (mut stream, _) = silent.accept().unwrap();
        // The first byte shows that the attempt is in progress.
        stream.read_exact(&mut [0]).unwrap();
        let started = Clock::system().now_exact();
        end(daemon);
        let elapsed = Clock::system().now_exact().saturating_sub(started);
        assert!(elapsed < Duration::from_secs(8), "{elapsed:?}");
    }
}

#[test]
fn reload_starts_changes_and_stops_tracing() {
    let (collector, exports) = serve(&[ACCEPTED]);
    let (other, others) = serve(&[ACCEPTED]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.toml");
    let write = |telemetry: &str| {
        let mut text = crate::client::file_answering("fixed", "");
        let _ = write!(text, "{telemetry}");
        std::fs::write(&path, text).unwrap();
    };
    write("");
    let daemon = Daemon::from_file(&path).unwrap();
    let reload = |telemetry: &str| {
        write(telemetry);
        daemon.reload().unwrap();
        request(&address_of(&daemon), "/", "");
    };
    reload(&telemetry(collector));
    receive_spans(&exports, 1);
    reload(&telemetry(other));
    receive_spans(&others, 1);
    let unsampled = format!("{}\nsample_ratio = 0", telemetry(other));
    reload(&unsampled);
    reload("");
    reload(&telemetry(other));
    let (_, spans) = receive_spans(&others, 1);
    assert_eq!(spans.len(), 1, "only the last request was sampled");
    wait_for_count(&daemon, "thruway_spans_exported_total", 3);
    end(daemon);
}
