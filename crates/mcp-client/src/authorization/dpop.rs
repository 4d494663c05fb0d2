//! Tokens bound to a key (RFC 9449): each request contains a proof that its sender has the key.

use std::fmt;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::error::OAuthError;
use super::random::{random_text, unix_time};
use super::url::HttpUrl;

/// The key of a client. An authorization server can bind tokens to this key.
pub(super) struct DpopKey {
    pkcs8: Vec<u8>,
    signing: EncodingKey,
    public: Jwk,
}

/// The claims of a proof (RFC 9449 §4.2).
#[derive(Serialize)]
struct Proof<'a> {
    jti: String,
    htm: &'a str,
    htu: &'a str,
    iat: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ath: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<&'a str>,
}

impl DpopKey {
    /// Returns a new random key.
    pub(super) fn generate() -> Result<Self, OAuthError> {
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Self::of_pkcs8(der.map_err(|_| OAuthError::KeyInvalid)?.as_ref().to_vec())
    }

    /// Restores a key from the text that [`to_text`](Self::to_text) returned.
    pub(super) fn restore(text: &str) -> Result<Self, OAuthError> {
        Self::of_pkcs8(URL_SAFE_NO_PAD.decode(text).map_err(|_| OAuthError::KeyInvalid)?)
    }

    /// Returns the key as text, for storage.
    pub(super) fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(&self.pkcs8)
    }

    fn of_pkcs8(pkcs8: Vec<u8>) -> Result<Self, OAuthError> {
        let signing = EncodingKey::from_ec_der(&pkcs8);
        let public = Jwk::from_encoding_key(&signing, Algorithm::ES256);
        Ok(Self { pkcs8, signing, public: public.map_err(|_| OAuthError::KeyInvalid)? })
    }

    /// Creates the proof for one request. `nonce` is the last nonce of the server. `access_token` is the
    /// token of the request, if any.
    pub(super) fn proof(
        &self,
        method: &str,
        url: &HttpUrl,
        nonce: Option<&str>,
        access_token: Option<&str>,
    ) -> Result<String, OAuthError> {
        let header = Header {
            typ: Some("dpop+jwt".to_owned()),
            jwk: Some(self.public.clone()),
            ..Header::new(Algorithm::ES256)
        };
        let proof = Proof {
            jti: random_text(),
            htm: method,
            htu: &url.without_query(),
            iat: unix_time(),
            ath: access_token.map(|token| URL_SAFE_NO_PAD.encode(Sha256::digest(token))),
            nonce,
        };
        encode(&header, &proof, &self.signing).map_err(|_| OAuthError::KeyInvalid)
    }
}

impl fmt::Debug for DpopKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpopKey").field("public", &self.public).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{DecodingKey, Validation, decode, decode_header};
    use serde_json::Value;

    use super::*;

    #[test]
    fn proof_contains_its_request_and_verifies_with_its_key() {
        let key = DpopKey::restore(&DpopKey::generate().unwrap().to_text()).unwrap();
        let url = HttpUrl::parse("https://a.example/b?c").unwrap();
        let proof = key.proof("POST", &url, Some("n"), Some("token")).unwrap();
        let header = decode_header(&proof).unwrap();
        assert_eq!((header.typ.as_deref(), header.alg), (Some("dpop+jwt"), Algorithm::ES256));
        let mut validation = Validation::new(Algorithm::ES256);
        validation.required_spec_claims.clear();
        let public = DecodingKey::from_jwk(&header.jwk.unwrap()).unwrap();
        let claims = decode::<Value>(&proof, &public, &validation).unwrap().claims;
        assert_eq!(
            (
                claims["htm"].as_str(),
                claims["htu"].as_str(),
                claims["nonce"].as_str(),
                claims["ath"].as_str()
            ),
            // printf token | openssl dgst -sha256 -binary | basenc --base64url
            (
                Some("POST"),
                Some("https://a.example/b"),
                Some("n"),
                Some("PEaenWxYddN6Q_NT1PiOYfz4EsZu7jRXRlpAsNpBU-A")
            )
        );
        let other = key.proof("POST", &url, None, None).unwrap();
        let other = decode::<Value>(&other, &public, &validation).unwrap().claims;
        assert!(other["jti"] != claims["jti"] && other.get("ath").is_none() && other.get("nonce").is_none());
    }

    /// Token stores contain keys that another cryptography library (`p256`) has written. If the client cannot
    /// read such a key, its user must log in again.
    #[test]
    fn key_stored_by_an_older_version_can_be_restored() {
        let stored = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH\
                      BwcHBwcHBwehRANCAAQeGFMv1HVMAvMEHZx1zrM7g__YGsfOT-iCzLHJi8WJbqRsMRxOL_QN2Wo2U-bk\
                      VEXTLf5Ibs7XXHqQxqGIgcCj";
        let key = DpopKey::restore(stored).unwrap();
        assert_eq!(key.to_text(), stored);
        let public = serde_json::to_value(&key.public).unwrap();
        assert_eq!(public["x"], "HhhTL9R1TALzBB2cdc6zO4P_2BrHzk_ogsyxyYvFiW4");
    }

    #[test]
    fn restoring_an_invalid_key_fails() {
        for text in ["", "!", "AAAA"] {
            assert_eq!(DpopKey::restore(text).err(), Some(OAuthError::KeyInvalid), "{text}");
        }
    }
}
