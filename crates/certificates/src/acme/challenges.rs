//! Responses to ACME challenges.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use thruway_net::tls::TlsAlpnChallenges;
use thruway_server::{AnswerFirst, Request, Response, StatusCode};

use super::material::validation_certificate;
use super::{AcmeError, ChallengeKind};

/// Challenge responses that listeners send to ACME servers. Clones share the responses. A reload of the
/// config keeps the responses.
#[derive(Clone, Default, Debug)]
pub struct Challenges {
    /// Key authorizations by token.
    http: Arc<RwLock<HashMap<String, String>>>,
    tls_alpn: TlsAlpnChallenges,
    /// Number of [`Published`] values for each response. An order of this process and a replica may publish
    /// the same response.
    published: Arc<Mutex<HashMap<(ChallengeKind, String), usize>>>,
}

/// The data from which each replica can build the response to a challenge.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ChallengeResponse {
    /// HTTP response for the path with `token`.
    Http { token: String, key_authorization: String },
    /// Certificate for TLS handshakes with the host name `name`.
    TlsAlpn { name: String, digest: Vec<u8> },
}

/// A published challenge response. After the last of these values for a response is dropped, listeners no
/// longer send the response.
pub(super) struct Published {
    challenges: Challenges,
    kind: ChallengeKind,
    /// The token of an `http-01` challenge, or the host name of a `tls-alpn-01` challenge.
    key: String,
}

impl ChallengeResponse {
    /// Returns text that identifies this response.
    pub(super) fn id(&self) -> String {
        match self {
            Self::Http { token, .. } => token.clone(),
            Self::TlsAlpn { name, digest } => format!("{name} {}", URL_SAFE_NO_PAD.encode(digest)),
        }
    }
}

impl Challenges {
    /// Returns the certificates that TLS listeners present in `tls-alpn-01` handshakes.
    pub fn tls_alpn(&self) -> TlsAlpnChallenges {
        self.tls_alpn.clone()
    }

    /// Publishes `response` on all listeners of this process.
    pub(super) fn publish(&self, response: &ChallengeResponse) -> Result<Published, AcmeError> {
        match response {
            ChallengeResponse::Http { token, key_authorization } => {
                self.publish_path(token, key_authorization)
            }
            ChallengeResponse::TlsAlpn { name, digest } => self.publish_handshake(name, digest),
        }
    }

    /// Publishes `key_authorization` as the HTTP response for `token` (RFC 8555 §8.3).
    fn publish_path(&self, token: &str, key_authorization: &str) -> Result<Published, AcmeError> {
        // Tokens consist of base64url characters. A token with a different character could change the path,
        // or let the ACME server choose the text of the response.
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if token.is_empty() || token.len() > TOKEN_BYTES_MAX || !token.bytes().all(is_token) {
            return Err(AcmeError::ChallengeUnusable);
        }
        let mut http = self.http.write().unwrap_or_else(PoisonError::into_inner);
        http.insert(token.to_owned(), key_authorization.to_owned());
        drop(http);
        Ok(self.count(ChallengeKind::Http01, token))
    }

    /// Publishes the certificate that proves control of `name` in TLS handshakes (RFC 8737 §3).
    fn publish_handshake(&self, name: &str, digest: &[u8]) -> Result<Published, AcmeError> {
        let (certificate, key) = validation_certificate(name, digest)?;
        self.tls_alpn.show(name, certificate, key).map_err(|_| AcmeError::ChallengeUnusable)?;
        Ok(self.count(ChallengeKind::TlsAlpn01, name))
    }

    fn count(&self, kind: ChallengeKind, key: &str) -> Published {
        *self.published().entry((kind, key.to_owned())).or_default() += 1;
        Published { challenges: self.clone(), kind, key: key.to_owned() }
    }

    fn published(&self) -> MutexGuard<'_, HashMap<(ChallengeKind, String), usize>> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AnswerFirst for Challenges {
    /// Returns the response to an `http-01` challenge. Returns `None` if the token in the path is unknown,
    /// because an upstream server may know this token.
    fn answer(&self, request: &Request<'_>) -> Option<Response> {
        let token = request.path().strip_prefix(WELL_KNOWN)?;
        let http = self.http.read().unwrap_or_else(PoisonError::into_inner);
        let key_authorization = http.get(token)?.clone();
        let response = Response::new(StatusCode::OK).with_field("Content-Type", "application/octet-stream");
        Some(response.with_content(key_authorization))
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        let mut published = self.challenges.published();
        let response = (self.kind, self.key.clone());
        match published.get_mut(&response) {
            Some(count) if *count > 1 => {
                *count -= 1;
                return;
            }
            _ => published.remove(&response),
        };
        match self.kind {
            ChallengeKind::Http01 => {
                let mut http = self.challenges.http.write().unwrap_or_else(PoisonError::into_inner);
                http.remove(&self.key);
            }
            ChallengeKind::TlsAlpn01 => self.challenges.tls_alpn.remove(&self.key),
        }
    }
}

const WELL_KNOWN: &str = "/.well-known/acme-challenge/";

/// Maximum length of a token, in bytes. Known ACME servers send tokens of 43 bytes.
const TOKEN_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenge_token_is_validated_and_unpublished_on_drop() {
        let challenges = Challenges::default();
        for token in ["", "a/b", "..", "a.b", "a b", "ä", &"a".repeat(257)] {
            assert!(
                matches!(challenges.publish_path(token, "x"), Err(AcmeError::ChallengeUnusable)),
                "{token}"
            );
        }
        let published = challenges.publish_path("a-_9Z", "x").unwrap();
        let again = challenges.publish_path("a-_9Z", "x").unwrap();
        drop(published);
        assert_eq!(challenges.http.read().unwrap().len(), 1);
        drop(again);
        assert!(challenges.http.read().unwrap().is_empty());
    }

    #[test]
    fn tls_alpn_digest_must_have_32_bytes() {
        let challenges = Challenges::default();
        assert!(challenges.publish_handshake("a.example", &[0; 31]).is_err());
        assert!(challenges.publish_handshake("a.example", &[0; 32]).is_ok());
    }
}
