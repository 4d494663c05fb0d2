//! The header that tells the owner of a session, state or task about the caller of a forwarded request. The replicas
//! encrypt it with a key of the fleet, so a client cannot create it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use thruway_mcp_sdk::backend::Caller;
use thruway_mcp_sdk::{CallerToken, Identity, ReplicaId};
use thruway_message::FieldLines;
use thruway_net::Clock;
use thruway_store::{SealingKey, SharedKey};

/// Name of the header.
pub(super) const CALLER: &str = "Thruway-Caller";

/// Encrypts and decrypts the header.
pub(super) struct CallerSealer(SealingKey);

/// The content of the header.
#[derive(Serialize, Deserialize)]
pub(super) struct ForwardedCaller {
    /// The replica that must handle the request.
    owner: String,
    /// The name of the MCP endpoint.
    pub(super) endpoint: String,
    method: String,
    /// Seconds since the Unix epoch.
    at: u64,
    /// Length of the body in bytes.
    pub(super) content_bytes: usize,
    /// The SHA-256 value of the body and of the headers that name a session, a task or a method.
    digest: [u8; 32],
    /// The address of the client, if known.
    pub(super) address: Option<IpAddr>,
    identity: Option<ForwardedIdentity>,
}

#[derive(Serialize, Deserialize)]
struct ForwardedIdentity {
    issuer: String,
    subject: String,
    scopes: Vec<String>,
    claims: Map<String, Value>,
    token: Option<String>,
}

/// Reason why a replica does not accept a forwarded request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CallerRefusal {
    /// The header is missing, or another fleet has created it.
    Invalid,
    /// The header is for another request, or too old.
    Mismatch,
    /// Another replica must handle the request.
    OtherOwner,
}

impl CallerSealer {
    pub(super) fn new(key: &SharedKey) -> Self {
        Self(key.sealing("forwarded callers"))
    }

    /// Returns the header for a request of `caller` that `owner` must handle. The header is valid only for a request
    /// with this method, these headers and this body.
    pub(super) fn seal(
        &self,
        owner: ReplicaId,
        endpoint: &str,
        caller: &Caller,
        (method, fields, content): (&str, FieldLines<'_>, &[u8]),
    ) -> String {
        let address = match caller {
            Caller::Anonymous(address) => *address,
            Caller::Local | Caller::Identified(..) => None,
        };
        let forwarded = ForwardedCaller {
            owner: owner.to_string(),
            endpoint: endpoint.to_owned(),
            method: method.to_owned(),
            at: now(),
            content_bytes: content.len(),
            digest: digest(fields, content),
            address,
            identity: identity_in(caller).map(ForwardedIdentity::of),
        };
        // All these values can be written as JSON.
        let json = serde_json::to_vec(&forwarded).unwrap_or_default();
        URL_SAFE_NO_PAD.encode(self.0.seal(&json, CONTEXT))
    }

    /// Decrypts the header of a request with this method. `own` is the replica that has received the request. Call
    /// [`ForwardedCaller::is_for`] before you use the result.
    ///
    /// # Errors
    /// This replica must not handle the request.
    pub(super) fn open(
        &self,
        header: Option<&str>,
        own: ReplicaId,
        method: &str,
    ) -> Result<ForwardedCaller, CallerRefusal> {
        let forwarded = header.and_then(|header| self.decrypt(header)).ok_or(CallerRefusal::Invalid)?;
        if forwarded.method != method || forwarded.at.abs_diff(now()) > AGE_MAX.as_secs() {
            return Err(CallerRefusal::Mismatch);
        }
        if ReplicaId::parse(&forwarded.owner) != Some(own) {
            return Err(CallerRefusal::OtherOwner);
        }
        Ok(forwarded)
    }

    fn decrypt(&self, header: &str) -> Option<ForwardedCaller> {
        let sealed = URL_SAFE_NO_PAD.decode(header).ok()?;
        serde_json::from_slice(&self.0.open(&sealed, CONTEXT)?).ok()
    }
}

impl ForwardedCaller {
    /// Returns `true` if the header belongs to a request with these headers and this body.
    pub(super) fn is_for(&self, fields: FieldLines<'_>, content: &[u8]) -> bool {
        self.content_bytes == content.len() && self.digest == digest(fields, content)
    }

    /// Returns the verified identity of the caller, if the first replica has verified it.
    pub(super) fn take_identity(&mut self) -> Option<Arc<Identity>> {
        let ForwardedIdentity { issuer, subject, scopes, claims, token } = self.identity.take()?;
        let token = token.map(CallerToken::new);
        Some(Arc::new(Identity { issuer, subject, scopes, claims, token }))
    }
}

impl ForwardedIdentity {
    fn of(identity: &Identity) -> Self {
        let Identity { issuer, subject, scopes, claims, token } = identity.clone();
        let token = token.map(|token| token.as_str().to_owned());
        Self { issuer, subject, scopes, claims, token }
    }
}

fn identity_in(caller: &Caller) -> Option<&Identity> {
    match caller {
        Caller::Identified(identity, _) => Some(identity),
        Caller::Local | Caller::Anonymous(_) => None,
    }
}

/// Returns a value that differs if the body or a header in [`BOUND`] differs.
fn digest(fields: FieldLines<'_>, content: &[u8]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for name in BOUND {
        for value in fields.all(name) {
            // The length separates the values, and no value has the length that ends the list.
            digest.update((value.as_bytes().len() as u64).to_le_bytes());
            digest.update(value.as_bytes());
        }
        digest.update(u64::MAX.to_le_bytes());
    }
    digest.update(content);
    digest.finalize().into()
}

fn now() -> u64 {
    let since_epoch = Clock::system().time_of_day().duration_since(SystemTime::UNIX_EPOCH);
    since_epoch.unwrap_or_default().as_secs()
}

/// Separates this use of the key from all other uses.
const CONTEXT: &[u8] = b"Thruway-Caller";

/// The headers that select the session, the task, the method or the position in a stream.
const BOUND: [&str; 5] =
    ["Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "MCP-Protocol-Version", "Last-Event-ID"];

/// Maximum difference between the clocks of two replicas, and maximum age of a header.
const AGE_MAX: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use serde_json::json;
    use thruway_message::{FieldLine, FieldName, FieldSection, FieldValue};

    use super::*;

    fn ada() -> Caller {
        let claims = json!({"scope": "a b", "sub": "ada"}).as_object().unwrap().clone();
        let identity = Identity::new("https://login.example", "ada", claims);
        Caller::Identified(Arc::new(identity.with_token(CallerToken::new("t"))), None)
    }

    /// Returns a header section with these lines.
    fn fields(lines: &[(&str, &str)]) -> FieldSection {
        let mut fields = FieldSection::with_capacity(256, lines.len());
        for (name, value) in lines {
            let (name, value) = (FieldName::new(name.as_bytes()), FieldValue::new(value.as_bytes()));
            fields.append(FieldLine { name: name.unwrap(), value: value.unwrap() });
        }
        fields
    }

    #[test]
    fn owner_gets_the_identity_and_the_address_of_the_caller() {
        let (sealer, owner) = (CallerSealer::new(&SharedKey::random()), ReplicaId::random());
        let none = fields(&[]);
        let header = sealer.seal(owner, "tools", &ada(), ("POST", none.lines(), b"{}"));
        assert!(header.bytes().all(|byte| byte.is_ascii_graphic()));
        let mut opened = sealer.open(Some(&header), owner, "POST").ok().unwrap();
        let Caller::Identified(identity, _) = ada() else { unreachable!() };
        assert_eq!(opened.take_identity(), Some(identity));
        assert_eq!(opened.endpoint, "tools");
        assert!(opened.is_for(none.lines(), b"{}"));
        let address = Some([192, 0, 2, 1].into());
        let header = sealer.seal(owner, "tools", &Caller::Anonymous(address), ("GET", none.lines(), b""));
        assert_eq!(sealer.open(Some(&header), owner, "GET").ok().unwrap().address, address);
    }

    #[test]
    fn header_is_valid_only_for_its_owner_fleet_and_method() {
        let (sealer, owner) = (CallerSealer::new(&SharedKey::random()), ReplicaId::random());
        let header = sealer.seal(owner, "tools", &ada(), ("POST", fields(&[]).lines(), b"{}"));
        let refusal = |sealer: &CallerSealer, header, own, method| sealer.open(header, own, method).err();
        let other_fleet = CallerSealer::new(&SharedKey::random());
        for (sealer, header, own, method, expected) in [
            (&sealer, Some(&*header), ReplicaId::random(), "POST", CallerRefusal::OtherOwner),
            (&sealer, Some(&*header), owner, "DELETE", CallerRefusal::Mismatch),
            (&sealer, Some("AAAA"), owner, "POST", CallerRefusal::Invalid),
            (&sealer, None, owner, "POST", CallerRefusal::Invalid),
            (&other_fleet, Some(&*header), owner, "POST", CallerRefusal::Invalid),
        ] {
            assert_eq!(refusal(sealer, header, own, method), Some(expected));
        }
    }

    /// A header from one request could give its identity to a request for another session.
    #[test]
    fn header_of_one_request_is_refused_for_another_session_task_or_body() {
        let (sealer, owner) = (CallerSealer::new(&SharedKey::random()), ReplicaId::random());
        let sent = fields(&[("Mcp-Session-Id", "ab"), ("Mcp-Name", "c")]);
        let header = sealer.seal(owner, "tools", &ada(), ("POST", sent.lines(), b"{}"));
        let opened = sealer.open(Some(&header), owner, "POST").ok().unwrap();
        let same = fields(&[("Accept", "a/b"), ("mcp-name", "c"), ("mcp-session-id", "ab")]);
        assert!(opened.is_for(same.lines(), b"{}"));
        assert!(!opened.is_for(sent.lines(), b"[]") && !opened.is_for(sent.lines(), b"{}\n"));
        for other in [
            &[("Mcp-Session-Id", "aB"), ("Mcp-Name", "c")][..],
            &[("Mcp-Session-Id", "ab"), ("Mcp-Name", "C")],
            &[("Mcp-Session-Id", "abc"), ("Mcp-Name", "")],
            &[("Mcp-Session-Id", "a"), ("Mcp-Session-Id", "b"), ("Mcp-Name", "c")],
            &[("Mcp-Method", "ab"), ("Mcp-Name", "c")],
            &[("Mcp-Session-Id", "ab"), ("Mcp-Name", "c"), ("Last-Event-ID", "1")],
            &[("Mcp-Session-Id", "ab")],
        ] {
            assert!(!opened.is_for(fields(other).lines(), b"{}"), "{other:?}");
        }
    }

    #[test]
    fn old_header_and_header_from_the_future_are_refused() {
        let (sealer, owner) = (CallerSealer::new(&SharedKey::random()), ReplicaId::random());
        let header = sealer.seal(owner, "tools", &ada(), ("POST", fields(&[]).lines(), b""));
        let refusal_at = |age: i64| {
            let mut forwarded = sealer.decrypt(&header).unwrap();
            forwarded.at = forwarded.at.saturating_add_signed(-age);
            let json = serde_json::to_vec(&forwarded).unwrap();
            let header = URL_SAFE_NO_PAD.encode(sealer.0.seal(&json, CONTEXT));
            sealer.open(Some(&header), owner, "POST").err()
        };
        assert_eq!([refusal_at(0), refusal_at(50), refusal_at(-50)], [None; 3]);
        assert_eq!([refusal_at(70), refusal_at(-70)], [Some(CallerRefusal::Mismatch); 2]);
    }
}
