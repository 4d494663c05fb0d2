//! Tests of the limit of HTTP/2 connections to a server.

use std::thread;

use thruway_client::http2::Http2Config;
use thruway_client::{PoolConfig, UpstreamAddr};
use thruway_gateway::{QueueConfig, ServerConfig, Upstream, UpstreamConfig};

use super::client::{connect, request, run, whole};
use super::only_http2;
use super::origin::Origin;
use crate::gateway::{Gateway, STALL_TIMEOUT, until};

/// The limit is two connections, one for each of the two workers.
fn two_connections<'o>(origins: impl IntoIterator<Item = &'o Origin>) -> UpstreamConfig {
    let server = |origin: &Origin| ServerConfig::new(UpstreamAddr::from(origin.address));
    let servers: Vec<_> = origins.into_iter().map(server).collect();
    let http2 = Some(Http2Config::default());
    UpstreamConfig { servers, http2, connections_max: 2, ..UpstreamConfig::new("a", []) }
}

/// Regression test: each request needed its own connection, as in HTTP/1.1. If a new connection refuses
/// a stream because its limit was not known yet, the request is sent again on the same connection.
#[test]
fn request_waits_for_a_free_stream_at_connections_max() {
    let origin = Origin::with_streams(2);
    let gateway = Gateway::start(two_connections([&origin]));
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| (0..20).for_each(|_| assert_eq!(gateway.get().status, 200)));
        }
    });
    assert!(origin.connections() <= 2, "{}", origin.connections());
    assert!(gateway.upstream.waiting_counts().buckets.iter().sum::<u64>() > 0);
}

/// Regression test: the pool's limits applied only to HTTP/1.1. All requests shared one connection to each
/// server.
#[test]
fn disabled_pool_gives_each_request_its_own_connection() {
    let none = |pool: PoolConfig| {
        [PoolConfig { idle_per_address_max: 0, ..pool }, PoolConfig { idle_max: 0, ..pool }]
    };
    for pool in none(UpstreamConfig::new("a", []).pool) {
        for connections_max in [0, 2] {
            let origin = Origin::without_limit();
            let config = UpstreamConfig { pool, connections_max, ..only_http2(origin.address) };
            let gateway = Gateway::accepting_http2(config);
            (0..3).for_each(|_| assert_eq!(gateway.get().status, 200));
            run(async {
                let mut send = connect(gateway.address).await;
                for _ in 0..3 {
                    let response = send.send_request(request("GET", "/empty"), true).unwrap().0;
                    assert_eq!(whole(response).await.0.status().as_u16(), 200);
                }
            });
            assert_eq!(origin.connections(), 6);
        }
    }
}

#[test]
fn waiting_for_a_free_stream_times_out_with_503() {
    let origin = Origin::with_streams(1);
    let queue = QueueConfig { timeout: STALL_TIMEOUT, ..QueueConfig::default() };
    let gateway = Gateway::accepting_http2(UpstreamConfig { queue, ..two_connections([&origin]) });
    run(async {
        let mut send = connect(gateway.address).await;
        let endless = send.send_request(request("GET", "/endless"), true).unwrap().0.await.unwrap();
        let (refused, ..) = whole(send.send_request(request("GET", "/empty"), true).unwrap().0).await;
        assert_eq!(refused.status().as_u16(), 503);
        assert_eq!(refused.headers()["proxy-status"], "thruway; error=connection_limit_reached");
        drop(endless);
        let (head, ..) = whole(send.send_request(request("GET", "/empty"), true).unwrap().0).await;
        assert_eq!(head.status().as_u16(), 200);
    });
    assert_eq!(origin.connections(), 1);
}

#[test]
fn idle_connection_is_replaced_by_one_to_another_server() {
    let origins = [true, true].map(Origin::start);
    let gateway = Gateway::start(UpstreamConfig {
        queue: QueueConfig { length_max: 0, ..QueueConfig::default() },
        ..two_connections(&origins)
    });
    for _ in 0..8 {
        assert_eq!(gateway.get().status, 200);
        assert!(gateway.upstream.open_connections() <= 2);
    }
    assert!(origins.iter().all(|origin| origin.connections() > 0), "both servers get requests");
}

/// Otherwise the request would wait while others use the only connection, although the other server has a
/// hundred free streams.
#[test]
fn server_with_free_stream_takes_requests_at_connections_max() {
    let origins = [true, true].map(Origin::start);
    let gateway = Gateway::accepting_http2(two_connections(&origins));
    run(async {
        let mut send = connect(gateway.address).await;
        let endless = send.send_request(request("GET", "/endless"), true).unwrap().0.await.unwrap();
        for _ in 0..4 {
            let (head, ..) = whole(send.send_request(request("GET", "/empty"), true).unwrap().0).await;
            assert_eq!(head.status().as_u16(), 200);
        }
        drop(endless);
    });
    assert_eq!(origins.iter().map(Origin::connections).sum::<u64>(), 1);
    assert_eq!(gateway.upstream.waiting_counts().buckets.iter().sum::<u64>(), 0);
    until(|| gateway.upstream.server_statuses().iter().all(|server| server.in_flight == 0));
}

/// Regression test: connections were only counted after the reload that introduced a limit.
#[test]
fn connections_opened_before_the_limit_are_counted() {
    let origin = Origin::start(true);
    let config = only_http2(origin.address);
    let gateway = Gateway::start(config.clone());
    assert_eq!(gateway.get().status, 200);
    let limited = UpstreamConfig { connections_max: 2, ..config };
    let after = Upstream::after(limited, &gateway.upstream);
    assert_eq!(after.open_connections(), 1);
}
