//! Fetches an OCSP response for all replicas. One replica fetches the response, and the others read it from the
//! shared store. If the store fails, each replica fetches the response itself.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Serialize};
use thruway_client::Client;
use thruway_net::Clock;
use thruway_store::{Fence, StoreError, StoreKey};
use tokio::time::{Instant, sleep};

use super::fetch::fetch;
use super::{OcspError, Staple, Subject};
use crate::replicas::SharedSecrets;

/// The inputs of a fetch.
pub(super) struct SharedFetch {
    pub(super) client: Client,
    pub(super) subject: Arc<Subject>,
    /// Key of the response in the shared store.
    pub(super) key: StoreKey,
    /// Start of the validity of the response that this process has, if any.
    pub(super) newest: Option<SystemTime>,
    /// Timeout of a request to the responder.
    pub(super) timeout: Duration,
}

/// An OCSP response in the shared store.
#[derive(Serialize, Deserialize)]
struct SharedStaple {
    der: Vec<u8>,
    /// Time of the fetch, in seconds since 1970.
    fetched: u64,
}

/// Returns the key of the response for `certificate`, in DER.
pub(super) fn key_of(certificate: &[u8]) -> StoreKey {
    // The key contains a digest, because this name is longer than the names in keys.
    StoreKey::new("ocsp", &STANDARD_NO_PAD.encode(certificate))
}

impl SharedFetch {
    /// Returns the response from the store, or from the responder.
    pub(super) async fn run(&self, secrets: Option<&SharedSecrets>) -> Result<Staple, OcspError> {
        let shared = match secrets {
            Some(secrets) => self.shared(secrets).await.ok().flatten(),
            None => None,
        };
        match shared {
            Some(fetched) => fetched,
            None => fetch(&self.client, &self.subject).await,
        }
    }

    /// Returns the response from the store. If the store lacks a new response, fetches it for all replicas.
    /// Returns `None` if another replica is fetching the response for too long.
    async fn shared(&self, secrets: &SharedSecrets) -> Result<Option<Result<Staple, OcspError>>, StoreError> {
        secrets.wait_for_connection().await;
        let lock = StoreKey::new("ocsp-lock", self.key.as_str());
        let until = Instant::now() + 2 * self.timeout;
        while Instant::now() < until {
            if let Some(staple) = self.stored(secrets).await? {
                return Ok(Some(Ok(staple)));
            }
            let ttl = 2 * self.timeout;
            if let Some(fence) = secrets.store().lock(&lock, secrets.replica(), ttl).await? {
                let fetched = self.fetch_locked(secrets, fence).await;
                let _ = secrets.store().unlock(&lock, fence).await;
                return Ok(Some(fetched));
            }
            sleep(self.timeout / 20).await;
        }
        Ok(None)
    }

    async fn fetch_locked(&self, secrets: &SharedSecrets, fence: Fence) -> Result<Staple, OcspError> {
        // Another replica may have fetched the response since the last look.
        if let Ok(Some(staple)) = self.stored(secrets).await {
            return Ok(staple);
        }
        let staple = fetch(&self.client, &self.subject).await?;
        let now = Clock::system().time_of_day();
        let shared = SharedStaple { der: staple.der.clone(), fetched: seconds(now) };
        let ttl = staple.next_update.duration_since(now).unwrap_or_default().max(TTL_MIN);
        // If the store fails, each replica fetches the response itself.
        let _ = secrets.set_fenced(&self.key, &shared, fence, ttl).await;
        Ok(staple)
    }

    /// Returns the response in the store if it is newer than the response of this process, or if a replica has
    /// just fetched it. The responder may return the same response for hours.
    async fn stored(&self, secrets: &SharedSecrets) -> Result<Option<Staple>, StoreError> {
        let Some(shared) = secrets.fenced::<SharedStaple>(&self.key).await? else { return Ok(None) };
        let now = Clock::system().time_of_day();
        let staple = Staple::read(&shared.der, &self.subject.named, now).ok();
        let has_just_been_fetched = seconds(now).saturating_sub(shared.fetched) < JUST_FETCHED.as_secs();
        let is_newer = |staple: &Staple| self.newest.is_none_or(|newest| staple.this_update > newest);
        Ok(staple.filter(|staple| has_just_been_fetched || is_newer(staple)))
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Age up to which a fetched response is used although it is not newer than the response of this process.
const JUST_FETCHED: Duration = Duration::from_secs(30);
const TTL_MIN: Duration = Duration::from_secs(1);
