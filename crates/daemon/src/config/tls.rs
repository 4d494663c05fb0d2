//! TLS of listeners and upstreams.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use thruway_certificates::acme::ChallengeKind;
use thruway_gateway::UpstreamTls;
use thruway_net::tls::{
    CertificateFiles, ClientAuthentication, InvalidServerName, TlsAcceptor, TlsAcceptorConfig, TlsConnector,
    TlsConnectorConfig, TlsServerName, TlsVersion,
};
use thruway_server::FieldValue;

use crate::acme::challenges;
use crate::config::acme::{check_validation, resolve_ordered, validates_by};
use crate::config::resolver::{Resolver, refuse_certificate, resolve_all_beside_config, resolve_roots};
use crate::config::values::Spanned;
use crate::config::{Http2, ListenerTlsConfig};

/// TLS towards clients.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawListenerTls {
    /// At least one. A client gets that which has the name it asks for, or a wildcard for it, or else the
    /// first.
    pub(in crate::config) certificates: Spanned<Vec<Spanned<RawListenerCertificate>>>,
    /// `1.2` or `1.3`: the lowest version that is spoken. Default `1.2`.
    #[serde(default)]
    pub(in crate::config) min_version: RawTlsVersion,
    /// Staples OCSP responses, which the server fetches from the responder that the certificate names.
    /// Default false.
    #[serde(default)]
    pub(in crate::config) ocsp_stapling: bool,
    /// Gives clients session tickets, encrypted with rotating keys. Default true.
    pub(in crate::config) tickets: Option<bool>,
    /// Sessions that are kept for clients without tickets; 0 for none. Default 10000.
    pub(in crate::config) sessions_max: Option<Spanned<usize>>,
    /// Client certificates. Default: clients are not asked for one.
    pub(in crate::config) client_certificates: Option<RawClientCertificates>,
    /// Value of the response header `Strict-Transport-Security`, such as `max-age=31536000`. Default: no
    /// header.
    pub(in crate::config) strict_transport_security: Option<Spanned<String>>,
}

/// A certificate of a listener: `chain` and `key`, or `acme`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawListenerCertificate {
    /// A file with the certificate, and behind it those between it and a root, in PEM. It is read again when
    /// it changes, as are the others.
    pub(in crate::config) chain: Option<PathBuf>,
    /// A file with the private key, in PEM.
    pub(in crate::config) key: Option<PathBuf>,
    /// File with an OCSP response in DER, which is stapled while it is valid. The chain must contain the
    /// issuer. Default: none.
    pub(in crate::config) ocsp: Option<PathBuf>,
    /// Names of hosts: the certificate for them is ordered, as `[acme]` says, and renewed.
    pub(in crate::config) acme: Option<Spanned<Vec<Spanned<String>>>>,
}

/// A certificate, and its key. All files are in PEM but that of OCSP, and are read again when they change.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawCertificate {
    /// The certificate, and behind it those between it and a root.
    pub(in crate::config) chain: PathBuf,
    /// The private key.
    pub(in crate::config) key: PathBuf,
    /// File with an OCSP response in DER, which is stapled. Default: none.
    pub(in crate::config) ocsp: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
pub(in crate::config) enum RawTlsVersion {
    #[default]
    #[serde(rename = "1.2")]
    Tls12,
    #[serde(rename = "1.3")]
    Tls13,
}

/// Which certificates clients show.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawClientCertificates {
    /// PEM files with the trusted issuers of client certificates.
    pub(in crate::config) roots: Spanned<Vec<PathBuf>>,
    /// Refuses clients without a certificate. Default true.
    pub(in crate::config) required: Option<bool>,
}

/// TLS towards the servers of an upstream: `true`, or a table.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawUpstreamTls {
    /// PEM files with trusted roots for server certificates. Default: the roots of the system.
    pub(in crate::config) roots: Option<Spanned<Vec<PathBuf>>>,
    /// The name that certificates must have. Default what `servers` calls each server.
    pub(in crate::config) server_name: Option<Spanned<String>>,
    /// The certificate that is shown to servers that ask for one. Default none.
    pub(in crate::config) certificate: Option<RawCertificate>,
    /// Verifies server certificates. Default true.
    pub(in crate::config) verify: Option<bool>,
    /// `1.2` or `1.3`: the lowest version that is spoken. Default `1.2`.
    #[serde(default)]
    pub(in crate::config) min_version: RawTlsVersion,
}

/// A TLS table, or `true` or `false`.
pub(in crate::config) enum RawUpstreamTlsOrNot {
    No,
    Yes(Box<RawUpstreamTls>),
}

impl<'de> Deserialize<'de> for RawUpstreamTlsOrNot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = RawUpstreamTlsOrNot;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true` or a table")
            }

            fn visit_bool<E: Error>(self, is_wanted: bool) -> Result<RawUpstreamTlsOrNot, E> {
                Ok(if is_wanted { RawUpstreamTlsOrNot::Yes(Box::default()) } else { RawUpstreamTlsOrNot::No })
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<RawUpstreamTlsOrNot, A::Error> {
                let tls = RawUpstreamTls::deserialize(MapAccessDeserializer::new(table))?;
                Ok(RawUpstreamTlsOrNot::Yes(Box::new(tls)))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for RawUpstreamTlsOrNot {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "UpstreamTls".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "boolean" }, generator.subschema_for::<RawUpstreamTls>()] })
    }
}

/// Returns the protocols for ALPN (RFC 7301; RFC 9113 §3.1).
fn alpn(http2: Http2) -> Vec<Vec<u8>> {
    let names: &[&[u8]] = match http2 {
        Http2::No => &[b"http/1.1"],
        Http2::Too => &[b"h2", b"http/1.1"],
        Http2::Only => &[b"h2"],
    };
    names.iter().map(|name| name.to_vec()).collect()
}

pub(in crate::config) fn resolve_listener_tls(
    resolver: &mut Resolver<'_>,
    raw: Spanned<RawListenerTls>,
    http2: Http2,
) -> Option<ListenerTlsConfig> {
    let span = raw.span();
    let raw = raw.into_inner();
    resolver.refuse_empty(&raw.certificates, "TLS needs a certificate", CERTIFICATE_HINT);
    let certificates_span = raw.certificates.span();
    let (mut awaited, mut awaited_names) = (Vec::new(), Vec::new());
    let certificates = raw.certificates.into_inner().into_iter();
    let certificates: Vec<_> = certificates
        .filter_map(|raw| resolve_listener_certificate(resolver, raw, &mut awaited, &mut awaited_names))
        .collect();
    if certificates.is_empty() {
        return None;
    }
    let defaults = TlsAcceptorConfig::new(certificates);
    let client_authentication = resolve_client_authentication(resolver, raw.client_certificates);
    check_validation(resolver, &client_authentication, !awaited.is_empty(), &span);
    let challenges = validates_by(resolver, ChallengeKind::TlsAlpn01).then(|| challenges().tls_alpn());
    let config = TlsAcceptorConfig {
        awaited,
        awaited_names,
        challenges,
        min_version: version(raw.min_version),
        tickets: raw.tickets.unwrap_or(defaults.tickets),
        sessions_max: resolver.or(raw.sessions_max, defaults.sessions_max, 0..=10_000_000),
        client_authentication,
        alpn: alpn(http2),
        ..defaults
    };
    let strict = raw.strict_transport_security;
    if let Some(text) = strict.as_ref().filter(|text| !is_strict(text.get_ref())) {
        resolver.refuse_with(text, "it is no value of `Strict-Transport-Security`", STRICT_HINT);
    }
    let acceptor = TlsAcceptor::load(config);
    let acceptor = acceptor.map_err(|error| refuse_certificate(resolver, &certificates_span, &error)).ok()?;
    let strict_transport_security = strict.map(Spanned::into_inner);
    let (acceptor, ocsp_stapling) = (Arc::new(acceptor), raw.ocsp_stapling);
    Some(ListenerTlsConfig { acceptor, strict_transport_security, ocsp_stapling, span })
}

pub(in crate::config) fn resolve_upstream_tls(
    resolver: &mut Resolver<'_>,
    raw: Spanned<RawUpstreamTlsOrNot>,
    http2: Http2,
) -> Option<UpstreamTls> {
    let span = raw.span();
    let RawUpstreamTlsOrNot::Yes(raw) = raw.into_inner() else { return None };
    let RawUpstreamTls { roots, server_name, certificate, verify, min_version } = *raw;
    let config = TlsConnectorConfig {
        roots: resolve_roots(resolver, roots),
        verify: verify.unwrap_or(true),
        client_certificate: certificate.map(|files| resolve_certificate(resolver, files)),
        min_version: version(min_version),
        alpn: alpn(http2),
        ..TlsConnectorConfig::default()
    };
    let server_name = server_name.and_then(|text| resolve_server_name(resolver, &text));
    let connector = TlsConnector::load(config);
    let connector = connector.map_err(|error| refuse_certificate(resolver, &span, &error)).ok()?;
    Some(UpstreamTls { connector: Arc::new(connector), server_name })
}

fn resolve_server_name(resolver: &mut Resolver<'_>, text: &Spanned<String>) -> Option<TlsServerName> {
    let name = TlsServerName::new(text.get_ref());
    name.map_err(|error| resolver.refuse_with(text, error, InvalidServerName::HINT)).ok()
}

fn resolve_client_authentication(
    resolver: &mut Resolver<'_>,
    raw: Option<RawClientCertificates>,
) -> ClientAuthentication {
    let Some(RawClientCertificates { roots, required }) = raw else { return ClientAuthentication::Off };
    resolver.refuse_empty(
        &roots,
        "`roots` names at least one file",
        "it has the certificates of those who issue them",
    );
    let files = resolve_all_beside_config(resolver, &roots);
    match required {
        _ if files.is_empty() => ClientAuthentication::Off,
        Some(false) => ClientAuthentication::Optional(files),
        Some(true) | None => ClientAuthentication::Required(files),
    }
}

/// Returns the certificate of a listener. An ACME certificate is the one of `awaited` with the same names.
fn resolve_listener_certificate(
    resolver: &mut Resolver<'_>,
    raw: Spanned<RawListenerCertificate>,
    awaited: &mut Vec<PathBuf>,
    awaited_names: &mut Vec<String>,
) -> Option<CertificateFiles> {
    let span = raw.span();
    match raw.into_inner() {
        RawListenerCertificate { chain: Some(chain), key: Some(key), ocsp, acme: None } => {
            Some(resolve_certificate(resolver, RawCertificate { chain, key, ocsp }))
        }
        RawListenerCertificate { chain: None, key: None, ocsp: None, acme: Some(names) } => {
            let files = resolve_ordered(resolver, &names)?;
            awaited.push(files.chain.clone());
            awaited_names.extend(names.get_ref().iter().map(|name| name.get_ref().to_ascii_lowercase()));
            Some(files)
        }
        _ => {
            let message = "a certificate has either `chain` and `key`, or `acme`";
            resolver.failures.push(resolver.source.failure(span, message).with_hint(CERTIFICATE_HINT));
            None
        }
    }
}

fn resolve_certificate(resolver: &Resolver<'_>, raw: RawCertificate) -> CertificateFiles {
    CertificateFiles {
        chain: resolver.beside_config(&raw.chain),
        key: resolver.beside_config(&raw.key),
        ocsp: raw.ocsp.map(|path| resolver.beside_config(&path)),
    }
}

const fn version(raw: RawTlsVersion) -> TlsVersion {
    match raw {
        RawTlsVersion::Tls12 => TlsVersion::Tls12,
        RawTlsVersion::Tls13 => TlsVersion::Tls13,
    }
}

/// Returns `true` if clients accept the value: `max-age` is required (RFC 6797 §6.1).
fn is_strict(text: &str) -> bool {
    let age = text.split(';').find_map(|directive| directive.trim().strip_prefix("max-age="));
    let is_age = age.is_some_and(|age| !age.is_empty() && age.bytes().all(|octet| octet.is_ascii_digit()));
    is_age && FieldValue::new(text.as_bytes()).is_ok()
}

const CERTIFICATE_HINT: &str = "write `certificates = [{ chain = \"FILE\", key = \"FILE\" }]`, or `{ acme = [\"NAME\"] }` to have one ordered";
const STRICT_HINT: &str = "write `max-age=31536000`, and behind it, if it is so, `; includeSubDomains`";
