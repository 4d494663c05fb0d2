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

use crate::gateway::{PATIENCE, until};

/// A gateway for TCP streams. It ends with the test.
struct Streams {
    server: Option<RunningServer>,
    address: SocketAddr,
    forward: Arc<TcpForward>,
    ends: Receiver<Told>,
}

/// The record of a stream.
#[derive(PartialEq, Eq, Debug)]
struct Told {
    end: &'static str,
    server: Option<String>,
    retries: u32,
    bytes: [u64; 2],
}

struct Records(Mutex<Sender<Told>>);

impl Recorder for Records {
    fn start(&self) -> TakeRecord {
        Box::new(|record| panic!("this was no request: {record:?}"))
    }

    fn start_streams(&self) -> TakeStreamRecord {
        let sender = self.0.lock().unwrap().clone();
        Box::new(move |record| {
            let told = Told {
                end: record.end,
                server: record.server.map(str::to_owned),
                retries: record.retries,
                bytes: [record.received_bytes, record.sent_bytes],
            };
            // The test may have ended.
            let _ = sender.send(told);
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
        let server = Server::new(|| "no request gets here")
            .workers(1)
            .connections_max(connections_max)
            .record(Records(Mutex::new(sender)))
            .listen_on(with(listener))
            .start()
            .unwrap();
        let [ListenAddr::Tcp(address)] = *server.addresses() else { panic!("one address was asked for") };
        Self { server: Some(server), address, forward, ends }
    }

    fn connect(&self) -> TcpStream {
        patient(TcpStream::connect(self.address).unwrap())
    }

    fn end(&self) -> Told {
        self.ends.recv_timeout(PATIENCE).unwrap()
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
        patient(self.0.accept().unwrap().0)
    }
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// An address without a listener.
fn nobody() -> SocketAddr {
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
fn a_stream_that_would_come_back_a_second_time_is_closed() {
    let streams = Streams::start(to(&[nobody()]));
    let own = UpstreamConfig { retries_max: 0, ..to(&[streams.address]) };
    streams.forward.replace(Arc::new(Upstream::new(own)), ServerNames::default(), TcpConfig::default());
    let mut client = streams.connect();
    client.write_all(b"anything").unwrap();
    // The stream may end in any way, because bytes may be unread.
    let _ = client.read(&mut [0; 1]);
    drop(client);
    until(|| streams.forward.counts().open == 0);
    let ends: Vec<_> = streams.ends.try_iter().map(|told| told.end).collect();
    assert!(ends.contains(&"proxy_loop_detected") && ends.len() < 20, "{ends:?}");
}

#[test]
fn each_side_may_end_what_it_says_before_the_other() {
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
    let expected =
        Told { end: "completed", server: Some(backend.address().to_string()), retries: 0, bytes: [8, 16] };
    assert_eq!(streams.end(), expected);
    until(|| streams.forward.counts().open == 0);
    let counts = streams.forward.counts();
    assert_eq!((counts.received_bytes, counts.sent_bytes), (8, 16));
    assert!(counts.ended.contains(&("completed", 1)), "{counts:?}");
}

#[test]
fn large_streams_arrive_whole_in_both_directions_at_once() {
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
fn a_server_that_refuses_is_passed_over() {
    let (refusing, backend) = (nobody(), Backend::start());
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
fn without_a_server_the_stream_is_closed_and_that_is_told() {
    let streams = Streams::start(UpstreamConfig { retries_max: 0, ..to(&[nobody()]) });
    assert_eq!(read_all(&mut streams.connect()), b"");
    assert_eq!(streams.end().end, "connection_refused");
    let streams = Streams::start(to(&[]));
    assert_eq!(read_all(&mut streams.connect()), b"");
    let told = streams.end();
    assert_eq!((told.end, told.server), ("destination_unavailable", None));
    until(|| streams.forward.counts().ended.contains(&("not_connected", 1)));
}

#[test]
fn what_is_broken_off_is_not_taken_for_complete() {
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
fn a_server_that_answers_and_resets_is_heard_and_then_broken_off() {
    let backend = Backend::start();
    let streams = Streams::start(to(&[backend.address()]));
    for (length, has_asked) in [(6, true), (6, false), (60_000, true)] {
        let mut client = streams.connect();
        let mut server = backend.accept();
        if has_asked {
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
fn a_stream_without_bytes_is_closed_in_time() {
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
fn streams_live_on_while_the_gateway_drains() {
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
    assert!(streams.ends.try_iter().any(|told| told.end == "completed"));
}

#[test]
fn streams_count_among_the_connections_that_are_allowed() {
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
fn streams_wait_for_a_server_with_room() {
    streams_wait_where(|config| config.servers[0].requests_max = 1);
}

#[test]
fn streams_wait_for_a_connection_where_these_are_limited() {
    streams_wait_where(|config| config.connections_max = 1);
}

/// Checks the queue with a limit of one stream.
fn streams_wait_where(limit: impl FnOnce(&mut UpstreamConfig)) {
    let backend = Backend::start();
    let mut config = to(&[backend.address()]);
    limit(&mut config);
    config.queue = QueueConfig { length_max: 1, timeout: PATIENCE };
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
fn one_client_gets_one_server_where_its_address_is_hashed() {
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
            let place = statuses.iter().position(|status| status.in_flight == 1).unwrap();
            drop(backends[place].accept());
            streams.end().server
        })
        .collect();
    assert!(servers.iter().all(|server| *server == servers[0]), "{servers:?}");
}

#[test]
fn servers_are_told_who_the_proxy_in_front_has_told_of() {
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
fn another_upstream_gets_the_next_stream_and_not_those_that_there_are() {
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
fn streams_of_tls_go_where_their_clients_ask_and_arrive_whole() {
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
    let [ListenAddr::Tcp(address)] = *server.addresses() else { panic!("one address was asked for") };
    for (name, place) in [("A.example", 1), ("x.b.example", 2), ("b.example", 0), ("127.0.0.1", 0)] {
        let mut client = TcpStream::connect(address).unwrap();
        let bytes = [&hello(name)[..], b"and more"].concat();
        let (first, rest) = bytes.split_at(7);
        client.write_all(first).unwrap();
        client.write_all(rest).unwrap();
        let (mut accepted, _) = servers[place].1.accept().unwrap();
        let mut received = vec![0; bytes.len()];
        accepted.read_exact(&mut received).unwrap();
        assert!(received == bytes, "{name}");
    }
    // Bytes that are not TLS, and no bytes.
    for said in [&b"GET / HTTP/1.1\r\n\r\n"[..], b""] {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(said).unwrap();
        assert!(matches!(client.read(&mut [0; 9]), Ok(0) | Err(_)));
    }
    until(|| forward.counts().ended.contains(&("not_tls", 2)));
    server.drain();
    server.join();
}
