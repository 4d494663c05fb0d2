//! TLS clients, and clients that should use TLS.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use thruway_net::tls::{ALPN_ACME, TlsAlpnChallenges};
use thruway_server::{
    AnswerFirst, CertificateFiles, ClientAuthentication, Config, Content, FieldValue, Listener,
    ProxyProtocol, Request, Response, Router, Timeouts, TlsAcceptor, TlsAcceptorConfig,
};
use thruway_testkit::CertificateAuthority;

use crate::site::{GET, Site, rest};

type Client = StreamOwned<ClientConnection, TcpStream>;

const CLOSING: &[u8] = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";

struct TlsSite {
    site: Site,
    authority: CertificateAuthority,
}

fn listener(authority: &CertificateAuthority, change: impl FnOnce(&mut TlsAcceptorConfig)) -> Listener {
    let mut config = TlsAcceptorConfig::new(vec![authority.issue("server", &["a.example"])]);
    change(&mut config);
    let acceptor = Arc::new(TlsAcceptor::load(config).unwrap());
    Listener::new("127.0.0.1:0".parse().unwrap()).tls(acceptor)
}

fn app() -> Router {
    let of_connection = |request: &Request| {
        let tls = request.connection().tls();
        let name = tls.and_then(|tls| tls.server_name.as_deref()).unwrap_or("nobody").to_owned();
        let client = request.connection().client_certificate().map(|certificate| certificate.subject.clone());
        format!("{} {name} {}", request.scheme(), client.unwrap_or_default())
    };
    Router::new()
        .get("/", of_connection)
        .get("/large", || Response::text(String::from_utf8(vec![b'x'; LARGE]).unwrap()))
        .get("/endless", || {
            let pieces = [Ok(Bytes::from_static(b"a beginning")), Err("no end")];
            Response::text("").with_content(Content::stream(stream::iter(pieces)))
        })
}

impl TlsSite {
    fn start(change: impl FnOnce(&mut TlsAcceptorConfig)) -> Self {
        let authority = CertificateAuthority::new();
        let listener = listener(&authority, change);
        Self { site: Site::start_at(listener, app(), Config::default()), authority }
    }

    fn connect(&self) -> Client {
        self.connect_over(self.site.connect(), None)
    }

    fn connect_over(&self, stream: TcpStream, client: Option<&CertificateFiles>) -> Client {
        let name = ServerName::try_from("a.example").unwrap();
        StreamOwned::new(ClientConnection::new(self.config(client), name).unwrap(), stream)
    }

    fn config(&self, client: Option<&CertificateFiles>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.authority.root()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match client {
            None => builder.with_no_client_auth(),
            Some(files) => {
                let chain =
                    CertificateDer::pem_file_iter(&files.chain).unwrap().map(Result::unwrap).collect();
                let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        })
    }
}

/// Reads until the server ends the TLS connection with a `close_notify` alert.
fn all(client: &mut Client) -> String {
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    text
}

fn get(client: &mut Client, request: &[u8]) -> String {
    client.write_all(request).unwrap();
    all(client)
}

#[test]
fn pipelined_requests_are_answered_over_tls() {
    let tls_site = TlsSite::start(|_| {});
    let mut client = tls_site.connect();
    client.write_all(&[GET, CLOSING].concat()).unwrap();
    let answers = all(&mut client);
    assert_eq!(answers.matches("\r\n\r\nhttps a.example ").count(), 2, "{answers}");
}

#[test]
fn large_body_arrives_complete_over_tls() {
    let tls_site = TlsSite::start(|_| {});
    let answer = get(&mut tls_site.connect(), &CLOSING.replace_path("/large"));
    assert_eq!(answer.split_once("\r\n\r\n").unwrap().1.len(), LARGE);
}

#[test]
fn failed_body_ends_without_close_notify() {
    let tls_site = TlsSite::start(|_| {});
    let mut client = tls_site.connect();
    // In HTTP/1.0 there are no chunks, so the end of the connection marks the end of the body.
    client.write_all(b"GET /endless HTTP/1.0\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    let error = client.read_to_end(&mut bytes).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{error}");
}

#[test]
fn plain_request_on_https_port_gets_explanatory_400() {
    let tls_site = TlsSite::start(|_| {});
    let mut stream = tls_site.site.connect();
    stream.write_all(GET).unwrap();
    let answer = rest(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("plain HTTP was sent to an HTTPS port"), "{answer}");
}

/// Starts a listener with knowledge of another listener that requires client certificates.
fn with_other_listener(change: impl FnOnce(Listener) -> Listener) -> TlsSite {
    let authority = CertificateAuthority::new();
    let mut other = TlsAcceptorConfig::new(vec![
        authority.issue("other", &["a.example", "b.example", "*.c.example", "b.d.example"]),
    ]);
    other.client_authentication = ClientAuthentication::Required(vec![authority.root()]);
    let other = Arc::new(TlsAcceptor::load(other).unwrap());
    let wildcard = authority.issue("wildcard", &["*.d.example"]);
    let listener = listener(&authority, |config| config.certificates.push(wildcard));
    let listener = change(listener).with_other_hosts(vec![other]);
    TlsSite { site: Site::start_at(listener, app(), Config::default()), authority }
}

/// A client without a certificate could once reach the hosts of the other listener through this one.
#[test]
fn hosts_of_listener_that_requires_client_certificates_get_421() {
    let tls_site = with_other_listener(|listener| listener);
    let fetch = |target: &str, host: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        get(&mut tls_site.connect(), request.as_bytes())
    };
    for host in ["a.example", "A.Example:8443", "nobody.example", "x.y.c.example", "c.example", "a.d.example"]
    {
        assert!(fetch("/", host).starts_with("HTTP/1.1 200 "), "{host}");
    }
    for host in ["b.example", "B.Example.:443", "x.c.example", "b.d.example"] {
        assert!(fetch("/", host).starts_with("HTTP/1.1 421 Misdirected Request\r\n"), "{host}");
    }
    // The server compares hosts byte by byte, but some upstream servers decode percent-encoded hosts.
    for host in ["%62.example", "b%2eexample", "b.exampl%65:443"] {
        assert!(fetch("/", host).starts_with("HTTP/1.1 400 Bad Request\r\n"), "{host}");
        assert!(fetch(&format!("https://{host}/"), "a.example").starts_with("HTTP/1.1 400 "), "{host}");
    }
    assert!(fetch("https://b.example/", "a.example").starts_with("HTTP/1.1 421 "));
}

#[test]
fn hosts_of_other_listener_are_not_served_over_http2() {
    let tls_site = with_other_listener(Listener::http2_only);
    for (host, expected) in
        [("b.example", "this scheme or host is not served"), ("a.example", "https a.example")]
    {
        let mut client = tls_site.connect();
        let fields = [b"\x82\x87\x84\x01\x09".as_slice(), host.as_bytes()].concat();
        let request = [b"\0\0\x0e\x01\x05\0\0\0\x01".as_slice(), &fields].concat();
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        client.write_all(&[preface.as_slice(), &request].concat()).unwrap();
        let mut received = Vec::new();
        while !String::from_utf8_lossy(&received).contains(expected) {
            let mut bytes = [0; 1000];
            let read = client.read(&mut bytes).unwrap();
            assert!(read > 0, "{host}: {}", received.escape_ascii());
            received.extend_from_slice(&bytes[..read]);
        }
    }
}

#[test]
fn invalid_tls_data_ends_only_its_connection() {
    let tls_site = TlsSite::start(|_| {});
    let mut before = tls_site.connect();
    before.write_all(GET).unwrap();
    let mut garbage = tls_site.site.connect();
    garbage.write_all(&[0xff; 100]).unwrap();
    let mut alert = Vec::new();
    // The unread bytes may cause a reset.
    let _ = garbage.read_to_end(&mut alert);
    assert!(get(&mut before, CLOSING).contains("https a.example"));
    assert!(get(&mut tls_site.connect(), CLOSING).contains("https a.example"));
}

/// The server once closed the connection with unread bytes. This reset the connection, and the client lost
/// the alert.
#[test]
fn client_gets_tls_alert_while_it_is_still_sending() {
    let tls_site = TlsSite::start(|_| {});
    let mut garbage = tls_site.site.connect();
    garbage.write_all(&vec![0xff; 200_000]).unwrap();
    let mut alert = Vec::new();
    garbage.read_to_end(&mut alert).unwrap();
    assert_eq!((alert.first(), alert.get(5)), (Some(&0x15), Some(&2)), "{alert:?}");
}

#[test]
fn tls_handshake_has_a_timeout() {
    let timeouts = Timeouts { header_section: Duration::from_millis(200), ..Timeouts::default() };
    let authority = CertificateAuthority::new();
    let listener = listener(&authority, |_| {});
    let site = Site::start_at(listener, app(), Config { timeouts, ..Config::default() });
    let mut stream = site.connect();
    stream.write_all(&[0x16, 3, 1]).unwrap();
    assert_eq!(stream.read(&mut [0; 9]).unwrap(), 0);
    site.until_open(0);
}

#[test]
fn idle_tls_connection_is_closed_with_close_notify() {
    let timeouts = Timeouts { idle: Duration::from_millis(200), ..Timeouts::default() };
    let authority = CertificateAuthority::new();
    let listener = listener(&authority, |_| {});
    let site = Site::start_at(listener, app(), Config { timeouts, ..Config::default() });
    let tls_site = TlsSite { site, authority };
    // The read would fail without a `close_notify` alert.
    assert!(get(&mut tls_site.connect(), GET).contains("https a.example"));
}

#[test]
fn drain_closes_tls_connections_after_response() {
    let tls_site = TlsSite::start(|_| {});
    let mut client = tls_site.connect();
    client.write_all(GET).unwrap();
    let mut first = [0; 10];
    client.read_exact(&mut first).unwrap();
    tls_site.site.server.drain();
    assert!(all(&mut client).contains("https a.example"));
    assert!(tls_site.site.server.join().iter().all(|load| load.connections == 0));
}

#[test]
fn handler_sees_client_certificate_subject() {
    let authority = CertificateAuthority::new();
    let roots = vec![authority.root()];
    let listener = listener(&authority, |config| {
        config.client_authentication = ClientAuthentication::Optional(roots);
    });
    let tls_site = TlsSite { site: Site::start_at(listener, app(), Config::default()), authority };
    let alice = tls_site.authority.issue_client("client", "alice");
    let mut client = tls_site.connect_over(tls_site.site.connect(), Some(&alice));
    assert!(get(&mut client, CLOSING).ends_with("https a.example CN=alice"));
    assert!(get(&mut tls_site.connect(), CLOSING).ends_with("https a.example "));
}

#[test]
fn tls_handshake_follows_proxy_header() {
    let authority = CertificateAuthority::new();
    let listener = listener(&authority, |_| {}).proxy_protocol(ProxyProtocol::default());
    let app = |request: &Request| format!("{} {}", request.scheme(), request.client());
    let tls_site = TlsSite { site: Site::start_at(listener, app, Config::default()), authority };
    let mut stream = tls_site.site.connect();
    stream.write_all(b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n").unwrap();
    let mut client = tls_site.connect_over(stream, None);
    assert!(get(&mut client, CLOSING).ends_with("https 192.0.2.1:56324"));
}

#[test]
fn hsts_header_is_added_unless_handler_sets_it() {
    let authority = CertificateAuthority::new();
    let listener = listener(&authority, |_| {})
        .strict_transport_security(&FieldValue::new(b"max-age=5; includeSubDomains").unwrap());
    let app = Router::new()
        .get("/", || "said for me")
        .get("/own", || Response::text("").with_field("Strict-Transport-Security", "max-age=0"));
    let tls_site = TlsSite { site: Site::start_at(listener, app, Config::default()), authority };
    let answer = get(&mut tls_site.connect(), CLOSING);
    assert!(answer.contains("\r\nStrict-Transport-Security: max-age=5; includeSubDomains\r\n"), "{answer}");
    let answer = get(&mut tls_site.connect(), &CLOSING.replace_path("/own"));
    assert_eq!(answer.matches("Strict-Transport-Security").count(), 1, "{answer}");
    assert!(answer.contains("max-age=0"), "{answer}");
    let mut plain = tls_site.site.connect();
    plain.write_all(GET).unwrap();
    assert!(!rest(&mut plain).contains("Strict-Transport-Security"));
}

#[test]
fn plain_requests_are_redirected_to_https_if_configured() {
    let listener = |port| Listener::new("127.0.0.1:0".parse().unwrap()).redirect_to_https(port);
    let location = |site: &Site, head: &str| {
        let mut stream = site.connect();
        stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).unwrap();
        let answer = rest(&mut stream);
        let line = answer.lines().find_map(|line| line.strip_prefix("Location: "));
        (answer[9..12].to_owned(), line.unwrap_or_default().to_owned())
    };
    let expected = |status: &str, location: &str| (status.to_owned(), location.to_owned());
    let site = Site::start_at(listener(443), app(), Config::default());
    let got = location(&site, "GET /a%20b?c=d HTTP/1.1\r\nHost: a.example:8080\r\n");
    assert_eq!(got, expected("308", "https://a.example/a%20b?c=d"));
    let got = location(&site, "OPTIONS * HTTP/1.1\r\nHost: [::1]:8080\r\n");
    assert_eq!(got, expected("308", "https://[::1]/"));
    assert_eq!(location(&site, "GET / HTTP/1.1\r\nHost:\r\n"), expected("400", ""));
    let site = Site::start_at(listener(8443), app(), Config::default());
    let got = location(&site, "GET http://b.example/x HTTP/1.1\r\nHost: b.example\r\n");
    assert_eq!(got, expected("308", "https://b.example:8443/x"));
}

/// Responds to a single path before any route.
struct WellKnown;

impl AnswerFirst for WellKnown {
    fn answer(&self, request: &Request<'_>) -> Option<Response> {
        (request.path() == "/.well-known/a").then(|| Response::text("found"))
    }
}

#[test]
fn answer_first_runs_before_redirects_and_routes() {
    let address = || Listener::new("127.0.0.1:0".parse().unwrap()).answer_first(Arc::new(WellKnown));
    let got = |site: &Site, path: &str| {
        let mut stream = site.connect();
        stream.write_all(&CLOSING.replace_path(path)).unwrap();
        rest(&mut stream)
    };
    let site = Site::start_at(address().redirect_to_https(443), app(), Config::default());
    assert!(got(&site, "/.well-known/a").ends_with("\r\n\r\nfound"));
    assert!(got(&site, "/.well-known/b").contains("Location: https://a.example/.well-known/b\r\n"));
    let site = Site::start_at(address(), app(), Config::default());
    assert!(got(&site, "/.well-known/a").ends_with("\r\n\r\nfound"));
    assert!(got(&site, "/").ends_with("http nobody "));
    assert!(got(&site, "/.well-known/b").starts_with("HTTP/1.1 404 "));
}

#[test]
fn acme_validation_connection_is_closed_without_response() {
    let authority = CertificateAuthority::new();
    let proof = authority.issue("proof", &["a.example"]);
    let chain = CertificateDer::from_pem_file(&proof.chain).unwrap().to_vec();
    let key = PrivatePkcs8KeyDer::from_pem_file(&proof.key).unwrap().secret_pkcs8_der().to_vec();
    let challenges = TlsAlpnChallenges::default();
    challenges.show("a.example", chain, key).unwrap();
    let listener = listener(&authority, |config| config.challenges = Some(challenges));
    let tls_site = TlsSite { site: Site::start_at(listener, app(), Config::default()), authority };
    let mut config = ClientConfig::clone(&tls_site.config(None));
    config.alpn_protocols = vec![ALPN_ACME.to_vec()];
    let name = ServerName::try_from("a.example").unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut client = StreamOwned::new(client, tls_site.site.connect());
    let mut answer = Vec::new();
    // The server sends `close_notify`, so this read does not fail.
    client.read_to_end(&mut answer).unwrap();
    assert!(answer.is_empty());
    tls_site.site.until_open(0);
}

#[test]
fn tls_client_that_vanishes_releases_its_connection() {
    let tls_site = TlsSite::start(|_| {});
    let mut client = tls_site.connect();
    client.write_all(GET).unwrap();
    let mut first = [0; 10];
    client.read_exact(&mut first).unwrap();
    client.sock.shutdown(Shutdown::Both).unwrap();
    tls_site.site.until_open(0);
}

trait ReplacePath {
    fn replace_path(&self, path: &str) -> Vec<u8>;
}

impl ReplacePath for [u8] {
    fn replace_path(&self, path: &str) -> Vec<u8> {
        String::from_utf8(self.to_vec()).unwrap().replacen("GET / ", &format!("GET {path} "), 1).into()
    }
}

const LARGE: usize = 3_000_000;
