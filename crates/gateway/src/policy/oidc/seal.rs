//! Encrypts and authenticates the content of cookies.
//!
//! All replicas with the same secrets read the cookies of each other. AES-256-GCM-SIV stays secure with
//! random nonces (RFC 8452), so replicas need not agree on nonces.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Secrets for cookies. The first secret encrypts new cookies, and all secrets decrypt cookies. To replace a
/// secret, insert the new secret before the old one, and remove the old one after the maximum duration of a
/// session.
#[derive(Clone, PartialEq, Eq)]
pub struct OidcSecrets(Vec<String>);

/// Reason why secrets are unusable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidOidcSecrets {
    /// There is no secret.
    Missing,
    /// A secret has fewer than 32 bytes, so an attacker could guess it.
    Short,
}

/// Encrypts and decrypts the cookies of one policy.
pub(super) struct Sealer {
    keys: Vec<LessSafeKey>,
}

/// Kind of a cookie. A cookie of one kind is not valid as a cookie of another kind.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Login,
    Session,
}

struct KeyLength;

impl KeyType for KeyLength {
    fn len(&self) -> usize {
        AES_256_GCM_SIV.key_len()
    }
}

impl OidcSecrets {
    /// Returns the secrets in `text`, one in each line. Skips empty lines and lines that begin with `#`.
    ///
    /// # Errors
    /// There is no secret, or a secret has fewer than 32 bytes.
    pub fn from_lines(text: &str) -> Result<Self, InvalidOidcSecrets> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let secrets: Vec<_> = lines.map(str::to_owned).collect();
        if secrets.is_empty() {
            return Err(InvalidOidcSecrets::Missing);
        }
        if secrets.iter().any(|secret| secret.len() < SECRET_BYTES_MIN) {
            return Err(InvalidOidcSecrets::Short);
        }
        Ok(Self(secrets))
    }
}

impl Sealer {
    /// Returns a sealer for the policy that `context` identifies. Cookies of other contexts are not valid,
    /// even if the secrets are equal.
    pub(super) fn new(secrets: &OidcSecrets, context: &[&str]) -> Self {
        let context: Vec<&[u8]> =
            context.iter().flat_map(|part| [part.as_bytes(), b"\0".as_slice()]).collect();
        let key = |secret: &String| {
            let secret = Salt::new(HKDF_SHA256, b"thruway oidc").extract(secret.as_bytes());
            let mut bytes = [0; 32];
            secret.expand(&context, KeyLength).ok()?.fill(&mut bytes).ok()?;
            UnboundKey::new(&AES_256_GCM_SIV, &bytes).ok().map(LessSafeKey::new)
        };
        Self { keys: secrets.0.iter().filter_map(key).collect() }
    }

    /// Encrypts `text`. Returns `None` if the operating system provides no random numbers.
    pub(super) fn seal(&self, purpose: Purpose, text: &str) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut sealed = text.as_bytes().to_vec();
        let key = self.keys.first()?;
        let aad = Aad::from(purpose.label());
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed).ok()?;
        Some(URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat()))
    }

    /// Decrypts `sealed`. Returns `None` if no key decrypts it.
    pub(super) fn open(&self, purpose: Purpose, sealed: &str) -> Option<String> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN)?;
        self.keys.iter().find_map(|key| {
            let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
            let mut sealed = sealed.to_vec();
            let text = key.open_in_place(nonce, Aad::from(purpose.label()), &mut sealed).ok()?;
            String::from_utf8(text.to_vec()).ok()
        })
    }
}

impl Purpose {
    const fn label(self) -> &'static [u8] {
        match self {
            Self::Login => b"login",
            Self::Session => b"session",
        }
    }
}

/// Returns random text of 43 characters, which contains 256 random bits.
pub(super) fn random_text() -> Option<String> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

impl fmt::Debug for OidcSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OidcSecrets").field("secrets", &self.0.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

impl fmt::Display for InvalidOidcSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "there is no secret",
            Self::Short => "a secret must have at least 32 bytes",
        })
    }
}

impl std::error::Error for InvalidOidcSecrets {}

const SECRET_BYTES_MIN: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "an old secret of thirty-two bytes or more";
    const NEW: &str = "a new secret of thirty-two bytes or more";

    fn sealer(secrets: &str) -> Sealer {
        Sealer::new(&OidcSecrets::from_lines(secrets).unwrap(), &["login", "client"])
    }

    #[test]
    fn all_secrets_decrypt_and_the_first_encrypts() {
        let (old, both, new) = (sealer(OLD), sealer(&format!("# next\n{NEW}\n\n{OLD}\n")), sealer(NEW));
        let by_old = old.seal(Purpose::Session, "text").unwrap();
        let by_both = both.seal(Purpose::Session, "text").unwrap();
        assert_eq!(both.open(Purpose::Session, &by_old).as_deref(), Some("text"));
        assert_eq!(new.open(Purpose::Session, &by_both).as_deref(), Some("text"));
        assert_eq!(new.open(Purpose::Session, &by_old), None);
        assert_eq!(old.open(Purpose::Session, &by_both), None);
        assert_ne!(by_old, old.seal(Purpose::Session, "text").unwrap(), "nonces are random");
    }

    #[test]
    fn changed_and_foreign_text_is_not_decrypted() {
        let sealer = sealer(OLD);
        let cookie = sealer.seal(Purpose::Session, "text").unwrap();
        assert_eq!(sealer.open(Purpose::Login, &cookie), None);
        let other = Sealer::new(&OidcSecrets::from_lines(OLD).unwrap(), &["loginc", "lient"]);
        assert_eq!(other.open(Purpose::Session, &cookie), None);
        for place in 0..cookie.len() {
            let mut changed = cookie.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            assert_eq!(sealer.open(Purpose::Session, str::from_utf8(&changed).unwrap()), None, "{place}");
            assert_eq!(sealer.open(Purpose::Session, &cookie[..place]), None, "{place}");
        }
    }

    #[test]
    fn short_and_missing_secrets_are_errors() {
        let error = |text| OidcSecrets::from_lines(text).unwrap_err().to_string();
        assert_eq!(error("\n# comment\n"), "there is no secret");
        assert_eq!(error(&format!("{OLD}\nshort")), "a secret must have at least 32 bytes");
        let secrets = OidcSecrets::from_lines(OLD).unwrap();
        assert!(!format!("{secrets:?}").contains("old"), "{secrets:?}");
    }
}
