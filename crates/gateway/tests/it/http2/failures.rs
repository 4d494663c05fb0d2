//! Tests of failing HTTP/2 upstream servers, and of requests that may be sent again.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thruway_client::UpstreamAddr;
use thruway_gateway::{EjectionConfig, ServerConfig, ServerState, UpstreamConfig, UpstreamTls};
use thruway_net::tls::{TlsConnector, TlsConnectorConfig, TlsServerName};
use tokio::task::yield_now;

use super::client::{connect, request, run, whole};
use super::only_http2;
use super::origin::{REFUSED, Refusal, refusing, scripted};
use crate::gateway::Gateway;

/// A `GOAWAY` frame without an error: no stream was processed.
const UNPROCESSED: &[u8] = b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// A `RST_STREAM` frame for the first stream, with an internal error.
const BROKEN: &[u8] = b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x02";

/// The first half of a response head.
const HALF: &[u8] = b"\0\0\x09\x01\x04\0\0\0\x01\x88";

#[test]
fn unprocessed_request_is_resent_with_any_method() {
    for (frames, connections_expected) in [(UNPROCESSED, 2), (REFUSED, 1)] {
        for method in ["GET", "POST"] {
            let (address, connections) = scripted(frames);
            let gateway = Gateway::start(only_http2(address));
            let got = gateway.ask(method, "");
            let proxy_status = got.field("Proxy-Status");
            assert_eq!(got.status, 200, "{method} after {}: {proxy_status:?}", frames.escape_ascii());
            assert_eq!(connections.load(Ordering::SeqCst), connections_expected);
        }
    }
}

#[test]
fn possibly_processed_request_is_resent_only_if_idempotent() {
    for frames in [BROKEN, HALF, b""] {
        for (method, status) in [("GET", 200), ("POST", 502)] {
            let (address, _) = scripted(frames);
            let gateway = Gateway::start(only_http2(address));
            assert_eq!(gateway.ask(method, "").status, status, "{method} after {}", frames.escape_ascii());
        }
    }
}

#[test]
fn http11_server_in_http2_upstream_gets_502() {
    let upstream = thruway_testkit::upstream::responds_ok().listen();
    let gateway = Gateway::start(only_http2(upstream.address));
    assert_eq!(gateway.get().status, 502);
}

#[test]
fn refused_http2_connection_gets_502() {
    let gateway = Gateway::start(only_http2(thruway_testkit::upstream::unused_address()));
    let got = gateway.get();
    assert_eq!((got.status, got.field("Proxy-Status")), (502, Some("thruway; error=connection_refused")));
}

/// Regression test: such a request counted as a failure of the server, so five of them ejected it.
#[test]
fn request_invalid_in_http2_gets_400_and_does_not_eject() {
    let (address, connections) = scripted(b"");
    connections.fetch_add(1, Ordering::SeqCst);
    let ejection = EjectionConfig::default();
    let gateway = Gateway::start(UpstreamConfig { ejection, ..only_http2(address) });
    for host in ["", "a%41"] {
        for _ in 0..6 {
            let got = gateway
                .begin_raw(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
                .end();
            assert_eq!(got.status, 400, "{host:?}");
        }
    }
    assert_eq!(gateway.get().status, 200);
}

/// Regression test: each of these requests opened its own connection for the second attempt.
#[test]
fn refused_requests_are_resent_on_one_shared_connection() {
    for refusal in [Refusal::GoAway, Refusal::Streams] {
        let (address, connections) = refusing(REQUESTS, refusal);
        let gateway = Gateway::accepting_http2(only_http2(address));
        run(async {
            let mut send = connect(gateway.address).await;
            let started: Vec<_> =
                (0..REQUESTS).map(|_| send.send_request(request("GET", "/"), true)).collect();
            for started in started {
                let (head, ..) = whole(started.unwrap().0).await;
                assert_eq!(head.status().as_u16(), 200, "{refusal:?}: {head:?}");
            }
        });
        assert_eq!(connections.load(Ordering::SeqCst), 2, "{refusal:?}");
        assert_eq!(gateway.upstream.server_statuses()[0].connections_opened, 2, "{refusal:?}");
    }
}

/// Regression test: each request that had waited for the connection counted as a failure. The server was
/// ejected immediately.
#[test]
fn failed_shared_connection_counts_as_one_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connector = Arc::new(TlsConnector::load(TlsConnectorConfig::default()).unwrap());
    let tls = UpstreamTls { connector, server_name: Some(TlsServerName::new("a.example").unwrap()) };
    let ejection = EjectionConfig { failures: 2, ..EjectionConfig::default() };
    let only = only_http2(listener.local_addr().unwrap());
    let mut upstream = UpstreamConfig { tls: Some(tls), retries_max: 0, ejection, ..only };
    // An upstream never ejects its last server.
    let other = ServerConfig::new(UpstreamAddr::from(thruway_testkit::upstream::unused_address()));
    upstream.servers.push(ServerConfig { is_backup: true, ..other });
    let gateway = Gateway::accepting_http2(upstream);
    let status = || gateway.upstream.server_statuses().swap_remove(0);
    run(async {
        let mut send = connect(gateway.address).await;
        let started: Vec<_> = (0..REQUESTS).map(|_| send.send_request(request("GET", "/"), true)).collect();
        while status().in_flight < REQUESTS {
            yield_now().await;
        }
        // The server closes the connection instead of starting TLS.
        drop(listener.accept().unwrap());
        for started in started {
            assert_eq!(whole(started.unwrap().0).await.0.status().as_u16(), 502);
        }
    });
    assert_eq!(status().failures.iter().map(|(_, count)| count).sum::<u64>(), 1);
    assert_eq!(status().state, ServerState::Up);
}

const REQUESTS: usize = 20;
