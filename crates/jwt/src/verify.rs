//! Checks the header, the signature and the claims of a token.

#[cfg(test)]
mod tests;

use alloc::format;
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
    /// Required issuer (claim `iss`). `None` (the default) accepts every issuer.
    pub issuer: Option<String>,
    /// Accepted audiences (claim `aud`). The token must name at least one of these audiences. An empty list
    /// (the default) accepts every audience.
    pub audience: Vec<String>,
    /// Accepted signature algorithms. An empty list (the default) accepts all algorithms that the keys
    /// support.
    pub algorithms: Vec<Algorithm>,
    /// Tolerated difference between the clocks of the issuer and this machine. Default: 30 s.
    pub leeway: Duration,
    /// Names of the claims that the token must contain in addition to `exp`. The claim `exp` is always
    /// required. Default: an empty list.
    pub required_claims: Vec<String>,
    /// Accepted values of the header parameter `typ`. The comparison ignores case and the optional prefix
    /// `application/`. To accept only access tokens, set this list to `at+jwt` alone (RFC 9068 §4). An
    /// empty list (the default) accepts `JWT`, `JOSE`, `at+jwt`, and tokens without `typ`. The default
    /// rejects types such as `logout+jwt` and `dpop+jwt`, because such tokens do not grant access.
    pub types: Vec<String>,
    /// `true` to accept ID tokens (OpenID Connect Core 1.0 §2). Default: `true`. Set this to `false` to
    /// accept only access tokens, because an ID token describes a user to a client and grants no access. With
    /// `false`, also set `audience`: some ID tokens look exactly like access tokens, so this setting cannot
    /// reject them.
    pub allow_id_tokens: bool,
}

/// Reason for the rejection of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JwtError {
    /// The token is malformed, has a wrong signature, has expired, or breaks a rule.
    Invalid,
    /// The token names a key that is not among the known keys. A newer key set may contain this key.
    UnknownKey,
}

/// The checked parameters of a JOSE header.
struct Header {
    algorithm: Algorithm,
    key_id: Option<String>,
    token_type: Option<String>,
}

impl Default for JwtRules {
    fn default() -> Self {
        Self {
            issuer: None,
            audience: Vec::new(),
            algorithms: Vec::new(),
            leeway: Duration::from_secs(30),
            required_claims: Vec::new(),
            types: Vec::new(),
            allow_id_tokens: true,
        }
    }
}

impl JwtRules {
    /// Verifies that one of `keys` signed `token` and that `token` meets these rules. Returns the claims of
    /// `token`. `now` is the current time since the Unix epoch. Rejects tokens of more than 16 KiB. Also
    /// rejects tokens with the claim `cnf`. Such a token is bound to a key of its owner, and its signature
    /// does not prove that the sender has this key.
    ///
    /// # Errors
    /// The reason for the rejection. The reason does not name the failed check, because the name of the
    /// check would help an attacker.
    pub fn verify(
        &self,
        token: &[u8],
        keys: &JwtKeys,
        now: Duration,
    ) -> Result<Map<String, Value>, JwtError> {
        self.verify_from(token, keys, now, None)
    }

    /// Verifies `token` like [`verify`](Self::verify), but also accepts a token that is bound to the TLS
    /// client certificate of the sender. `certificate` is the SHA-256 digest of the client certificate, in
    /// lowercase hexadecimal digits.
    ///
    /// # Errors
    /// The reason for the rejection.
    pub fn verify_from(
        &self,
        token: &[u8],
        keys: &JwtKeys,
        now: Duration,
        certificate: Option<&str>,
    ) -> Result<Map<String, Value>, JwtError> {
        let Parts { header, claims, message, signature } = Parts::of(token).ok_or(JwtError::Invalid)?;
        let header = Header::parse(header).ok_or(JwtError::Invalid)?;
        let is_algorithm_ok = self.algorithms.is_empty() || self.algorithms.contains(&header.algorithm);
        if !is_algorithm_ok || !self.admit_type(header.token_type.as_deref()) {
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
        let claims = object(claims).filter(|claims| self.admit(claims, now)).ok_or(JwtError::Invalid)?;
        if claims.get("cnf").is_some_and(|confirmation| !confirms(confirmation, certificate)) {
            return Err(JwtError::Invalid);
        }
        Ok(claims)
    }

    /// Returns `true` if these rules accept tokens of the type `token_type` (RFC 7515 §4.1.9, RFC 8725
    /// §3.11).
    fn admit_type(&self, token_type: Option<&str>) -> bool {
        let is = |token_type: &str, accepted: &str| {
            without_application(token_type).eq_ignore_ascii_case(without_application(accepted))
        };
        match token_type {
            None => self.types.is_empty(),
            Some(own) if self.types.is_empty() => USUAL_TYPES.iter().any(|usual| is(own, usual)),
            Some(own) => self.types.iter().any(|accepted| is(own, accepted)),
        }
    }

    /// Returns `true` if the claims of a token with a valid signature meet these rules (RFC 7519 §4.1).
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
        let is_for_access = !is_logout_token(claims) && (self.allow_id_tokens || !is_id_token(claims));
        is_alive
            && has_begun
            && is_of_issuer
            && is_complete
            && is_for_access
            && self.admit_audience(claims.get("aud"))
    }

    /// Returns `true` if `aud` names an accepted audience. The claim `aud` is a string or an array of
    /// strings (RFC 7519 §4.1.3).
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

/// Returns `true` if the claims belong to an ID token. The function recognizes an ID token by its claims: the
/// hash of an authorization code or access token (OpenID Connect Core 1.0 §3.3.2.11), the hash of `state`
/// (FAPI 1.0 part 2 §5.1), or the issuer's own mark for ID tokens. The claim `nonce` does not identify ID
/// tokens, because some issuers copy `nonce` into access tokens.
fn is_id_token(claims: &Map<String, Value>) -> bool {
    let says = |name: &str, value: &str| claims.get(name).is_some_and(|claim| claim == value);
    // Amazon Cognito marks ID tokens with the claim `token_use`, and Keycloak with the claim `typ`.
    ["at_hash", "c_hash", "s_hash"].iter().any(|name| claims.contains_key(*name))
        || says("token_use", "id")
        || says("typ", "ID")
}

/// Returns `true` if the claims belong to a logout token. The header parameter `typ` does not reliably
/// identify logout tokens, because this parameter is optional (OpenID Connect Back-Channel Logout 1.0
/// §2.4).
fn is_logout_token(claims: &Map<String, Value>) -> bool {
    claims.get("events").is_some_and(|events| events.get(LOGOUT_EVENT).is_some())
}

/// Returns `true` if the sender of a token has proved possession of the key in `confirmation`.
/// `confirmation` is the value of the claim `cnf` (RFC 7800 §3.1). The only supported key is the key of a
/// TLS client certificate (RFC 8705 §3.1). Rejects tokens for DPoP (RFC 9449 §6), because requests with a
/// bearer token contain no DPoP proof. Rejects a `cnf` with several members, because each member may be a
/// further condition.
fn confirms(confirmation: &Value, certificate: Option<&str>) -> bool {
    let members = confirmation.as_object().filter(|members| members.len() == 1);
    let digest = members.and_then(|members| members.get("x5t#S256")?.as_str());
    let digest = digest.and_then(|digest| URL_SAFE_NO_PAD.decode(digest).ok());
    let digest = digest.filter(|digest| digest.len() == SHA256_BYTES);
    digest.zip(certificate).is_some_and(|(digest, certificate)| {
        let digits = digest.iter().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"));
        digits == certificate
    })
}

/// Returns `token_type` without the prefix `application/`, because issuers may omit this prefix (RFC 7515
/// §4.1.9).
fn without_application(token_type: &str) -> &str {
    const PREFIX: &str = "application/";
    match token_type.split_at_checked(PREFIX.len()) {
        Some((start, rest)) if start.eq_ignore_ascii_case(PREFIX) && !rest.contains('/') => rest,
        _ => token_type,
    }
}

impl Header {
    /// Parses a JOSE header (RFC 7515 §4). Rejects headers with the parameter `crit` (§4.1.11), because
    /// this crate supports no extensions of JOSE.
    fn parse(encoded: &[u8]) -> Option<Self> {
        let header = object(encoded)?;
        let text = |name: &str| match header.get(name) {
            None => Some(None),
            Some(Value::String(text)) => Some(Some(text.clone())),
            Some(_) => None,
        };
        let (key_id, token_type) = (text("kid")?, text("typ")?);
        let algorithm = header.get("alg")?.as_str()?.parse().ok()?;
        (!header.contains_key("crit")).then_some(Self { algorithm, key_id, token_type })
    }
}

/// The parts of a token in compact serialization (RFC 7515 §3.1).
struct Parts<'t> {
    header: &'t [u8],
    claims: &'t [u8],
    /// The signed bytes: the encoded header, a dot, and the encoded claims.
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

/// Decodes a JSON object from base64url. If several members have the same name, only the last member counts
/// (RFC 7515 §4, RFC 7519 §4).
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

/// Types that are accepted by default. `JWT` and `JOSE` do not restrict the use of a token (RFC 7519 §5.1,
/// RFC 7515 §4.1.9). `at+jwt` is the type of access tokens (RFC 9068 §2.1).
const USUAL_TYPES: [&str; 3] = ["JWT", "JOSE", "at+jwt"];

const SHA256_BYTES: usize = 32;

/// Member of the claim `events` that identifies a logout token.
const LOGOUT_EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// Maximum size of a token, in bytes. Most tokens have a few hundred bytes. Tokens with many roles have a
/// few thousand bytes.
const TOKEN_BYTES_MAX: usize = 16 << 10;
