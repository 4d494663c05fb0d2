//! The lock of an order in the shared store, and the state with which another replica can continue the order.
//!
//! Only one replica orders at a time. It renews the lock while the order runs. If the replica is killed, the
//! lock expires, and another replica continues the pending order. The fence of the lock prevents that the
//! first replica overwrites newer values after a long pause.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thruway_net::tls::CertificateContents;
use thruway_store::{Fence, StoreError, StoreKey};
use tokio::time::{Instant, sleep};

use super::challenges::ChallengeResponse;
use super::shared_state::{SharedCertificate, SharedChange, SharedState};
use super::{AcmeError, OrderedNames};
use crate::replicas::HeldLock;

/// The lock of an order, and the values that only the owner of this lock may write.
pub(super) struct SharedOrder {
    state: SharedState,
    names: OrderedNames,
    fence: Fence,
    _held: HeldLock,
}

/// An order that the ACME server knows.
#[derive(Serialize, Deserialize)]
pub(super) struct PendingOrder {
    pub(super) url: String,
    /// The private key of the future certificate, in PKCS#8.
    pub(super) key: Vec<u8>,
}

/// The challenge responses of the running order.
#[derive(Serialize, Deserialize)]
pub(super) struct OrderChallenges {
    /// The replica that runs the order.
    pub(super) replica: String,
    pub(super) responses: Vec<ChallengeResponse>,
}

impl SharedState {
    /// Takes the lock for orders. Returns `None` if another replica has the lock.
    pub(super) async fn lock(&self, names: &OrderedNames) -> Result<Option<SharedOrder>, AcmeError> {
        let key = self.key("order");
        let lock = || self.secrets.store().lock(&key, self.secrets.replica(), self.pace.lock);
        let fence = match lock().await {
            // Two replicas may replace the value at the same time. Then the first one loses its lock.
            Err(StoreError::UnknownFormat) => {
                tracing::warn!(
                    "replacing the value of `{key}` in the shared store: another program has changed it"
                );
                self.secrets.remove(&key).await?;
                lock().await?
            }
            outcome => outcome?,
        };
        let held = || self.secrets.hold_lock();
        let (state, names) = (self.clone(), names.clone());
        Ok(fence.map(|fence| SharedOrder { state, names, fence, _held: held() }))
    }
}

impl SharedOrder {
    /// Renews the lock until another replica has the lock. The caller must stop the order when this function
    /// returns.
    pub(super) async fn wait_until_lost(&self) {
        let (key, ttl) = (self.state.key("order"), self.state.pace.lock);
        let store = self.state.secrets.store();
        let mut renewed = Instant::now();
        loop {
            sleep(ttl / 3).await;
            let started = Instant::now();
            match store.renew_lock(&key, self.fence, ttl).await {
                Ok(true) => renewed = started,
                Ok(false) => return,
                Err(_) if renewed.elapsed() >= ttl => return,
                Err(_) => {}
            }
        }
    }

    /// Releases the lock, so that another replica can order at once.
    pub(super) async fn release(self) {
        let key = self.state.key("order");
        let _ = self.state.secrets.store().unlock(&key, self.fence).await;
    }

    /// Returns the pending order of this certificate, if any.
    pub(super) async fn pending(&self) -> Result<Option<PendingOrder>, AcmeError> {
        Ok(self.state.secrets.fenced(&self.state.key_for("pending", &self.names)).await?)
    }

    /// Stores a pending order. `key` is the key of the future certificate.
    pub(super) async fn keep_pending(&self, url: &str, key: &[u8]) -> Result<(), AcmeError> {
        let pending = PendingOrder { url: url.to_owned(), key: key.to_vec() };
        self.set(&self.state.key_for("pending", &self.names), &pending, PENDING_TTL).await
    }

    pub(super) async fn forget_pending(&self) {
        // If the removal fails, the next order finds that the ACME server no longer accepts this order.
        let _ = self.state.secrets.remove(&self.state.key_for("pending", &self.names)).await;
    }

    /// Returns the credentials of the shared account, in JSON.
    pub(super) async fn account(&self) -> Result<Option<String>, AcmeError> {
        Ok(self.state.account().await?)
    }

    /// Stores the credentials of the account, in JSON.
    pub(super) async fn keep_account(&self, account: &str) -> Result<(), AcmeError> {
        self.set(&self.state.key("account"), &account, ACCOUNT_TTL).await
    }

    /// Stores the certificate and tells the other replicas.
    pub(super) async fn keep_certificate(
        &self,
        pem: String,
        contents: &CertificateContents,
    ) -> Result<(), AcmeError> {
        let certificate = SharedCertificate::new(pem, contents);
        let name = self.state.key_for("certificate", &self.names);
        self.set(&name, &certificate, certificate.ttl()).await?;
        let _ = self.state.secrets.remove(&self.state.key_for("failures", &self.names)).await;
        self.forget_pending().await;
        self.state.notify(SharedChange::Certificate).await;
        Ok(())
    }

    /// Makes all replicas send `responses`, because the ACME server may connect to any replica. Waits until
    /// each replica has confirmed, but no longer than `Pace::spread`.
    pub(super) async fn show_responses(&self, responses: &[ChallengeResponse]) -> Result<(), AcmeError> {
        let shown = OrderChallenges {
            replica: self.state.secrets.replica().to_owned(),
            responses: responses.to_vec(),
        };
        self.set(&self.state.key("challenges"), &shown, self.state.pace.order).await?;
        self.state.notify(SharedChange::Challenges).await;
        let ids: Vec<_> = responses.iter().map(ChallengeResponse::id).collect();
        let started = Instant::now();
        while !self.state.are_shown_by_all(&ids).await? {
            if started.elapsed() >= self.state.pace.spread {
                tracing::warn!(
                    name = self.names.first(),
                    "not all replicas confirmed the ACME challenge in time: the validation may fail"
                );
                break;
            }
            sleep(SPREAD_CHECK_INTERVAL).await;
        }
        Ok(())
    }

    /// Makes all replicas stop sending the responses of this order.
    pub(super) async fn hide_responses(&self) {
        let _ = self.state.secrets.remove(&self.state.key("challenges")).await;
        self.state.notify(SharedChange::Challenges).await;
    }

    async fn set(&self, key: &StoreKey, value: &impl Serialize, ttl: Duration) -> Result<(), AcmeError> {
        if self.state.secrets.set_fenced(key, value, self.fence, ttl).await? {
            Ok(())
        } else {
            Err(AcmeError::LockLost)
        }
    }
}

/// Time after which a new order replaces a pending order.
const PENDING_TTL: Duration = Duration::from_hours(1);
/// Longer than the lifetime of a certificate, because each order stores the account again.
const ACCOUNT_TTL: Duration = Duration::from_hours(24 * 400);
const SPREAD_CHECK_INTERVAL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use thruway_net::tls::{Roots, TlsConnector, TlsConnectorConfig};
    use thruway_store::Store;
    use thruway_testkit::CertificateAuthority;

    use super::super::{AcmeConfig, ChallengeKind, Pace};
    use super::*;
    use crate::replicas::secrets::tests::replica;

    fn state(authority: &CertificateAuthority, store: &Store, name: &str) -> SharedState {
        let roots = Roots::Files(vec![authority.root()]);
        let connector = TlsConnectorConfig { roots, ..TlsConnectorConfig::default() };
        SharedState::of(&AcmeConfig {
            directory: "https://acme.example/directory".to_owned(),
            connector: Arc::new(TlsConnector::load(connector).unwrap()),
            terms_of_service_agreed: true,
            contacts: Vec::new(),
            external_account: None,
            store: "acme".into(),
            shared: Some(replica(store, name, &[1])),
            challenge: ChallengeKind::Http01,
            pace: Pace::default(),
        })
        .unwrap()
    }

    fn names() -> OrderedNames {
        OrderedNames::new(["a.example"]).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn replica_takes_over_the_order_after_the_lock_has_expired() {
        let (authority, store) = (CertificateAuthority::new(), Store::memory());
        let [one, two] = ["one", "two"].map(|name| state(&authority, &store, name));
        let held = one.lock(&names()).await.unwrap().unwrap();
        held.keep_pending("https://acme.example/order/1", b"key").await.unwrap();
        held.keep_account("{}").await.unwrap();
        assert!(two.lock(&names()).await.unwrap().is_none());
        // The first replica renews the lock while its order runs.
        let renewing = tokio::time::timeout(10 * one.pace.lock, held.wait_until_lost());
        assert!(renewing.await.is_err());
        assert!(two.lock(&names()).await.unwrap().is_none());
        // The first replica is killed.
        sleep(one.pace.lock).await;
        let taken = two.lock(&names()).await.unwrap().unwrap();
        let pending = taken.pending().await.unwrap().unwrap();
        assert_eq!((&*pending.url, &*pending.key), ("https://acme.example/order/1", &b"key"[..]));
        assert_eq!(taken.account().await.unwrap().as_deref(), Some("{}"));
    }

    #[tokio::test(start_paused = true)]
    async fn foreign_value_in_place_of_the_lock_is_replaced() {
        let (authority, store) = (CertificateAuthority::new(), Store::memory());
        let state = state(&authority, &store, "one");
        store.set(&state.key("order"), vec![1].into(), state.pace.lock).await.unwrap();
        let held = state.lock(&names()).await.unwrap().unwrap();
        held.keep_account("{}").await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn replica_that_lost_the_lock_cannot_replace_newer_values() {
        let (authority, store) = (CertificateAuthority::new(), Store::memory());
        let [one, two] = ["one", "two"].map(|name| state(&authority, &store, name));
        let contents = authority.issue("a", &["a.example"]).contents().unwrap();
        let stale = one.lock(&names()).await.unwrap().unwrap();
        sleep(one.pace.lock).await;
        let newer = two.lock(&names()).await.unwrap().unwrap();
        newer.keep_account("new").await.unwrap();
        newer.keep_certificate("new".to_owned(), &contents).await.unwrap();
        newer.keep_pending("new", b"key").await.unwrap();
        // The first replica runs again after a long pause.
        let refused = stale.keep_certificate("old".to_owned(), &contents).await;
        assert!(matches!(refused, Err(AcmeError::LockLost)), "{refused:?}");
        assert!(matches!(stale.keep_account("old").await, Err(AcmeError::LockLost)));
        assert!(matches!(stale.keep_pending("old", b"key").await, Err(AcmeError::LockLost)));
        let lost = tokio::time::timeout(one.pace.lock, stale.wait_until_lost());
        assert!(lost.await.is_ok());
        stale.release().await;
        assert_eq!(one.certificate(&names()).await.unwrap().unwrap().pem, "new");
        assert_eq!(newer.pending().await.unwrap().unwrap().url, "new");
        assert!(one.lock(&names()).await.unwrap().is_none(), "the newer lock is still held");
    }

    #[tokio::test(start_paused = true)]
    async fn order_waits_for_replicas_that_do_not_respond_to_the_challenge_only_for_a_while() {
        let (authority, store) = (CertificateAuthority::new(), Store::memory());
        let state = state(&authority, &store, "one");
        let silent = replica(&store, "silent", &[1]);
        let ttl = Duration::from_mins(1);
        silent.put_member(&state.key("replicas"), "silent", &[""; 0], ttl).await.unwrap();
        let held = state.lock(&names()).await.unwrap().unwrap();
        let (token, key_authorization) = ("token".to_owned(), "proof".to_owned());
        let response = ChallengeResponse::Http { token, key_authorization };
        let started = Instant::now();
        held.show_responses(std::slice::from_ref(&response)).await.unwrap();
        assert!(started.elapsed() >= state.pace.spread, "{:?}", started.elapsed());
        silent.put_member(&state.key("replicas"), "silent", &["token"], ttl).await.unwrap();
        let started = Instant::now();
        held.show_responses(&[response]).await.unwrap();
        assert_eq!(started.elapsed(), Duration::ZERO);
    }
}
