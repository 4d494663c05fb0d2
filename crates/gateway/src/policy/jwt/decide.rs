//! Verifies a token, and returns the headers for its claims.

use std::borrow::Cow;
use std::time::SystemTime;

use serde_json::{Map, Value};
use thruway_jwt::{JwtError, JwtKeys, JwtRules};

use crate::policy::credentials::is_user_name;
use crate::policy::fields::{OwnedField, VerifiedFacts};

/// Verifies `token`, and returns the verified properties of the client. `certificate` is the fingerprint of
/// the client certificate, if the client has one.
pub(super) fn facts<'p>(
    token: &[u8],
    rules: &JwtRules,
    fields: &'p [(String, String)],
    keys: &JwtKeys,
    certificate: Option<&str>,
    time_of_day: SystemTime,
) -> Result<VerifiedFacts<'p>, JwtError> {
    let since_epoch = time_of_day.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let claims = rules.verify_from(token, keys, since_epoch, certificate)?;
    let fields = fields_of_claims(&claims, fields).ok_or(JwtError::Invalid)?;
    Ok(VerifiedFacts { fields, claims, ..VerifiedFacts::default() })
}

/// Returns the headers for claims. Returns `None` if a header cannot express its claim.
pub(in crate::policy) fn fields_of_claims<'p>(
    claims: &Map<String, Value>,
    fields: &'p [(String, String)],
) -> Option<Vec<OwnedField<'p>>> {
    let mut facts = Vec::with_capacity(fields.len());
    for (field, claim) in fields {
        let value = match claims.get(claim) {
            None | Some(Value::Null) => None,
            // The token is refused if a header value cannot express the claim exactly.
            Some(value) => Some(Cow::Owned(text_of(value).filter(|text| is_user_name(text))?.into_bytes())),
        };
        facts.push((field.as_str(), value));
    }
    Some(facts)
}

/// Returns a claim as a header value. A list of strings becomes a text with commas between the strings.
/// Other values stay unchanged. A single string may contain commas, because names of people contain commas.
/// The documentation of the setting warns about such commas.
fn text_of(claim: &Value) -> Option<String> {
    match claim {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is_so) => Some(is_so.to_string()),
        Value::Array(claims) => {
            let texts: Option<Vec<_>> = claims.iter().map(Value::as_str).collect();
            // A string with a comma would look like two entries of the list.
            texts.filter(|texts| !texts.iter().any(|text| text.contains(','))).map(|texts| texts.join(", "))
        }
        Value::Null | Value::Object(_) => None,
    }
}
