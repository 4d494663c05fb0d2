//! Requests as accounts sign them (RFC 8555 §6.2).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Content of a signed request.
pub(super) struct Signed {
    pub(super) nonce: String,
    pub(super) url: String,
    /// The URL of the account; `None` if it has none yet.
    pub(super) account: Option<String>,
    /// Thumbprint of the key (RFC 7638), if the request contains the key.
    pub(super) thumbprint: Option<String>,
    /// Null where there is none.
    pub(super) content: Value,
}

impl Signed {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
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
            account: text("kid"),
            thumbprint: header.get("jwk").map(thumbprint),
            content: serde_json::from_slice(&part("payload")?).unwrap_or_default(),
        })
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.content[name].as_str().unwrap_or_default()
    }
}

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
