//! Checks of a token's signature and claims. The time of day is that of the system.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde_json::{Map, Value};

use super::JwtKeys;

/// Conditions that a token must meet.
#[derive(Clone, PartialEq, Debug)]
pub struct JwtRules {
    /// Who must have issued them (`iss`). Default anybody who has such a key.
    pub issuer: Option<String>,
    /// For whom they must be, one of these (`aud`). Default anybody.
    pub audience: Vec<String>,
    /// By which algorithms they may be signed. Default those that the keys are for.
    pub algorithms: Vec<Algorithm>,
    /// How far the clocks of issuer and server may be apart. Default 30 s.
    pub leeway: Duration,
    /// Claims that must be there, besides `exp` and those that are compared.
    pub required_claims: Vec<String>,
}

/// Why a token is not believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JwtError {
    /// It is wrong, too old, or for somebody else.
    Invalid,
    /// It was signed with a key that is not there.
    UnknownKey,
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
    /// Returns the claims of `token` if one of `keys` signed it and it meets these conditions.
    ///
    /// # Errors
    /// The token is not believed.
    pub fn verify(&self, token: &[u8], keys: &JwtKeys) -> Result<Map<String, Value>, JwtError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(JwtError::Invalid);
        }
        let header = decode_header(token).map_err(|_| JwtError::Invalid)?;
        // What must be understood is not understood here (RFC 7515 §4.1.11).
        let is_allowed = self.algorithms.is_empty() || self.algorithms.contains(&header.alg);
        if !is_allowed || header.crit.is_some() {
            return Err(JwtError::Invalid);
        }
        if keys.lack(header.kid.as_deref()) {
            return Err(JwtError::UnknownKey);
        }
        let validation = self.validation(header.alg);
        let mut candidates = keys.candidates(header.alg, header.kid.as_deref());
        let decoded = candidates.find_map(|key| decode::<Map<_, _>>(token, &key.decoding, &validation).ok());
        let claims = decoded.ok_or(JwtError::Invalid)?.claims;
        let is_whole = self.required_claims.iter().all(|name| claims.contains_key(name));
        if is_whole { Ok(claims) } else { Err(JwtError::Invalid) }
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        let mut required = vec!["exp"];
        validation.leeway = self.leeway.as_secs();
        validation.validate_nbf = true;
        validation.validate_aud = !self.audience.is_empty();
        if validation.validate_aud {
            validation.set_audience(&self.audience);
            required.push("aud");
        }
        if let Some(issuer) = &self.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        validation.set_required_spec_claims(&required);
        validation
    }
}

/// Tokens are a few hundred octets; those with many roles some thousand.
const TOKEN_BYTES_MAX: usize = 16 << 10;
