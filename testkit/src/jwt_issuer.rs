//! JSON Web Tokens for tests of authorization.

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

/// Signs JSON Web Tokens with an Ed25519 key that is derived from the key id.
pub struct JwtIssuer {
    /// Private key.
    pub key: EncodingKey,
    id: &'static str,
}

impl JwtIssuer {
    /// Creates an issuer with the key id `id`.
    pub fn new(id: &'static str) -> Self {
        // An Ed25519 key in PKCS #8: a fixed header, and 32 bytes.
        let mut der = vec![
            0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
        ];
        der.extend(id.bytes().cycle().take(32));
        Self { key: EncodingKey::from_ed_der(&der), id }
    }

    /// Returns the JSON Web Key Set with the public key.
    ///
    /// # Panics
    /// Panics if the key cannot be encoded.
    pub fn keys(&self) -> String {
        let mut key = Jwk::from_encoding_key(&self.key, Algorithm::EdDSA).unwrap();
        key.common.key_id = Some(self.id.to_owned());
        json!({"keys": [key]}).to_string()
    }

    /// Returns a signed token with `claims`.
    ///
    /// # Panics
    /// Panics if `claims` cannot be encoded.
    pub fn token(&self, claims: &Value) -> String {
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = Some(self.id.to_owned());
        encode(&header, claims, &self.key).unwrap()
    }
}
