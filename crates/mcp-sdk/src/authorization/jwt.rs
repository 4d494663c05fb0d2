//! Tokens that are JSON Web Tokens (RFC 9068), and the keys that they are signed with (RFC 7517).

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::Value;
use thruway_client::{DocumentConfig, KeptDocument};
use thruway_mcp::schema::JsonObject;

use super::{Identity, InvalidToken, VerifyToken};

/// Accepts JSON Web Tokens that were signed by one of a set of keys, issued by a certain issuer for a certain audience.
/// Clones have the same keys.
#[derive(Clone)]
pub struct JwtVerifier {
    expected: Expected,
    keys: Arc<ArcSwap<Vec<Key>>>,
}

/// Accepts the same tokens as a [`JwtVerifier`], by the keys that the issuer has at a URL just then. Clones have the same keys.
///
/// They are fetched when this is made, and kept as long as the server says, within the limits of the [`DocumentConfig`]. A token that names a
/// key that is not there is refused, and has them fetched again, unless they were fetched only just now; what cannot be fetched leaves
/// the keys of before.
#[derive(Clone)]
pub struct JwksVerifier {
    expected: Expected,
    keys: KeptDocument<Vec<Key>>,
}

/// Who must have issued a token, and for whom.
#[derive(Clone)]
struct Expected {
    issuer: String,
    audience: String,
}

/// One key of the set, with what it may be used for.
struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    decoding: DecodingKey,
}

/// The keys are not a JSON Web Key Set, or none of them can verify a signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidKeys;

impl JwtVerifier {
    /// Accepts tokens of `issuer` for `audience`, which is the URL of the endpoint. `keys` is the issuer's JSON Web Key Set.
    ///
    /// # Errors
    /// The keys are not usable.
    pub fn new(
        issuer: impl Into<String>,
        audience: impl Into<String>,
        keys: &str,
    ) -> Result<Self, InvalidKeys> {
        let keys = Arc::new(ArcSwap::from_pointee(parse_keys(keys)?));
        Ok(Self { expected: Expected { issuer: issuer.into(), audience: audience.into() }, keys })
    }

    /// Takes other keys from now on: issuers change theirs from time to time. Nobody is kept waiting.
    ///
    /// # Errors
    /// The keys are not usable; the old ones stay.
    pub fn replace_keys(&self, keys: &str) -> Result<(), InvalidKeys> {
        self.keys.store(Arc::new(parse_keys(keys)?));
        Ok(())
    }
}

impl JwksVerifier {
    /// Accepts tokens of `issuer` for `audience`, which is the URL of the endpoint. `keys` is where the issuer's JSON Web Key Set is; it is fetched
    /// from here on.
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>, keys: DocumentConfig) -> Self {
        let accept = "application/jwk-set+json, application/json".to_owned();
        let keys = KeptDocument::start(DocumentConfig { accept, ..keys }, |content| {
            parse_keys(&String::from_utf8_lossy(content))
        });
        Self { expected: Expected { issuer: issuer.into(), audience: audience.into() }, keys }
    }
}

impl Expected {
    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.leeway = LEEWAY_SECONDS;
        validation.validate_nbf = true;
        validation.set_audience(&[&self.audience]);
        validation.set_issuer(&[&self.issuer]);
        validation.set_required_spec_claims(&["exp", "aud", "iss", "sub"]);
        validation
    }

    /// Who has been given `token`, which one of `keys` has signed.
    fn verify(&self, token: &str, keys: &[Key]) -> Result<Identity, InvalidToken> {
        let header = decode_header(token).map_err(|_| InvalidToken)?;
        let may_fit = |key: &&Key| {
            key.algorithms.contains(&header.alg) && (header.kid.is_none() || key.id == header.kid)
        };
        let validation = self.validation(header.alg);
        let mut candidates = keys.iter().filter(may_fit);
        candidates
            .find_map(|key| decode::<JsonObject>(token, &key.decoding, &validation).ok())
            .map(|token| identity(token.claims))
            .ok_or(InvalidToken)
    }
}

impl VerifyToken for JwtVerifier {
    fn verify(&self, token: &str) -> Result<Identity, InvalidToken> {
        self.expected.verify(token, &self.keys.load())
    }
}

impl VerifyToken for JwksVerifier {
    fn verify(&self, token: &str) -> Result<Identity, InvalidToken> {
        let verified = self.keys.read(|keys| (self.expected.verify(token, keys), lack(keys, token)));
        let Some((verified, is_lacking)) = verified else { return Err(InvalidToken) };
        if is_lacking {
            // Nobody waits here: whoever comes again may find the key.
            drop(self.keys.refreshed());
        }
        verified
    }
}

/// Whether `token` names a key that is not among `keys`.
fn lack(keys: &[Key], token: &str) -> bool {
    let id = decode_header(token).ok().and_then(|header| header.kid);
    id.is_some_and(|id| keys.iter().all(|key| key.id.as_deref() != Some(&id)))
}

fn identity(claims: JsonObject) -> Identity {
    let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    Identity { issuer: text("iss"), subject: text("sub"), scopes: scopes(&claims), claims }
}

/// `scope`, a list with spaces (RFC 9068 §2.2.3); some issuers write an array, or call it `scp`.
fn scopes(claims: &JsonObject) -> Vec<String> {
    match claims.get("scope").or_else(|| claims.get("scp")) {
        Some(Value::String(scopes)) => scopes.split_ascii_whitespace().map(str::to_owned).collect(),
        Some(Value::Array(scopes)) => scopes.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

fn parse_keys(keys: &str) -> Result<Vec<Key>, InvalidKeys> {
    let set: JwkSet = serde_json::from_str(keys).map_err(|_| InvalidKeys)?;
    let keys: Vec<_> = set.keys.iter().filter_map(parse_key).collect();
    if keys.is_empty() { Err(InvalidKeys) } else { Ok(keys) }
}

/// Only keys that others can verify with: a secret that is shared with the issuer is none.
fn parse_key(jwk: &Jwk) -> Option<Key> {
    let mut algorithms = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => vec![
            Algorithm::RS256,
            Algorithm::RS384,
            Algorithm::RS512,
            Algorithm::PS256,
            Algorithm::PS384,
            Algorithm::PS512,
        ],
        AlgorithmParameters::EllipticCurve(parameters) => match parameters.curve {
            EllipticCurve::P256 => vec![Algorithm::ES256],
            EllipticCurve::P384 => vec![Algorithm::ES384],
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(_) => vec![Algorithm::EdDSA],
        _ => return None,
    };
    if let Some(only) = jwk.common.key_algorithm {
        algorithms.retain(|algorithm| format!("{algorithm:?}") == only.to_string());
    }
    let decoding = DecodingKey::from_jwk(jwk).ok()?;
    (!algorithms.is_empty()).then(|| Key { id: jwk.common.key_id.clone(), algorithms, decoding })
}

/// How far the clocks of issuer and server may be apart.
const LEEWAY_SECONDS: u64 = 30;

impl fmt::Debug for JwtVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expected.show("JwtVerifier", f)
    }
}

impl fmt::Debug for JwksVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expected.show("JwksVerifier", f)
    }
}

impl Expected {
    fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("issuer", &self.issuer)
            .field("audience", &self.audience)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for InvalidKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a JSON Web Key Set with a key to verify signatures with")
    }
}

impl std::error::Error for InvalidKeys {}
