//! Tests of CONNECT tunnels.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thruway_client::{DnsResolver, Resolve, Resolving, UpstreamAddr};
use thruway_gateway::{
    AddressesConfig, ApiKeysConfig, Conditions, Connect, ConnectConfig, Guarded, HostMatch, KeyPlace,
    PathMatch, Policy, PolicyConfig, RouteMatch, Routes,
};
use thruway_server::{
    Config, Handler, IntoHandler, ListenAddr, Networks, Recorder, RunningServer, Server, TakeRecord,
};

use crate::forward::Client;
use crate::gateway::{STALL_TIMEOUT, TEST_TIMEOUT};

/// Resolves names to the addresses of the test.
#[derive(Debug)]
struct Names(Vec<(&'static str, SocketAddr)>);

impl Resolve for Names {
    fn resolve<'a>(&'a self, host: &'a str, _: u16) -> Resolving<'a> {
        let known = self.0.iter().filter(|(name, _)| *name == host).map(|(_, address)| (*address).into());
        let known: Vec<UpstreamAddr> = known.collect();
        Box::pin(async move {
            match (host, known.is_empty()) {
                ("never.example", _) => std::future::pending().await,
                ("dns-error.example", _) => Err(io::Error::other("no DNS server answers")),
                (_, true) => Err(io::ErrorKind::NotFound.into()),
                (_, false) => Ok(known),
            }
        })
    }
}

/// Status, bytes to the client, bytes from the client, server, failure.
type TunnelRecord = (u16, u64, Option<u64>, Option<String>, Option<&'static str>);

/// Sends the record of each request to the test.
struct Records(Mutex<Sender<TunnelRecord>>);

impl Recorder for Records {
    fn start(&self) -> TakeRecord {
        let sender = self.0.lock().unwrap().clone();
        Box::new(move |record| {
            let forwarded = record.forwarded;
            let server = forwarded.and_then(|forwarded| forwarded.server.as_deref().map(str::to_owned));
            let failure = forwarded.and_then(|forwarded| forwarded.failure);
            let status = record.status.as_u16();
            let _ = sender.send((status, record.content_bytes, record.received_bytes, server, failure));
        })
    }
}

/// A gateway that opens tunnels.
struct Tunnels {
    server: Option<RunningServer>,
    address: SocketAddr,
    records: Receiver<TunnelRecord>,
}

impl Tunnels {
    fn start(
        config: ConnectConfig,
        names: Vec<(&'static str, SocketAddr)>,
        guard: impl FnOnce(Arc<dyn Handler>) -> Arc<dyn Handler>,
    ) -> Self {
        let connect = Connect::with_resolver(config, Arc::new(Names(names))).recorded(true);
        let conditions = Conditions { methods: vec!["CONNECT".to_owned()], ..Conditions::default() };
        let everywhere = RouteMatch::at(PathMatch::Prefix("/".to_owned()));
        let tunnels = RouteMatch { conditions, ..everywhere.clone() };
        let page = (|| "a page").into_handler();
        let routes = Routes::new(vec![(everywhere, page), (tunnels, guard(connect.into_handler()))]).unwrap();
        let (sender, records) = channel();
        let server = Server::new(routes).config(Config::default()).workers(1);
        let server = server.record(Records(Mutex::new(sender))).listen("127.0.0.1:0").unwrap();
        let server = server.start().unwrap();
        let [ListenAddr::Tcp(address)] = *server.addresses() else { panic!("expected one TCP address") };
        Self { server: Some(server), address, records }
    }

    /// Starts a gateway that lets clients reach `backend` as `a.example`.
    fn to(backend: &Backend) -> Self {
        Self::start(allow_port(backend.port()), vec![("a.example", backend.address())], |handler| handler)
    }

    fn next_record(&self) -> TunnelRecord {
        self.records.recv_timeout(TEST_TIMEOUT).unwrap()
    }
}

impl Drop for Tunnels {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.drain();
            server.join();
        }
    }
}

/// Allows any host at this port, also on this machine.
fn allow_port(port: u16) -> ConnectConfig {
    let private = Networks::from_iter(["127.0.0.0/8".parse().unwrap()]);
    ConnectConfig { ports: vec![port], private, ..ConnectConfig::to(vec![HostMatch::Any]) }
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

    fn port(&self) -> u16 {
        self.address().port()
    }

    fn accept(&self) -> TcpStream {
        self.0.set_nonblocking(false).unwrap();
        let stream = self.0.accept().unwrap().0;
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream
    }

    /// `true` if a connection is waiting.
    fn has_connection(&self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        self.0.accept().is_ok()
    }
}

fn connect_request(authority: &str, lines: &str) -> String {
    format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{lines}\r\n")
}

/// Returns the status and `Proxy-Status` of the response to a client whose tunnel the gateway refuses.
fn rejection(tunnels: &Tunnels, authority: &str, lines: &str) -> (u16, String) {
    let mut client = Client::new(tunnels.address);
    client.send(connect_request(authority, lines));
    let answer = client.answer(false);
    (answer.status, answer.field("proxy-status").unwrap_or_default().to_owned())
}

fn read_all(mut stream: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut stream, &mut bytes).unwrap();
    bytes
}

#[test]
fn connect_tunnel_forwards_both_ways_and_supports_half_close() {
    let backend = Backend::start();
    let tunnels = Tunnels::to(&backend);
    let mut client = Client::new(tunnels.address);
    client.send(connect_request(&format!("a.example:{}", backend.port()), "") + "early ");
    let mut server = backend.accept();
    let answer = client.take(12);
    assert_eq!(answer, "HTTP/1.1 200");
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push_str(&client.take(1));
    }
    assert!(!head.contains("Content-Length") && !head.contains("Transfer-Encoding"), "{head}");
    client.send("late");
    client.finish();
    assert_eq!(read_all(&server), b"early late");
    server.write_all(b"answer").unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    client.read_rest(&mut rest);
    assert_eq!(rest, b"answer");
    assert_eq!(tunnels.next_record(), (200, 6, Some(10), Some(backend.address().to_string()), None));
}

#[test]
fn connect_without_a_connect_route_gets_405() {
    let backend = Backend::start();
    let page = (|| "a page").into_handler();
    let everywhere = RouteMatch::at(PathMatch::Prefix("/".to_owned()));
    let routes = Routes::new(vec![(everywhere, page)]).unwrap();
    let server = Server::new(routes).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let [ListenAddr::Tcp(address)] = *server.addresses() else { panic!("expected one TCP address") };
    let mut client = Client::new(address);
    client.send(connect_request(&backend.address().to_string(), ""));
    assert_eq!(client.answer(false).status, 405);
    assert!(!backend.has_connection());
    drop(client);
    server.drain();
    server.join();
}

#[test]
fn tunnels_reach_only_configured_destinations() {
    let backend = Backend::start();
    let names = || vec![("a.example", backend.address()), ("inside.example", backend.address())];
    let hosts = vec![HostMatch::parse("a.example").unwrap(), HostMatch::parse("127.0.0.1").unwrap()];
    let config = ConnectConfig { hosts, ..allow_port(backend.port()) };
    let tunnels = Tunnels::start(config.clone(), names(), |handler| handler);
    let port = backend.port();
    let denied = (403, "thruway; error=http_request_denied".to_owned());
    for authority in [format!("inside.example:{port}"), "a.example:1".to_owned(), format!("[::1]:{port}")] {
        assert_eq!(rejection(&tunnels, &authority, ""), denied, "{authority}");
    }
    let public_only = ConnectConfig { private: Networks::default(), ..config };
    let tunnels = Tunnels::start(public_only, names(), |handler| handler);
    let prohibited = (403, "thruway; error=destination_ip_prohibited".to_owned());
    assert_eq!(rejection(&tunnels, &format!("a.example:{port}"), ""), prohibited);
    assert!(!backend.has_connection());
}

/// Tunnels refuse every spelling that the operating system resolves to an address of this machine.
#[test]
fn tunnels_reject_every_spelling_of_a_local_address() {
    let backend = Backend::start();
    let port = backend.port();
    let config = ConnectConfig { private: Networks::default(), ..allow_port(port) };
    // The DNS server never answers. Hosts that are no valid DNS names do not resolve.
    let silent_dns = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let connect = Connect::with_resolver(config, Arc::new(DnsResolver::with_nameservers([silent_dns])));
    let conditions = Conditions { methods: vec!["CONNECT".to_owned()], ..Conditions::default() };
    let route = RouteMatch { conditions, ..RouteMatch::at(PathMatch::Prefix("/".to_owned())) };
    let routes = Routes::new(vec![(route, connect.into_handler())]).unwrap();
    let server = Server::new(routes).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let [ListenAddr::Tcp(address)] = *server.addresses() else { panic!("expected one TCP address") };
    for host in
        ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"]
    {
        let mut client = Client::new(address);
        client.send(connect_request(&format!("{host}:{port}"), ""));
        let status = client.answer(false).status;
        assert!(matches!(status, 403 | 503), "{host}: {status}");
    }
    assert!(!backend.has_connection());
    server.drain();
    server.join();
}

#[test]
fn tunnel_failures_have_distinct_statuses_and_errors() {
    let (closed, unused) = (Backend::start().address(), Backend::start().address());
    let config = ConnectConfig { connect_timeout: STALL_TIMEOUT, ..allow_port(closed.port()) };
    let config = ConnectConfig { ports: vec![closed.port(), unused.port()], ..config };
    let tunnels = Tunnels::start(config, vec![("gone.example", closed)], |handler| handler);
    for (host, status, error) in [
        ("gone.example", 502, "connection_refused"),
        ("unknown.example", 502, "dns_error"),
        ("dns-error.example", 503, "dns_error"),
        ("never.example", 504, "connection_timeout"),
    ] {
        let (got, proxy_status) = rejection(&tunnels, &format!("{host}:{}", closed.port()), "");
        assert_eq!((got, proxy_status), (status, format!("thruway; error={error}")), "{host}");
        let (recorded_status, _, received, server, failure) = tunnels.next_record();
        assert_eq!((recorded_status, received, failure), (status, None, Some(error)));
        assert_eq!(server.unwrap(), format!("{host}:{}", closed.port()));
    }
}

#[test]
fn policies_reject_tunnels_before_connecting() {
    let backend = Backend::start();
    let names = || vec![("a.example", backend.address())];
    let authority = format!("a.example:{}", backend.port());
    let guarded = |config: PolicyConfig| {
        move |handler| Guarded::new(Arc::new(Policy::new("policy", config)), "route", handler).into_handler()
    };
    let deny = Networks::from_iter(["127.0.0.0/8".parse().unwrap()]);
    let denied = PolicyConfig::Addresses(AddressesConfig { allow: None, deny });
    let tunnels = Tunnels::start(allow_port(backend.port()), names(), guarded(denied));
    assert_eq!(rejection(&tunnels, &authority, "").0, 403);

    let digest = "sha256:6ab9f1eb8f7d3388f4f9d586f66e99fd54080df2c446f0e58668b09c08a16dd0";
    let keys = PolicyConfig::ApiKeys(ApiKeysConfig {
        place: KeyPlace::Bearer,
        keys: vec![("ada".to_owned(), digest.parse().unwrap())],
        user_field: None,
    });
    let tunnels = Tunnels::start(allow_port(backend.port()), names(), guarded(keys));
    for lines in ["", "Authorization: Bearer k1\r\n", "Proxy-Authorization: Bearer k9\r\n"] {
        let mut client = Client::new(tunnels.address);
        client.send(connect_request(&authority, lines));
        let answer = client.answer(false);
        assert_eq!(answer.status, 407, "{lines}");
        assert!(answer.field("proxy-authenticate").is_some_and(|challenge| challenge.starts_with("Bearer ")));
        assert_eq!(answer.field("www-authenticate"), None);
    }
    assert!(!backend.has_connection());
    let mut client = Client::new(tunnels.address);
    client.send(connect_request(&authority, "Proxy-Authorization: Bearer k1\r\n"));
    assert_eq!(client.take(12), "HTTP/1.1 200");
    drop(backend.accept());
}

/// Regression test: a client that could reach a private network through the gateway could also reach the
/// gateway's own listeners there.
#[test]
fn tunnel_cannot_reach_own_listeners_unless_enabled() {
    let server = Server::new(|| "own").workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let [ListenAddr::Tcp(own)] = *server.addresses() else { panic!("expected one TCP address") };
    let names = || vec![("own.example", own), ("127.0.0.1", own)];
    let tunnels = Tunnels::start(allow_port(own.port()), names(), |handler| handler);
    let prohibited = (403, "thruway; error=destination_ip_prohibited".to_owned());
    for host in ["127.0.0.1", "own.example"] {
        assert_eq!(rejection(&tunnels, &format!("{host}:{}", own.port()), ""), prohibited, "{host}");
    }
    let config = ConnectConfig { own_listeners: true, ..allow_port(own.port()) };
    let tunnels = Tunnels::start(config, names(), |handler| handler);
    let mut client = Client::new(tunnels.address);
    client.send(connect_request(&format!("own.example:{}", own.port()), ""));
    assert_eq!(client.take(12), "HTTP/1.1 200");
    drop(client);
    server.drain();
    server.join();
}

#[test]
fn idle_connect_tunnel_is_closed() {
    let backend = Backend::start();
    let config = ConnectConfig { idle: Duration::from_millis(200), ..allow_port(backend.port()) };
    let tunnels = Tunnels::start(config, vec![("a.example", backend.address())], |handler| handler);
    let mut client = Client::new(tunnels.address);
    client.send(connect_request(&format!("a.example:{}", backend.port()), ""));
    let server = backend.accept();
    assert_eq!(client.take(12), "HTTP/1.1 200");
    let outcome = io::Read::read(&mut &server, &mut [0]);
    assert!(
        matches!(outcome, Ok(0))
            || outcome.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
    );
    assert_eq!(tunnels.next_record().0, 200);
}
