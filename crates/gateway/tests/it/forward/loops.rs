//! Tests of requests that a gateway forwards to itself.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use thruway_client::http2::Http2Config;
use thruway_client::{SystemResolver, UpstreamAddr};
use thruway_gateway::{
    Forward, ForwardConfig, HostMatch, HostRewrite, Mirror, MirrorConfig, PathMatch, ProxyVersion,
    RouteMatch, Routes, Upstream, UpstreamConfig,
};
use thruway_server::{IntoHandler, ListenAddr, Listener, ProxyProtocol, RunningServer, Server};

use super::{Client, Recorder};
use crate::gateway::{TEST_TIMEOUT, until};

/// A gateway with routes that may refer to its own address. It ends with the test.
struct Looping {
    server: Option<RunningServer>,
}

impl Looping {
    fn start(listener: Listener) -> Self {
        // The limit of connections ends a loop that the gateway does not detect.
        let server =
            Server::new(Routes::new(Vec::new()).unwrap()).workers(2).connections_max(100).listen_on(listener);
        Self { server: Some(server.start().unwrap()) }
    }

    fn address(&self) -> SocketAddr {
        let [ListenAddr::Tcp(address)] = *self.server.as_ref().unwrap().addresses() else {
            panic!("expected one TCP address")
        };
        address
    }

    /// Sets a route with its own settings for each host.
    fn forward(&self, hosts: impl IntoIterator<Item = (HostMatch, Forward)>) {
        let root = || RouteMatch::at(PathMatch::Prefix("/".to_owned()));
        let route = |(host, forward): (_, Forward)| {
            (RouteMatch { hosts: vec![host], ..root() }, forward.into_handler())
        };
        let routes = Routes::new(hosts.into_iter().map(route).collect()).unwrap();
        self.server.as_ref().unwrap().live().replace_handler(routes);
    }

    fn connections(&self) -> u64 {
        self.server.iter().flat_map(RunningServer::loads).map(|load| load.connections_total).sum()
    }
}

impl Drop for Looping {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.drain();
            server.join();
        }
    }
}

fn at_any_port() -> Listener {
    Listener::new("127.0.0.1:0".parse::<ListenAddr>().unwrap())
}

fn upstream(address: impl Into<UpstreamAddr>) -> UpstreamConfig {
    UpstreamConfig::new("own", [address.into()])
}

fn without_via(config: UpstreamConfig, host: HostRewrite) -> Forward {
    let upstream = Arc::new(Upstream::new(config));
    upstream.start_with(Arc::new(SystemResolver)).wait();
    Forward::with_config(upstream, ForwardConfig { via: false, host, ..ForwardConfig::default() })
}

/// Regression test: without `Via`, one request opened connections up to the limit, because each hop opened
/// another one.
#[test]
fn forwarding_loop_gets_508() {
    type Change = fn(UpstreamConfig) -> UpstreamConfig;
    let everywhere = Listener::new("0.0.0.0:0".parse::<ListenAddr>().unwrap());
    let cases: [(Listener, Change); 4] = [
        (at_any_port(), |config| config),
        (everywhere, |config| config),
        (at_any_port().http2(), |config| UpstreamConfig { http2: Some(Http2Config::default()), ..config }),
        (at_any_port().proxy_protocol(ProxyProtocol::default()), |config| UpstreamConfig {
            proxy_protocol: Some(ProxyVersion::V2),
            ..config
        }),
    ];
    for (listener, change) in cases {
        let gateway = Looping::start(listener);
        let own = SocketAddr::from(([127, 0, 0, 1], gateway.address().port()));
        let config = change(upstream(own));
        let mut client = Client::new(own);
        if config.proxy_protocol.is_some() {
            client.send("PROXY UNKNOWN\r\n");
        }
        gateway.forward([(HostMatch::Any, without_via(config, HostRewrite::Preserve))]);
        for _ in 0..3 {
            let answer = client.ask("GET / HTTP/1.1", "");
            assert_eq!(answer.status, 508);
            assert_eq!(answer.field("proxy-status"), Some("thruway; error=proxy_loop_detected"));
        }
        assert!(gateway.connections() < 20, "{}", gateway.connections());
    }
}

#[test]
fn forwarding_loop_over_unix_socket_gets_508() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let gateway = Looping::start(Listener::new(ListenAddr::Unix(path.clone())));
    let own = upstream(UpstreamAddr::unix(path.clone()));
    gateway.forward([(HostMatch::Any, without_via(own, HostRewrite::Preserve))]);
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 508 "), "{answer}");
    assert!(gateway.connections() < 20, "{}", gateway.connections());
}

#[test]
fn request_can_pass_the_gateway_twice_on_different_routes() {
    let recorder = Recorder::start();
    let gateway = Looping::start(at_any_port());
    let inner = HostRewrite::Fixed("inner.example".to_owned());
    gateway.forward([
        (HostMatch::Any, without_via(upstream(gateway.address()), inner)),
        (
            HostMatch::parse("inner.example").unwrap(),
            without_via(upstream(recorder.address), HostRewrite::Preserve),
        ),
    ]);
    let mut client = Client::new(gateway.address());
    for _ in 0..3 {
        assert_eq!(client.ask("GET /a HTTP/1.1", "").text(), "GET /a ");
    }
    assert_eq!(recorder.take().len(), 3);
}

/// Regression test: a copy counted as a new request and caused the next copy, for as long as the process ran.
#[test]
fn mirrored_request_is_not_mirrored_again() {
    let recorder = Recorder::start();
    let gateway = Looping::start(at_any_port());
    let own = Arc::new(Upstream::new(upstream(gateway.address())));
    let mirror = Arc::new(Mirror::new(
        own.clone(),
        ForwardConfig { via: false, ..ForwardConfig::default() },
        MirrorConfig::default(),
    ));
    let forward = without_via(upstream(recorder.address), HostRewrite::Preserve);
    gateway.forward([(HostMatch::Any, forward.mirrored_by(mirror))]);
    assert_eq!(Client::new(gateway.address()).ask("GET / HTTP/1.1", "").status, 200);
    let loops = || {
        let failures = own.server_statuses().swap_remove(0).failures;
        failures.iter().find(|(name, _)| *name == "proxy_loop_detected").map_or(0, |(_, count)| *count)
    };
    until(|| loops() == 1);
    until(|| own.server_statuses()[0].in_flight == 0);
    assert_eq!((recorder.take().len(), loops()), (2, 1));
}

/// Regression test: loops over several gateways continued until the header section was full.
#[test]
fn request_with_too_many_via_entries_gets_508() {
    let recorder = Recorder::start();
    let gateway = Looping::start(at_any_port());
    gateway.forward([(HostMatch::Any, without_via(upstream(recorder.address), HostRewrite::Preserve))]);
    let mut client = Client::new(gateway.address());
    let via = |count: usize| format!("Via: {}\r\n", vec!["1.1 thruway"; count].join(", "));
    for (lines, status) in [
        (via(16), 200),
        (format!("{}Via: 1.1 other, thruway/1.1 a, 2.0 thruwayx\r\n", via(16)), 200),
        (via(17), 508),
        (format!("{}{}", via(9), via(8).replace("1.1 ", "HTTP/2.0\t")), 508),
    ] {
        assert_eq!(client.ask("GET / HTTP/1.1", &lines).status, status, "{lines}");
    }
}
