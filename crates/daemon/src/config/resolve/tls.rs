//! TLS: files are read here, so that what is wrong with them is told with the place that names them.

use std::path::PathBuf;
use std::sync::Arc;

use thruway_certificates::acme::ChallengeKind;
use thruway_gateway::UpstreamTls;
use thruway_net::tls::{
    CertificateError, CertificateFiles, ClientAuthentication, InvalidServerName, Roots, TlsAcceptor,
    TlsAcceptorConfig, TlsConnector, TlsConnectorConfig, TlsServerName, TlsVersion,
};
use thruway_server::FieldValue;

use super::super::raw::{
    RawCertificate, RawClientCertificates, RawListenerCertificate, RawListenerTls, RawTlsVersion,
    RawUpstreamTls, RawUpstreamTlsOrNot,
};
use super::super::spanned::Spanned;
use super::super::{Http2, ListenerTlsConfig, Span};
use super::Resolver;
use crate::acme::challenges;

/// What is negotiated where HTTP/2 is spoken, or not (RFC 7301; RFC 9113 §3.1).
fn alpn(http2: Http2) -> Vec<Vec<u8>> {
    let names: &[&[u8]] = match http2 {
        Http2::No => &[b"http/1.1"],
        Http2::Too => &[b"h2", b"http/1.1"],
        Http2::Only => &[b"h2"],
    };
    names.iter().map(|name| name.to_vec()).collect()
}

impl Resolver<'_> {
    pub(super) fn listener_tls(
        &mut self,
        raw: Spanned<RawListenerTls>,
        http2: Http2,
    ) -> Option<ListenerTlsConfig> {
        let span = raw.span();
        let raw = raw.into_inner();
        self.refuse_empty(&raw.certificates, "TLS needs a certificate", CERTIFICATE_HINT);
        let certificates_span = raw.certificates.span();
        let (mut awaited, mut awaited_names) = (Vec::new(), Vec::new());
        let certificates = raw.certificates.into_inner().into_iter();
        let certificates: Vec<_> = certificates
            .filter_map(|raw| self.listener_certificate(raw, &mut awaited, &mut awaited_names))
            .collect();
        if certificates.is_empty() {
            return None;
        }
        let defaults = TlsAcceptorConfig::new(certificates);
        let client_authentication = self.client_authentication(raw.client_certificates);
        self.check_validation(&client_authentication, !awaited.is_empty(), &span);
        let challenges = self.validates_by(ChallengeKind::TlsAlpn01).then(|| challenges().tls_alpn());
        let config = TlsAcceptorConfig {
            awaited,
            awaited_names,
            challenges,
            min_version: version(raw.min_version),
            tickets: raw.tickets.unwrap_or(defaults.tickets),
            sessions_max: self.or(raw.sessions_max, defaults.sessions_max, 0..=10_000_000),
            client_authentication,
            alpn: alpn(http2),
            ..defaults
        };
        let strict = raw.strict_transport_security;
        if let Some(text) = strict.as_ref().filter(|text| !is_strict(text.get_ref())) {
            self.refuse_with(text, "it is no value of `Strict-Transport-Security`", STRICT_HINT);
        }
        let acceptor = TlsAcceptor::load(config);
        let acceptor = acceptor.map_err(|error| self.refuse_certificate(&certificates_span, &error)).ok()?;
        let strict_transport_security = strict.map(Spanned::into_inner);
        let (acceptor, ocsp_stapling) = (Arc::new(acceptor), raw.ocsp_stapling);
        Some(ListenerTlsConfig { acceptor, strict_transport_security, ocsp_stapling, span })
    }

    pub(super) fn upstream_tls(
        &mut self,
        raw: Spanned<RawUpstreamTlsOrNot>,
        http2: Http2,
    ) -> Option<UpstreamTls> {
        let span = raw.span();
        let RawUpstreamTlsOrNot::Yes(raw) = raw.into_inner() else { return None };
        let RawUpstreamTls { roots, server_name, certificate, verify, min_version } = *raw;
        let config = TlsConnectorConfig {
            roots: self.roots(roots),
            verify: verify.unwrap_or(true),
            client_certificate: certificate.map(|files| self.certificate(files)),
            min_version: version(min_version),
            alpn: alpn(http2),
            ..TlsConnectorConfig::default()
        };
        let server_name = server_name.and_then(|text| self.server_name(&text));
        let connector = TlsConnector::load(config);
        let connector = connector.map_err(|error| self.refuse_certificate(&span, &error)).ok()?;
        Some(UpstreamTls { connector: Arc::new(connector), server_name })
    }

    fn server_name(&mut self, text: &Spanned<String>) -> Option<TlsServerName> {
        let name = TlsServerName::new(text.get_ref());
        name.map_err(|error| self.refuse_with(text, error, InvalidServerName::HINT)).ok()
    }

    pub(super) fn roots(&mut self, raw: Option<Spanned<Vec<PathBuf>>>) -> Roots {
        let Some(raw) = raw else { return Roots::System };
        self.refuse_empty(
            &raw,
            "`roots` names at least one file",
            "leave it out for those whom this system trusts",
        );
        Roots::Files(self.all_beside_config(&raw))
    }

    fn client_authentication(&mut self, raw: Option<RawClientCertificates>) -> ClientAuthentication {
        let Some(RawClientCertificates { roots, required }) = raw else { return ClientAuthentication::Off };
        self.refuse_empty(
            &roots,
            "`roots` names at least one file",
            "it has the certificates of those who issue them",
        );
        let files = self.all_beside_config(&roots);
        match required {
            _ if files.is_empty() => ClientAuthentication::Off,
            Some(false) => ClientAuthentication::Optional(files),
            Some(true) | None => ClientAuthentication::Required(files),
        }
    }

    /// Where a certificate of a listener is; among those `awaited` with its names, if it is ordered.
    fn listener_certificate(
        &mut self,
        raw: Spanned<RawListenerCertificate>,
        awaited: &mut Vec<PathBuf>,
        awaited_names: &mut Vec<String>,
    ) -> Option<CertificateFiles> {
        let span = raw.span();
        match raw.into_inner() {
            RawListenerCertificate { chain: Some(chain), key: Some(key), ocsp, acme: None } => {
                Some(self.certificate(RawCertificate { chain, key, ocsp }))
            }
            RawListenerCertificate { chain: None, key: None, ocsp: None, acme: Some(names) } => {
                let files = self.ordered(&names)?;
                awaited.push(files.chain.clone());
                awaited_names.extend(names.get_ref().iter().map(|name| name.get_ref().to_ascii_lowercase()));
                Some(files)
            }
            _ => {
                let message = "a certificate has either `chain` and `key`, or `acme`";
                self.failures.push(self.source.failure(span, message).with_hint(CERTIFICATE_HINT));
                None
            }
        }
    }

    fn certificate(&self, raw: RawCertificate) -> CertificateFiles {
        CertificateFiles {
            chain: self.beside_config(&raw.chain),
            key: self.beside_config(&raw.key),
            ocsp: raw.ocsp.map(|path| self.beside_config(&path)),
        }
    }

    fn all_beside_config(&self, paths: &Spanned<Vec<PathBuf>>) -> Vec<PathBuf> {
        paths.get_ref().iter().map(|path| self.beside_config(path)).collect()
    }

    pub(super) fn refuse_certificate(&mut self, span: &Span, error: &CertificateError) {
        self.failures.push(self.source.failure(span.clone(), error).with_hint(error.hint()));
    }
}

const fn version(raw: RawTlsVersion) -> TlsVersion {
    match raw {
        RawTlsVersion::Tls12 => TlsVersion::Tls12,
        RawTlsVersion::Tls13 => TlsVersion::Tls13,
    }
}

/// Whether a client would understand it: `max-age` must be there (RFC 6797 §6.1).
fn is_strict(text: &str) -> bool {
    let age = text.split(';').find_map(|directive| directive.trim().strip_prefix("max-age="));
    let is_age = age.is_some_and(|age| !age.is_empty() && age.bytes().all(|octet| octet.is_ascii_digit()));
    is_age && FieldValue::new(text.as_bytes()).is_ok()
}

const CERTIFICATE_HINT: &str = "write `certificates = [{ chain = \"FILE\", key = \"FILE\" }]`, or `{ acme = [\"NAME\"] }` to have one ordered";
const STRICT_HINT: &str = "write `max-age=31536000`, and behind it, if it is so, `; includeSubDomains`";
