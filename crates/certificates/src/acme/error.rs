//! Errors of ACME orders.

use std::fmt;
use std::io;
use std::path::PathBuf;

use instant_acme::{Error, Problem};
use thruway_net::tls::CertificateError;

/// Reason why an order failed. The existing certificate stays in use.
#[derive(Debug)]
#[non_exhaustive]
pub enum AcmeError {
    /// The file of the stored account is invalid. Contains the path of the file.
    AccountUnreadable(PathBuf),
    /// The ACME server could not validate a name. Contains the name, and the reason from the server.
    AuthorizationInvalid(String, String),
    /// The issued certificate is invalid.
    CertificateUnusable(CertificateError),
    /// The issued certificate does not contain all ordered names.
    CertificateForOtherNames,
    /// The issued certificate has expired, or expires so soon that a renewal is already due.
    CertificateTooOld,
    /// The ACME server does not offer the configured challenge for a name. Contains the name of the
    /// challenge.
    ChallengeNotOffered(String),
    /// The challenge of the ACME server is malformed.
    ChallengeUnusable,
    /// A key, a certificate or a signing request could not be created.
    KeyNotMade,
    /// Another replica took the lock of the order, because this replica did not renew the lock in time.
    LockLost,
    /// The task of the order panicked because of a bug.
    Panicked,
    /// The ACME server refused a request. Contains the type of the problem (RFC 8555 §6.7) and the
    /// description of the problem.
    Refused(String, String),
    /// The ACME server is unreachable, or its response is invalid. Contains the description of the error.
    Server(String),
    /// The store that replicas share failed before the order. Contains the description of the error.
    SharedStore(String),
    /// The store that replicas share failed during the order. Contains the description of the error.
    SharedStoreLost(String),
    /// A file or directory of the store cannot be read or written. Contains the path of the file or
    /// directory.
    Store(PathBuf, io::ErrorKind),
    /// Another process holds the lock of the store directory. Contains the path of the directory.
    StoreInUse(PathBuf),
    /// The operator has not accepted the terms of service.
    TermsNotAgreed,
    /// The order timed out.
    TimedOut,
    /// The ACME server asks to validate a name that was not ordered.
    UnknownName,
}

impl AcmeError {
    /// Returns `true` if the ACME server does not know the account.
    pub(super) fn is_account_unknown(&self) -> bool {
        matches!(self, Self::Refused(kind, _) if kind == "urn:ietf:params:acme:error:accountDoesNotExist")
    }

    /// Returns `true` if a later attempt may continue the same order. Returns `false` if only a new order can
    /// succeed.
    pub(super) fn may_order_continue(&self) -> bool {
        match self {
            Self::LockLost | Self::Server(_) | Self::SharedStore(_) | Self::Store(..) | Self::TimedOut => {
                true
            }
            Self::Refused(kind, _) => kind.ends_with(":rateLimited") || kind.ends_with(":serverInternal"),
            _ => false,
        }
    }

    /// Returns the error for a failure after the first request of an order.
    pub(super) fn during_order(self) -> Self {
        match self {
            Self::SharedStore(reason) => Self::SharedStoreLost(reason),
            error => error,
        }
    }

    /// Returns `true` if an order of another replica would fail for the same reason, because the ACME server
    /// responded. Other failures may concern only this replica.
    pub(super) const fn concerns_all_replicas(&self) -> bool {
        matches!(
            self,
            Self::AuthorizationInvalid(..)
                | Self::CertificateForOtherNames
                | Self::CertificateTooOld
                | Self::CertificateUnusable(_)
                | Self::ChallengeNotOffered(_)
                | Self::Refused(..)
                | Self::UnknownName
        )
    }

    pub(super) fn of_problem(problem: &Problem) -> Self {
        let kind = problem.r#type.as_deref().map(quoted).unwrap_or_default();
        Self::Refused(kind, detail_of(problem))
    }
}

/// Joins the descriptions in a problem document (RFC 9457) and in its subproblems.
pub(super) fn detail_of(problem: &Problem) -> String {
    let within = problem.subproblems.iter().map(|within| within.detail.as_deref());
    let details: Vec<_> = std::iter::once(problem.detail.as_deref()).chain(within).flatten().collect();
    quoted(&details.join("; "))
}

/// Escapes text from the ACME server and limits its length, so that the text is safe in a log line.
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
            Self::CertificateForOtherNames => f.write_str("the issued certificate lacks some ordered names"),
            Self::CertificateTooOld => f.write_str("the issued certificate has expired or expires too soon"),
            Self::ChallengeNotOffered(kind) => {
                write!(f, "the ACME server does not offer the challenge `{kind}`")
            }
            Self::ChallengeUnusable => f.write_str("cannot respond to the challenge of the ACME server"),
            Self::KeyNotMade => f.write_str("cannot create a key or a signing request"),
            Self::LockLost => f.write_str("another replica took over the order"),
            Self::Panicked => f.write_str("the task of the order panicked"),
            Self::Refused(kind, detail) => {
                write!(f, "the ACME server refused the request: {detail} ({kind})")
            }
            Self::Server(reason) => write!(f, "the ACME server failed: {reason}"),
            Self::SharedStore(reason) => write!(f, "renewal waits for the shared store: {reason}"),
            Self::SharedStoreLost(reason) => write!(f, "the shared store failed during the order: {reason}"),
            Self::Store(path, kind) => write!(f, "cannot read or write `{}`: {kind}", path.display()),
            Self::StoreInUse(path) => {
                write!(f, "another process uses the directory `{}` for ACME orders", path.display())
            }
            Self::TermsNotAgreed => f.write_str("the terms of service of the ACME server are not accepted"),
            Self::TimedOut => f.write_str("the ACME server did not complete the order in time"),
            Self::UnknownName => f.write_str("the ACME server asked to validate names that were not ordered"),
        }
    }
}

impl std::error::Error for AcmeError {}

const TEXT_CHARS_MAX: usize = 300;
