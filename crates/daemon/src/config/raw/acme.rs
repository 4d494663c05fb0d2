//! Certificates that are ordered, as the file says it.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::spanned::Spanned;

/// The ACME server (RFC 8555) that certificates are ordered from which listeners want to be ordered.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawAcme {
    /// Whether you agree to its terms of service. Default false, and then nothing is ordered.
    #[serde(default)]
    pub(in super::super) terms_of_service_agreed: bool,
    /// The URL of its directory. Default that of Let's Encrypt.
    pub(in super::super) directory: Option<Spanned<String>>,
    /// How it finds out that names lead here: `tls-alpn-01`, at port 443, or `http-01`, at port 80. Default `tls-alpn-01`.
    #[serde(default)]
    pub(in super::super) challenge: RawChallenge,
    /// Where its operators reach you, as `mailto:admin@example.com`: said when the account is made. Default nothing.
    #[serde(default)]
    pub(in super::super) contacts: Vec<Spanned<String>>,
    /// The directory for account, keys and certificates. Relative to the directory of the config. Default `acme`.
    pub(in super::super) store: Option<PathBuf>,
    /// Files with the certificates of those who are trusted to say who the server is. Default those whom this system trusts.
    pub(in super::super) roots: Option<Spanned<Vec<PathBuf>>>,
    /// An account that you have with its operators, for those who ask for one. Default none.
    pub(in super::super) external_account: Option<RawExternalAccount>,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
pub(in super::super) enum RawChallenge {
    #[serde(rename = "http-01")]
    Http01,
    #[default]
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
}

/// An account elsewhere (RFC 8555 §7.3.4).
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RawExternalAccount {
    /// What its key is called there.
    pub(in super::super) key_id: String,
    /// The key, in base64url.
    #[schemars(extend("writeOnly" = true))]
    pub(in super::super) key: Spanned<String>,
}
