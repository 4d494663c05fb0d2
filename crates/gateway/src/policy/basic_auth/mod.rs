//! Authentication with user names and passwords (RFC 7617).
//!
//! The config contains only hashes of passwords. All formats except `$apr1$` are slow, so a password check takes
//! some tens of milliseconds on a separate thread. Only a few checks run at the same time, and only a limited number of requests may wait
//! for a check. Further requests get 503. After a successful check, the policy caches a digest of the
//! password, so that later requests with this password are fast. The digest depends on a random secret of the
//! process. A check for an unknown user name takes as long as a check for a known user name.

mod apr1;
mod password;
pub(super) mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thruway_message::RequestHead;
use thruway_server::Request;

use super::credentials::{DigestKey, PresentedCredentials, authorization};
use super::refusal::Refusal;
use super::verdict::Verdict;

pub use password::{InvalidPasswordHash, PasswordHash};
use state::{Checker, Users};

/// Settings of the password policy.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicAuthConfig {
    /// Authentication realm that browsers show to users. Default: the name of the policy.
    pub realm: Option<String>,
    /// Names of users, with the hashes of their passwords. If a name occurs several times, the policy uses
    /// its last hash.
    pub users: Vec<(String, PasswordHash)>,
    /// Name of the request header in which the gateway sends the user name to the upstream. Default: no
    /// header.
    pub user_field: Option<String>,
}

#[derive(Debug)]
pub(super) struct BasicAuth {
    realm: Option<String>,
    user_field: Option<String>,
    digest_key: DigestKey,
    users: Arc<Users>,
    checker: Checker,
}

impl BasicAuth {
    pub(super) fn new(config: BasicAuthConfig) -> Self {
        Self {
            realm: config.realm,
            user_field: config.user_field,
            digest_key: DigestKey::random(),
            users: Arc::new(Users::new(config.users)),
            checker: Checker::new(),
        }
    }

    pub(super) fn user_field(&self) -> Option<&str> {
        self.user_field.as_deref()
    }

    pub(super) fn decide(&self, request: &Request<'_>) -> Verdict<'_> {
        let mut buffer = [0; CREDENTIALS_BYTES_MAX];
        let (name, password) = match credentials(request.head(), &mut buffer) {
            Ok(credentials) => credentials,
            Err(Unusable { is_missing }) => return Verdict::Refuse(self.challenge(is_missing)),
        };
        let digest = self.digest_key.digest(&[name.as_bytes(), password.as_bytes()]);
        if let Some(name) = self.users.verified(name, &digest) {
            return Verdict::of_user(self.user_field(), name);
        }
        let job = state::Job::new(self.users.clone(), name, password, digest);
        match self.checker.check(job, self.challenge(false)) {
            Some(verification) => Verdict::Wait(verification),
            None => Verdict::Refuse(Refusal::Busy),
        }
    }

    fn challenge(&self, is_missing: bool) -> Refusal {
        Refusal::Credentials {
            scheme: "Basic",
            realm: self.realm.clone(),
            parameters: ", charset=\"UTF-8\"",
            is_missing,
        }
    }
}

/// The error for credentials that are missing or malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Unusable {
    is_missing: bool,
}

/// Decodes the user name and the password in a request into `buffer`. Rejects control characters in the name
/// and in the password (RFC 7617 §2). Rejects passwords that are too long for bcrypt. Bcrypt ignores the end
/// of such a password, so several passwords would match.
fn credentials<'b>(
    head: &RequestHead<'_>,
    buffer: &'b mut [u8; CREDENTIALS_BYTES_MAX],
) -> Result<(&'b str, &'b str), Unusable> {
    let encoded = match authorization(head, "Basic") {
        PresentedCredentials::None => return Err(Unusable { is_missing: true }),
        PresentedCredentials::One(encoded) => encoded,
        PresentedCredentials::Several => return Err(Unusable { is_missing: false }),
    };
    decoded(encoded, buffer).ok_or(Unusable { is_missing: false })
}

fn decoded<'b>(encoded: &[u8], buffer: &'b mut [u8; CREDENTIALS_BYTES_MAX]) -> Option<(&'b str, &'b str)> {
    let length = STANDARD.decode_slice(encoded, buffer).ok()?;
    let text = str::from_utf8(&buffer[..length]).ok()?;
    let (name, password) = text.split_once(':')?;
    let is_usable = password.len() <= PASSWORD_BYTES_MAX && !text.chars().any(char::is_control);
    is_usable.then_some((name, password))
}

impl fmt::Debug for BasicAuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for BasicAuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "name and password of one of {} users", self.users.len())
    }
}

const CREDENTIALS_BYTES_MAX: usize = 512;
const PASSWORD_BYTES_MAX: usize = 71;
