//! Checks of a token: its header, its signature and its claims.

#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde_json::{Map, Value};

use super::JwtKeys;

/// Conditions that a token must meet, besides a valid signature.
#[derive(Clone, PartialEq, Debug)]
pub struct JwtRules {
    /// Required issuer (`iss`). Default: any issuer that signs with one of the keys.
    pub issuer: Option<String>,
    /// Accepted audiences (`aud`): the token must name at least one of them. Default: any audience.
    pub audience: Vec<String>,
    /// Accepted signature algorithms. Default: all algorithms that the keys support.
    pub algorithms: Vec<Algorithm>,
    /// Tolerated difference between the clocks of the issuer and this machine. Default 30 s.
    pub leeway: Duration,
    /// Claims that the token must contain, besides `exp` and the claims that are compared. Default none.
    pub required_claims: Vec<String>,
}

/// Reason to refuse a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JwtError {
    /// The token is malformed, has a wrong signature, has expired, or breaks a rule.
    Invalid,
    /// The token names a key that is not among the known keys. A newer key set may contain it.
    UnknownKey,
}

/// The members of a JOSE header that decide about a signature.
struct Header {
    algorithm: Algorithm,
    key_id: Option<String>,
}

impl Default for JwtRules {
    fn default() -> Self {
        Self {
            issuer: None,
            audience: Vec::new(),
            algorithms: Vec::new(),
            leeway: Duration::from_secs(30),
            required_claims: Vec::new(),
        }
    }
}

impl JwtRules {
    /// Returns the claims of `token` if one of `keys` signed it and it meets these rules at the time `now`,
    /// which counts from the Unix epoch. A token has at most 16 KiB.
    ///
    /// # Errors
    /// The reason to refuse the token. It does not name the broken rule, because an attacker could use that.
    pub fn verify(
        &self,
        token: &[u8],
        keys: &JwtKeys,
        now: Duration,
    ) -> Result<Map<String, Value>, JwtError> {
        let Parts { header, claims, message, signature } = Parts::of(token).ok_or(JwtError::Invalid)?;
        let header = Header::parse(header).ok_or(JwtError::Invalid)?;
        if !self.algorithms.is_empty() && !self.algorithms.contains(&header.algorithm) {
            return Err(JwtError::Invalid);
        }
        let key_id = header.key_id.as_deref();
        if keys.lack(key_id) {
            return Err(JwtError::UnknownKey);
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| JwtError::Invalid)?;
        if !keys
            .candidates(header.algorithm, key_id)
            .any(|key| key.verifies(header.algorithm, message, &signature))
        {
            return Err(JwtError::Invalid);
        }
        object(claims).filter(|claims| self.admit(claims, now)).ok_or(JwtError::Invalid)
    }

    /// `true` if the claims of a token with a valid signature meet these rules (RFC 7519 §4.1).
    fn admit(&self, claims: &Map<String, Value>, now: Duration) -> bool {
        let (now, leeway) = (now.as_secs_f64(), self.leeway.as_secs_f64());
        let is_alive = claims.get("exp").and_then(Value::as_f64).is_some_and(|end| now < end + leeway);
        let has_begun =
            claims.get("nbf").is_none_or(|start| start.as_f64().is_some_and(|start| start <= now + leeway));
        let is_of_issuer = self
            .issuer
            .as_ref()
            .is_none_or(|issuer| claims.get("iss").and_then(Value::as_str) == Some(issuer.as_str()));
        let is_complete = self.required_claims.iter().all(|name| claims.contains_key(name));
        is_alive && has_begun && is_of_issuer && is_complete && self.admit_audience(claims.get("aud"))
    }

    /// `true` if `aud` names an accepted audience: it is one text or an array of texts (RFC 7519 §4.1.3).
    fn admit_audience(&self, aud: Option<&Value>) -> bool {
        let is_accepted = |text: &str| self.audience.iter().any(|audience| audience == text);
        match aud {
            _ if self.audience.is_empty() => true,
            Some(Value::String(audience)) => is_accepted(audience),
            Some(Value::Array(audiences)) => {
                audiences.iter().all(Value::is_string)
                    && audiences.iter().filter_map(Value::as_str).any(is_accepted)
            }
            _ => false,
        }
    }
}

impl Header {
    /// Parses a header (RFC 7515 §4). Refuses every header with `crit`: no extension is supported, so none
    /// can be understood (§4.1.11).
    fn parse(encoded: &[u8]) -> Option<Self> {
        let header = object(encoded)?;
        let key_id = match header.get("kid") {
            None => None,
            Some(Value::String(id)) => Some(id.clone()),
            Some(_) => return None,
        };
        let algorithm = header.get("alg")?.as_str()?.parse().ok()?;
        (!header.contains_key("crit")).then_some(Self { algorithm, key_id })
    }
}

/// The parts of a token in compact serialization (RFC 7515 §3.1).
struct Parts<'t> {
    header: &'t [u8],
    claims: &'t [u8],
    /// The signed bytes: header and claims.
    message: &'t [u8],
    signature: &'t [u8],
}

impl<'t> Parts<'t> {
    fn of(token: &'t [u8]) -> Option<Self> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let mut dots = (0..token.len()).filter(|&at| token[at] == b'.');
        let (Some(first), Some(second), None) = (dots.next(), dots.next(), dots.next()) else { return None };
        Some(Self {
            header: &token[..first],
            claims: &token[first + 1..second],
            message: &token[..second],
            signature: &token[second + 1..],
        })
    }
}

/// Decodes a JSON object. Of members with the same name the last one counts (RFC 7515 §4, RFC 7519 §4).
fn object(encoded: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()
}

impl fmt::Display for JwtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalid => "the token is malformed, has expired, or has a wrong signature or claim",
            Self::UnknownKey => "the token names a key that is not in the key set",
        })
    }
}

impl core::error::Error for JwtError {}

/// Most tokens have a few hundred bytes. Tokens with many roles have some thousand.
const TOKEN_BYTES_MAX: usize = 16 << 10;
