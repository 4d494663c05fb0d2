//! Ids that name the replica with the state behind the id. Several replicas of a server can then stand behind one
//! load balancer: a replica that receives an id of another replica forwards the request to this replica.
//!
//! An id contains the replica, a random part and a message authentication code. So a client can neither guess the id of
//! another client nor choose a replica.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use thruway_net::random_bytes;

/// Identifies a process of a fleet. A process chooses a random id when it starts, so an id never belongs to two
/// processes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId([u8; ID_BYTES]);

/// The state that an id refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReplicaIdKind {
    /// A session of the legacy era.
    Session,
    /// A request that continues on this replica only (`requestState`).
    State,
    /// A task.
    Task,
}

/// Creates and verifies the ids of one endpoint. Clones share the keys.
#[derive(Clone)]
pub struct ReplicaIds(Arc<Inner>);

struct Inner {
    replica: ReplicaId,
    endpoint: Box<str>,
    /// The first key signs, and all keys verify.
    keys: Vec<[u8; 32]>,
    pins_states: bool,
}

impl ReplicaId {
    /// Returns a random id.
    ///
    /// # Panics
    /// Panics if the operating system provides no random bytes.
    pub fn random() -> Self {
        Self(random_bytes())
    }

    /// Parses the text that [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<Self> {
        let id = Self(u64::from_str_radix(text, 16).ok()?.to_be_bytes());
        // Each id has only one text.
        (id.to_string() == text).then_some(id)
    }
}

impl ReplicaIds {
    /// Returns the ids of the endpoint `endpoint` on this replica. `keys` contains the keys of the fleet: the first key
    /// signs new ids, and all keys verify ids.
    ///
    /// # Panics
    /// Panics if `keys` is empty.
    pub fn new(replica: ReplicaId, endpoint: &str, keys: Vec<[u8; 32]>) -> Self {
        assert!(!keys.is_empty(), "the ids of replicas need a key");
        Self(Arc::new(Inner { replica, endpoint: endpoint.into(), keys, pins_states: false }))
    }

    /// Sets whether each `requestState` names this replica, although another replica could open it. Set it if the
    /// replica must see every use of such a state. Default `false`.
    #[must_use]
    pub fn pin_states(self, pins_states: bool) -> Self {
        let Inner { replica, endpoint, keys, .. } = &*self.0;
        Self(Arc::new(Inner {
            replica: *replica,
            endpoint: endpoint.clone(),
            keys: keys.clone(),
            pins_states,
        }))
    }

    /// Returns the replica of this process.
    pub fn replica(&self) -> ReplicaId {
        self.0.replica
    }

    /// Returns a new, unguessable `requestState` of a request that waits on this replica.
    ///
    /// # Panics
    /// Panics if the operating system provides no random bytes.
    pub fn new_state_id(&self) -> Box<str> {
        self.issue_id(ReplicaIdKind::State)
    }

    /// Returns a new, unguessable id.
    ///
    /// # Panics
    /// Panics if the operating system provides no random bytes.
    pub(crate) fn issue_id(&self, kind: ReplicaIdKind) -> Box<str> {
        let mut bytes = [0; ID_BYTES + RANDOM_BYTES + MAC_BYTES];
        bytes[..ID_BYTES].copy_from_slice(&self.0.replica.0);
        bytes[ID_BYTES..SIGNED_BYTES].copy_from_slice(&random_bytes::<RANDOM_BYTES>());
        let mac = self.mac(&self.0.keys[0], kind, &bytes[..SIGNED_BYTES]).finalize().into_bytes();
        bytes[SIGNED_BYTES..].copy_from_slice(&mac[..MAC_BYTES]);
        URL_SAFE_NO_PAD.encode(bytes).into()
    }

    /// Returns the replica that an id names. Returns `None` if the signature is invalid: the id is forged, or it belongs
    /// to another endpoint, another fleet or another kind.
    fn replica_of_id(&self, kind: ReplicaIdKind, id: &str) -> Option<ReplicaId> {
        if id.len() != ID_CHARS {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(id).ok()?;
        let (signed, mac) = bytes.split_at_checked(SIGNED_BYTES)?;
        // The comparison takes the same time for each wrong signature.
        let is_of = |key| self.mac(key, kind, signed).verify_truncated_left(mac).is_ok();
        if mac.len() != MAC_BYTES || !self.0.keys.iter().any(is_of) {
            return None;
        }
        Some(ReplicaId(*signed.first_chunk()?))
    }

    /// Returns the replica with the session `id`.
    pub fn replica_of_session(&self, id: &str) -> Option<ReplicaId> {
        self.replica_of_id(ReplicaIdKind::Session, id)
    }

    /// Returns the replica that must handle a request with this `requestState`. Returns `None` if each replica can
    /// handle the request.
    pub fn replica_of_state(&self, state: &str) -> Option<ReplicaId> {
        let id = state.split_once(SEPARATOR).map_or(state, |(id, _)| id);
        self.replica_of_id(ReplicaIdKind::State, id)
    }

    /// Returns the replica with the task `id`. Returns `None` if each replica can handle requests about the task.
    pub fn replica_of_task(&self, id: &str) -> Option<ReplicaId> {
        let id = id.split_once(SEPARATOR).map_or(id, |(id, _)| id);
        // A gateway puts the name of the member in front.
        let id = id.rsplit_once('.').map_or(id, |(_, id)| id);
        self.replica_of_id(ReplicaIdKind::Task, id)
    }

    /// Adds the name of this replica to a sealed value, so that only this replica can open it.
    pub(crate) fn pin(&self, kind: ReplicaIdKind, sealed: &str) -> String {
        format!("{}{SEPARATOR}{sealed}", self.issue_id(kind))
    }

    /// Returns the value without the name of this replica. Returns `None` if the value names another replica.
    pub(crate) fn unpin<'s>(&self, kind: ReplicaIdKind, pinned: &'s str) -> Option<&'s str> {
        match pinned.split_once(SEPARATOR) {
            None => Some(pinned),
            Some((id, sealed)) => {
                self.replica_of_id(kind, id).filter(|replica| *replica == self.0.replica).map(|_| sealed)
            }
        }
    }

    pub(crate) fn pins_states(&self) -> bool {
        self.0.pins_states
    }

    fn mac(&self, key: &[u8; 32], kind: ReplicaIdKind, signed: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts keys of any length");
        // The number of bytes before the endpoint is fixed, so no two inputs have the same bytes.
        mac.update(&[kind as u8]);
        mac.update(signed);
        mac.update(self.0.endpoint.as_bytes());
        mac
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes no keys.
impl fmt::Debug for ReplicaIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { replica, endpoint, .. } = &*self.0;
        f.debug_struct("ReplicaIds")
            .field("replica", replica)
            .field("endpoint", endpoint)
            .finish_non_exhaustive()
    }
}

/// Length of the replica in an id, in bytes.
const ID_BYTES: usize = 8;

/// Length of the random part. 128 bits are enough against guessing.
const RANDOM_BYTES: usize = 16;

const SIGNED_BYTES: usize = ID_BYTES + RANDOM_BYTES;

/// Length of the authentication code. An attacker can check a forged code only with a request to a server.
const MAC_BYTES: usize = 16;

/// Length of an id as text.
const ID_CHARS: usize = (SIGNED_BYTES + MAC_BYTES).div_ceil(3) * 4 - 2;

/// Separates the id from the sealed value. Neither contains this character.
const SEPARATOR: char = '~';

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(replica: ReplicaId, endpoint: &str, keys: &[u8]) -> ReplicaIds {
        ReplicaIds::new(replica, endpoint, keys.iter().map(|key| [*key; 32]).collect())
    }

    #[test]
    fn each_replica_of_the_fleet_reads_the_replica_in_an_id() {
        let [own, other] = [ReplicaId::random(), ReplicaId::random()];
        let (own, other) = (ids(own, "tools", &[1]), ids(other, "tools", &[1]));
        let session = own.issue_id(ReplicaIdKind::Session);
        assert_ne!(session, own.issue_id(ReplicaIdKind::Session));
        assert_eq!(session.len(), ID_CHARS);
        assert_eq!(other.replica_of_session(&session), Some(own.replica()));
        let task = format!("files.{}", own.pin(ReplicaIdKind::Task, "a.b"));
        assert_eq!(other.replica_of_task(&task), Some(own.replica()));
        let state = own.pin(ReplicaIdKind::State, "a.b");
        assert_eq!(other.replica_of_state(&state), Some(own.replica()));
        assert_eq!(own.unpin(ReplicaIdKind::State, &state), Some("a.b"));
        assert_eq!(other.unpin(ReplicaIdKind::State, &state), None);
        assert_eq!(
            (other.unpin(ReplicaIdKind::State, "a.b"), other.replica_of_state("a.b")),
            (Some("a.b"), None)
        );
    }

    #[test]
    fn ids_of_other_fleets_endpoints_and_kinds_are_refused() {
        let replica = ReplicaId::random();
        let own = ids(replica, "tools", &[1]);
        let session = own.issue_id(ReplicaIdKind::Session);
        assert_eq!(ids(replica, "tools", &[2]).replica_of_session(&session), None);
        assert_eq!(ids(replica, "other", &[1]).replica_of_session(&session), None);
        assert_eq!(own.replica_of_state(&session), None);
        assert_eq!(own.replica_of_task(&session), None);
    }

    #[test]
    fn forged_ids_are_refused() {
        let own = ids(ReplicaId::random(), "tools", &[1]);
        let session = own.issue_id(ReplicaIdKind::Session);
        for place in 0..session.len() {
            let mut changed = session.clone().into_string().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(own.replica_of_session(&changed), None, "character {place}");
        }
        for forged in ["", "A", "~", &"A".repeat(ID_CHARS), &session[..ID_CHARS - 1], &format!("{session}A")]
        {
            assert_eq!(own.replica_of_session(forged), None, "{forged}");
        }
    }

    #[test]
    fn rotated_key_still_verifies_ids() {
        let replica = ReplicaId::random();
        let old = ids(replica, "tools", &[1]).issue_id(ReplicaIdKind::Session);
        assert_eq!(ids(replica, "tools", &[2, 1]).replica_of_session(&old), Some(replica));
        let new = ids(replica, "tools", &[2, 1]).issue_id(ReplicaIdKind::Session);
        assert_eq!(ids(replica, "tools", &[2]).replica_of_session(&new), Some(replica));
        assert_eq!(ids(replica, "tools", &[2]).replica_of_session(&old), None);
    }

    #[test]
    fn replica_id_reads_its_own_text() {
        let id = ReplicaId::random();
        assert_eq!(ReplicaId::parse(&id.to_string()), Some(id));
        for text in ["", "1", "00000000000000000", "g000000000000000", "+000000000000001"] {
            assert_eq!(ReplicaId::parse(text), None, "{text}");
        }
    }
}
