//! Tests of upstream servers that use TLS.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256};
use thruway_gateway::{
    CheckConfig, CheckKind, Guarded, JwtConfig, JwtKeys, Policy, PolicyConfig, ServerConfig, ServerState,
    UpstreamConfig, UpstreamTls,
};
use thruway_net::tls::{CertificateFiles, Roots, TlsConnector, TlsConnectorConfig, TlsServerName};
use thruway_server::{
    ClientAuthentication, IntoHandler, ListenAddr, Listener, OwnedRequest, Rejection, Request, Response,
    Router, RunningServer, Server, TlsAcceptor, TlsAcceptorConfig,
};
use thruway_testkit::CertificateAuthority;

use crate::forward::Client;
use crate::gateway::{Gateway, until};

/// A TLS server that reports the properties of the connection. It ends with the process.
struct TlsServer {
    address: SocketAddr,
    _server: RunningServer,
}

async fn length(mut request: OwnedRequest) -> Result<Response, Rejection> {
    let content = request.content().collect(LARGE).await?;
    Ok(Response::text(format!("{} bytes", content.len())))
}

impl TlsServer {
    fn start(certificate: CertificateFiles, client_authentication: ClientAuthentication) -> Self {
        let app = Router::new()
            .get("/", |request: &Request| {
                let tls = request.connection().tls().unwrap();
                let client = tls.peer_certificate.as_ref().map(|certificate| certificate.subject.clone());
                let name = tls.server_name.as_deref().unwrap_or("nobody");
                format!("{name} {} {}", client.unwrap_or_default(), tls.is_resumed)
            })
            .get("/large", || Response::text("x".repeat(LARGE)))
            .post("/length", length);
        Self::serve(app, certificate, client_authentication)
    }

    fn serve<M>(
        app: impl IntoHandler<M>,
        certificate: CertificateFiles,
        client_authentication: ClientAuthentication,
    ) -> Self {
        let config = TlsAcceptorConfig { client_authentication, ..TlsAcceptorConfig::new(vec![certificate]) };
        let acceptor = Arc::new(TlsAcceptor::load(config).unwrap());
        let listener = Listener::new("127.0.0.1:0".parse().unwrap()).tls(acceptor);
        let server = Server::new(app).workers(1).listen_on(listener).start().unwrap();
        let [ListenAddr::Tcp(address)] = *server.addresses() else { panic!("expected one TCP address") };
        Self { address, _server: server }
    }
}

fn connector(authority: &CertificateAuthority) -> TlsConnectorConfig {
    TlsConnectorConfig { roots: Roots::Files(vec![authority.root()]), ..TlsConnectorConfig::default() }
}

fn tls(connector: TlsConnectorConfig, name: Option<&str>) -> UpstreamTls {
    let connector = Arc::new(TlsConnector::load(connector).unwrap());
    UpstreamTls { connector, server_name: name.map(|name| TlsServerName::new(name).unwrap()) }
}

fn to(address: SocketAddr, tls: UpstreamTls) -> UpstreamConfig {
    UpstreamConfig { tls: Some(tls), ..UpstreamConfig::new("secured", [address.into()]) }
}

#[test]
fn requests_are_forwarded_over_tls() {
    let authority = CertificateAuthority::new();
    let server = TlsServer::start(authority.issue("server", &["a.example"]), ClientAuthentication::Off);
    let gateway = Gateway::start(to(server.address, tls(connector(&authority), Some("a.example"))));
    assert_eq!(gateway.get().content, "a.example  false");
    let mut client = Client::new(gateway.address);
    assert_eq!(client.ask("GET /large HTTP/1.1", "").content.len(), LARGE);
    let content = "y".repeat(LARGE - 1);
    client.send(format!(
        "POST /length HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{content}",
        content.len()
    ));
    let expected = format!("{} bytes", LARGE - 1);
    assert_eq!(client.answer(false).content, expected.as_bytes());
    client.send(format!(
        "POST /length HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{content}\r\n0\r\n\r\n",
        content.len()
    ));
    assert_eq!(client.answer(false).content, expected.as_bytes());
}

#[test]
fn tls_server_name_defaults_to_the_configured_host() {
    let authority = CertificateAuthority::new();
    let files = authority.issue("server", &["localhost", "127.0.0.1"]);
    let server = TlsServer::start(files, ClientAuthentication::Off);
    let by_address = Gateway::start(to(server.address, tls(connector(&authority), None)));
    assert_eq!(by_address.get().content, "nobody  false");
    let named = ServerConfig::new(
        format!("localhost:{}", server.address.port()).parse::<thruway_gateway::ServerAddr>().unwrap(),
    );
    let config =
        UpstreamConfig { servers: vec![named], ..to(server.address, tls(connector(&authority), None)) };
    assert_eq!(Gateway::start(config).get().content, "localhost  false");
}

#[test]
fn failed_upstream_tls_handshake_gets_502() {
    let (authority, stranger) = (CertificateAuthority::new(), CertificateAuthority::new());
    let files = authority.issue("server", &["a.example"]);
    let server = TlsServer::start(files, ClientAuthentication::Required(vec![authority.root()]));
    let plain = Server::new(|| "plain").workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let [ListenAddr::Tcp(plain)] = *plain.addresses() else { panic!("expected one TCP address") };
    for (config, error) in [
        (to(server.address, tls(connector(&authority), Some("b.example"))), "tls_certificate_error"),
        (to(server.address, tls(connector(&stranger), Some("a.example"))), "tls_certificate_error"),
        (to(server.address, tls(TlsConnectorConfig::default(), Some("a.example"))), "tls_certificate_error"),
        (to(plain, tls(connector(&authority), Some("a.example"))), "tls_protocol_error"),
    ] {
        let got = Gateway::start(config).get();
        assert_eq!((got.status, got.field("Proxy-Status")), (502, Some(&*format!("thruway; error={error}"))));
    }
    // The gateway has no client certificate. TLS 1.3 reports that only after the handshake.
    let got = Gateway::start(to(server.address, tls(connector(&authority), Some("a.example")))).get();
    assert_eq!(got.status, 502);
}

#[test]
fn gateway_sends_its_client_certificate() {
    let authority = CertificateAuthority::new();
    let files = authority.issue("server", &["a.example"]);
    let server = TlsServer::start(files, ClientAuthentication::Required(vec![authority.root()]));
    let client_certificate = Some(authority.issue_client("client", "gateway"));
    let connector = TlsConnectorConfig { client_certificate, ..connector(&authority) };
    let gateway = Gateway::start(to(server.address, tls(connector, Some("a.example"))));
    assert_eq!(gateway.get().content, "a.example CN=gateway false");
}

/// Regression test: the policy ignored the claim `cnf`, so any client could use a token that is bound to a
/// client certificate.
#[test]
fn certificate_bound_token_needs_its_certificate() {
    const SECRET: &str = "a secret of at least thirty-two bytes";
    let authority = CertificateAuthority::new();
    let [own, other] = ["own", "other"].map(|name| authority.issue_client(name, name));
    let certificate = CertificateDer::from_pem_file(&own.chain).unwrap();
    let thumbprint = URL_SAFE_NO_PAD.encode(Sha256::digest(&certificate));
    let exp = jsonwebtoken::get_current_timestamp() + 600;
    let claims = serde_json::json!({ "exp": exp, "cnf": { "x5t#S256": thumbprint } });
    let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
    let token = jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).unwrap();
    let policy = PolicyConfig::Jwt(JwtConfig::new(JwtKeys::from_secret(SECRET).unwrap()));
    let policy = Arc::new(Policy::new("tokens", policy));
    let server = TlsServer::serve(
        Guarded::new(policy, "route", (|| "let in").into_handler()),
        authority.issue("server", &["a.example"]),
        ClientAuthentication::Optional(vec![authority.root()]),
    );
    for (client_certificate, status) in [(Some(own), 200), (Some(other), 401), (None, 401)] {
        let connector = TlsConnectorConfig { client_certificate, ..connector(&authority) };
        let gateway = Gateway::start(to(server.address, tls(connector, Some("a.example"))));
        let got = gateway.ask("GET", &format!("Authorization: Bearer {token}\r\n"));
        assert_eq!(got.status, status);
    }
}

#[test]
fn certificate_verification_can_be_disabled() {
    let authority = CertificateAuthority::new();
    let server = TlsServer::start(authority.issue_expired("old", &["b.example"]), ClientAuthentication::Off);
    let lax = TlsConnectorConfig { verify: false, ..TlsConnectorConfig::default() };
    let gateway = Gateway::start(to(server.address, tls(lax, Some("a.example"))));
    assert_eq!(gateway.get().content, "a.example  false");
}

#[test]
fn next_connection_resumes_tls_session() {
    let authority = CertificateAuthority::new();
    let server = TlsServer::start(authority.issue("server", &["a.example"]), ClientAuthentication::Off);
    let mut config = to(server.address, tls(connector(&authority), Some("a.example")));
    // Each request opens a new connection.
    config.pool.idle_per_address_max = 0;
    let gateway = Gateway::start(config);
    assert_eq!(gateway.get().content, "a.example  false");
    assert_eq!(gateway.get().content, "a.example  true");
}

#[test]
fn tls_connections_are_reused() {
    let authority = CertificateAuthority::new();
    let server = TlsServer::start(authority.issue("server", &["a.example"]), ClientAuthentication::Off);
    let gateway = Gateway::start(to(server.address, tls(connector(&authority), Some("a.example"))));
    let mut client = Client::new(gateway.address);
    for _ in 0..3 {
        // A new connection would resume the session and report `true`.
        assert_eq!(client.ask("GET / HTTP/1.1", "").content, b"a.example  false");
    }
}

#[test]
fn health_checks_use_tls() {
    let authority = CertificateAuthority::new();
    let server = TlsServer::start(authority.issue("server", &["a.example"]), ClientAuthentication::Off);
    let check = |name| {
        let interval = Duration::from_millis(10);
        let kind = CheckKind::http("/");
        let check = Some(CheckConfig { interval, ..CheckConfig::new(kind) });
        UpstreamConfig { check, ..to(server.address, tls(connector(&authority), Some(name))) }
    };
    let good = Gateway::start(check("a.example"));
    until(|| good.get().content.starts_with("a.example"));
    let bad = Gateway::start(check("b.example"));
    until(|| bad.upstream.server_statuses()[0].state == ServerState::CheckFailing);
}

const LARGE: usize = 1_000_000;
