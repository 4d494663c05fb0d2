//! Tokens of an issuer, for tests of authorization.

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

/// An issuer of JSON Web Tokens, with an Ed25519 key that its name determines.
pub struct Issuer {
    /// Its private key.
    pub key: EncodingKey,
    id: &'static str,
}

impl Issuer {
    /// Creates an issuer whose key has the id `id`.
    pub fn new(id: &'static str) -> Self {
        // An Ed25519 key in PKCS #8: a fixed header, and 32 bytes.
        let mut der = vec![
            0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
        ];
        der.extend(id.bytes().cycle().take(32));
        Self { key: EncodingKey::from_ed_der(&der), id }
    }

    /// Returns its JSON Web Key Set.
    ///
    /// # Panics
    /// The key cannot be written.
    pub fn keys(&self) -> String {
        let mut key = Jwk::from_encoding_key(&self.key, Algorithm::EdDSA).unwrap();
        key.common.key_id = Some(self.id.to_owned());
        json!({"keys": [key]}).to_string()
    }

    /// Returns a token with these claims.
    ///
    /// # Panics
    /// The claims cannot be signed.
    pub fn token(&self, claims: &Value) -> String {
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = Some(self.id.to_owned());
        encode(&header, claims, &self.key).unwrap()
    }
}
