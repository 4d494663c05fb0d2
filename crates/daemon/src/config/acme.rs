//! The table `acme`: the ACME server that issues certificates for listeners.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::Deserialize;
use thruway_certificates::acme::{AcmeConfig, ChallengeKind, ExternalAccount, OrderedNames, Pace, Wanted};
use thruway_client::Url;
use thruway_net::tls::{
    CertificateFiles, ClientAuthentication, TlsConnector, TlsConnectorConfig, TlsServerName,
};

use super::resolver::{Resolver, refuse_certificate, resolve_roots};
use super::values::Spanned;
use super::{ListenerConfig, Span};

/// The ACME server (RFC 8555) that issues certificates for listeners.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAcme {
    /// `true` means that you accept the terms of service of the ACME server. Thruway refuses a config with
    /// `[acme]` without this acceptance. Default: false.
    #[serde(default)]
    pub(super) terms_of_service_agreed: bool,
    /// HTTPS URL of the ACME server's directory. Default: the directory of Let's Encrypt.
    pub(super) directory: Option<Spanned<String>>,
    /// Method by which the ACME server checks that you control a name: `tls-alpn-01` (the ACME server
    /// connects to port 443) or `http-01` (the ACME server connects to port 80). Default: `tls-alpn-01`.
    #[serde(default)]
    pub(super) challenge: RawChallenge,
    /// Addresses at which the operator of the ACME server can contact you, as URLs such as
    /// `mailto:admin@example.com`. Thruway sends these URLs when it creates the account. Default: none.
    #[serde(default)]
    pub(super) contacts: Vec<Spanned<String>>,
    /// Directory for the account, keys and certificates. Thruway creates the directory if it is missing. A
    /// relative path starts at the directory of the config. Each process needs its own directory. Default:
    /// `acme`.
    pub(super) store: Option<PathBuf>,
    /// PEM files with the root certificates that Thruway trusts when it connects to the ACME server. Default:
    /// the roots of the system.
    pub(super) roots: Option<Spanned<Vec<PathBuf>>>,
    /// An account that the operator of the ACME server gave you, if the server requires such an account.
    /// Default: none.
    pub(super) external_account: Option<RawExternalAccount>,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
pub(super) enum RawChallenge {
    #[serde(rename = "http-01")]
    Http01,
    #[default]
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
}

/// An external account binding (RFC 8555 §7.3.4).
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RawExternalAccount {
    /// Identifier of `key`. The operator of the ACME server gave you this identifier.
    pub(super) key_id: String,
    /// Secret key of the account, in base64url. Thruway hides the key in error messages.
    #[schemars(extend("writeOnly" = true))]
    pub(super) key: Spanned<String>,
}

pub(super) fn resolve_acme(resolver: &mut Resolver<'_>, raw: Spanned<RawAcme>) -> Option<Wanted> {
    let span = raw.span();
    let raw = raw.into_inner();
    if !raw.terms_of_service_agreed {
        let message = "the terms of service of the ACME server are not accepted";
        resolver.failures.push(resolver.source.failure(span.clone(), message).with_hint(TERMS_HINT));
    }
    let directory =
        raw.directory.map_or_else(|| LETS_ENCRYPT.to_owned(), |url| resolve_acme_directory(resolver, url));
    for contact in raw.contacts.iter().filter(|contact| !contact.get_ref().contains(':')) {
        resolver.refuse_with(contact, "this is not a URL", "write `mailto:` and the address");
    }
    let roots = resolve_roots(resolver, raw.roots);
    let connector = TlsConnector::load(TlsConnectorConfig { roots, ..TlsConnectorConfig::default() });
    let connector = connector.map_err(|error| refuse_certificate(resolver, &span, &error)).ok()?;
    let store = raw.store.unwrap_or_else(|| "acme".into());
    let config = AcmeConfig {
        directory,
        connector: Arc::new(connector),
        terms_of_service_agreed: raw.terms_of_service_agreed,
        contacts: raw.contacts.into_iter().map(Spanned::into_inner).collect(),
        external_account: raw.external_account.map(|account| resolve_external_account(resolver, account)),
        store: resolver.relative_to_config(&store),
        shared: None,
        challenge: match raw.challenge {
            RawChallenge::Http01 => ChallengeKind::Http01,
            RawChallenge::TlsAlpn01 => ChallengeKind::TlsAlpn01,
        },
        pace: Pace::default(),
    };
    Some(Wanted { config, certificates: Vec::new() })
}

/// Refuses URLs without HTTPS. Without TLS, an attacker on the network path could order certificates for
/// the operator's names (RFC 8555 §6.1).
fn resolve_acme_directory(resolver: &mut Resolver<'_>, url: Spanned<String>) -> String {
    let is_directory =
        Url::parse(url.get_ref()).is_ok_and(|url| url.is_https() && TlsServerName::new(url.host()).is_ok());
    if !is_directory {
        let hint = "write `https://`, the name of the server and a path";
        resolver.refuse_with(&url, "this is not the URL of an ACME directory", hint);
    }
    url.into_inner()
}

fn resolve_external_account(resolver: &mut Resolver<'_>, raw: RawExternalAccount) -> ExternalAccount {
    // Accepts the key with or without padding.
    let key = URL_SAFE_NO_PAD.decode(raw.key.get_ref().trim_end_matches('='));
    let key = key.ok().filter(|key| !key.is_empty());
    if key.is_none() {
        resolver.refuse_with(
            &raw.key,
            "the key is not valid base64url",
            "copy the key from the ACME provider without changes",
        );
    }
    ExternalAccount { key_id: raw.key_id, key: key.unwrap_or_default() }
}

/// Adds a certificate for `names` to the ACME orders. Returns the paths of the files in which the certificate
/// is stored.
pub(super) fn resolve_ordered(
    resolver: &mut Resolver<'_>,
    names: &Spanned<Vec<Spanned<String>>>,
) -> Option<CertificateFiles> {
    let ordered = OrderedNames::new(names.get_ref().iter().map(|name| name.get_ref().as_str()));
    let ordered = match ordered {
        Ok(ordered) => ordered,
        Err(error) => {
            resolver.refuse_with(names, &error, error.hint());
            return None;
        }
    };
    let Some(wanted) = &mut resolver.acme else {
        resolver.refuse_with(names, "`acme` in a certificate requires the section `[acme]`", ACME_HINT);
        return None;
    };
    let files = wanted.config.files(&ordered);
    if wanted.certificates.contains(&ordered) {
        return Some(files);
    }
    if wanted.certificates.iter().any(|other| other.first() == ordered.first()) {
        let message = format!("another ACME certificate has the same first name `{}`", ordered.first());
        resolver.refuse_with(
            names,
            message,
            "put another name first, because the first name identifies a certificate",
        );
        return None;
    }
    wanted.certificates.push(ordered);
    Some(files)
}

/// If the config has ACME certificates and uses `http-01`, checks that a listener can respond to the
/// challenges.
pub(super) fn check_challenge(
    resolver: &mut Resolver<'_>,
    span: Option<&Span>,
    listeners: &[ListenerConfig],
) {
    let (Some(span), Some(wanted)) = (span, &resolver.acme) else { return };
    if wanted.config.challenge != ChallengeKind::Http01 || wanted.certificates.is_empty() {
        return;
    }
    if !listeners.iter().any(|listener| listener.answers_challenges) {
        let message = "`http-01` requires a listener without TLS, and the config has no such listener";
        resolver.failures.push(resolver.source.failure(span.clone(), message).with_hint(PLAIN_HINT));
    }
}

/// Returns `true` if the config has an ACME server that uses `challenge`.
pub(super) fn validates_by(resolver: &Resolver<'_>, challenge: ChallengeKind) -> bool {
    resolver.acme.as_ref().is_some_and(|wanted| wanted.config.challenge == challenge)
}

/// Refuses a listener that requires client certificates if it must respond to `tls-alpn-01` challenges. An
/// ACME server has no client certificate, so the challenges would fail.
pub(super) fn check_validation(
    resolver: &mut Resolver<'_>,
    clients: &ClientAuthentication,
    is_ordered: bool,
    span: &Span,
) {
    let are_required = matches!(clients, ClientAuthentication::Required(_));
    if are_required && is_ordered && validates_by(resolver, ChallengeKind::TlsAlpn01) {
        let message = "the listener requires client certificates, but ACME servers have no client certificate for `tls-alpn-01`";
        resolver.failures.push(resolver.source.failure(span.clone(), message).with_hint(REQUIRED_HINT));
    }
}

const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

const TERMS_HINT: &str = "read the terms of service, and set `terms_of_service_agreed = true`";
const ACME_HINT: &str = "add `[acme]` and below it `terms_of_service_agreed = true`";
const PLAIN_HINT: &str = "add a listener for port 80 (`redirect_to_https = 443` is allowed), or write `challenge = \"tls-alpn-01\"`";
const REQUIRED_HINT: &str = "write `challenge = \"http-01\"`, or `required = false`";
