//! Tests of upstream servers that choose the version during the TLS handshake.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use thruway_client::UpstreamAddr;
use thruway_client::http2::Http2Config;
use thruway_gateway::{CheckConfig, CheckKind, UpstreamConfig, UpstreamTls};
use thruway_net::tls::{Roots, TlsConnector, TlsConnectorConfig, TlsServerName};
use thruway_server::{ListenAddr, Listener, RunningServer, Server, TlsAcceptor, TlsAcceptorConfig};
use thruway_testkit::CertificateAuthority;
use tokio::task::yield_now;

use super::client::{connect, piece, request, run, whole};
use super::origin::Echo;
use crate::gateway::{Gateway, until};

/// A socket path that different servers use in turn, and the authority for their certificates.
pub(super) struct TlsFixture {
    pub(super) authority: CertificateAuthority,
    directory: tempfile::TempDir,
}

/// A server that ends with the test.
pub(super) struct TlsServer(Option<RunningServer>);

impl TlsFixture {
    pub(super) fn new() -> Self {
        Self { authority: CertificateAuthority::new(), directory: tempfile::tempdir().unwrap() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join("upstream.sock")
    }

    /// Starts a server with the ALPN protocols `protocols`, in place of the previous one.
    pub(super) fn serve(&self, protocols: &[&str]) -> TlsServer {
        // Connections to the previous server continue.
        let _ = fs::remove_file(self.path());
        let files = self.authority.issue("server", &["a.example"]);
        let alpn = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let config = TlsAcceptorConfig { alpn, ..TlsAcceptorConfig::new(vec![files]) };
        let address: ListenAddr = format!("unix:{}", self.path().display()).parse().unwrap();
        let listener = Listener::new(address).tls(Arc::new(TlsAcceptor::load(config).unwrap()));
        TlsServer(Some(Server::new(Echo(Arc::default())).workers(1).listen_on(listener).start().unwrap()))
    }

    /// Calls `serve` for each connection to a server that chooses among `protocols`. The second argument is
    /// the number of the connection, from 0. The handshake has not started yet.
    pub(super) fn each_connection(
        &self,
        protocols: &[&str],
        serve: impl Fn(StreamOwned<ServerConnection, UnixStream>, usize) + Clone + Send + 'static,
    ) {
        let files = self.authority.issue("server", &["a.example"]);
        let chain = CertificateDer::pem_file_iter(&files.chain).unwrap().map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let mut config = config.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let (config, listener) = (Arc::new(config), UnixListener::bind(self.path()).unwrap());
        thread::spawn(move || {
            for (number, socket) in listener.incoming().map_while(Result::ok).enumerate() {
                let (serve, connection) = (serve.clone(), ServerConnection::new(config.clone()).unwrap());
                thread::spawn(move || serve(StreamOwned::new(connection, socket), number));
            }
        });
    }

    pub(super) fn upstream(&self) -> UpstreamConfig {
        let connector = TlsConnectorConfig {
            roots: Roots::Files(vec![self.authority.root()]),
            alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            ..TlsConnectorConfig::default()
        };
        let connector = Arc::new(TlsConnector::load(connector).unwrap());
        let mut config = UpstreamConfig::new("a", [UpstreamAddr::unix(self.path())]);
        config.ejection.failures = 0;
        UpstreamConfig {
            http2: Some(Http2Config::default()),
            negotiates_http2: true,
            tls: Some(UpstreamTls { connector, server_name: TlsServerName::new("a.example").ok() }),
            ..config
        }
    }
}

impl TlsServer {
    /// Number of connections so far.
    pub(super) fn connections(&self) -> u64 {
        self.0.iter().flat_map(RunningServer::loads).map(|load| load.connections_total).sum()
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        if let Some(server) = self.0.take() {
            server.drain();
            server.join();
        }
    }
}

/// Returns the version in which a request arrives.
async fn version(send: &mut SendRequest<Bytes>) -> String {
    let (response, _) = send.send_request(request("GET", "/"), true).unwrap();
    let (head, text, _) = whole(response).await;
    assert_eq!(head.status().as_u16(), 200, "{head:?}");
    text.lines().next().unwrap().replace("GET / ", "")
}

/// Starts `requests` concurrent requests. The upstream server has sent the head of each response.
async fn start_requests(
    send: &mut SendRequest<Bytes>,
    requests: usize,
) -> Vec<(h2::RecvStream, SendStream<Bytes>)> {
    let ask = |_| send.send_request(request("POST", "/echo"), false).unwrap();
    let started: Vec<(ResponseFuture, _)> = (0..requests).map(ask).collect();
    let mut answered = Vec::new();
    for (response, to) in started {
        answered.push((response.await.unwrap().into_body(), to));
    }
    answered
}

async fn end((mut content, mut to): (h2::RecvStream, SendStream<Bytes>)) {
    to.send_data(Bytes::from_static(b"end"), true).unwrap();
    assert_eq!(piece(&mut content).await.unwrap(), "end");
    assert_eq!(piece(&mut content).await, None);
}

#[test]
fn alpn_choice_of_the_server_decides_the_http_version() {
    for (protocols, expected) in [
        (&["h2", "http/1.1"][..], "HTTP/2.0"),
        (&["h2"], "HTTP/2.0"),
        (&["http/1.1"], "HTTP/1.1"),
        (&[], "HTTP/1.1"),
    ] {
        let fixture = TlsFixture::new();
        let server = fixture.serve(protocols);
        let gateway = Gateway::accepting_http2(fixture.upstream());
        run(async {
            let mut send = connect(gateway.address).await;
            for _ in 0..3 {
                assert_eq!(version(&mut send).await, expected, "{protocols:?}");
            }
        });
        assert_eq!(server.connections(), 1, "{protocols:?}: the connection is shared or reused");
    }
}

#[test]
fn concurrent_requests_share_http2_but_not_http11_connections() {
    for (protocol, connections) in [("h2", 1), ("http/1.1", REQUESTS as u64)] {
        let fixture = TlsFixture::new();
        let server = fixture.serve(&[protocol]);
        let gateway = Gateway::accepting_http2(fixture.upstream());
        run(async {
            let mut send = connect(gateway.address).await;
            for started in start_requests(&mut send, REQUESTS).await {
                end(started).await;
            }
        });
        assert_eq!(server.connections(), connections, "{protocol}");
    }
}

/// Requests wait for a connection only if they can share it.
#[test]
fn requests_do_not_wait_for_an_expected_http11_connection() {
    let fixture = TlsFixture::new();
    fixture.each_connection(&["http/1.1"], |mut stream, number| {
        if number == 1 {
            // This connection never completes its handshake.
            let _ = stream.sock.read_to_end(&mut Vec::new());
        }
        let mut request = [0; 1000];
        while let Ok(1..) = stream.read(&mut request) {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        }
    });
    let gateway = Gateway::accepting_http2(UpstreamConfig { retries_max: 0, ..fixture.upstream() });
    run(async {
        let mut send = connect(gateway.address).await;
        let (first, _) = send.send_request(request("GET", "/"), true).unwrap();
        assert_eq!(whole(first).await.0.status().as_u16(), 200);
        let (one, _) = send.send_request(request("GET", "/"), true).unwrap();
        let (other, _) = send.send_request(request("GET", "/"), true).unwrap();
        let answered = tokio::select! { answered = one => answered, answered = other => answered };
        assert_eq!(answered.unwrap().status().as_u16(), 200);
    });
}

#[test]
fn restarted_server_can_choose_another_http_version() {
    let fixture = TlsFixture::new();
    let gateway = Gateway::accepting_http2(fixture.upstream());
    run(async {
        let mut send = connect(gateway.address).await;
        for (protocol, expected) in [("h2", "HTTP/2.0"), ("http/1.1", "HTTP/1.1"), ("h2", "HTTP/2.0")] {
            let server = fixture.serve(&[protocol]);
            assert_eq!(version(&mut send).await, expected);
            // Concurrent requests, while the last known version is another one.
            for started in start_requests(&mut send, REQUESTS).await {
                end(started).await;
            }
            drop(server);
        }
    });
}

#[test]
fn http11_connections_are_not_kept_after_switch_to_http2() {
    let fixture = TlsFixture::new();
    let before = fixture.serve(&["http/1.1"]);
    let gateway = Gateway::accepting_http2(fixture.upstream());
    run(async {
        let mut send = connect(gateway.address).await;
        let mut started = start_requests(&mut send, 2).await;
        end(started.pop().unwrap()).await;
        while gateway.upstream.idle_connections() != 1 {
            yield_now().await;
        }
        let _now = fixture.serve(&["h2"]);
        // The idle connection is used first.
        let also_before = start_requests(&mut send, 1).await;
        assert_eq!(version(&mut send).await, "HTTP/2.0");
        for started in started.into_iter().chain(also_before) {
            end(started).await;
        }
        for _ in 0..3 {
            assert_eq!(version(&mut send).await, "HTTP/2.0");
        }
        assert_eq!((before.connections(), gateway.upstream.idle_connections()), (2, 0));
    });
}

#[test]
fn health_checks_follow_the_alpn_choice_of_the_server() {
    for protocol in ["h2", "http/1.1"] {
        let fixture = TlsFixture::new();
        let server = fixture.serve(&[protocol]);
        let check =
            CheckConfig { interval: Duration::from_millis(10), ..CheckConfig::new(CheckKind::http("/")) };
        let gateway = Gateway::accepting_http2(UpstreamConfig { check: Some(check), ..fixture.upstream() });
        until(|| server.connections() > 2);
        assert_eq!(
            gateway.upstream.server_statuses()[0].state,
            thruway_gateway::ServerState::Up,
            "{protocol}"
        );
    }
}

const REQUESTS: usize = 10;
