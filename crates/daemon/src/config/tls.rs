//! TLS of listeners and upstreams.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use thruway_certificates::acme::ChallengeKind;
use thruway_certificates::local_ca::LocalCertificate;
use thruway_gateway::UpstreamTls;
use thruway_net::tls::{
    CertificateFiles, ClientAuthentication, InvalidServerName, TlsAcceptor, TlsAcceptorConfig, TlsConnector,
    TlsConnectorConfig, TlsServerName, TlsVersion,
};
use thruway_server::FieldValue;

use crate::acme::{challenges, ticket_keeper};
use crate::config::acme::{check_validation, resolve_ordered, validates_by};
use crate::config::resolver::{Resolver, refuse_certificate, resolve_all_relative_to_config, resolve_roots};
use crate::config::values::{FromText, Spanned, TextOrTable};
use crate::config::{Http2, ListenerTlsConfig, Span};

/// The value of `tls` of a listener: `"internal"`, or the settings.
pub(in crate::config) enum RawListenerTlsForm {
    Internal,
    Table(Box<RawListenerTls>),
}

impl FromText for RawListenerTlsForm {
    const EXPECTED: &'static str = "`\"internal\"` or a table with `certificates`";

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"const": "internal"}, generator.subschema_for::<RawListenerTls>()]})
    }

    fn from_text<E: Error>(text: &str) -> Result<Self, E> {
        match text {
            "internal" => Ok(Self::Internal),
            other => Err(E::invalid_value(Unexpected::Str(other), &Self::EXPECTED)),
        }
    }

    fn from_table<'de, A: MapAccess<'de>>(table: A) -> Result<Self, A::Error> {
        RawListenerTls::deserialize(MapAccessDeserializer::new(table)).map(|tls| Self::Table(Box::new(tls)))
    }
}

impl JsonSchema for RawListenerTlsForm {
    fn schema_name() -> Cow<'static, str> {
        "ListenerTls".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Self::schema(generator)
    }
}

/// TLS for the clients of a listener.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawListenerTls {
    /// Certificates, at least one. A client gets a certificate for the server name in its handshake, or else
    /// a certificate with a matching wildcard. If there is no such certificate, the client gets the first
    /// certificate in the list.
    pub(in crate::config) certificates: Spanned<Vec<Spanned<RawListenerCertificate>>>,
    /// Lowest accepted TLS version: `1.2` or `1.3`. Default: `1.2`.
    #[serde(default)]
    pub(in crate::config) min_version: RawTlsVersion,
    /// `true` fetches an OCSP response for each certificate, and sends the response to clients. The
    /// certificate contains the URL of its OCSP server. Default: false.
    #[serde(default)]
    pub(in crate::config) ocsp_stapling: bool,
    /// `true` lets clients resume TLS sessions with session tickets. The ticket keys change every six
    /// hours. Default: true.
    pub(in crate::config) tickets: Option<bool>,
    /// Maximum number of TLS sessions in the memory of the server, 0 to 10000000. The server stores a session
    /// only if the client gets no session ticket for it: because the client does not support tickets, or
    /// because `tickets` is `false`. With 0, the server stores no sessions. Default: 10000.
    pub(in crate::config) sessions_max: Option<Spanned<usize>>,
    /// Rules for client certificates. Default: none. Thruway then does not ask clients for a certificate.
    pub(in crate::config) client_certificates: Option<RawClientCertificates>,
    /// Value of the response header `Strict-Transport-Security`, such as `max-age=31536000`. This header
    /// makes browsers use only HTTPS. Risk: browsers refuse plain HTTP for the time in `max-age`, even
    /// after you remove the key. Default: none.
    pub(in crate::config) strict_transport_security: Option<Spanned<String>>,
}

/// A certificate of a listener: `chain` and `key`, `acme`, or `internal`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawListenerCertificate {
    /// PEM file with the certificate and then its intermediate certificates. When one of the certificate
    /// files of the config changes, Thruway reads all of them again.
    pub(in crate::config) chain: Option<PathBuf>,
    /// PEM file with the private key.
    pub(in crate::config) key: Option<PathBuf>,
    /// File with an OCSP response in DER. Thruway sends the response to clients while the response is
    /// valid. `chain` must contain the certificate of the issuer. Default: none.
    pub(in crate::config) ocsp: Option<PathBuf>,
    /// Host names of an ACME certificate. The server in `[acme]` issues and renews this certificate. Use
    /// this key instead of `chain` and `key`.
    pub(in crate::config) acme: Option<Spanned<Vec<Spanned<String>>>>,
    /// Host names and IP addresses of a certificate for development. The local CA of Thruway issues and renews this
    /// certificate. Use this key instead of `chain` and `key`.
    pub(in crate::config) internal: Option<Spanned<Vec<Spanned<String>>>>,
}

/// A certificate and its key. Thruway reads both files again when one of them changes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawCertificate {
    /// PEM file with the certificate and then its intermediate certificates.
    pub(in crate::config) chain: PathBuf,
    /// PEM file with the private key.
    pub(in crate::config) key: PathBuf,
    /// File with an OCSP response in DER. Default: none.
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

/// Rules for client certificates.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawClientCertificates {
    /// PEM files with root certificates. Thruway accepts only client certificates that these roots have
    /// signed, directly or through intermediate certificates.
    pub(in crate::config) roots: Spanned<Vec<PathBuf>>,
    /// `true` refuses clients without a certificate. Risk of `false`: only routes with a
    /// `client_certificate` policy require a client certificate. Default: true.
    pub(in crate::config) required: Option<bool>,
}

/// TLS to the servers of an upstream.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawUpstreamTls {
    /// PEM files with the root certificates that Thruway trusts when it verifies the certificates of servers.
    /// Default: the roots of the system.
    pub(in crate::config) roots: Option<Spanned<Vec<PathBuf>>>,
    /// Name that the certificate of each server must contain. Default: the host of the server in `servers`.
    pub(in crate::config) server_name: Option<Spanned<String>>,
    /// Client certificate that Thruway sends to servers that request one. Default: none.
    pub(in crate::config) certificate: Option<RawCertificate>,
    /// With `true`, Thruway verifies the certificates of the servers. Risk of `false`: anyone on the network
    /// path can read and change all traffic. Default: true.
    pub(in crate::config) verify: Option<bool>,
    /// Lowest accepted TLS version: `1.2` or `1.3`. Default: `1.2`.
    #[serde(default)]
    pub(in crate::config) min_version: RawTlsVersion,
}

/// The value of `tls` of an upstream: `false`, or the settings.
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

/// Returns the protocol names for ALPN (RFC 7301, RFC 9113 §3.1).
fn alpn(http2: Http2) -> Vec<Vec<u8>> {
    let names: &[&[u8]] = match http2 {
        Http2::No => &[b"http/1.1"],
        Http2::Too => &[b"h2", b"http/1.1"],
        Http2::Only => &[b"h2"],
    };
    names.iter().map(|name| name.to_vec()).collect()
}

/// Resolves the value of `tls` of the listener at `address`.
pub(in crate::config) fn resolve_listener_tls(
    resolver: &mut Resolver<'_>,
    raw: Spanned<TextOrTable<RawListenerTlsForm>>,
    http2: Http2,
    address: &str,
) -> Option<ListenerTlsConfig> {
    let span = raw.span();
    match raw.into_inner().0 {
        RawListenerTlsForm::Table(raw) => resolve_tls_table(resolver, *raw, &span, http2),
        RawListenerTlsForm::Internal => {
            let mut names: Vec<_> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
            names.extend(specific_ip(address));
            names.extend(resolver.route_hosts.iter().cloned());
            let mut awaited = Awaited::default();
            let files = resolve_internal(resolver, &span, names, &mut awaited)?;
            let config = TlsAcceptorConfig {
                awaited: awaited.paths,
                awaited_names: awaited.names,
                shared_tickets: resolver.shares_secrets.then(|| ticket_keeper().keys()),
                alpn: alpn(http2),
                ..TlsAcceptorConfig::new(vec![files])
            };
            let acceptor = TlsAcceptor::load(config);
            let acceptor = acceptor.map_err(|error| refuse_certificate(resolver, &span, &error)).ok()?;
            let (acceptor, internal) = (Arc::new(acceptor), awaited.internal);
            Some(ListenerTlsConfig {
                acceptor,
                strict_transport_security: None,
                ocsp_stapling: false,
                internal,
                span,
            })
        }
    }
}

/// Returns the IP address of a listener, unless the listener accepts connections to all addresses.
fn specific_ip(address: &str) -> Option<String> {
    let (ip, _) = address.rsplit_once(':')?;
    let ip: IpAddr = ip.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
    (!ip.is_unspecified()).then(|| ip.to_string())
}

fn resolve_tls_table(
    resolver: &mut Resolver<'_>,
    raw: RawListenerTls,
    span: &Span,
    http2: Http2,
) -> Option<ListenerTlsConfig> {
    resolver.refuse_empty(&raw.certificates, "TLS needs a certificate", CERTIFICATE_HINT);
    let certificates_span = raw.certificates.span();
    let mut awaited = Awaited::default();
    let certificates = raw.certificates.into_inner().into_iter();
    let certificates: Vec<_> =
        certificates.filter_map(|raw| resolve_listener_certificate(resolver, raw, &mut awaited)).collect();
    if certificates.is_empty() {
        return None;
    }
    let defaults = TlsAcceptorConfig::new(certificates);
    let client_authentication = resolve_client_authentication(resolver, raw.client_certificates);
    check_validation(resolver, &client_authentication, awaited.is_ordered, span);
    let challenges = validates_by(resolver, ChallengeKind::TlsAlpn01).then(|| challenges().tls_alpn());
    let config = TlsAcceptorConfig {
        awaited: awaited.paths,
        awaited_names: awaited.names,
        challenges,
        min_version: version(raw.min_version),
        tickets: raw.tickets.unwrap_or(defaults.tickets),
        shared_tickets: resolver.shares_secrets.then(|| ticket_keeper().keys()),
        sessions_max: resolver.or(raw.sessions_max, defaults.sessions_max, 0..=10_000_000),
        client_authentication,
        alpn: alpn(http2),
        ..defaults
    };
    let strict = raw.strict_transport_security;
    if let Some(text) = strict.as_ref().filter(|text| !is_strict(text.get_ref())) {
        resolver.refuse_with(text, "this is not a valid value of `Strict-Transport-Security`", STRICT_HINT);
    }
    let acceptor = TlsAcceptor::load(config);
    let acceptor = acceptor.map_err(|error| refuse_certificate(resolver, &certificates_span, &error)).ok()?;
    let strict_transport_security = strict.map(Spanned::into_inner);
    let (acceptor, ocsp_stapling) = (Arc::new(acceptor), raw.ocsp_stapling);
    let (internal, span) = (awaited.internal, span.clone());
    Some(ListenerTlsConfig { acceptor, strict_transport_security, ocsp_stapling, internal, span })
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

/// Returns a connector that trusts the root certificates in these files.
pub(in crate::config) fn resolve_connector(
    resolver: &mut Resolver<'_>,
    roots: Spanned<Vec<PathBuf>>,
) -> Option<Arc<TlsConnector>> {
    let span = roots.span();
    let config = TlsConnectorConfig {
        roots: resolve_roots(resolver, Some(roots)),
        alpn: alpn(Http2::No),
        ..TlsConnectorConfig::default()
    };
    let connector = TlsConnector::load(config);
    connector.map_err(|error| refuse_certificate(resolver, &span, &error)).ok().map(Arc::new)
}

pub(in crate::config) fn resolve_server_name(
    resolver: &mut Resolver<'_>,
    text: &Spanned<String>,
) -> Option<TlsServerName> {
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
        "`roots` needs at least one file",
        "list the certificates of the authorities that issue client certificates",
    );
    let files = resolve_all_relative_to_config(resolver, &roots);
    match required {
        _ if files.is_empty() => ClientAuthentication::Off,
        Some(false) => ClientAuthentication::Optional(files),
        Some(true) | None => ClientAuthentication::Required(files),
    }
}

/// Certificates that Thruway issues or orders, so their files may be missing.
#[derive(Default)]
struct Awaited {
    paths: Vec<PathBuf>,
    /// Host names of the certificates, in lower case.
    names: Vec<String>,
    /// `true` if an ACME server issues one of the certificates.
    is_ordered: bool,
    /// Certificates of the local CA.
    internal: Vec<LocalCertificate>,
}

/// Returns the files of a listener's certificate. If Thruway orders or issues the certificate, also adds it to
/// `awaited`.
fn resolve_listener_certificate(
    resolver: &mut Resolver<'_>,
    raw: Spanned<RawListenerCertificate>,
    awaited: &mut Awaited,
) -> Option<CertificateFiles> {
    let span = raw.span();
    match raw.into_inner() {
        RawListenerCertificate { chain: Some(chain), key: Some(key), ocsp, acme: None, internal: None } => {
            Some(resolve_certificate(resolver, RawCertificate { chain, key, ocsp }))
        }
        RawListenerCertificate { chain: None, key: None, ocsp: None, acme: Some(names), internal: None } => {
            let files = resolve_ordered(resolver, &names)?;
            awaited.is_ordered = true;
            awaited.paths.push(files.chain.clone());
            awaited.names.extend(names.get_ref().iter().map(|name| name.get_ref().to_ascii_lowercase()));
            Some(files)
        }
        RawListenerCertificate { chain: None, key: None, ocsp: None, acme: None, internal: Some(names) } => {
            resolver.refuse_empty(&names, "the certificate has no names", INTERNAL_HINT);
            for name in names.get_ref().iter().filter(|name| !is_certificate_name(name.get_ref())) {
                let message = format!("`{}` is neither a host name nor an IP address", name.get_ref());
                resolver.refuse_with(name, message, INTERNAL_HINT);
            }
            let names = names.into_inner().into_iter().map(Spanned::into_inner).collect();
            resolve_internal(resolver, &span, names, awaited)
        }
        _ => {
            let message = "a certificate has either `chain` and `key`, or `acme`, or `internal`";
            resolver.failures.push(resolver.source.failure(span, message).with_hint(CERTIFICATE_HINT));
            None
        }
    }
}

/// Returns the files of a certificate that the local CA issues for `names`.
fn resolve_internal(
    resolver: &mut Resolver<'_>,
    span: &Span,
    names: Vec<String>,
    awaited: &mut Awaited,
) -> Option<CertificateFiles> {
    let Some(directory) = local_ca_directory() else {
        let message = "the local CA has no directory, because neither `XDG_DATA_HOME` nor `HOME` is set";
        let failure = resolver.source.failure(span.clone(), message);
        resolver.failures.push(failure.with_hint("set one of these environment variables"));
        return None;
    };
    let certificate = LocalCertificate::new(directory, names.into_iter().map(in_certificate));
    let files = certificate.files();
    awaited.paths.push(files.chain.clone());
    awaited.names.extend(certificate.names().iter().cloned());
    awaited.internal.push(certificate);
    Some(files)
}

/// Returns `host` as certificates contain it: IPv6 addresses without brackets, and names without the dot at the end.
fn in_certificate(host: String) -> String {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match address.and_then(|address| address.parse::<IpAddr>().ok()) {
        Some(address) => address.to_string(),
        None => host.strip_suffix('.').map(str::to_owned).unwrap_or(host),
    }
}

/// Returns the directory of the local CA of this user, by the XDG Base Directory Specification.
fn local_ca_directory() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    Some(data?.join("thruway/local-ca"))
}

/// Returns `true` if `name` is an IP address, a host name, or a wildcard such as `*.example.com`.
fn is_certificate_name(name: &str) -> bool {
    TlsServerName::new(name.strip_prefix("*.").unwrap_or(name)).is_ok()
}

pub(in crate::config) fn resolve_certificate(
    resolver: &Resolver<'_>,
    raw: RawCertificate,
) -> CertificateFiles {
    CertificateFiles {
        chain: resolver.relative_to_config(&raw.chain),
        key: resolver.relative_to_config(&raw.key),
        ocsp: raw.ocsp.map(|path| resolver.relative_to_config(&path)),
    }
}

const fn version(raw: RawTlsVersion) -> TlsVersion {
    match raw {
        RawTlsVersion::Tls12 => TlsVersion::Tls12,
        RawTlsVersion::Tls13 => TlsVersion::Tls13,
    }
}

/// Returns `true` if `text` is a valid value of `Strict-Transport-Security`. The value must contain
/// `max-age` (RFC 6797 §6.1).
fn is_strict(text: &str) -> bool {
    let age = text.split(';').find_map(|directive| directive.trim().strip_prefix("max-age="));
    let is_age = age.is_some_and(|age| !age.is_empty() && age.bytes().all(|byte| byte.is_ascii_digit()));
    is_age && FieldValue::new(text.as_bytes()).is_ok()
}

const CERTIFICATE_HINT: &str = "write `certificates = [{ chain = \"FILE\", key = \"FILE\" }]`, or `{ acme = [\"NAME\"] }` for an ACME certificate";
const INTERNAL_HINT: &str = "write `{ internal = [\"localhost\", \"127.0.0.1\"] }`";
const STRICT_HINT: &str = "write `max-age=31536000`, optionally with `; includeSubDomains`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_written_as_in_certificates() {
        for (host, name) in [
            ("[2001:DB8::1]", "2001:db8::1"),
            ("127.0.0.1", "127.0.0.1"),
            ("a.example.", "a.example"),
            ("*.a.example", "*.a.example"),
            ("[v1.a]", "[v1.a]"),
        ] {
            assert_eq!(in_certificate(host.to_owned()), name);
        }
    }
}
