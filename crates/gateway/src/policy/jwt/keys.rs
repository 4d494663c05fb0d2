//! The keys that tokens are signed with, and what each is for.

use std::fmt;
use std::sync::Arc;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};

/// Keys to verify signatures with.
#[derive(Clone)]
pub struct JwtKeys {
    keys: Arc<[Key]>,
    /// What they were read from, to tell whether others are the same.
    source: Arc<str>,
}

/// One key, with what it may be used for.
pub(super) struct Key {
    pub(super) id: Option<String>,
    pub(super) algorithms: Vec<Algorithm>,
    pub(super) decoding: DecodingKey,
}

/// Why there are no keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidJwtKeys {
    /// None of the keys can verify a signature.
    NoneOfUse,
    /// The secret is so short that it could be guessed (RFC 7518 §3.2).
    ShortSecret,
    /// It is no JSON Web Key Set.
    Syntax,
}

impl JwtKeys {
    /// The public keys of a JSON Web Key Set (RFC 7517 §5). Secrets in it are passed over, and so are RSA keys of less than 2048
    /// bits.
    ///
    /// # Errors
    /// There are none.
    pub fn from_set(text: &str) -> Result<Self, InvalidJwtKeys> {
        let set: JwkSet = serde_json::from_str(text).map_err(|_| InvalidJwtKeys::Syntax)?;
        let keys: Arc<[Key]> = set.keys.iter().filter_map(public_key).collect();
        if keys.is_empty() { Err(InvalidJwtKeys::NoneOfUse) } else { Ok(Self { keys, source: text.into() }) }
    }

    /// A secret that is shared with the issuer.
    ///
    /// # Errors
    /// It is too short.
    pub fn from_secret(secret: &str) -> Result<Self, InvalidJwtKeys> {
        if secret.len() < SECRET_BYTES_MIN {
            return Err(InvalidJwtKeys::ShortSecret);
        }
        let key = Key {
            id: None,
            algorithms: vec![Algorithm::HS256, Algorithm::HS384, Algorithm::HS512],
            decoding: DecodingKey::from_secret(secret.as_bytes()),
        };
        Ok(Self { keys: Arc::new([key]), source: secret.into() })
    }

    /// Whether any key is for `algorithm`.
    pub fn are_for(&self, algorithm: Algorithm) -> bool {
        self.keys.iter().any(|key| key.algorithms.contains(&algorithm))
    }

    /// Those that may have signed a token with this algorithm and this key id. A secret has no id, and is for any.
    pub(super) fn candidates<'k>(
        &'k self,
        algorithm: Algorithm,
        id: Option<&'k str>,
    ) -> impl Iterator<Item = &'k Key> {
        let fits = move |key: &&Key| match (&key.id, id) {
            (Some(own), Some(id)) => own == id,
            _ => true,
        };
        self.keys.iter().filter(move |key| key.algorithms.contains(&algorithm)).filter(fits)
    }
}

fn public_key(jwk: &Jwk) -> Option<Key> {
    if matches!(jwk.common.public_key_use, Some(PublicKeyUse::Encryption)) {
        return None;
    }
    let mut algorithms = match &jwk.algorithm {
        AlgorithmParameters::RSA(parameters) if parameters.n.len() >= RSA_DIGITS_MIN => vec![
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

impl PartialEq for JwtKeys {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl fmt::Debug for JwtKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtKeys").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

impl fmt::Display for InvalidJwtKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoneOfUse => {
                "there is no public key of RSA (2048 bits), P-256, P-384 or Ed25519 for signatures"
            }
            Self::ShortSecret => {
                "a secret has at least 32 octets, as many as the digest that is made with it"
            }
            Self::Syntax => "this is no JSON Web Key Set",
        })
    }
}

impl std::error::Error for InvalidJwtKeys {}

/// 256 bits.
const SECRET_BYTES_MIN: usize = 32;
/// 2048 bits in base64.
const RSA_DIGITS_MIN: usize = 342;
