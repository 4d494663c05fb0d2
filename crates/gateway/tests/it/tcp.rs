//! Tests of TCP streams through a gateway, which does not interpret their bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use thruway_client::SystemResolver;
use thruway_gateway::{
    Balance, HashBy, ProxyVersion, QueueConfig, ServerNames, TcpConfig, TcpForward, Upstream, UpstreamConfig,
};
use thruway_net::ProxyHeader;
use thruway_server::{
    ListenAddr, Listener, ProxyProtocol, Recorder, RunningServer, Server, TakeRecord, TakeStreamRecord,
};

use crate::gateway::{TEST_TIMEOUT, until};

/// A gateway for TCP streams. It ends with the test.
struct Streams {
    server: Option<RunningServer>,
    address: SocketAddr,
    forward: Arc<TcpForward>,
    ends: Receiver<RecordedStream>,
}

/// The record of a stream.
#[derive(PartialEq, Eq, Debug)]
struct RecordedStream {
    end: &'static str,
    server: Option<String>,
    retries: u32,
    bytes: [u64; 2],
}

struct Records(Mutex<Sender<RecordedStream>>);

impl Recorder for Records {
    fn start(&self) -> TakeRecord {
        Box::new(|record| panic!("unexpected request record: {record:?}"))
    }

    fn start_streams(&self) -> TakeStreamRecord {
        let sender = self.0.lock().unwrap().clone();
        Box::new(move |record| {
            let recorded = RecordedStream {
                end: record.end,
                server: record.server.map(str::to_owned),
                retries: record.retries,
                bytes: [record.received_bytes, record.sent_bytes],
            };
            // The test may have ended.
            let _ = sender.send(recorded);
        })
    }
}

impl Streams {
    fn start(config: UpstreamConfig) -> Self {
        Self::start_with(config, TcpConfig::default(), |listener| listener, 1_000)
    }

    fn start_with(
        config: UpstreamConfig,
        tcp: TcpConfig,
        with: impl FnOnce(Listener) -> Listener,
        connections_max: usize,
    ) -> Self {
        let upstream = Arc::new(Upstream::new(config));
        upstream.start_with(Arc::new(SystemResolver)).wait();
        let forward = Arc::new(TcpForward::new(upstream, tcp));
        let (sender, ends) = channel();
        let listener = Listener::new("127.0.0.1:0".parse().unwrap()).streams(forward.clone());
        let server = Server::new(|| "unreachable")
            .workers(1)
            .connections_max(connections_max)
            .record(Records(Mutex::new(sender)))
            .listen_on(with(listener))
            .start()
            .unwrap();
        let [ListenAddr::Tcp(address)] = *server.addresses() else { panic!("expected one TCP address") };
        Self { server: Some(server), address, forward, ends }
    }

    fn connect(&self) -> TcpStream {
        with_timeouts(TcpStream::connect(self.address).unwrap())
    }

    fn end(&self) -> RecordedStream {
        self.ends.recv_timeout(TEST_TIMEOUT).unwrap()
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.drain();
            server.join();
        }
    }
}

/// A server that hands its connections to the test.
struct Backend(TcpListener);

impl Backend {
    fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    fn accept(&self) -> TcpStream {
        with_timeouts(self.0.accept().unwrap().0)
    }
}

fn with_timeouts(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream
}

/// An address without a listener.
fn closed_port() -> SocketAddr {
    Backend::start().address()
}

fn to(addresses: &[SocketAddr]) -> UpstreamConfig {
    UpstreamConfig::new("db", addresses.iter().map(|address| (*address).into()))
}

fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

fn read_some(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// Regression test: a stream opened connections up to the limit, because each one was forwarded to the same
/// listener again.
#[test]
fn forwarding_loop_of_streams_is_closed() {
    let streams = Streams::start(to(&[closed_port()]));
    let own = UpstreamConfig { retries_max: 0, ..to(&[streams.address]) };
    streams.forward.replace(Arc::new(Upstream::new(own)), ServerNames::default(), TcpConfig::default());
    let mut client = streams.connect();
    client.write_all(b"anything").unwrap();
    // The stream may end in any way, because bytes may be unread.
    let _ = client.read(&mut [0; 1]);
    drop(client);
    until(|| streams.forward.counts().open == 0);
    let ends: Vec<_> = streams.ends.try_iter().map(|stream| stream.end).collect();
    assert!(ends.contains(&"proxy_loop_detected") && ends.len() < 20, "{ends:?}");
}

#[test]
fn server_can_send_after_client_finishes_sending() {
    let backend = Backend::start();
    let streams = Streams::start(to(&[backend.address()]));
    let mut client = streams.connect();
    let mut server = backend.accept();
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut server), b"question");
    server.write_all(b"answer").unwrap();
    assert_eq!(read_some(&mut client, 6), b"answer");
    assert_eq!(streams.forward.counts().open, 1);
    server.write_all(b", and more").unwrap();
    drop(server);
    assert_eq!(read_all(&mut client), b", and more");
    let expected = RecordedStream {
        end: "completed",
        server: Some(backend.address().to_string()),
        retries: 0,
        bytes: [8, 16],
    };
    assert_eq!(streams.end(), expected);
    until(|| streams.forward.counts().open == 0);
    let counts = streams.forward.counts();
    assert_eq!((counts.received_bytes, counts.sent_bytes), (8, 16));
    assert!(counts.ended.contains(&("completed", 1)), "{counts:?}");
}

#[test]
fn large_streams_arrive_complete_in_both_directions() {
    let backend = Backend::start();
    let streams = Streams::start(to(&[backend.address()]));
    let mut client = streams.connect();
    let server = backend.accept();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
    let echo = thread::spawn(move || std::io::copy(&mut &server, &mut &server).unwrap());
    let (mut writes, sent) = (client.try_clone().unwrap(), bytes.clone());
    let sending = thread::spawn(move || {
        writes.write_all(&sent).unwrap();
        writes.shutdown(Shutdown::Write).unwrap();
    });
    assert!(read_all(&mut client) == bytes);
    sending.join().unwrap();
    assert_eq!(echo.join().unwrap(), 3_000_000);
}

#[test]
fn server_that_refuses_connection_is_skipped() {
    let (refusing, backend) = (closed_port(), Backend::start());
    let streams = Streams::start(to(&[refusing, backend.address()]));
    let mut retries = 0;
    for _ in 0..4 {
        let mut client = streams.connect();
        backend.accept().write_all(b"here").unwrap();
        assert_eq!(read_all(&mut client), b"here");
        drop(client);
        retries += streams.end().retries;
    }
    assert!(retries > 0);
}

#[test]
fn stream_without_available_server_is_closed_and_recorded() {
    let streams = Streams::start(UpstreamConfig { retries_max: 0, ..to(&[closed_port()]) });
    assert_eq!(read_all(&mut streams.connect()), b"");
    assert_eq!(streams.end().end, "connection_refused");
    let streams = Streams::start(to(&[]));
    assert_eq!(read_all(&mut streams.connect()), b"");
    let stream = streams.end();
    assert_eq!((stream.end, stream.server), ("destination_unavailable", None));
    until(|| streams.forward.counts().ended.contains(&("not_connected", 1)));
}

#[test]
fn server_reset_resets_the_client_connection() {
    let backend = Backend::start();
    let streams = Streams::start(to(&[backend.address()]));
    let mut client = streams.connect();
    let mut server = backend.accept();
    server.write_all(b"half").unwrap();
    assert_eq!(read_some(&mut client, 4), b"half");
    set_socket_linger(&server, Some(Duration::ZERO)).unwrap();
    drop(server);
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(streams.end().end, "broken_off");
}

/// The bytes arrive, and then the connection is reset, so that they do not look complete.
#[test]
fn client_gets_response_bytes_before_a_server_reset() {
    let backend = Backend::start();
    let streams = Streams::start(to(&[backend.address()]));
    for (length, has_request) in [(6, true), (6, false), (60_000, true)] {
        let mut client = streams.connect();
        let mut server = backend.accept();
        if has_request {
            client.write_all(b"question").unwrap();
            assert_eq!(read_some(&mut server, 8), b"question");
        }
        let answer: Vec<u8> = (0..length).map(|n| u8::try_from(n % 251).unwrap()).collect();
        server.write_all(&answer).unwrap();
        // The client reads the bytes first. The reset would discard them in the gateway.
        assert!(read_some(&mut client, answer.len()) == answer);
        client.write_all(b"more").unwrap();
        // Closing a socket with unread bytes makes the kernel send a reset.
        assert_eq!(server.peek(&mut [0; 4]).map(|length| length > 0).ok(), Some(true));
        drop(server);
        assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(streams.end().end, "broken_off");
    }
}

#[test]
fn idle_stream_is_closed() {
    let backend = Backend::start();
    let idle = Duration::from_millis(50);
    let streams = Streams::start_with(
        to(&[backend.address()]),
        TcpConfig { idle, ..TcpConfig::default() },
        |listener| listener,
        10,
    );
    let mut client = streams.connect();
    let mut server = backend.accept();
    assert!(client.read(&mut [0]).is_err() && server.read(&mut [0]).is_err());
    assert_eq!(streams.end().end, "idle_timeout");
}

#[test]
fn streams_stay_open_during_a_drain() {
    let backend = Backend::start();
    let mut streams = Streams::start(to(&[backend.address()]));
    let mut client = streams.connect();
    let mut server = backend.accept();
    client.write_all(b"before").unwrap();
    assert_eq!(read_some(&mut server, 6), b"before");
    let running = streams.server.take().unwrap();
    running.drain();
    // Until the listener closes, new connections find no server.
    drop(backend);
    until(|| TcpStream::connect(streams.address).is_err());
    client.write_all(b"after").unwrap();
    assert_eq!(read_some(&mut server, 5), b"after");
    drop((client, server));
    assert!(running.join().iter().all(|load| load.connections == 0));
    assert!(streams.ends.try_iter().any(|stream| stream.end == "completed"));
}

#[test]
fn streams_count_toward_connections_max_of_the_server() {
    let backend = Backend::start();
    let streams = Streams::start_with(to(&[backend.address()]), TcpConfig::default(), |listener| listener, 1);
    let client = streams.connect();
    let server = backend.accept();
    assert_eq!(read_all(&mut streams.connect()), b"");
    assert_eq!(streams.end().end, "too_many_connections");
    drop((client, server));
    assert_eq!(streams.end().end, "completed");
}

#[test]
fn streams_wait_for_a_server_below_requests_max() {
    streams_wait_where(|config| config.servers[0].requests_max = 1);
}

#[test]
fn streams_wait_for_a_connection_at_connections_max() {
    streams_wait_where(|config| config.connections_max = 1);
}

/// Checks the queue with a limit of one stream.
fn streams_wait_where(limit: impl FnOnce(&mut UpstreamConfig)) {
    let backend = Backend::start();
    let mut config = to(&[backend.address()]);
    limit(&mut config);
    config.queue = QueueConfig { length_max: 1, timeout: TEST_TIMEOUT };
    let streams = Streams::start(config);
    let (first, waiting) = (streams.connect(), streams.connect());
    let server = backend.accept();
    until(|| streams.forward.upstream().waiting() == 1);
    assert_eq!(read_all(&mut streams.connect()), b"");
    assert_eq!(streams.end().end, "connection_limit_reached");
    drop((first, server));
    let mut next = backend.accept();
    next.write_all(b"your turn").unwrap();
    drop(next);
    let mut waiting = waiting;
    assert_eq!(read_all(&mut waiting), b"your turn");
}

#[test]
fn client_address_hash_selects_one_server_per_client() {
    let backends = [Backend::start(), Backend::start(), Backend::start()];
    let addresses: Vec<_> = backends.iter().map(Backend::address).collect();
    let balance = Balance::Hash { by: HashBy::ClientAddress, load_max_percent: 100_000 };
    let streams = Streams::start(UpstreamConfig { balance, ..to(&addresses) });
    let servers: Vec<_> = (0..6)
        .map(|_| {
            let client = streams.connect();
            client.shutdown(Shutdown::Both).unwrap();
            let upstream = streams.forward.upstream();
            until(|| upstream.server_statuses().iter().any(|status| status.in_flight == 1));
            let statuses = upstream.server_statuses();
            let index = statuses.iter().position(|status| status.in_flight == 1).unwrap();
            drop(backends[index].accept());
            streams.end().server
        })
        .collect();
    assert!(servers.iter().all(|server| *server == servers[0]), "{servers:?}");
}

#[test]
fn client_address_from_proxy_protocol_is_forwarded() {
    let backend = Backend::start();
    let config = UpstreamConfig { proxy_protocol: Some(ProxyVersion::V2), ..to(&[backend.address()]) };
    let behind = |listener: Listener| listener.proxy_protocol(ProxyProtocol::default());
    let streams = Streams::start_with(config, TcpConfig::default(), behind, 10);
    let mut client = streams.connect();
    client.write_all(b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\nand the first bytes").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let bytes = read_all(&mut backend.accept());
    let (header, length) = ProxyHeader::parse(&bytes).unwrap().unwrap();
    let (source, destination) = ("192.0.2.1:56324".parse().unwrap(), "198.51.100.1:443".parse().unwrap());
    assert_eq!(header, ProxyHeader::Tcp { source, destination });
    assert_eq!(&bytes[length..], b"and the first bytes");
}

#[test]
fn new_upstream_gets_new_streams_but_not_open_ones() {
    let (before, after) = (Backend::start(), Backend::start());
    let streams = Streams::start(to(&[before.address()]));
    let mut first = streams.connect();
    let mut server = before.accept();
    let after_upstream = Arc::new(Upstream::new(to(&[after.address()])));
    streams.forward.replace(after_upstream, ServerNames::default(), TcpConfig::default());
    let mut second = streams.connect();
    after.accept().write_all(b"after").unwrap();
    server.write_all(b"before").unwrap();
    assert_eq!(read_some(&mut first, 6), b"before");
    assert_eq!(read_some(&mut second, 5), b"after");
}

/// A `ClientHello` that asks for the server `name`.
fn hello(name: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = rustls::pki_types::ServerName::try_from(name.to_owned()).unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

#[test]
fn tls_streams_are_routed_by_server_name() {
    let servers = ["default", "exact", "below"].map(|name| (name, TcpListener::bind("127.0.0.1:0").unwrap()));
    let upstreams = servers.each_ref().map(|(name, listener)| {
        let address = listener.local_addr().unwrap();
        Arc::new(Upstream::new(UpstreamConfig::new(*name, [address.into()])))
    });
    let mut names = ServerNames::default();
    names.add("a.example", upstreams[1].clone());
    names.add("*.b.example", upstreams[2].clone());
    let config = TcpConfig { hello: Duration::from_millis(500), ..TcpConfig::default() };
    let forward = Arc::new(TcpForward::by_name(upstreams[0].clone(), names, config));
    let listener = Listener::new("127.0.0.1:0".parse().unwrap()).streams(forward.clone());
    let server = Server::new(|| "").workers(1).listen_on(listener).start().unwrap();
    let [ListenAddr::Tcp(address)] = *server.addresses() else { panic!("expected one TCP address") };
    for (name, index) in [("A.example", 1), ("x.b.example", 2), ("b.example", 0), ("127.0.0.1", 0)] {
        let mut client = TcpStream::connect(address).unwrap();
        let bytes = [&hello(name)[..], b"and more"].concat();
        let (first, rest) = bytes.split_at(7);
        client.write_all(first).unwrap();
        client.write_all(rest).unwrap();
        let (mut accepted, _) = servers[index].1.accept().unwrap();
        let mut received = vec![0; bytes.len()];
        accepted.read_exact(&mut received).unwrap();
        assert!(received == bytes, "{name}");
    }
    // Bytes that are not TLS, and no bytes.
    for input in [&b"GET / HTTP/1.1\r\n\r\n"[..], b""] {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        client.write_all(input).unwrap();
        assert!(matches!(client.read(&mut [0; 9]), Ok(0) | Err(_)));
    }
    until(|| forward.counts().ended.contains(&("not_tls", 2)));
    server.drain();
    server.join();
}
