//! The keys that tokens are signed with, and what each is for.

#[cfg(test)]
mod tests;

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

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
    /// It is neither a JSON Web Key Set nor PEM.
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

    /// The public keys of a file: a JSON Web Key Set, or keys in PEM, one after the other (`PUBLIC KEY`, `RSA PUBLIC KEY`). What else is in
    /// PEM there is passed over, private keys among it.
    ///
    /// # Errors
    /// There are none.
    pub fn from_file(text: &str) -> Result<Self, InvalidJwtKeys> {
        if !text.contains(PEM_BEGIN) {
            return Self::from_set(text);
        }
        let keys: Arc<[Key]> =
            text.match_indices(PEM_BEGIN).filter_map(|(at, _)| pem_key(&text[at..])).collect();
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

    /// Whether there may be other keys, of which one has this id: none of these has it, though they have ids.
    pub(super) fn lack(&self, id: Option<&str>) -> bool {
        id.is_some_and(|id| self.keys.iter().all(|key| key.id.as_deref().is_some_and(|own| own != id)))
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
        AlgorithmParameters::RSA(parameters) if parameters.n.len() >= RSA_DIGITS_MIN => RSA.to_vec(),
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

/// The key that `text` begins with. It has no id, and says nothing of algorithms: it is for all that its kind can.
fn pem_key(text: &str) -> Option<Key> {
    let label = text.strip_prefix(PEM_BEGIN)?.split_once("-----")?.0;
    if !["PUBLIC KEY", "RSA PUBLIC KEY"].contains(&label) {
        return None;
    }
    let text = text.as_bytes();
    let (algorithms, decoding) = if let Ok(key) = DecodingKey::from_rsa_pem(text) {
        (rsa_algorithms(key.try_get_as_bytes().ok()?), key)
    } else if let Ok(key) = DecodingKey::from_ec_pem(text) {
        (ec_algorithms(key.try_get_as_bytes().ok()?), key)
    } else {
        (&[Algorithm::EdDSA][..], DecodingKey::from_ed_pem(text).ok()?)
    };
    (!algorithms.is_empty()).then(|| Key { id: None, algorithms: algorithms.to_vec(), decoding })
}

/// What a key of RSA is for, by its `RSAPublicKey` (RFC 8017 §A.1.1): a sequence that begins with the modulus.
fn rsa_algorithms(der: &[u8]) -> &'static [Algorithm] {
    match der {
        // Both have lengths of two octets if the modulus has 256 or more.
        [0x30, 0x82, _, _, 0x02, 0x82, high, low, ..]
            if u16::from_be_bytes([*high, *low]) >= RSA_OCTETS_MIN =>
        {
            &RSA
        }
        _ => &[],
    }
}

/// What a key on an elliptic curve is for, by its point (SEC 1 §2.3.3): how long it is tells the curve.
const fn ec_algorithms(point: &[u8]) -> &'static [Algorithm] {
    match point {
        [0x04, rest @ ..] if rest.len() == 64 => &[Algorithm::ES256],
        [0x04, rest @ ..] if rest.len() == 96 => &[Algorithm::ES384],
        _ => &[],
    }
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
            Self::Syntax => "this is neither a JSON Web Key Set nor public keys in PEM",
        })
    }
}

impl core::error::Error for InvalidJwtKeys {}

const PEM_BEGIN: &str = "-----BEGIN ";

/// What keys of RSA are for.
const RSA: [Algorithm; 6] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// 256 bits.
const SECRET_BYTES_MIN: usize = 32;
/// 2048 bits in base64.
const RSA_DIGITS_MIN: usize = 342;
/// The same in octets.
const RSA_OCTETS_MIN: u16 = 256;
