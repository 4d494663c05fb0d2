//! The spans of requests, without a gateway.

use std::sync::Arc;
use std::time::Duration;

use thruway_server::{Config, Network, ProxyFields, Request, Response, StatusCode, TrustedProxies};
use thruway_telemetry::{Sampling, SpanQueue, Tracer};
use thruway_testkit::otlp::{DecodedSpan, decode_spans};
use thruway_testkit::test_server::TestServer;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn tracer(ratio: f64) -> Arc<Tracer> {
    Arc::new(Tracer::new(Sampling { ratio, slow: Duration::from_secs(1) }))
}

fn spans(tracer: &Tracer) -> Vec<DecodedSpan> {
    let batch = tracer.queue().take();
    batch.map_or_else(Vec::new, |batch| {
        let spans = decode_spans(batch.bytes());
        tracer.queue().finish(batch, 0);
        spans
    })
}

fn only(tracer: &Tracer) -> DecodedSpan {
    let spans = spans(tracer);
    assert_eq!(spans.len(), 1, "{spans:?}");
    spans[0].clone()
}

#[test]
fn request_span_has_the_attributes_of_the_http_conventions() {
    let tracer = tracer(1.0);
    let server = TestServer::traced(|_: &Request| "hello", &tracer);
    server.jump_time(Duration::from_secs(5));
    let mut client = server.connect();
    client.send(
        "POST /a/b?c=secret HTTP/1.1\r\nHost: a.example:81\r\nUser-Agent: b\r\nContent-Length: 1\r\n\r\n",
    );
    server.advance_time(Duration::from_millis(100));
    client.send("x");
    let span = only(&tracer);
    assert_eq!((&*span.name, span.kind, span.is_error), ("POST", 2, false));
    assert_eq!(span.nanos, (5_000_000_000, 5_100_000_000));
    assert_eq!((span.trace_id.len(), span.span_id.len(), &*span.parent), (32, 16, ""));
    let attributes: Vec<_> = span.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let expected = [
        "client.address=192.0.2.1",
        "http.request.method=POST",
        "http.response.body.size=5",
        "http.response.status_code=200",
        "network.protocol.version=1.1",
        "server.address=a.example",
        "server.port=81",
        "url.path=/a/b",
        "url.scheme=http",
        "user_agent.original=b",
    ];
    assert_eq!(attributes, expected);
}

#[test]
fn scheme_and_client_in_the_span_come_from_a_trusted_proxy() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.7\r\n\
                   X-Forwarded-Proto: https\r\n\r\n";
    for (network, client, scheme) in
        [("192.0.2.0/24", "198.51.100.7", "https"), ("10.0.0.0/8", "192.0.2.1", "http")]
    {
        let networks = [network.parse::<Network>().unwrap()].into_iter().collect();
        let trusted_proxies = TrustedProxies::new(networks, ProxyFields::XForwarded);
        let config = Config { trusted_proxies, ..Config::default() };
        let tracer = tracer(1.0);
        TestServer::traced_with(|_: &Request| "hello", config, &tracer).connect().send(request);
        let span = only(&tracer);
        let seen = (&*span.attributes["client.address"], &*span.attributes["url.scheme"]);
        assert_eq!(seen, (client, scheme));
    }
}

#[test]
fn request_with_valid_trace_parent_continues_its_trace() {
    let tracer = tracer(0.0);
    let server = TestServer::traced(|_: &Request| "hello", &tracer);
    let request = format!(
        "GET / HTTP/1.1\r\nHost: a\r\nTraceparent: {PARENT}\r\nTracestate: a=1\r\ntracestate: b=2\r\n\r\n"
    );
    server.connect().send(request);
    let span = only(&tracer);
    assert_eq!(span.trace_id, "0af7651916cd43dd8448eb211c80319c");
    assert_eq!((&*span.parent, &*span.state, span.flags), ("b7ad6b7169203331", "a=1,b=2", 0x301));
}

#[test]
fn malformed_trace_parent_starts_a_new_trace() {
    let upper = PARENT.to_uppercase();
    let zeros = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
    let twice = format!("{PARENT}\r\ntraceparent: {PARENT}");
    for malformed in ["", "00", &PARENT[..54], &upper, zeros, &twice, &format!("{PARENT}-x")] {
        let tracer = tracer(1.0);
        let server = TestServer::traced(|_: &Request| "hello", &tracer);
        let request =
            format!("GET / HTTP/1.1\r\nHost: a\r\ntraceparent: {malformed}\r\ntracestate: a=1\r\n\r\n");
        server.connect().send(request);
        let span = only(&tracer);
        assert_ne!(span.trace_id, "0af7651916cd43dd8448eb211c80319c", "{malformed}");
        assert_eq!((&*span.parent, &*span.state, span.flags), ("", "", 0x101), "{malformed}");
    }
}

#[test]
fn malformed_trace_state_is_discarded_and_the_trace_continues() {
    let tracer = tracer(0.0);
    let server = TestServer::traced(|_: &Request| "hello", &tracer);
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\ntraceparent: {PARENT}\r\ntracestate: a==\r\n\r\n");
    server.connect().send(request);
    let span = only(&tracer);
    assert_eq!((&*span.parent, &*span.state), ("b7ad6b7169203331", ""));
}

#[test]
fn only_failed_and_slow_requests_are_exported_without_sampling() {
    let tracer = tracer(0.0);
    let fails = |_: &Request| Response::new(StatusCode::BAD_GATEWAY);
    TestServer::traced(|_: &Request| "hello", &tracer).connect().send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(spans(&tracer).is_empty());
    TestServer::traced(fails, &tracer).connect().send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let span = only(&tracer);
    assert_eq!((span.is_error, &*span.attributes["error.type"]), (true, "502"));

    let server = TestServer::traced(|_: &Request| "hello", &tracer);
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n");
    server.advance_time(Duration::from_secs(1));
    client.send("x");
    assert_eq!(only(&tracer).attributes["http.response.status_code"], "200");
}

#[test]
fn client_that_leaves_has_no_status_in_its_span() {
    let tracer = tracer(1.0);
    let server = TestServer::traced(|_: &Request| "hello", &tracer);
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n");
    client.reset();
    let span = only(&tracer);
    assert_eq!(span.attributes["error.type"], "client_disconnected");
    assert!(!span.attributes.contains_key("http.response.status_code") && !span.is_error);
}

/// No thread exports spans in this test, as if the collector did not respond.
#[test]
fn requests_do_not_wait_for_a_full_queue() {
    let bytes_max = 10_000;
    let sampling = Sampling { ratio: 1.0, slow: Duration::from_secs(1) };
    let tracer = Arc::new(Tracer::with_queue(sampling, SpanQueue::new(bytes_max)));
    let server = TestServer::traced(|_: &Request| "hello", &tracer);
    let mut client = server.connect();
    for _ in 0..1000 {
        // Time does not advance, so a request that waited would get no response.
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(client.received().ends_with("hello"));
        assert!(tracer.queue().bytes() <= bytes_max + 1000, "{}", tracer.queue().bytes());
    }
    let queued = u64::try_from(spans(&tracer).len()).unwrap();
    let counts = tracer.queue().counts();
    assert!(counts.dropped > 900 && queued + counts.dropped == 1000, "{queued} {counts:?}");
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(spans(&tracer).len(), 1, "the queue has space again");
}
