//! Policies about certificates of clients.

use std::collections::BTreeMap;

use thruway_gateway::{CertificateMatch, ClientCertificateConfig};
use thruway_net::tls::{ClientAuthentication, normal_subject};
use thruway_server::CertificateName;

use super::super::raw::{RawCertificates, RawClientCertificate, RawPolicy};
use super::super::spanned::Spanned;
use super::super::{ListenerConfig, Route, Span};
use crate::config::resolver::Resolver;

/// The policies that ask clients for certificates, and where they stand.
pub(super) fn asking_for_certificates(raw: &BTreeMap<String, Spanned<RawPolicy>>) -> Vec<(String, Span)> {
    let asking = raw.iter().filter(|(_, policy)| policy.get_ref().client_certificate.is_some());
    asking.map(|(name, policy)| (name.clone(), policy.span())).collect()
}

pub(super) fn resolve_client_certificate(
    resolver: &mut Resolver<'_>,
    raw: RawClientCertificate,
    span: &Span,
) -> ClientCertificateConfig {
    let RawClientCertificate::OneOf(raw) = raw else { return ClientCertificateConfig::default() };
    let RawCertificates { subjects, dns_names, uris, emails, fingerprints } = *raw;
    let lists = [&subjects, &dns_names, &uris, &emails, &fingerprints];
    if lists.iter().all(|list| list.is_none()) {
        refuse_with_hint(resolver, span, "nothing tells the certificates that pass from others", ANY_HINT);
    }
    for list in lists.into_iter().flatten() {
        resolver.refuse_empty(list, "a list of certificates has at least one", "leave it out");
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

/// Puts what `read` makes of each text among those that are `allowed`.
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
            let message = format!("no certificate has `{}`", text.get_ref().escape_debug());
            resolver.refuse_with(&text, message, hint);
        }
    }
}

/// Refuses policies of routes that nobody could pass, because no listener asks for what they want to see.
pub(super) fn check_certificates(
    resolver: &mut Resolver<'_>,
    asking: Vec<(String, Span)>,
    listeners: &[ListenerConfig],
    routes: &[Route],
) {
    let asks = |listener: &ListenerConfig| {
        let tls = listener.tls.as_ref();
        tls.is_some_and(|tls| tls.acceptor.config().client_authentication != ClientAuthentication::Off)
    };
    if listeners.iter().any(asks) {
        return;
    }
    for (name, span) in asking {
        if routes.iter().any(|route| route.policies.contains(&name)) {
            let message = "no listener asks clients for a certificate, so that nobody passes";
            refuse_with_hint(resolver, &span, message, LISTENER_HINT);
        }
    }
}

fn refuse_with_hint(resolver: &mut Resolver<'_>, span: &Span, message: &str, hint: &str) {
    resolver.failures.push(resolver.source.failure(span.clone(), message).with_hint(hint));
}

/// Names in certificates are of octets that can be seen.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_graphic())
}

const ANY_HINT: &str = "`client_certificate = true` lets all pass that the listener trusts";
const SUBJECT_HINT: &str =
    "write it as access logs have it, the common name first and without spaces between: `CN=ada,O=Example`";
const NAME_HINT: &str =
    "write it as it stands in the certificate (`openssl x509 -ext subjectAltName -noout -in FILE`)";
const FINGERPRINT_HINT: &str =
    "`openssl x509 -fingerprint -sha256 -noout -in FILE` writes the digits: put `sha256:` before them";
const LISTENER_HINT: &str =
    "a listener asks with `tls.client_certificates = { roots = [\"FILE\"], required = false }`";
