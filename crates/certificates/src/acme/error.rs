//! Errors of orders.

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
    /// The server could not validate the name. Contains the name and the server's reason.
    AuthorizationInvalid(String, String),
    /// The issued certificate is invalid.
    CertificateUnusable(CertificateError),
    /// The issued certificate has other names.
    CertificateForOtherNames,
    /// The issued certificate has expired or expires soon, so that it would be renewed at once.
    CertificateTooOld,
    /// The server does not offer the configured challenge for the name.
    ChallengeNotOffered(String),
    /// The challenge of the server is not supported.
    ChallengeUnusable,
    /// The key could not be created.
    KeyNotMade,
    /// The order panicked, which is a bug.
    Panicked,
    /// The server refused the request. Contains the type of the problem (RFC 8555 §6.7) and its description.
    Refused(String, String),
    /// The server is unreachable, or its response is an error or invalid.
    Server(String),
    /// A stored file cannot be written or read.
    Store(PathBuf, io::ErrorKind),
    /// Another process orders certificates for the same directory.
    StoreInUse(PathBuf),
    /// The operator has not accepted the terms of service.
    TermsNotAgreed,
    /// The order timed out.
    TimedOut,
    /// The server asks for the validation of names that were not ordered.
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

/// Returns text of the server in a form that is safe in a log line.
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
                write!(
                    f,
                    "`{}` is not a valid account: remove the file to create another account",
                    path.display()
                )
            }
            Self::AuthorizationInvalid(name, detail) => {
                write!(f, "the ACME server could not validate `{name}`: {detail}")
            }
            Self::CertificateUnusable(error) => write!(f, "cannot use the issued certificate: {error}"),
            Self::CertificateForOtherNames => f.write_str("the issued certificate has other names"),
            Self::CertificateTooOld => f.write_str("the issued certificate has expired or expires too soon"),
            Self::ChallengeNotOffered(kind) => {
                write!(f, "the ACME server does not offer the challenge `{kind}`")
            }
            Self::ChallengeUnusable => f.write_str("cannot respond to the challenge of the ACME server"),
            Self::KeyNotMade => f.write_str("cannot create a key"),
            Self::Panicked => f.write_str("the order ended with a panic"),
            Self::Refused(kind, detail) => {
                write!(f, "the ACME server refused the request: {detail} ({kind})")
            }
            Self::Server(reason) => write!(f, "the ACME server failed: {reason}"),
            Self::Store(path, kind) => write!(f, "cannot store `{}`: {kind}", path.display()),
            Self::StoreInUse(path) => {
                write!(f, "another process uses the store `{}`", path.display())
            }
            Self::TermsNotAgreed => f.write_str("the terms of service of the ACME server are not accepted"),
            Self::TimedOut => f.write_str("the ACME server did not complete the order in time"),
            Self::UnknownName => f.write_str("the ACME server asked to validate names that were not ordered"),
        }
    }
}

impl std::error::Error for AcmeError {}

const TEXT_CHARS_MAX: usize = 300;
