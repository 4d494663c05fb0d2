//! A gateway on its own port, and a simple client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use thruway_client::{Resolve, SystemResolver};
use thruway_gateway::{
    Forward, ForwardConfig, Mirror, PathMatch, RouteMatch, Routes, Upstream, UpstreamConfig,
};
use thruway_server::{Config, Handler, IntoHandler, ListenAddr, Listener, RunningServer, Server};

/// A gateway with two workers. It ends with the test.
pub(crate) struct Gateway {
    server: Option<RunningServer>,
    pub(crate) address: SocketAddr,
    pub(crate) upstream: Arc<Upstream>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct ClientResponse {
    pub(crate) status: u16,
    head: String,
    pub(crate) content: String,
}

impl Gateway {
    pub(crate) fn start(config: UpstreamConfig) -> Self {
        Self::start_with(config, Arc::new(SystemResolver))
    }

    /// Starts a gateway with another resolver.
    pub(crate) fn start_with(config: UpstreamConfig, resolver: Arc<dyn Resolve>) -> Self {
        let upstream = Arc::new(Upstream::new(config));
        upstream.start_with(resolver).wait();
        Self::serve(Forward::new(upstream.clone()), upstream, Config::default())
    }

    /// Starts a gateway with these settings for forwarding.
    pub(crate) fn forwarding(config: UpstreamConfig, forward: ForwardConfig) -> Self {
        let upstream = Arc::new(Upstream::new(config));
        upstream.start_with(Arc::new(SystemResolver)).wait();
        Self::sharing(upstream, forward)
    }

    /// Starts a gateway that shares `upstream`, with its queue and its counters, with another gateway.
    pub(crate) fn sharing(upstream: Arc<Upstream>, forward: ForwardConfig) -> Self {
        Self::serve(Forward::with_config(upstream.clone(), forward), upstream, Config::default())
    }

    /// Starts a gateway that measures the duration of responses.
    pub(crate) fn timed(config: UpstreamConfig) -> Self {
        let upstream = Arc::new(Upstream::new(config));
        upstream.start_with(Arc::new(SystemResolver)).wait();
        Self::serve(Forward::new(upstream.clone()).timed(true), upstream, Config::default())
    }

    /// Starts a gateway with a single upstream server, which is never ejected.
    pub(crate) fn to(address: SocketAddr) -> Self {
        Self::start(only(address))
    }

    /// Starts the same, with pipelined requests handled one at a time.
    pub(crate) fn in_order(address: SocketAddr) -> Self {
        let upstream = Arc::new(Upstream::new(only(address)));
        upstream.start_with(Arc::new(SystemResolver)).wait();
        let config = Config { pipelined_requests: 1, ..Config::default() };
        Self::serve(Forward::new(upstream.clone()), upstream, config)
    }

    /// Starts a gateway with a single route for `path`, with these settings for forwarding.
    pub(crate) fn routed(address: SocketAddr, path: PathMatch, forward: ForwardConfig) -> Self {
        let upstream = Arc::new(Upstream::new(only(address)));
        upstream.start_with(Arc::new(SystemResolver)).wait();
        let forward = Forward::with_config(upstream.clone(), forward).into_handler();
        let routes = Routes::new(vec![(RouteMatch::at(path), forward)]).unwrap();
        Self::serve(routes, upstream, Config::default())
    }

    /// Starts a gateway that sends copies of requests to `mirror`.
    pub(crate) fn mirrored(address: SocketAddr, mirror: Arc<Mirror>) -> Self {
        let upstream = Arc::new(Upstream::new(only(address)));
        upstream.start_with(Arc::new(SystemResolver)).wait();
        Self::serve(Forward::new(upstream.clone()).mirrored_by(mirror), upstream, Config::default())
    }

    /// Starts a gateway with these settings for forwarding and for its server.
    pub(crate) fn with(address: SocketAddr, forward: ForwardConfig, config: Config) -> Self {
        let upstream = Arc::new(Upstream::new(only(address)));
        upstream.start_with(Arc::new(SystemResolver)).wait();
        Self::serve(Forward::with_config(upstream.clone(), forward), upstream, config)
    }

    /// Starts a gateway like [`to`](Self::to), with a server that `set_up` changes.
    pub(crate) fn with_server(address: SocketAddr, set_up: impl FnOnce(Server) -> Server) -> Self {
        let upstream = Arc::new(Upstream::new(only(address)));
        upstream.start_with(Arc::new(SystemResolver)).wait();
        Self::start_server(set_up(Server::new(Forward::new(upstream.clone()))), upstream)
    }

    /// Starts a gateway with its handler wrapped by `guard`.
    pub(crate) fn guarded(
        address: SocketAddr,
        guard: impl FnOnce(Arc<dyn Handler>) -> Arc<dyn Handler>,
    ) -> Self {
        let upstream = Arc::new(Upstream::new(only(address)));
        upstream.start_with(Arc::new(SystemResolver)).wait();
        let handler = guard(Forward::new(upstream.clone()).into_handler());
        Self::serve(handler, upstream, Config::default())
    }

    fn serve<M>(handler: impl IntoHandler<M>, upstream: Arc<Upstream>, config: Config) -> Self {
        Self::start_server(Server::new(handler).config(config), upstream)
    }

    fn start_server(server: Server, upstream: Arc<Upstream>) -> Self {
        let server = server.workers(2).listen("127.0.0.1:0").unwrap().start().unwrap();
        let [ListenAddr::Tcp(address)] = *server.addresses() else { panic!("expected one TCP address") };
        Self { server: Some(server), address, upstream }
    }

    /// Starts a gateway that also accepts HTTP/2.
    pub(crate) fn accepting_http2(config: UpstreamConfig) -> Self {
        let upstream = Arc::new(Upstream::new(config));
        upstream.start_with(Arc::new(SystemResolver)).wait();
        let listener = Listener::new("127.0.0.1:0".parse::<ListenAddr>().unwrap()).http2();
        let server = Server::new(Forward::new(upstream.clone())).workers(2).listen_on(listener);
        let server = server.start().unwrap();
        let [ListenAddr::Tcp(address)] = *server.addresses() else { panic!("expected one TCP address") };
        Self { server: Some(server), address, upstream }
    }

    /// Starts a gateway with these settings for its server.
    pub(crate) fn serving(config: UpstreamConfig, serve: Config) -> Self {
        let upstream = Arc::new(Upstream::new(config));
        upstream.start_with(Arc::new(SystemResolver)).wait();
        Self::serve(Forward::new(upstream.clone()), upstream, serve)
    }

    /// Begins the drain.
    pub(crate) fn drain(&self) {
        self.server.as_ref().unwrap().drain();
    }

    /// Sends a request with this method and these further field lines on a new connection, and returns the
    /// response.
    pub(crate) fn ask(&self, method: &str, lines: &str) -> ClientResponse {
        self.begin(method, lines).end()
    }

    /// Sends `GET /` and returns the response.
    pub(crate) fn get(&self) -> ClientResponse {
        self.ask("GET", "")
    }

    /// Sends a request without waiting for the response.
    pub(crate) fn begin(&self, method: &str, lines: &str) -> PendingRequest {
        self.begin_with(method, &format!("Connection: close\r\n{lines}"))
    }

    /// Sends a request that has only `Host` and these field lines.
    pub(crate) fn begin_with(&self, method: &str, lines: &str) -> PendingRequest {
        self.begin_raw(&format!("{method} / HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n"))
    }

    /// Sends these bytes without waiting for the response.
    pub(crate) fn begin_raw(&self, request: &str) -> PendingRequest {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        PendingRequest(stream)
    }
}

/// An upstream with a single server, which is never ejected.
pub(crate) fn only(address: SocketAddr) -> UpstreamConfig {
    let mut config = UpstreamConfig::new("a", [address.into()]);
    config.ejection.failures = 0;
    config
}

/// A request that was sent.
pub(crate) struct PendingRequest(TcpStream);

impl PendingRequest {
    /// Resets the connection when it is closed.
    pub(crate) fn reset(self) {
        set_socket_linger(&self.0, Some(Duration::ZERO)).unwrap();
    }

    /// Waits for the first bytes of the response.
    pub(crate) fn first(&mut self) -> String {
        let mut bytes = [0; 12];
        self.0.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    pub(crate) fn end(mut self) -> ClientResponse {
        let mut text = String::new();
        self.0.read_to_string(&mut text).unwrap();
        let (head, content) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        ClientResponse { status, head: head.to_owned(), content: content.to_owned() }
    }
}

impl ClientResponse {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.drain();
            server.join();
        }
    }
}

/// Repeats the check until it succeeds.
pub(crate) fn until(mut is_done: impl FnMut() -> bool) {
    let end = thruway_net::Clock::system().now_exact() + TEST_TIMEOUT;
    while !is_done() {
        assert!(
            thruway_net::Clock::system().now_exact() < end,
            "the condition is not met after {TEST_TIMEOUT:?}"
        );
        std::thread::yield_now();
    }
}

/// A timeout that only a stalled server exceeds, even on a busy machine. Tests with shorter
/// timeouts failed while other programs ran.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_millis(500);

/// Time limit of each wait. It expires only if the test fails.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_mins(1);
