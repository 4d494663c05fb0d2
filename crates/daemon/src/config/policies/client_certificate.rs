//! The policy `client_certificate`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use thruway_gateway::{CertificateMatch, ClientCertificateConfig};
use thruway_net::tls::{ClientAuthentication, normal_subject};
use thruway_server::CertificateName;

use crate::config::resolver::Resolver;
use crate::config::values::{Span, Spanned};
use crate::config::{ListenerConfig, Route};

/// Any trusted certificate, or certificates that match one of the conditions.
pub(in crate::config) enum RawClientCertificate {
    Any,
    OneOf(Box<RawCertificates>),
}

/// Accepted client certificates. The policy accepts a certificate if it matches at least one value in one of
/// these lists.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct RawCertificates {
    /// Accepted subjects, written as in access logs: `CN=ada,O=Example`. Default: none.
    pub(in crate::config) subjects: Option<Spanned<Vec<Spanned<String>>>>,
    /// Accepted DNS names in the subject alternative names. Default: none.
    pub(in crate::config) dns_names: Option<Spanned<Vec<Spanned<String>>>>,
    /// Accepted URIs in the subject alternative names: `spiffe://example/service`. Default: none.
    pub(in crate::config) uris: Option<Spanned<Vec<Spanned<String>>>>,
    /// Accepted mail addresses in the subject alternative names. Default: none.
    pub(in crate::config) emails: Option<Spanned<Vec<Spanned<String>>>>,
    /// Digests of accepted certificates: `sha256:` and 64 hexadecimal digits, with or without a colon after
    /// each pair of digits. Default: none.
    pub(in crate::config) fingerprints: Option<Spanned<Vec<Spanned<String>>>>,
}

impl<'de> Deserialize<'de> for RawClientCertificate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = RawClientCertificate;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "`true` or a table with `subjects`, `dns_names`, `uris`, `emails` or `fingerprints`",
                )
            }

            fn visit_bool<E: Error>(self, is_asked_for: bool) -> Result<RawClientCertificate, E> {
                let nothing = E::invalid_value(Unexpected::Bool(false), &self);
                if is_asked_for { Ok(RawClientCertificate::Any) } else { Err(nothing) }
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<RawClientCertificate, A::Error> {
                let table = RawCertificates::deserialize(MapAccessDeserializer::new(table))?;
                Ok(RawClientCertificate::OneOf(Box::new(table)))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for RawClientCertificate {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ClientCertificate".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": true }, generator.subschema_for::<RawCertificates>()] })
    }
}

pub(in crate::config) fn resolve_client_certificate(
    resolver: &mut Resolver<'_>,
    raw: RawClientCertificate,
    span: &Span,
) -> ClientCertificateConfig {
    let RawClientCertificate::OneOf(raw) = raw else { return ClientCertificateConfig::default() };
    let RawCertificates { subjects, dns_names, uris, emails, fingerprints } = *raw;
    let lists = [&subjects, &dns_names, &uris, &emails, &fingerprints];
    if lists.iter().all(|list| list.is_none()) {
        refuse_with_hint(resolver, span, "the policy has no condition for certificates", ANY_HINT);
    }
    for list in lists.into_iter().flatten() {
        resolver.refuse_empty(list, "the list is empty", "remove the key");
    }
    let mut allow = Vec::new();
    resolve_each(resolver, subjects, &mut allow, SUBJECT_HINT, |text| {
        normal_subject(text).map(CertificateMatch::Subject)
    });
    let name = |kind: fn(String) -> CertificateName| {
        move |text: &str| is_name(text).then(|| CertificateMatch::Name(kind(text.to_owned())))
    };
    resolve_each(resolver, dns_names, &mut allow, NAME_HINT, name(CertificateName::Dns));
    resolve_each(resolver, uris, &mut allow, NAME_HINT, name(CertificateName::Uri));
    resolve_each(resolver, emails, &mut allow, NAME_HINT, |text| {
        name(CertificateName::Email)(text).filter(|_| text.contains('@'))
    });
    resolve_each(resolver, fingerprints, &mut allow, FINGERPRINT_HINT, |text| {
        text.parse().ok().map(CertificateMatch::Fingerprint)
    });
    ClientCertificateConfig { allow: Some(allow) }
}

/// Parses each text with `read` and adds the results to `allowed`.
fn resolve_each(
    resolver: &mut Resolver<'_>,
    raw: Option<Spanned<Vec<Spanned<String>>>>,
    allowed: &mut Vec<CertificateMatch>,
    hint: &str,
    read: impl Fn(&str) -> Option<CertificateMatch>,
) {
    for text in raw.map(Spanned::into_inner).into_iter().flatten() {
        if let Some(read) = read(text.get_ref()) {
            allowed.push(read);
        } else {
            let message = format!("no certificate can contain `{}`", text.get_ref().escape_debug());
            resolver.refuse_with(&text, message, hint);
        }
    }
}

/// Refuses policies that require a client certificate if no listener asks for client certificates. No client
/// could meet such a policy.
pub(in crate::config) fn check_certificates(
    resolver: &mut Resolver<'_>,
    asking: Vec<(String, Span)>,
    listeners: &[ListenerConfig],
    routes: &[Route],
) {
    let asks = |listener: &ListenerConfig| {
        let tls = listener.tls.as_ref();
        tls.is_some_and(|tls| tls.acceptor.config().client_authentication != ClientAuthentication::Off)
    };
    let serves = |listener: &ListenerConfig, route: &Route| {
        listener.has_routes() && route.matching.is_for_listener(listener.name.as_deref())
    };
    let can_pass = |route: &Route| listeners.iter().any(|listener| asks(listener) && serves(listener, route));
    for (name, span) in asking {
        let mut guarded = routes.iter().filter(|route| route.policies.contains(&name)).peekable();
        if guarded.peek().is_some() && !guarded.any(can_pass) {
            let message = "no listener asks clients for a certificate, so this policy refuses every client";
            refuse_with_hint(resolver, &span, message, LISTENER_HINT);
        }
    }
}

fn refuse_with_hint(resolver: &mut Resolver<'_>, span: &Span, message: &str, hint: &str) {
    resolver.failures.push(resolver.source.failure(span.clone(), message).with_hint(hint));
}

/// Returns `true` if a certificate can contain the name, that is, if the name has only visible ASCII
/// characters.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

const ANY_HINT: &str = "`client_certificate = true` accepts all certificates that the listener trusts";
const SUBJECT_HINT: &str = "write the subject as in access logs, with the common name first and no spaces after commas: `CN=ada,O=Example`";
const NAME_HINT: &str =
    "write the name as in the certificate (`openssl x509 -ext subjectAltName -noout -in FILE`)";
const FINGERPRINT_HINT: &str =
    "`openssl x509 -fingerprint -sha256 -noout -in FILE` prints the digits: write `sha256:` before them";
const LISTENER_HINT: &str = "ask for certificates in a listener: `tls.client_certificates = { roots = [\"FILE\"], required = false }`";
