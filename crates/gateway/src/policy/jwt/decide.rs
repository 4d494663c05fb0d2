//! Whether a token is believed, and what it tells. The time of day is that of the system.

use std::borrow::Cow;

use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde_json::{Map, Value};

use super::{JwtConfig, JwtKeys};
use crate::policy::credentials::is_user_name;
use crate::policy::fields::Told;

/// Why a token is not believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Denied {
    /// It is wrong, too old, or for somebody else.
    Invalid,
    /// It was signed with a key that is not there.
    UnknownKey,
}

/// What is to be told if `token` is believed.
pub(super) fn told<'p>(token: &[u8], config: &'p JwtConfig, keys: &JwtKeys) -> Result<Told<'p>, Denied> {
    let claims = claims(token, config, keys)?;
    let user = claims.get("sub").and_then(Value::as_str).map(|subject| Cow::Owned(subject.to_owned()));
    let fields = told_of(&claims, config).ok_or(Denied::Invalid)?;
    Ok(Told { fields, user })
}

fn told_of<'p>(
    claims: &Map<String, Value>,
    config: &'p JwtConfig,
) -> Option<Vec<(&'p str, Option<Cow<'p, str>>)>> {
    let mut told = Vec::with_capacity(config.fields.len());
    for (field, claim) in &config.fields {
        let value = match claims.get(claim) {
            None | Some(Value::Null) => None,
            // Whoever reads the field must not take it for something else than what the token says.
            Some(value) => Some(Cow::Owned(text_of(value).filter(|text| is_user_name(text))?)),
        };
        told.push((field.as_str(), value));
    }
    Some(told)
}

fn claims(token: &[u8], config: &JwtConfig, keys: &JwtKeys) -> Result<Map<String, Value>, Denied> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(Denied::Invalid);
    }
    let header = decode_header(token).map_err(|_| Denied::Invalid)?;
    // What must be understood is not understood here (RFC 7515 §4.1.11).
    let is_allowed = config.algorithms.is_empty() || config.algorithms.contains(&header.alg);
    if !is_allowed || header.crit.is_some() {
        return Err(Denied::Invalid);
    }
    if keys.lack(header.kid.as_deref()) {
        return Err(Denied::UnknownKey);
    }
    let validation = validation(header.alg, config);
    let mut candidates = keys.candidates(header.alg, header.kid.as_deref());
    let decoded = candidates.find_map(|key| decode::<Map<_, _>>(token, &key.decoding, &validation).ok());
    let claims = decoded.ok_or(Denied::Invalid)?.claims;
    let is_whole = config.required_claims.iter().all(|name| claims.contains_key(name));
    if is_whole { Ok(claims) } else { Err(Denied::Invalid) }
}

fn validation(algorithm: Algorithm, config: &JwtConfig) -> Validation {
    let mut validation = Validation::new(algorithm);
    let mut required = vec!["exp"];
    validation.leeway = config.leeway.as_secs();
    validation.validate_nbf = true;
    validation.validate_aud = !config.audience.is_empty();
    if validation.validate_aud {
        validation.set_audience(&config.audience);
        required.push("aud");
    }
    if let Some(issuer) = &config.issuer {
        validation.set_issuer(&[issuer]);
        required.push("iss");
    }
    validation.set_required_spec_claims(&required);
    validation
}

/// A claim as the value of a field; of several texts a list.
fn text_of(claim: &Value) -> Option<String> {
    match claim {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is_so) => Some(is_so.to_string()),
        Value::Array(claims) => {
            let texts: Option<Vec<_>> = claims.iter().map(Value::as_str).collect();
            // A comma would make two members of one.
            texts.filter(|texts| !texts.iter().any(|text| text.contains(','))).map(|texts| texts.join(", "))
        }
        Value::Null | Value::Object(_) => None,
    }
}

/// Tokens are a few hundred octets; those with many roles some thousand.
const TOKEN_BYTES_MAX: usize = 16 << 10;
