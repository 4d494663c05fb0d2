//! Session tickets with keys that several servers share. A client can resume its session on each server.
//!
//! Each listener derives its own keys from the shared keys and from its rule for client certificates
//! ([`TicketPurpose`]). Without this separation, a client could get a ticket without a client certificate
//! from one listener, and use the ticket on a listener that requires client certificates.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::rand;
use rustls::RootCertStore;
use rustls::server::ProducesTickets;
use sha2::{Digest, Sha256};

/// A random key for session tickets.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketKey([u8; TICKET_KEY_BYTES]);

/// Keys for session tickets that several servers share. Clones share the keys. Without keys, listeners send
/// no tickets.
#[derive(Clone, Default)]
pub struct SharedTicketKeys(Arc<ArcSwap<Vec<TicketKey>>>);

/// Digest of a listener's rule for client certificates. Listeners with different rules cannot decrypt the
/// tickets of each other.
#[derive(Clone, Copy)]
pub(super) struct TicketPurpose([u8; 32]);

/// Encrypts and decrypts the tickets of one listener.
pub(super) struct SharedTicketer {
    keys: SharedTicketKeys,
    purpose: TicketPurpose,
    derived: ArcSwap<DerivedKeys>,
}

/// The keys of one listener, and the shared keys from which they were derived.
struct DerivedKeys {
    shared: Arc<Vec<TicketKey>>,
    /// Encrypts new tickets. `None` if there are no shared keys.
    writer: Option<TicketWriter>,
    readers: Vec<TicketReader>,
}

/// Encrypts tickets with the first shared key. Each writer has its own random salt, and so its own
/// encryption key. A counter is therefore enough to make its nonces unique, even if many servers write
/// tickets with the same shared key.
struct TicketWriter {
    name: [u8; NAME_BYTES],
    salt: [u8; SALT_BYTES],
    key: LessSafeKey,
    counter: AtomicU64,
}

/// Decrypts the tickets of one shared key.
struct TicketReader {
    name: [u8; NAME_BYTES],
    base: Prk,
}

impl TicketKey {
    /// Returns a new random key. Returns `None` if the operating system provides no random numbers.
    pub fn random() -> Option<Self> {
        let mut key = [0; TICKET_KEY_BYTES];
        rand::fill(&mut key).ok().map(|()| Self(key))
    }

    /// Returns the key with these bytes. Returns `None` unless `bytes` has 32 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns the bytes of the key. The bytes are secret.
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl SharedTicketKeys {
    /// Replaces the keys. Listeners encrypt new tickets with the first key, and decrypt tickets with all
    /// keys.
    pub fn replace(&self, keys: Vec<TicketKey>) {
        if **self.0.load() != keys {
            self.0.store(Arc::new(keys));
        }
    }
}

impl TicketPurpose {
    /// Returns the purpose of a listener without client certificates.
    pub(super) fn without_client_certificates() -> Self {
        Self(Sha256::digest([0]).into())
    }

    /// Returns the purpose of a listener that requests client certificates from the issuers `roots`.
    pub(super) fn with_client_certificates(roots: &RootCertStore, are_optional: bool) -> Self {
        let mut digest = Sha256::new();
        digest.update([if are_optional { 1 } else { 2 }]);
        for root in &roots.roots {
            let constraints = root.name_constraints.as_ref().map(AsRef::as_ref);
            let fields = [root.subject.as_ref(), root.subject_public_key_info.as_ref()];
            for field in fields.into_iter().chain([constraints.unwrap_or_default()]) {
                digest.update((field.len() as u64).to_be_bytes());
                digest.update(field);
            }
        }
        Self(digest.finalize().into())
    }
}

impl SharedTicketer {
    pub(super) fn new(keys: SharedTicketKeys, purpose: TicketPurpose) -> Self {
        let derived = ArcSwap::from_pointee(DerivedKeys::of(keys.0.load_full(), purpose));
        Self { keys, purpose, derived }
    }

    /// Returns the derived keys. Derives them again if the shared keys have changed.
    fn derived(&self) -> Arc<DerivedKeys> {
        let derived = self.derived.load_full();
        let shared = self.keys.0.load_full();
        if Arc::ptr_eq(&derived.shared, &shared) {
            return derived;
        }
        let derived = Arc::new(DerivedKeys::of(shared, self.purpose));
        self.derived.store(derived.clone());
        derived
    }
}

impl ProducesTickets for SharedTicketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME_SECONDS
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.derived().writer.as_ref()?.encrypt(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = cipher.split_first_chunk()?;
        let derived = self.derived();
        derived.readers.iter().find(|reader| reader.name == *name)?.decrypt(rest)
    }
}

impl DerivedKeys {
    fn of(shared: Arc<Vec<TicketKey>>, purpose: TicketPurpose) -> Self {
        let readers: Vec<_> = shared.iter().filter_map(|key| TicketReader::new(key, purpose)).collect();
        let writer = readers.first().and_then(TicketWriter::new);
        Self { shared, writer, readers }
    }
}

impl TicketReader {
    fn new(key: &TicketKey, purpose: TicketPurpose) -> Option<Self> {
        let base = Salt::new(HKDF_SHA256, &purpose.0).extract(&key.0);
        let mut name = [0; NAME_BYTES];
        base.expand(&[b"thruway session ticket name"], Length(NAME_BYTES)).ok()?.fill(&mut name).ok()?;
        Some(Self { name, base })
    }

    /// Returns the encryption key of the writer with this salt.
    fn key_of_writer(&self, salt: &[u8; SALT_BYTES]) -> Option<LessSafeKey> {
        let mut key = [0; 32];
        let info: [&[u8]; 2] = [b"thruway session ticket key", salt];
        self.base.expand(&info, Length(key.len())).ok()?.fill(&mut key).ok()?;
        UnboundKey::new(&AES_256_GCM, &key).ok().map(LessSafeKey::new)
    }

    fn decrypt(&self, rest: &[u8]) -> Option<Vec<u8>> {
        let (salt, rest) = rest.split_first_chunk()?;
        let (counter, sealed) = rest.split_first_chunk()?;
        let mut sealed = sealed.to_vec();
        let nonce = nonce_of(u64::from_be_bytes(*counter));
        let key = self.key_of_writer(salt)?;
        let length = key.open_in_place(nonce, Aad::from(self.name), &mut sealed).ok()?.len();
        sealed.truncate(length);
        Some(sealed)
    }
}

impl TicketWriter {
    fn new(reader: &TicketReader) -> Option<Self> {
        let mut salt = [0; SALT_BYTES];
        rand::fill(&mut salt).ok()?;
        let key = reader.key_of_writer(&salt)?;
        Some(Self { name: reader.name, salt, key, counter: AtomicU64::new(0) })
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let counter = self.counter.fetch_add(1, Ordering::Relaxed);
        let mut sealed = plain.to_vec();
        let (nonce, name) = (nonce_of(counter), Aad::from(self.name));
        self.key.seal_in_place_append_tag(nonce, name, &mut sealed).ok()?;
        Some([&self.name[..], &self.salt, &counter.to_be_bytes(), &sealed].concat())
    }
}

fn nonce_of(counter: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - 8..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// Length of a derived value, in bytes.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Two values are equal if they share their keys.
impl PartialEq for SharedTicketKeys {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedTicketKeys {}

/// Omits the key, because the key is secret.
impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKey").finish_non_exhaustive()
    }
}

impl fmt::Debug for SharedTicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedTicketKeys").field("count", &self.0.load().len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for SharedTicketer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedTicketer").field("keys", &self.keys).finish_non_exhaustive()
    }
}

const TICKET_KEY_BYTES: usize = 32;
const NAME_BYTES: usize = 16;
const SALT_BYTES: usize = 16;

/// Lifetime of a ticket that the server sends to the client, in seconds.
const LIFETIME_SECONDS: u32 = 12 * 60 * 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn ticketer(keys: &SharedTicketKeys) -> SharedTicketer {
        SharedTicketer::new(keys.clone(), TicketPurpose::without_client_certificates())
    }

    #[test]
    fn servers_with_the_same_keys_decrypt_the_tickets_of_each_other() {
        let (first, second) = (TicketKey::random().unwrap(), TicketKey::random().unwrap());
        let (one, two) = (SharedTicketKeys::default(), SharedTicketKeys::default());
        let (writer, reader) = (ticketer(&one), ticketer(&two));
        assert_eq!(writer.encrypt(b"session"), None, "without keys, there are no tickets");
        one.replace(vec![first.clone()]);
        two.replace(vec![second.clone(), first.clone()]);
        let ticket = writer.encrypt(b"session").unwrap();
        assert_ne!(writer.encrypt(b"session").unwrap(), ticket, "each ticket has its own nonce");
        assert_eq!(reader.decrypt(&ticket).unwrap(), b"session");
        assert_eq!(writer.decrypt(&reader.encrypt(b"session").unwrap()), None, "the key is unknown");
        two.replace(vec![second]);
        assert_eq!(reader.decrypt(&ticket), None, "the key was removed");
    }

    #[test]
    fn changed_or_shortened_ticket_is_rejected() {
        let keys = SharedTicketKeys::default();
        keys.replace(vec![TicketKey::random().unwrap()]);
        let ticketer = ticketer(&keys);
        let ticket = ticketer.encrypt(b"session").unwrap();
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(ticketer.decrypt(&changed), None, "byte {at}");
            assert_eq!(ticketer.decrypt(&ticket[..at]), None, "{at} bytes");
        }
    }

    #[test]
    fn listeners_with_other_rules_for_client_certificates_reject_the_ticket() {
        let keys = SharedTicketKeys::default();
        keys.replace(vec![TicketKey::random().unwrap()]);
        let roots = RootCertStore::empty();
        let purposes = [
            TicketPurpose::without_client_certificates(),
            TicketPurpose::with_client_certificates(&roots, true),
            TicketPurpose::with_client_certificates(&roots, false),
        ];
        let ticketers = purposes.map(|purpose| SharedTicketer::new(keys.clone(), purpose));
        for (from, writer) in ticketers.iter().enumerate() {
            let ticket = writer.encrypt(b"session").unwrap();
            for (to, reader) in ticketers.iter().enumerate() {
                assert_eq!(reader.decrypt(&ticket).is_some(), from == to, "{from} to {to}");
            }
        }
    }

    #[test]
    fn key_has_exactly_32_bytes() {
        let key = TicketKey::random().unwrap();
        assert_eq!(TicketKey::from_bytes(key.as_bytes()), Some(key));
        assert_eq!(TicketKey::from_bytes(&[0; 31]), None);
        assert_eq!(format!("{:?}", TicketKey::from_bytes(&[7; 32])), "Some(TicketKey { .. })");
    }
}
