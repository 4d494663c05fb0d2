//! Keys that verify signatures, and the algorithms that each key supports.

#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use serde_json::Value;

/// Keys that verify the signatures of tokens. Clones share the keys.
#[derive(Clone)]
pub struct JwtKeys {
    keys: Arc<[Key]>,
    /// Text from which the keys were read. Two values are equal if their texts are equal.
    source: Arc<str>,
}

/// A key, and the signature algorithms that it supports.
pub(super) struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    decoding: DecodingKey,
}

/// Reason why a text contains no usable keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidJwtKeys {
    /// No key in the text can verify a signature.
    NoneOfUse,
    /// The secret has fewer than 32 bytes, so an attacker could guess it (RFC 7518 §3.2).
    ShortSecret,
    /// The text is neither a JSON Web Key Set nor PEM.
    Syntax,
}

impl JwtKeys {
    /// Returns the public keys of a JSON Web Key Set (RFC 7517 §5). Skips secrets, keys for encryption, and
    /// RSA keys with fewer than 2048 or more than 8192 bits.
    ///
    /// # Errors
    /// The text is not a key set, or contains no usable key.
    pub fn from_set(text: &str) -> Result<Self, InvalidJwtKeys> {
        Self::from_issuer(text).and_then(Self::some)
    }

    /// Reads a key set like [`from_set`](Self::from_set), but returns an empty set instead of an error if
    /// the text contains no usable key. An issuer can withdraw all its keys by publishing a set without
    /// usable keys.
    ///
    /// # Errors
    /// The text is not a key set.
    pub fn from_issuer(text: &str) -> Result<Self, InvalidJwtKeys> {
        let set: Value = serde_json::from_str(text).map_err(|_| InvalidJwtKeys::Syntax)?;
        let keys = set.get("keys").and_then(Value::as_array).ok_or(InvalidJwtKeys::Syntax)?;
        Ok(Self { keys: keys.iter().filter_map(public_key).collect(), source: text.into() })
    }

    /// Returns the public keys of a file: a JSON Web Key Set, or one or more keys in PEM (`PUBLIC KEY`, `RSA
    /// PUBLIC KEY`). Skips other PEM blocks, such as private keys.
    ///
    /// # Errors
    /// The text is neither a key set nor PEM, or contains no usable key.
    pub fn from_file(text: &str) -> Result<Self, InvalidJwtKeys> {
        if !text.contains(PEM_BEGIN) {
            return Self::from_set(text);
        }
        let keys = text.match_indices(PEM_BEGIN).filter_map(|(at, _)| pem_key(&text[at..])).collect();
        Self { keys, source: text.into() }.some()
    }

    /// Returns a key for HMAC signatures: a secret that the issuer also knows. The secret has at least 32
    /// bytes.
    ///
    /// # Errors
    /// The secret has fewer than 32 bytes.
    pub fn from_secret(secret: &str) -> Result<Self, InvalidJwtKeys> {
        if secret.len() < SECRET_BYTES_MIN {
            return Err(InvalidJwtKeys::ShortSecret);
        }
        let key = Key {
            id: None,
            algorithms: [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512].into(),
            decoding: DecodingKey::from_secret(secret.as_bytes()),
        };
        Ok(Self { keys: Arc::new([key]), source: secret.into() })
    }

    fn some(self) -> Result<Self, InvalidJwtKeys> {
        if self.is_empty() { Err(InvalidJwtKeys::NoneOfUse) } else { Ok(self) }
    }

    /// Returns `true` if there are no keys. Without keys, every token is rejected.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns `true` if at least one key supports `algorithm`.
    pub fn are_for(&self, algorithm: Algorithm) -> bool {
        self.keys.iter().any(|key| key.algorithms.contains(&algorithm))
    }

    /// Returns `true` if there are no keys, or if every key has an id other than `id`. `id` is the key id
    /// in a token. A newer key set may then contain the key of the token.
    pub(super) fn lack(&self, id: Option<&str>) -> bool {
        let is_other = |id| self.keys.iter().all(|key| key.id.as_deref().is_some_and(|own| own != id));
        self.is_empty() || id.is_some_and(is_other)
    }

    /// Returns the keys that may have signed a token with the algorithm `algorithm` and the key id `id`. If
    /// the key or the token has no id, ids are not compared.
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

impl Key {
    /// Returns `true` if `signature` is a valid signature of `message` by this key.
    pub(super) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &Vec<u8>) -> bool {
        // Names the cryptography provider explicitly: if an application enables a second provider,
        // `jsonwebtoken` has no default provider and panics.
        let verifier = (DEFAULT_PROVIDER.verifier_factory)(&algorithm, &self.decoding);
        verifier.is_ok_and(|verifier| verifier.verify(message, signature).is_ok())
    }
}

/// Reads one key of a key set. Returns `None` if the key is not a public key for signatures. Callers skip
/// such a key, because a set may contain keys of unknown types (RFC 7517 §5).
fn public_key(jwk: &Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(jwk.clone()).ok()?;
    let decoding = DecodingKey::from_jwk(&jwk).ok()?;
    let mut algorithms = algorithms(&jwk.algorithm, &decoding).to_vec();
    if let Some(only) = jwk.common.key_algorithm {
        algorithms.retain(|algorithm| KeyAlgorithm::from(*algorithm) == only);
    }
    let is_of_use = is_for_signatures(&jwk) && !algorithms.is_empty();
    is_of_use.then_some(Key { id: jwk.common.key_id, algorithms, decoding })
}

/// Returns `true` if the members `use` (RFC 7517 §4.2) and `key_ops` (§4.3) allow the key to verify
/// signatures. An absent member allows every use.
fn is_for_signatures(jwk: &Jwk) -> bool {
    let is_use_ok =
        jwk.common.public_key_use.as_ref().is_none_or(|purpose| *purpose == PublicKeyUse::Signature);
    let operations = jwk.common.key_operations.as_ref();
    is_use_ok && operations.is_none_or(|operations| operations.contains(&KeyOperations::Verify))
}

/// Returns the algorithms that a key supports, by its type and size (RFC 7518 §3.1, §6). Returns no
/// algorithms for a secret, because a published key set must not contain secrets.
fn algorithms(parameters: &AlgorithmParameters, key: &DecodingKey) -> &'static [Algorithm] {
    match (parameters, key.kind()) {
        (AlgorithmParameters::RSA(_), DecodingKeyKind::RsaModulusExponent { n, .. }) => rsa_algorithms(n),
        (AlgorithmParameters::EllipticCurve(parameters), DecodingKeyKind::SecretOrDer(point)) => {
            match (&parameters.curve, ec_algorithms(point)) {
                (EllipticCurve::P256, algorithms @ [Algorithm::ES256])
                | (EllipticCurve::P384, algorithms @ [Algorithm::ES384]) => algorithms,
                _ => &[],
            }
        }
        (AlgorithmParameters::OctetKeyPair(parameters), DecodingKeyKind::SecretOrDer(point))
            if parameters.curve == EllipticCurve::Ed25519 && point.len() == ED25519_BYTES =>
        {
            &[Algorithm::EdDSA]
        }
        _ => &[],
    }
}

/// Reads the PEM block at the start of `text`. PEM contains neither a key id nor an algorithm, so the key
/// supports all algorithms of its type.
fn pem_key(text: &str) -> Option<Key> {
    let label = text.strip_prefix(PEM_BEGIN)?.split_once("-----")?.0;
    if !["PUBLIC KEY", "RSA PUBLIC KEY"].contains(&label) {
        return None;
    }
    let text = text.as_bytes();
    let (algorithms, decoding) = if let Ok(key) = DecodingKey::from_rsa_pem(text) {
        (rsa_algorithms(modulus(key.try_get_as_bytes().ok()?)?), key)
    } else if let Ok(key) = DecodingKey::from_ec_pem(text) {
        (ec_algorithms(key.try_get_as_bytes().ok()?), key)
    } else {
        (&[Algorithm::EdDSA][..], DecodingKey::from_ed_pem(text).ok()?)
    };
    (!algorithms.is_empty()).then(|| Key { id: None, algorithms: algorithms.to_vec(), decoding })
}

/// Returns the modulus of an `RSAPublicKey` (RFC 8017 §A.1.1) in DER. The modulus is the first member of a
/// SEQUENCE. Returns `None` if the modulus has fewer than 256 bytes: DER encodes shorter lengths differently,
/// and such an RSA key is not safe anyway.
fn modulus(der: &[u8]) -> Option<&[u8]> {
    match der {
        [0x30, 0x82, _, _, 0x02, 0x82, high, low, rest @ ..] => {
            rest.get(..usize::from(u16::from_be_bytes([*high, *low])))
        }
        _ => None,
    }
}

/// Returns the algorithms that an RSA key with this modulus supports. Returns no algorithms for a key that
/// is too short to be safe (RFC 7518 §3.3, §3.5) or too long for the cryptography library. Zero bytes at
/// the start of the modulus do not count towards its length.
fn rsa_algorithms(modulus: &[u8]) -> &'static [Algorithm] {
    let zeros = modulus.iter().take_while(|&&byte| byte == 0).count();
    let bits = match &modulus[zeros..] {
        [] => 0,
        [first, rest @ ..] => 8 * (rest.len() + 1) - first.leading_zeros() as usize,
    };
    if (RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) { &RSA } else { &[] }
}

/// Returns the algorithm of an elliptic-curve key by the length of its uncompressed point (SEC 1 §2.3.3).
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
                "there is no public key of a supported type: RSA with 2048 to 8192 bits, P-256, P-384 or Ed25519"
            }
            Self::ShortSecret => "a secret must have at least 32 bytes",
            Self::Syntax => "the text is neither a JSON Web Key Set nor public keys in PEM",
        })
    }
}

impl core::error::Error for InvalidJwtKeys {}

const PEM_BEGIN: &str = "-----BEGIN ";

/// Algorithms of RSA keys.
const RSA: [Algorithm; 6] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// Minimum length of a secret in bytes: 32 bytes are 256 bits.
const SECRET_BYTES_MIN: usize = 32;
const ED25519_BYTES: usize = 32;
const RSA_BITS_MIN: usize = 2048;
const RSA_BITS_MAX: usize = 8192;
