//! Why there is no new certificate.

use std::fmt;
use std::io;
use std::path::PathBuf;

use instant_acme::{Error, Problem};
use thruway_net::tls::CertificateError;

/// An order failed. The existing certificate stays in use.
#[derive(Debug)]
#[non_exhaustive]
pub enum AcmeError {
    /// The stored account is invalid.
    AccountUnreadable(PathBuf),
    /// The server did not find that the name leads here: it, and what the server says.
    AuthorizationInvalid(String, String),
    /// The issued certificate is invalid.
    CertificateUnusable(CertificateError),
    /// The issued certificate has other names.
    CertificateForOtherNames,
    /// The issued certificate has expired, or is about to, so that it would be renewed at once.
    CertificateTooOld,
    /// The server validates the name in other ways only.
    ChallengeNotOffered(String),
    /// The challenge of the server is not supported.
    ChallengeUnusable,
    /// No key could be made.
    KeyNotMade,
    /// Something has panicked, which is a defect.
    Panicked,
    /// The server has refused: the type of its problem (RFC 8555 §6.7), and what it says.
    Refused(String, String),
    /// The server is unreachable, or its response is an error or invalid.
    Server(String),
    /// A stored file cannot be written or read.
    Store(PathBuf, io::ErrorKind),
    /// Another process orders certificates for the same directory.
    StoreInUse(PathBuf),
    /// The terms of service were not agreed to.
    TermsNotAgreed,
    /// It took too long.
    TimedOut,
    /// The server wants names to be validated that were not ordered.
    UnknownName,
}

impl AcmeError {
    /// Returns `true` if the server does not know the account.
    pub(super) fn is_account_unknown(&self) -> bool {
        matches!(self, Self::Refused(kind, _) if kind == "urn:ietf:params:acme:error:accountDoesNotExist")
    }

    pub(super) fn of_problem(problem: &Problem) -> Self {
        let kind = problem.r#type.as_deref().map(quoted).unwrap_or_default();
        Self::Refused(kind, detail_of(problem))
    }
}

/// Formats a problem document with its subproblems.
pub(super) fn detail_of(problem: &Problem) -> String {
    let within = problem.subproblems.iter().map(|within| within.detail.as_deref());
    let details: Vec<_> = std::iter::once(problem.detail.as_deref()).chain(within).flatten().collect();
    quoted(&details.join("; "))
}

/// Text of others, as far as it is good for a line of a log.
fn quoted(text: &str) -> String {
    let mut quoted: String = text.chars().take(TEXT_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(TEXT_CHARS_MAX).is_some() {
        quoted.push('…');
    }
    quoted
}

impl From<Error> for AcmeError {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(problem) => Self::of_problem(&problem),
            Error::Timeout(_) => Self::TimedOut,
            error => Self::Server(quoted(&error.to_string())),
        }
    }
}

impl fmt::Display for AcmeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AccountUnreadable(path) => {
                write!(f, "`{}` is no account: remove it to have another one made", path.display())
            }
            Self::AuthorizationInvalid(name, detail) => {
                write!(f, "the ACME server has not found that `{name}` leads here: {detail}")
            }
            Self::CertificateUnusable(error) => write!(f, "what was issued cannot be used: {error}"),
            Self::CertificateForOtherNames => f.write_str("what was issued is for other names"),
            Self::CertificateTooOld => f.write_str("what was issued would have to be renewed at once"),
            Self::ChallengeNotOffered(kind) => write!(f, "the ACME server does not validate by `{kind}`"),
            Self::ChallengeUnusable => f.write_str("what the ACME server wants to find cannot be shown"),
            Self::KeyNotMade => f.write_str("no key could be made"),
            Self::Panicked => f.write_str("an order has panicked"),
            Self::Refused(kind, detail) => write!(f, "the ACME server refuses: {detail} ({kind})"),
            Self::Server(reason) => write!(f, "the ACME server is of no use: {reason}"),
            Self::Store(path, kind) => write!(f, "`{}` cannot be kept: {kind}", path.display()),
            Self::StoreInUse(path) => {
                write!(f, "another process orders certificates for `{}`", path.display())
            }
            Self::TermsNotAgreed => f.write_str("the terms of service of the ACME server were not agreed to"),
            Self::TimedOut => f.write_str("the ACME server took too long"),
            Self::UnknownName => f.write_str("the ACME server asks for names that were not ordered"),
        }
    }
}

impl std::error::Error for AcmeError {}

const TEXT_CHARS_MAX: usize = 300;
