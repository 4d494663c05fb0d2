//! Tests of certificates from files, and of files that change.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use thruway_net::tls::{
    CertificateFiles, CertificateProblem, ClientAuthentication, Roots, TlsAcceptor, TlsAcceptorConfig,
    TlsConnector, TlsConnectorConfig,
};
use thruway_testkit::CertificateAuthority;

use crate::ends::{RustlsEnd, accepted_by, client_config};

fn load(files: CertificateFiles) -> Result<TlsAcceptor, CertificateProblem> {
    TlsAcceptor::load(TlsAcceptorConfig::new(vec![files])).map_err(|error| error.problem)
}

fn problem(files: &CertificateFiles) -> CertificateProblem {
    load(files.clone()).expect_err("loading fails")
}

fn server_certificate(other: &RustlsEnd) -> CertificateDer<'static> {
    other.tls.peer_certificates().unwrap()[0].clone().into_owned()
}

fn certificate(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).unwrap()
}

#[test]
fn certificate_file_errors_have_the_right_problem() {
    let authority = CertificateAuthority::new();
    let (good, another) =
        (authority.issue("good", &["a.example"]), authority.issue("another", &["a.example"]));
    let with_chain = |text: &str| {
        let chain = good.chain.with_extension("changed");
        fs::write(&chain, text).unwrap();
        CertificateFiles { chain, ..good.clone() }
    };
    let with_key = |text: &str| {
        let key = good.key.with_extension("changed");
        fs::write(&key, text).unwrap();
        CertificateFiles { key, ..good.clone() }
    };
    let key = fs::read_to_string(&good.key).unwrap();
    assert_eq!(problem(&with_chain("")), CertificateProblem::NoCertificate);
    assert_eq!(problem(&with_chain(&key)), CertificateProblem::NoCertificate);
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(problem(&with_chain(nonsense)), CertificateProblem::InvalidCertificate);
    let torn = "-----BEGIN CERTIFICATE-----\nAAAA\n";
    assert_eq!(problem(&with_chain(torn)), CertificateProblem::InvalidPem);
    assert_eq!(problem(&with_key("")), CertificateProblem::NoKey);
    assert_eq!(
        problem(&with_key(&nonsense.replace("CERTIFICATE", "PRIVATE KEY"))),
        CertificateProblem::InvalidKey
    );
    let foreign = CertificateFiles { key: another.key, ..good.clone() };
    assert_eq!(problem(&foreign), CertificateProblem::KeyOfAnother);
    let missing = CertificateFiles { chain: "nowhere.pem".into(), ..good.clone() };
    assert!(matches!(problem(&missing), CertificateProblem::Unreadable(_)));
    let missing = CertificateFiles { ocsp: Some("nowhere.ocsp".into()), ..good };
    assert!(matches!(problem(&missing), CertificateProblem::Unreadable(_)));
}

/// The error once said that the file contains no certificate.
#[test]
fn version_1_certificate_is_rejected_with_its_version() {
    let authority = CertificateAuthority::new();
    let good = authority.issue("good", &["a.example"]);
    let chain = good.chain.with_extension("old");
    fs::write(&chain, VERSION_1).unwrap();
    let files = CertificateFiles { chain: chain.clone(), ..good };
    let error = TlsAcceptor::load(TlsAcceptorConfig::new(vec![files])).unwrap_err();
    assert_eq!(error.problem, CertificateProblem::UnsupportedVersion(1));
    let expected = format!(
        "the certificate in `{}` has version 1 of X.509: only version 3 is supported",
        chain.display()
    );
    assert_eq!(error.to_string(), expected);
    // Root certificates may have an older version.
    let roots = Roots::Files(vec![chain]);
    assert!(TlsConnector::load(TlsConnectorConfig { roots, ..TlsConnectorConfig::default() }).is_ok());
}

#[test]
fn expired_and_not_yet_valid_certificates_are_reported() {
    let authority = CertificateAuthority::new();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let old = load(authority.issue_expired("old", &["a.example"])).unwrap();
    let invalid = old.invalid_at(now);
    assert_eq!(invalid[0].problem, CertificateProblem::Expired);
    let before = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    assert_eq!(old.invalid_at(before)[0].problem, CertificateProblem::NotYetValid);
    assert!(load(authority.issue("new", &["a.example"])).unwrap().invalid_at(now).is_empty());
}

#[test]
fn changed_certificate_is_reloaded_and_a_broken_one_is_ignored() {
    let authority = CertificateAuthority::new();
    let files = authority.issue("server", &["a.example"]);
    let acceptor = Arc::new(load(files.clone()).unwrap());
    let client = Arc::new(client_config(&authority));
    assert_eq!(acceptor.refresh(), Ok(false));
    let first = certificate(&files.chain);
    authority.issue("server", &["a.example"]);
    let second = certificate(&files.chain);
    assert_ne!(first, second);
    assert_eq!(server_certificate(&accepted_by(&acceptor, &client, "a.example").1), first);
    assert_eq!(acceptor.refresh(), Ok(true));
    assert_eq!(acceptor.refresh(), Ok(false));
    let fresh = || Arc::new(client_config(&authority));
    assert_eq!(server_certificate(&accepted_by(&acceptor, &fresh(), "a.example").1), second);
    // A new certificate without its key, as in the middle of a renewal.
    let key = fs::read(&files.key).unwrap();
    authority.issue("server", &["a.example"]);
    let third = certificate(&files.chain);
    let new_key = fs::read(&files.key).unwrap();
    fs::write(&files.key, key).unwrap();
    assert_eq!(acceptor.refresh(), Ok(true));
    assert_eq!(acceptor.problems()[0].problem, CertificateProblem::KeyOfAnother);
    assert_eq!(acceptor.refresh(), Ok(false), "nothing has changed since");
    assert_eq!(server_certificate(&accepted_by(&acceptor, &fresh(), "a.example").1), second);
    fs::write(&files.key, new_key).unwrap();
    assert_eq!(acceptor.refresh(), Ok(true));
    assert_eq!((acceptor.problems(), acceptor.refresh()), (Vec::new(), Ok(false)));
    assert_eq!(server_certificate(&accepted_by(&acceptor, &fresh(), "a.example").1), third);
}

/// A broken certificate once blocked the reload of all other certificates of its listener.
#[test]
fn broken_certificate_does_not_block_reload_of_others() {
    let authority = CertificateAuthority::new();
    let (one, other) = (authority.issue("one", &["a.example"]), authority.issue("other", &["b.example"]));
    let config = TlsAcceptorConfig::new(vec![one.clone(), other.clone()]);
    let acceptor = Arc::new(TlsAcceptor::load(config).unwrap());
    let fresh = || Arc::new(client_config(&authority));
    let before = certificate(&one.chain);
    fs::write(&one.chain, "").unwrap();
    authority.issue("other", &["b.example"]);
    assert_eq!(acceptor.refresh(), Ok(true));
    assert_eq!(server_certificate(&accepted_by(&acceptor, &fresh(), "a.example").1), before);
    assert_eq!(
        server_certificate(&accepted_by(&acceptor, &fresh(), "b.example").1),
        certificate(&other.chain)
    );
    let problems = acceptor.problems();
    assert_eq!((&*problems[0].path, problems.len()), (&*one.chain, 1));
    assert_eq!(problems[0].problem, CertificateProblem::NoCertificate);
    // Renews the other certificate again while the first is still broken.
    authority.issue("other", &["b.example"]);
    assert_eq!(acceptor.refresh(), Ok(true));
    assert_eq!(server_certificate(&accepted_by(&acceptor, &fresh(), "a.example").1), before);
    assert_eq!(
        server_certificate(&accepted_by(&acceptor, &fresh(), "b.example").1),
        certificate(&other.chain)
    );
}

#[test]
fn ocsp_response_from_a_file_is_stapled() {
    let authority = CertificateAuthority::new();
    let mut files = authority.issue("server", &["a.example"]);
    let ocsp = files.chain.with_extension("ocsp");
    fs::write(&ocsp, b"an answer").unwrap();
    files.ocsp = Some(ocsp);
    let acceptor = Arc::new(load(files).unwrap());
    assert_eq!(stapled_ocsp(&acceptor), b"an answer");
}

#[test]
fn invalid_ocsp_file_is_withheld_until_it_is_replaced() {
    let authority = CertificateAuthority::new();
    let mut files = authority.issue("server", &["a.example"]);
    let ocsp = files.chain.with_extension("ocsp");
    fs::write(&ocsp, b"garbage").unwrap();
    files.ocsp = Some(ocsp.clone());
    let acceptor = Arc::new(load(files).unwrap());
    let served_ocsp = || {
        let served = acceptor.served().swap_remove(0);
        (served.contents.chain[0].clone(), served.ocsp.unwrap())
    };
    let (own, of_file) = served_ocsp();
    assert_eq!((&of_file.path, &*of_file.response), (&ocsp, &b"garbage"[..]));
    // The response may be valid for another certificate.
    acceptor.withhold([(b"another certificate".to_vec(), of_file.response.clone())]);
    assert_eq!(stapled_ocsp(&acceptor), b"garbage");
    acceptor.withhold([(own.clone(), of_file.response)]);
    assert_eq!(stapled_ocsp(&acceptor), b"");
    // The fetched response replaces it.
    acceptor.staple(&own, Some(b"fetched"));
    assert_eq!(stapled_ocsp(&acceptor), b"fetched");
    fs::write(&ocsp, b"an answer").unwrap();
    assert_eq!(acceptor.refresh(), Ok(true));
    assert_eq!(
        (stapled_ocsp(&acceptor), served_ocsp().1.response),
        (b"an answer".to_vec(), b"an answer".to_vec())
    );
}

/// Returns the OCSP response that a client gets.
fn stapled_ocsp(acceptor: &Arc<TlsAcceptor>) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let seen = Arc::new(RecordsOcsp::default());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap().dangerous();
    let config = builder.with_custom_certificate_verifier(seen.clone()).with_no_client_auth();
    accepted_by(acceptor, &Arc::new(config), "a.example");
    seen.0.lock().unwrap().clone()
}

#[test]
fn fetched_ocsp_response_is_stapled_only_to_its_certificate() {
    let authority = CertificateAuthority::new();
    let files = authority.issue("server", &["a.example"]);
    let acceptor = Arc::new(load(files.clone()).unwrap());
    let own = acceptor.served()[0].contents.chain[0].clone();
    let seen = || stapled_ocsp(&acceptor);
    acceptor.staple(b"another certificate", Some(b"of another"));
    assert_eq!(seen(), b"");
    acceptor.staple(&own, Some(b"an answer"));
    assert_eq!(
        (seen(), acceptor.stapled(&files.chain)),
        (b"an answer".to_vec(), Some(b"an answer".to_vec()))
    );
    // Reading the files again keeps the response. Another certificate does not get it.
    let key = fs::read(&files.key).unwrap();
    fs::write(&files.key, [&key[..], b"\n"].concat()).unwrap();
    assert_eq!(acceptor.refresh(), Ok(true));
    assert_eq!(seen(), b"an answer");
    authority.issue("server", &["a.example"]);
    assert_eq!(acceptor.refresh(), Ok(true));
    assert_eq!(seen(), b"");
    acceptor.staple(&own, None);
    assert_eq!((seen(), acceptor.stapled(&files.chain)), (Vec::new(), None));
}

#[test]
fn invalid_roots_and_client_certificates_are_rejected() {
    let authority = CertificateAuthority::new();
    let files = authority.issue("server", &["a.example"]);
    let client_authentication = ClientAuthentication::Required(vec![files.key.clone()]);
    let config = TlsAcceptorConfig { client_authentication, ..TlsAcceptorConfig::new(vec![files.clone()]) };
    assert_eq!(TlsAcceptor::load(config).unwrap_err().problem, CertificateProblem::NoCertificate);
    let foreign = CertificateFiles { key: authority.issue("another", &[]).key, ..files };
    let config = TlsConnectorConfig { client_certificate: Some(foreign), ..TlsConnectorConfig::default() };
    assert_eq!(TlsConnector::load(config).unwrap_err().problem, CertificateProblem::KeyOfAnother);
}

/// Accepts all servers, and stores their OCSP responses.
#[derive(Default, Debug)]
struct RecordsOcsp(std::sync::Mutex<Vec<u8>>);

mod verifier {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{DigitallySignedStruct, Error, SignatureScheme};

    impl ServerCertVerifier for super::RecordsOcsp {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            ocsp: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            *self.0.lock().unwrap() = ocsp.to_vec();
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            let provider = rustls::crypto::aws_lc_rs::default_provider();
            provider.signature_verification_algorithms.supported_schemes()
        }
    }
}

/// An Ed25519 certificate, as `openssl x509 -req` writes it without extensions.
const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIHkMIGXAhR5N2KoDRCBvOzVyoboXYHR4dc3lTAFBgMrZXAwFDESMBAGA1UEAwwJ
YS5leGFtcGxlMCAXDTI2MTEyMzAyMzgzNVoYDzIxMjYxMDMwMDIzODM1WjAUMRIw
EAYDVQQDDAlhLmV4YW1wbGUwKjAFBgMrZXADIQAN9q7Ar3ht7Lou4ayR62erQWoQ
zlAbacaYOTRwqWUcfzAFBgMrZXADQQDVyjfvM0amEmSsJztjIhS8nLQxiF5+SYXB
SS+V20FKstvyceI0+fLAbOFRTsTPjkzb0zsvSy0Hm+/V89gewfQJ
-----END CERTIFICATE-----
";
