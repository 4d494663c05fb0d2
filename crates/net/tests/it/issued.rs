//! Tests of certificates that an ACME server has yet to issue, and of the certificates that prove a name to
//! it.

use std::fs;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{AlertDescription, ClientConfig, Error};
use thruway_net::Transport;
use thruway_net::tls::{
    ALPN_ACME, CertificateFiles, HandshakeError, NameMatch, TlsAcceptor, TlsAcceptorConfig, TlsAlpnChallenges,
};
use thruway_testkit::{CertificateAuthority, pipe};

use crate::ends::{RustlsEnd, Scene, accepted_by, client_config, cx, drive_handshake};

fn awaiting(files: &[&CertificateFiles]) -> Arc<TlsAcceptor> {
    let awaited = files.iter().map(|files| files.chain.clone()).collect();
    let config = TlsAcceptorConfig::new(files.iter().map(|files| (*files).clone()).collect());
    Arc::new(TlsAcceptor::load(TlsAcceptorConfig { awaited, ..config }).unwrap())
}

fn client(authority: &CertificateAuthority, alpn: &[&[u8]]) -> Arc<ClientConfig> {
    let mut config = client_config(authority);
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

/// Returns the error that ends the handshake at the other end.
fn refused(acceptor: &Arc<TlsAcceptor>, config: &Arc<ClientConfig>, name: &str) -> Option<Error> {
    let (near, far) = pipe();
    let mut other = RustlsEnd::client(near, config, name);
    let mut accepting = Scene::new().accept(far, acceptor);
    let (outcome, other_outcome) = drive_handshake(&mut accepting, &mut other);
    assert!(matches!(outcome, Err((_, HandshakeError::Refused(_)))));
    other_outcome.err()
}

fn server_certificate(other: &RustlsEnd) -> CertificateDer<'static> {
    other.tls.peer_certificates().unwrap()[0].clone().into_owned()
}

#[test]
fn awaited_certificate_matches_its_names_before_it_exists() {
    let authority = CertificateAuthority::new();
    let files = authority.issue("server", &["a.example"]);
    fs::remove_file(&files.chain).unwrap();
    let config = TlsAcceptorConfig::new(vec![files.clone()]);
    let awaiting = TlsAcceptorConfig {
        awaited: vec![files.chain],
        awaited_names: vec!["a.example".to_owned()],
        ..config
    };
    let acceptor = TlsAcceptor::load(awaiting).unwrap();
    assert_eq!(acceptor.match_of("a.example"), Some(NameMatch::Exact));
    assert_eq!(acceptor.match_of("b.example"), None);
}

#[test]
fn missing_certificate_gives_an_alert_until_it_is_issued() {
    let authority = CertificateAuthority::new();
    let files = authority.issue("server", &["a.example"]);
    let (chain, key) = (fs::read(&files.chain).unwrap(), fs::read(&files.key).unwrap());
    fs::remove_file(&files.chain).unwrap();
    fs::remove_file(&files.key).unwrap();
    let acceptor = awaiting(&[&files]);
    let config = client(&authority, &[b"http/1.1"]);
    let alert = refused(&acceptor, &config, "a.example");
    assert_eq!(alert, Some(Error::AlertReceived(AlertDescription::AccessDenied)));
    assert!(acceptor.served().is_empty());

    // The key alone is not enough.
    fs::write(&files.key, key).unwrap();
    assert_eq!(acceptor.refresh(), Ok(true));
    assert!(acceptor.served().is_empty());
    fs::write(&files.chain, chain).unwrap();
    assert_eq!(acceptor.refresh(), Ok(true));
    let served = acceptor.served();
    assert_eq!((&served[0].path, &*served[0].contents.names[0]), (&files.chain, "a.example"));
    let (_, other) = accepted_by(&acceptor, &config, "a.example");
    assert_eq!(server_certificate(&other), CertificateDer::from(served[0].contents.chain[0].clone()));
}

#[test]
fn previous_certificate_is_kept_if_the_file_is_lost_or_broken() {
    let authority = CertificateAuthority::new();
    let (first, second) =
        (authority.issue("first", &["a.example"]), authority.issue("second", &["b.example"]));
    let acceptor = awaiting(&[&first, &second]);
    let before = acceptor.served();
    fs::remove_file(&first.chain).unwrap();
    fs::write(&second.chain, "half a certifi").unwrap();
    assert_eq!(acceptor.refresh(), Ok(true));
    assert_eq!(acceptor.served(), before);
    authority.issue("first", &["a.example"]);
    assert_eq!(acceptor.refresh(), Ok(true));
    assert_ne!(acceptor.served()[0], before[0]);
    assert_eq!(acceptor.served()[1], before[1]);
    // A new process has no previous certificate, so it waits for a new one.
    assert_eq!(awaiting(&[&second]).served(), []);
}

#[test]
fn challenge_certificate_is_shown_only_for_acme_alpn() {
    let authority = CertificateAuthority::new();
    let (files, proof) =
        (authority.issue("server", &["a.example"]), authority.issue("proof", &["a.example"]));
    let proof = awaiting(&[&proof]).served()[0].contents.chain[0].clone();
    let key = {
        use rustls::pki_types::pem::PemObject;
        rustls::pki_types::PrivatePkcs8KeyDer::from_pem_file(files.key.with_file_name("proof.key")).unwrap()
    };
    let key = key.secret_pkcs8_der().to_vec();
    let challenges = TlsAlpnChallenges::default();
    let config = TlsAcceptorConfig::new(vec![files]);
    let plain = Arc::new(TlsAcceptor::load(config.clone()).unwrap());
    let config = TlsAcceptorConfig { challenges: Some(challenges.clone()), ..config };
    let acceptor = Arc::new(TlsAcceptor::load(config).unwrap());
    assert!(challenges.show("a.example", proof.clone(), vec![0; 8]).is_err());
    challenges.show("A.Example", proof.clone(), key).unwrap();
    let proof = CertificateDer::from(proof);

    let validating = client(&authority, &[ALPN_ACME]);
    let (stream, other) = accepted_by(&acceptor, &validating, "a.example");
    assert_eq!((stream.alpn(), server_certificate(&other)), (Some(ALPN_ACME), proof.clone()));
    let (stream, other) = accepted_by(&acceptor, &client(&authority, &[ALPN_ACME, b"http/1.1"]), "a.example");
    assert_eq!(stream.alpn(), Some(&b"http/1.1"[..]));
    assert_ne!(server_certificate(&other), proof);
    let (_, other) = accepted_by(&acceptor, &client(&authority, &[]), "a.example");
    assert_ne!(server_certificate(&other), proof);

    // RustlsEnd names, listeners without challenges, and removed challenges.
    assert!(refused(&acceptor, &validating, "b.example").is_some());
    assert!(refused(&plain, &validating, "a.example").is_some());
    challenges.remove("a.EXAMPLE");
    assert!(refused(&acceptor, &client(&authority, &[ALPN_ACME]), "a.example").is_some());
}

#[test]
fn closing_right_after_the_handshake_completes_it() {
    let authority = CertificateAuthority::new();
    let acceptor = awaiting(&[&authority.issue("server", &["a.example"])]);
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        let config = builder.with_root_certificates(crate::ends::roots(&authority)).with_no_client_auth();
        let (near, far) = pipe();
        let mut other = RustlsEnd::client(near, &Arc::new(config), "a.example");
        let scene = Scene::new();
        let (stream, outcome) = drive_handshake(&mut scene.accept(far, &acceptor), &mut other);
        outcome.unwrap();
        let mut stream = stream.map_err(|(_, error)| error).unwrap();
        assert!(stream.poll_close(&mut cx()).is_ready());
        other.pump().unwrap();
        assert!(!other.tls.is_handshaking());
    }
}
