//! The operator key of a fleet, and the keys that are derived from it.

use std::error::Error;
use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, hmac, rand};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};

/// Secret keys of a fleet. The first key seals and signs. All keys open and verify, so that an operator can
/// replace a key: first add the new key as the last one everywhere, then make it the first one everywhere.
#[derive(Clone)]
pub struct SharedKey {
    keys: Vec<[u8; KEY_LEN]>,
}

impl SharedKey {
    /// Parses keys. Each key has 32 random bytes, in base64. The first key seals and signs.
    ///
    /// # Errors
    /// There is no key, or a key does not have 32 bytes in base64.
    pub fn parse<'a>(keys: impl IntoIterator<Item = &'a str>) -> Result<Self, SharedKeyError> {
        let decode = |text: &str| {
            let bytes = BASE64_STANDARD.decode(text.trim()).map_err(|_| SharedKeyError)?;
            bytes.try_into().map_err(|_| SharedKeyError)
        };
        let keys: Vec<_> = keys.into_iter().map(decode).collect::<Result<_, _>>()?;
        if keys.is_empty() { Err(SharedKeyError) } else { Ok(Self { keys }) }
    }

    /// Returns a random key, for a process that shares nothing.
    pub fn random() -> Self {
        let mut key = [0; KEY_LEN];
        fill_random(&mut key);
        Self { keys: vec![key] }
    }

    /// Returns the identities of the keys. They reveal nothing about the keys. The first key has the first
    /// identity. Two fleets have different identities.
    pub fn identities(&self) -> Vec<String> {
        let identity = |key| BASE64_URL_SAFE_NO_PAD.encode(derive(key, "identity", b""));
        self.keys.iter().map(identity).collect()
    }

    /// Returns the keys that encrypt values for one purpose. Values of another purpose cannot be opened.
    pub fn sealing(&self, purpose: &str) -> SealingKey {
        let sealing = |key: &[u8; KEY_LEN]| {
            let id = derive(key, "seal-id", purpose.as_bytes());
            let secret = derive(key, "seal", purpose.as_bytes());
            ([id[0], id[1], id[2], id[3]], aes_key(&secret))
        };
        SealingKey { keys: self.keys.iter().map(sealing).collect() }
    }

    /// Returns the keys that sign messages for one purpose.
    pub fn signing(&self, purpose: &str) -> SigningKey {
        let signing = |key| hmac::Key::new(hmac::HMAC_SHA256, &derive(key, "sign", purpose.as_bytes()));
        SigningKey { keys: self.keys.iter().map(signing).collect() }
    }

    /// Derives 32 secret bytes for one purpose from the first key, as for the key of another algorithm.
    pub fn derive(&self, purpose: &str) -> [u8; KEY_LEN] {
        derive(&self.keys[0], "derive", purpose.as_bytes())
    }

    /// Like [`SharedKey::derive`], but from each key, in order.
    pub fn derive_all(&self, purpose: &str) -> Vec<[u8; KEY_LEN]> {
        self.keys.iter().map(|key| derive(key, "derive", purpose.as_bytes())).collect()
    }
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedKey({} keys)", self.keys.len())
    }
}

/// Encrypts values for one purpose, with AES-256-GCM and random nonces. A key may seal 2^32 values.
pub struct SealingKey {
    /// Identifies the key in sealed values.
    keys: Vec<([u8; ID_LEN], LessSafeKey)>,
}

impl SealingKey {
    /// Encrypts `value`. The caller must open it with the same `context`, as the name of the value. So the
    /// store cannot exchange two values. A sealed value has 33 bytes more than `value`.
    pub fn seal(&self, value: &[u8], context: &[u8]) -> Vec<u8> {
        let (id, key) = &self.keys[0];
        let mut nonce = [0; NONCE_LEN];
        fill_random(&mut nonce);
        let mut sealed = Vec::with_capacity(HEAD_LEN + value.len() + AES_256_GCM.tag_len());
        sealed.push(FORMAT);
        sealed.extend_from_slice(id);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&encrypt(key, nonce, value, context));
        sealed
    }

    /// Decrypts a value. Returns `None` if another fleet sealed it, if it was changed, or if the purpose or the
    /// context differs.
    pub fn open(&self, sealed: &[u8], context: &[u8]) -> Option<Vec<u8>> {
        let (head, encrypted) = sealed.split_at_checked(HEAD_LEN)?;
        let (format, head) = head.split_first()?;
        let (id, nonce) = head.split_at(ID_LEN);
        let mut keys = self.keys.iter().filter(|(known, _)| *format == FORMAT && known == id);
        keys.find_map(|(_, key)| {
            let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
            let mut value = encrypted.to_vec();
            let length = key.open_in_place(nonce, Aad::from(context), &mut value).ok()?.len();
            value.truncate(length);
            Some(value)
        })
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({} keys)", self.keys.len())
    }
}

/// Signs messages for one purpose, with HMAC-SHA-256.
pub struct SigningKey {
    keys: Vec<hmac::Key>,
}

impl SigningKey {
    /// Returns the signature of `message`.
    pub fn sign(&self, message: &[u8]) -> [u8; 32] {
        let mut signature = [0; 32];
        signature.copy_from_slice(hmac::sign(&self.keys[0], message).as_ref());
        signature
    }

    /// Returns `true` if one of the keys has signed `message`. The comparison takes constant time.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.keys.iter().any(|key| hmac::verify(key, message, signature).is_ok())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({} keys)", self.keys.len())
    }
}

/// A key of a fleet is not correct. The error does not contain the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedKeyError;

impl fmt::Display for SharedKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key must have 32 bytes in base64; `openssl rand -base64 32` creates one")
    }
}

impl Error for SharedKeyError {}

/// Derives a key for one use and one purpose.
fn derive(key: &[u8; KEY_LEN], usage: &str, purpose: &[u8]) -> [u8; KEY_LEN] {
    let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"thruway fleet v1");
    let mut derived = [0; KEY_LEN];
    let info = [usage.as_bytes(), b"\0", purpose];
    let secret = salt.extract(key);
    let expanded = secret.expand(&info, hkdf::HKDF_SHA256).and_then(|key| key.fill(&mut derived));
    expanded.expect("HKDF-SHA-256 derives 32 bytes");
    derived
}

fn aes_key(secret: &[u8; KEY_LEN]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, secret).expect("the key has the length of AES-256"))
}

/// Returns the encrypted value and its tag.
fn encrypt(key: &LessSafeKey, nonce: [u8; NONCE_LEN], value: &[u8], context: &[u8]) -> Vec<u8> {
    let mut encrypted = value.to_vec();
    key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(context), &mut encrypted)
        .expect("the value is shorter than the maximum of AES-GCM");
    encrypted
}

/// # Panics
/// The system has no random numbers.
fn fill_random(bytes: &mut [u8]) {
    rand::fill(bytes).expect("the system has random numbers");
}

const KEY_LEN: usize = 32;
const ID_LEN: usize = 4;
/// Format, identity of the key, and nonce.
const HEAD_LEN: usize = 1 + ID_LEN + NONCE_LEN;
/// First byte of sealed values.
const FORMAT: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> String {
        BASE64_STANDARD.encode([byte; KEY_LEN])
    }

    #[test]
    fn a_value_opens_with_the_same_key_purpose_and_context_only() {
        let fleet = SharedKey::parse([key(1).as_str()]).unwrap();
        let sealed = fleet.sealing("certificates").seal(b"secret", b"name");
        assert_eq!(fleet.sealing("certificates").open(&sealed, b"name").unwrap(), b"secret");
        assert_eq!(fleet.sealing("certificates").open(&sealed, b"other"), None);
        assert_eq!(fleet.sealing("tickets").open(&sealed, b"name"), None);
        let other = SharedKey::parse([key(2).as_str()]).unwrap();
        assert_eq!(other.sealing("certificates").open(&sealed, b"name"), None);
        assert!(!sealed.windows(6).any(|bytes| bytes == b"secret"));
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(fleet.sealing("certificates").open(&changed, b"name"), None, "byte {at}");
            assert_eq!(fleet.sealing("certificates").open(&sealed[..at], b"name"), None, "{at} bytes");
        }
    }

    #[test]
    fn older_keys_still_open_and_verify() {
        let old = SharedKey::parse([key(1).as_str()]).unwrap();
        let (new, rotated) = (key(2), key(1));
        let new = SharedKey::parse([new.as_str(), rotated.as_str()]).unwrap();
        let sealed = old.sealing("a").seal(b"value", b"");
        assert_eq!(new.sealing("a").open(&sealed, b"").unwrap(), b"value");
        let signature = old.signing("a").sign(b"message");
        assert!(new.signing("a").verify(b"message", &signature));
        assert!(!new.signing("a").verify(b"another", &signature));
        assert!(!new.signing("b").verify(b"message", &signature));
        let sealed = new.sealing("a").seal(b"value", b"");
        assert_eq!(old.sealing("a").open(&sealed, b""), None);
        assert_eq!(new.identities()[1], old.identities()[0]);
    }

    #[test]
    fn keys_and_their_errors_are_not_printed() {
        let fleet = SharedKey::parse([key(7).as_str()]).unwrap();
        let printed = format!("{fleet:?} {:?} {:?}", fleet.sealing("a"), fleet.signing("a"));
        assert!(!printed.contains(&key(7)) && !printed.contains('7'), "{printed}");
        for wrong in ["", "short", "c2hvcnQ="] {
            assert_eq!(SharedKey::parse([wrong]).unwrap_err(), SharedKeyError);
        }
        assert!(SharedKey::parse([]).is_err());
    }
}
