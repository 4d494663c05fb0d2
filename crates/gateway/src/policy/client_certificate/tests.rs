use thruway_server::PeerCertificate;

use super::*;
use crate::policy::PolicyConfig;
use crate::policy::scene::{ask, outcome, scene};

fn certificate() -> PeerCertificate {
    PeerCertificate {
        subject: "CN=ada,O=Example".to_owned(),
        issuer: "CN=authority".to_owned(),
        names: vec![
            CertificateName::Dns("ada.Example".to_owned()),
            CertificateName::Uri("spiffe://example/ada".to_owned()),
            CertificateName::Email("Ada@Example".to_owned()),
            CertificateName::Ip("192.0.2.1".parse().unwrap()),
        ],
        serial: "01".to_owned(),
        fingerprint: "ab".repeat(32),
        der: Vec::new(),
    }
}

fn allows(allowed: CertificateMatch) -> bool {
    is_allowed(&ClientCertificateConfig { allow: Some(vec![allowed]) }, &certificate())
}

#[test]
fn certificate_matches_by_exact_subject_or_fingerprint() {
    let subject = |text: &str| CertificateMatch::Subject(text.to_owned());
    let fingerprint = |text: &str| CertificateMatch::Fingerprint(text.parse().unwrap());
    for (allowed, expected) in [
        (subject("CN=ada,O=Example"), true),
        (subject("CN=ada"), false),
        (subject("CN=Ada,O=Example"), false),
        (fingerprint(&format!("sha256:{}", "ab".repeat(32))), true),
        (fingerprint(&format!("sha256:AB{}", ":AB".repeat(31))), true),
        (fingerprint(&format!("sha256:{}", "ac".repeat(32))), false),
    ] {
        assert_eq!(allows(allowed.clone()), expected, "{allowed}");
    }
    let all = ClientCertificateConfig::default();
    assert!(is_allowed(&all, &certificate()));
    let none = ClientCertificateConfig { allow: Some(Vec::new()) };
    assert!(!is_allowed(&none, &certificate()));
    let either = vec![subject("CN=bob"), subject("CN=ada,O=Example")];
    assert!(is_allowed(&ClientCertificateConfig { allow: Some(either) }, &certificate()));
}

#[test]
fn certificate_name_matches_only_the_same_name_type() {
    let texts = ["ADA.example", "spiffe://example/ada", "Ada@EXAMPLE", "192.0.2.1"];
    let kinds: [fn(String) -> CertificateName; 3] =
        [CertificateName::Dns, CertificateName::Uri, CertificateName::Email];
    for (index, text) in texts.iter().enumerate() {
        for (kind, name) in kinds.iter().enumerate() {
            let allowed = CertificateMatch::Name(name((*text).to_owned()));
            assert_eq!(allows(allowed.clone()), index == kind, "{allowed}");
        }
    }
    for text in ["ada@example", "Ada", "Ada@example.org"] {
        assert!(!allows(CertificateMatch::Name(CertificateName::Email(text.to_owned()))), "{text}");
    }
    assert!(!allows(CertificateMatch::Name(CertificateName::Uri("spiffe://example/ADA".to_owned()))));
    assert!(allows(CertificateMatch::Name(CertificateName::Ip("192.0.2.1".parse().unwrap()))));
}

#[test]
fn client_without_certificate_gets_403_despite_headers() {
    let scene = scene(PolicyConfig::ClientCertificate(ClientCertificateConfig::default()));
    for lines in ["", "X-Client-Subject: CN=ada,O=Example\r\n"] {
        assert_eq!(outcome(&ask(&scene, lines)), ("403", "403 Forbidden\n"));
    }
}

#[test]
fn fingerprint_must_be_sha256() {
    for text in ["", "sha256:", "ab", "sha1:abababababababababababababababababababab"] {
        assert_eq!(text.parse::<CertificateFingerprint>(), Err(InvalidFingerprint), "{text}");
    }
    assert_eq!(
        format!("sha256:{}g", "a".repeat(63)).parse::<CertificateFingerprint>(),
        Err(InvalidFingerprint)
    );
}
