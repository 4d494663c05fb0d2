//! Tests of the negotiated parameters and of the peers' identities.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, Error, HandshakeKind, version};
use thruway_net::tls::{
    CertificateFiles, CertificateName, ClientAuthentication, HandshakeError, Roots, SharedTicketKeys,
    TicketKey, TlsAcceptor, TlsAcceptorConfig, TlsConnector, TlsConnectorConfig, TlsFailure, TlsInfo,
    TlsServerName, TlsVersion, connect_tls,
};
use thruway_testkit::{CertificateAuthority, pipe};

use crate::ends::{
    RustlsEnd, Scene, accepted, accepted_by, acceptor, client_config, connector, drive_handshake,
    just_connected, read, roots, server_config, write,
};

/// Performs a handshake and exchanges some data, so that tickets arrive.
fn kind_of(acceptor: &Arc<TlsAcceptor>, config: &Arc<ClientConfig>) -> HandshakeKind {
    let (mut stream, mut other) = accepted_by(acceptor, config, "a.example");
    other.write(b"question");
    assert_eq!(read(&mut stream, 100), b"question");
    write(&mut stream, &[b"answer"]);
    other.pump().unwrap();
    assert_eq!(stream.take_info().is_resumed, other.tls.handshake_kind() == Some(HandshakeKind::Resumed));
    other.tls.handshake_kind().unwrap()
}

fn config_with(
    authority: &CertificateAuthority,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    Arc::new(builder.with_root_certificates(roots(authority)).with_no_client_auth())
}

fn config_as(authority: &CertificateAuthority, files: &CertificateFiles) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let chain = CertificateDer::pem_file_iter(&files.chain).unwrap().map(Result::unwrap).collect();
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots(authority));
    Arc::new(builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(&files.key).unwrap()).unwrap())
}

fn refused_by(acceptor: &Arc<TlsAcceptor>, config: &Arc<ClientConfig>, name: &str) -> (Error, Option<Error>) {
    let (near, far) = pipe();
    let mut other = RustlsEnd::client(near, config, name);
    let mut accepting = Scene::new().accept(far, acceptor);
    let (outcome, other_outcome) = drive_handshake(&mut accepting, &mut other);
    let Err((_, HandshakeError::Refused(error))) = outcome else { panic!("the handshake succeeded") };
    (error, other_outcome.err())
}

#[test]
fn default_handshake_uses_tls13_and_post_quantum_key_exchange() {
    let (mut stream, other) = accepted(&CertificateAuthority::new());
    let info = stream.take_info();
    assert_eq!((info.version, info.key_exchange), (TlsVersion::Tls13, "X25519MLKEM768"));
    assert!(info.cipher_suite.starts_with("TLS13_"), "{}", info.cipher_suite);
    assert_eq!((info.server_name.as_deref(), info.is_resumed), (Some("a.example"), false));
    assert!(other.tls.protocol_version().is_some());
}

#[test]
fn tls12_is_accepted_unless_the_minimum_is_tls13() {
    let authority = CertificateAuthority::new();
    let config = config_with(&authority, &[&version::TLS12]);
    let (mut stream, _) = accepted_by(&acceptor(&authority), &config, "a.example");
    assert_eq!(stream.take_info().version, TlsVersion::Tls12);
    let files = authority.issue("server", &["a.example"]);
    let strict = TlsAcceptorConfig { min_version: TlsVersion::Tls13, ..TlsAcceptorConfig::new(vec![files]) };
    let strict = Arc::new(TlsAcceptor::load(strict).unwrap());
    let (error, _) = refused_by(&strict, &config, "a.example");
    assert!(matches!(error, Error::PeerIncompatible(_)), "{error}");
}

#[test]
fn alpn_selects_a_common_protocol() {
    let authority = CertificateAuthority::new();
    let offering = |protocols: &[&[u8]]| {
        let mut config = client_config(&authority);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config)
    };
    let acceptor = acceptor(&authority);
    let (stream, _) = accepted_by(&acceptor, &offering(&[b"h2", b"http/1.1"]), "a.example");
    assert_eq!(stream.alpn(), Some(&b"http/1.1"[..]));
    let (stream, _) = accepted_by(&acceptor, &offering(&[]), "a.example");
    assert_eq!(stream.alpn(), None);
    let (error, client_error) = refused_by(&acceptor, &offering(&[b"h2"]), "a.example");
    assert_eq!(error, Error::NoApplicationProtocol);
    assert!(client_error.is_some());
}

#[test]
fn certificate_is_selected_by_server_name() {
    let authority = CertificateAuthority::new();
    let names: [(&str, &[&str]); 4] = [
        ("first", &["a.example"]),
        ("wildcard", &["*.b.example"]),
        ("exact", &["c.b.example"]),
        ("shadowed", &["A.example"]),
    ];
    let files = names.map(|(file, names)| authority.issue(file, names));
    let acceptor = Arc::new(TlsAcceptor::load(TlsAcceptorConfig::new(files.to_vec())).unwrap());
    let config = Arc::new(client_config(&authority));
    let certificate = |name: &str| {
        let mut config = ClientConfig::clone(&config);
        config.enable_sni = name != "127.0.0.1";
        let (near, far) = pipe();
        let mut other = RustlsEnd::client(near, &Arc::new(config), name);
        let (_, _) = drive_handshake(&mut Scene::new().accept(far, &acceptor), &mut other);
        other.tls.peer_certificates().map(|chain| chain[0].clone())
    };
    let is = |name, place: usize| {
        let expected = CertificateDer::from_pem_file(&files[place].chain).unwrap();
        assert_eq!(certificate(name), Some(expected), "{name}");
    };
    is("a.example", 0);
    is("A.Example", 0);
    is("x.b.example", 1);
    is("c.b.example", 2);
    // No certificate matches. The client rejects the default certificate and disconnects.
    for name in ["b.example", "y.x.b.example", "z.example"] {
        assert_eq!(certificate(name), None, "{name}");
    }
}

#[test]
fn sessions_are_resumed_with_and_without_tickets() {
    let authority = CertificateAuthority::new();
    let files = authority.issue("server", &["a.example"]);
    for versions in [&[&version::TLS13][..], &[&version::TLS12]] {
        for tickets in [true, false] {
            let config = TlsAcceptorConfig { tickets, ..TlsAcceptorConfig::new(vec![files.clone()]) };
            let acceptor = Arc::new(TlsAcceptor::load(config.clone()).unwrap());
            let client = config_with(&authority, versions);
            assert_ne!(kind_of(&acceptor, &client), HandshakeKind::Resumed);
            assert_eq!(kind_of(&acceptor, &client), HandshakeKind::Resumed);
            // Sessions stay valid after the certificate has changed.
            authority.issue("server", &["a.example"]);
            assert_eq!(acceptor.refresh(), Ok(true));
            assert_eq!(kind_of(&acceptor, &client), HandshakeKind::Resumed);
            // Another listener does not resume them.
            let other = Arc::new(TlsAcceptor::load(config).unwrap());
            assert_ne!(kind_of(&other, &client), HandshakeKind::Resumed);
        }
    }
}

#[test]
fn session_is_resumed_on_another_server_with_the_same_ticket_keys() {
    let authority = CertificateAuthority::new();
    let files = authority.issue("server", &["a.example"]);
    let key = TicketKey::random().unwrap();
    for versions in [&[&version::TLS13][..], &[&version::TLS12]] {
        let replica = |keys: Vec<TicketKey>, client_authentication| {
            let shared = SharedTicketKeys::default();
            shared.replace(keys);
            let config = TlsAcceptorConfig {
                shared_tickets: Some(shared),
                client_authentication,
                sessions_max: 0,
                ..TlsAcceptorConfig::new(vec![files.clone()])
            };
            Arc::new(TlsAcceptor::load(config).unwrap())
        };
        let one = replica(vec![key.clone()], ClientAuthentication::Off);
        let newer = replica(vec![TicketKey::random().unwrap(), key.clone()], ClientAuthentication::Off);
        let client = config_with(&authority, versions);
        assert_ne!(kind_of(&one, &client), HandshakeKind::Resumed);
        assert_eq!(kind_of(&newer, &client), HandshakeKind::Resumed);
        // The second server has sent a ticket with its newer key.
        assert_ne!(kind_of(&one, &client), HandshakeKind::Resumed);
        // A listener that requests client certificates does not resume this session.
        let asks = replica(vec![key.clone()], ClientAuthentication::Optional(vec![authority.root()]));
        assert_ne!(kind_of(&asks, &client), HandshakeKind::Resumed);
    }
}

#[test]
fn no_session_is_resumed_if_caching_is_disabled() {
    let authority = CertificateAuthority::new();
    let files = authority.issue("server", &["a.example"]);
    let config = TlsAcceptorConfig { tickets: false, sessions_max: 0, ..TlsAcceptorConfig::new(vec![files]) };
    let acceptor = Arc::new(TlsAcceptor::load(config).unwrap());
    let client = Arc::new(client_config(&authority));
    assert_ne!(kind_of(&acceptor, &client), HandshakeKind::Resumed);
    assert_ne!(kind_of(&acceptor, &client), HandshakeKind::Resumed);
}

#[test]
fn client_certificates_are_verified_and_reported() {
    let (authority, stranger) = (CertificateAuthority::new(), CertificateAuthority::new());
    let server = authority.issue("server", &["a.example"]);
    let load = |client_authentication| {
        let config = TlsAcceptorConfig::new(vec![server.clone()]);
        Arc::new(TlsAcceptor::load(TlsAcceptorConfig { client_authentication, ..config }).unwrap())
    };
    let required = load(ClientAuthentication::Required(vec![authority.root()]));
    let optional = load(ClientAuthentication::Optional(vec![authority.root()]));
    let known = config_as(&authority, &authority.issue_client("client", "alice"));
    let unknown = config_as(&authority, &stranger.issue_client("client", "mallory"));
    let anonymous = Arc::new(client_config(&authority));
    for acceptor in [&required, &optional] {
        let (mut stream, _) = accepted_by(acceptor, &known, "a.example");
        let certificate = stream.take_info().peer_certificate.unwrap();
        assert_eq!((&*certificate.subject, &*certificate.issuer), ("CN=alice", "CN=authority"));
        assert_eq!(certificate.fingerprint.len(), 64);
        let (error, _) = refused_by(acceptor, &unknown, "a.example");
        assert!(matches!(error, Error::InvalidCertificate(_)), "{error}");
    }
    let bob = config_as(&authority, &authority.issue_named_client("bob", "bob"));
    let (mut stream, _) = accepted_by(&optional, &bob, "a.example");
    let names = stream.take_info().peer_certificate.unwrap().names;
    let expected = [
        CertificateName::Dns("bob.example".to_owned()),
        CertificateName::Email("bob@example.com".to_owned()),
        CertificateName::Uri("spiffe://example.com/bob".to_owned()),
        CertificateName::Ip("192.0.2.1".parse().unwrap()),
    ];
    assert_eq!(names, expected);
    let old = config_as(&authority, &authority.issue_expired("old", &["client.example"]));
    let (error, _) = refused_by(&optional, &old, "a.example");
    assert!(matches!(error, Error::InvalidCertificate(_)), "{error}");
    let (error, _) = refused_by(&required, &anonymous, "a.example");
    assert_eq!(error, Error::NoCertificatesPresented);
    let (mut stream, _) = accepted_by(&optional, &anonymous, "a.example");
    assert_eq!(stream.take_info().peer_certificate, None);
    // A resumed client keeps its identity. After a change of the files, the client must authenticate again.
    assert_ne!(kind_of(&required, &known), HandshakeKind::Resumed);
    let (mut stream, other) = accepted_by(&required, &known, "a.example");
    assert_eq!(other.tls.handshake_kind(), Some(HandshakeKind::Resumed));
    assert_eq!(stream.take_info().peer_certificate.unwrap().subject, "CN=alice");
    authority.issue("server", &["a.example"]);
    assert_eq!(required.refresh(), Ok(true));
    assert_ne!(kind_of(&required, &known), HandshakeKind::Resumed);
}

/// Returns the result of a connection from Thruway to a server with this certificate.
fn connect_to(
    files: &CertificateFiles,
    connector: TlsConnector,
    name: &'static str,
) -> Result<(), TlsFailure> {
    let (near, far) = pipe();
    let mut other = RustlsEnd::server(near, server_config(files));
    let mut connecting =
        Box::pin(async move { connect_tls(far, &connector, &TlsServerName::new(name).unwrap(), None).await });
    let (outcome, _) = drive_handshake(&mut connecting, &mut other);
    outcome.map(drop).map_err(|error| error.failure())
}

#[test]
fn server_certificates_are_verified() {
    let (authority, stranger) = (CertificateAuthority::new(), CertificateAuthority::new());
    let good = authority.issue("good", &["a.example", "127.0.0.1"]);
    assert_eq!(connect_to(&good, connector(&authority), "a.example"), Ok(()));
    assert_eq!(connect_to(&good, connector(&authority), "127.0.0.1"), Ok(()));
    let other_name = connect_to(&good, connector(&authority), "b.example");
    assert_eq!(other_name, Err(TlsFailure::CertificateForOtherName));
    let unknown = connect_to(&good, connector(&stranger), "a.example");
    assert_eq!(unknown, Err(TlsFailure::CertificateUnknownIssuer));
    let old = authority.issue_expired("old", &["a.example"]);
    assert_eq!(connect_to(&old, connector(&authority), "a.example"), Err(TlsFailure::CertificateExpired));
    let system = TlsConnector::load(TlsConnectorConfig::default()).unwrap();
    assert_eq!(connect_to(&good, system, "a.example"), Err(TlsFailure::CertificateUnknownIssuer));
    let lax = TlsConnectorConfig { verify: false, ..TlsConnectorConfig::default() };
    assert_eq!(connect_to(&old, TlsConnector::load(lax).unwrap(), "b.example"), Ok(()));
}

#[test]
fn configured_roots_add_to_the_system_roots() {
    let authority = CertificateAuthority::new();
    let files = authority.issue("server", &["a.example"]);
    let roots = Roots::SystemAnd(vec![authority.root()]);
    let connector = TlsConnector::load(TlsConnectorConfig { roots, ..TlsConnectorConfig::default() });
    assert_eq!(connect_to(&files, connector.unwrap(), "a.example"), Ok(()));
}

#[test]
fn connections_to_servers_resume_sessions() {
    let authority = CertificateAuthority::new();
    let (connector, server) = (Arc::new(connector(&authority)), authority.issue("server", &["a.example"]));
    let server = server_config(&server);
    let resumed = || {
        let (near, far) = pipe();
        let mut other = RustlsEnd::server(near, server.clone());
        let connector = connector.clone();
        let mut connecting = Box::pin(async move {
            connect_tls(far, &connector, &TlsServerName::new("a.example").unwrap(), None).await
        });
        let (stream, _) = drive_handshake(&mut connecting, &mut other);
        let mut stream = stream.unwrap();
        write(&mut stream, &[b"question"]);
        other.pump().unwrap();
        other.write(b"answer");
        assert_eq!(read(&mut stream, 100), b"answer");
        stream.take_info().is_resumed
    };
    assert_eq!((resumed(), resumed(), resumed()), (false, true, true));
}

/// Connects to a server with `connector`. Tickets arrive only if data is exchanged.
fn info_of(connector: &Arc<TlsConnector>, server: &Arc<rustls::ServerConfig>, exchanges: bool) -> TlsInfo {
    let (near, far) = pipe();
    let mut other = RustlsEnd::server(near, server.clone());
    let connector = connector.clone();
    let mut connecting = Box::pin(async move {
        connect_tls(far, &connector, &TlsServerName::new("a.example").unwrap(), None).await
    });
    let (stream, _) = drive_handshake(&mut connecting, &mut other);
    let mut stream = stream.unwrap();
    if exchanges {
        write(&mut stream, &[b"question"]);
        other.pump().unwrap();
        other.write(b"answer");
        assert_eq!(read(&mut stream, 100), b"answer");
    }
    assert_eq!(stream.is_resumed(), stream.take_info().is_resumed);
    stream.take_info()
}

#[test]
fn number_of_kept_tickets_follows_tickets_max() {
    let authority = CertificateAuthority::new();
    let server = server_config(&authority.issue("server", &["a.example"]));
    let resumed = |tickets_max| {
        let roots = Roots::Files(vec![authority.root()]);
        let config = TlsConnectorConfig { roots, tickets_max, ..TlsConnectorConfig::default() };
        let connector = Arc::new(TlsConnector::load(config).unwrap());
        for _ in 0..20 {
            info_of(&connector, &server, true);
        }
        (0..20).filter(|_| info_of(&connector, &server, false).is_resumed).count()
    };
    assert_eq!((resumed(8), resumed(64)), (8, 20));
}

#[test]
fn version_and_key_exchange_follow_the_config() {
    let authority = CertificateAuthority::new();
    let server = server_config(&authority.issue("server", &["a.example"]));
    let info = |change: &dyn Fn(&mut TlsConnectorConfig)| {
        let roots = Roots::Files(vec![authority.root()]);
        let mut config = TlsConnectorConfig { roots, ..TlsConnectorConfig::default() };
        change(&mut config);
        info_of(&Arc::new(TlsConnector::load(config).unwrap()), &server, true)
    };
    assert_eq!(info(&|_| {}).key_exchange, "X25519MLKEM768");
    let classical = info(&|config| config.post_quantum = false);
    assert_eq!((classical.version, classical.key_exchange), (TlsVersion::Tls13, "X25519"));
    assert_eq!(info(&|config| config.max_version = TlsVersion::Tls12).version, TlsVersion::Tls12);
    let none = TlsConnectorConfig {
        min_version: TlsVersion::Tls13,
        max_version: TlsVersion::Tls12,
        ..TlsConnectorConfig::default()
    };
    assert!(TlsConnector::load(none).is_err());
}

#[test]
fn client_sends_its_last_flight_with_the_first_request() {
    let authority = CertificateAuthority::new();
    let (mut stream, mut other) = just_connected(&authority);
    assert!(other.tls.is_handshaking(), "the last flight is not sent yet");
    let before = other.peer.writes();
    write(&mut stream, &[b"GET"]);
    assert_eq!(other.peer.writes(), before + 1);
    other.pump().unwrap();
    assert_eq!((&*other.received, other.tls.is_handshaking()), (&b"GET"[..], false));
}
