//! The header that tells the owner of a session, state or task about the caller of a forwarded request. The replicas
//! encrypt it with a key of the fleet, so a client cannot create it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thruway_mcp_sdk::backend::Caller;
use thruway_mcp_sdk::{CallerToken, Identity, ReplicaId};
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

    /// Returns the header for a request of `caller` that `owner` must handle.
    pub(super) fn seal(&self, owner: ReplicaId, endpoint: &str, method: &str, caller: &Caller) -> String {
        let address = match caller {
            Caller::Anonymous(address) => *address,
            Caller::Local | Caller::Identified(..) => None,
        };
        let forwarded = ForwardedCaller {
            owner: owner.to_string(),
            endpoint: endpoint.to_owned(),
            method: method.to_owned(),
            at: now(),
            address,
            identity: identity_in(caller).map(ForwardedIdentity::of),
        };
        // All these values can be written as JSON.
        let json = serde_json::to_vec(&forwarded).unwrap_or_default();
        URL_SAFE_NO_PAD.encode(self.0.seal(&json, CONTEXT))
    }

    /// Decrypts the header of a request with this method. `own` is the replica that has received the request.
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

fn now() -> u64 {
    let since_epoch = Clock::system().time_of_day().duration_since(SystemTime::UNIX_EPOCH);
    since_epoch.unwrap_or_default().as_secs()
}

/// Separates this use of the key from all other uses.
const CONTEXT: &[u8] = b"Thruway-Caller";

/// Maximum difference between the clocks of two replicas, and maximum age of a header.
const AGE_MAX: Duration = Duration::from_mins(5);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ada() -> Caller {
        let claims = json!({"scope": "a b", "sub": "ada"}).as_object().unwrap().clone();
        let identity = Identity::new("https://login.example", "ada", claims);
        Caller::Identified(Arc::new(identity.with_token(CallerToken::new("t"))), None)
    }

    #[test]
    fn owner_gets_the_identity_and_the_address_of_the_caller() {
        let (sealer, owner) = (CallerSealer::new(&SharedKey::random()), ReplicaId::random());
        let header = sealer.seal(owner, "tools", "POST", &ada());
        assert!(header.bytes().all(|byte| byte.is_ascii_graphic()));
        let mut opened = sealer.open(Some(&header), owner, "POST").ok().unwrap();
        let Caller::Identified(identity, _) = ada() else { unreachable!() };
        assert_eq!(opened.take_identity(), Some(identity));
        assert_eq!(opened.endpoint, "tools");
        let address = Some([192, 0, 2, 1].into());
        let header = sealer.seal(owner, "tools", "GET", &Caller::Anonymous(address));
        assert_eq!(sealer.open(Some(&header), owner, "GET").ok().unwrap().address, address);
    }

    #[test]
    fn header_is_valid_only_for_its_owner_fleet_and_method() {
        let (sealer, owner) = (CallerSealer::new(&SharedKey::random()), ReplicaId::random());
        let header = sealer.seal(owner, "tools", "POST", &ada());
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
}
