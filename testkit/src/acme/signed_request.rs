//! Signed requests (JWS, RFC 8555 §6.2).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A parsed signed request. Its signature is not verified.
pub(super) struct SignedRequest {
    pub(super) nonce: String,
    pub(super) url: String,
    /// URL of the account, if the request identifies its account by URL.
    pub(super) account_url: Option<String>,
    /// Thumbprint of the key (RFC 7638), if the request contains the key.
    pub(super) thumbprint: Option<String>,
    /// Content of the signed request. `null` if it is empty.
    pub(super) content: Value,
}

impl SignedRequest {
    /// Parses a request. Returns `None` if it is not a JWS with an ES256 signature.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let whole: Value = serde_json::from_slice(bytes).ok()?;
        let part = |name: &str| URL_SAFE_NO_PAD.decode(whole[name].as_str()?).ok();
        let header: Value = serde_json::from_slice(&part("protected")?).ok()?;
        let text = |name: &str| header[name].as_str().map(str::to_owned);
        let is_signed = part("signature").is_some_and(|signature| signature.len() == 64);
        if header["alg"] != "ES256" || !is_signed {
            return None;
        }
        Some(Self {
            nonce: text("nonce")?,
            url: text("url")?,
            account_url: text("kid"),
            thumbprint: header.get("jwk").map(thumbprint),
            content: serde_json::from_slice(&part("payload")?).unwrap_or_default(),
        })
    }

    /// Returns the string `name` of the content, or an empty string.
    pub(super) fn text(&self, name: &str) -> &str {
        self.content[name].as_str().unwrap_or_default()
    }
}

/// Returns the JWK thumbprint of an EC key (RFC 7638).
fn thumbprint(key: &Value) -> String {
    let part = |name: &str| key[name].as_str().unwrap_or_default();
    let canonical = format!(
        "{{\"crv\":\"{}\",\"kty\":\"{}\",\"x\":\"{}\",\"y\":\"{}\"}}",
        part("crv"),
        part("kty"),
        part("x"),
        part("y")
    );
    URL_SAFE_NO_PAD.encode(Sha256::digest(canonical))
}
