//! Client of one ACME server. All renewers share this client. The client contains the account, the
//! certificate store, and a lock that allows one order at a time.

use std::time::Duration;

use instant_acme::{Account, AccountBuilder, ExternalAccountKey, NewAccount};
use thruway_net::Clock;
use thruway_net::tls::{CertificateContents, CertificateProblem};
use tokio::sync::{Mutex, MutexGuard, watch};
use tokio::time::timeout;

use super::exchange::{Exchange, RetryAfter};
use super::order::OrderInputs;
use super::renewal::Suggested;
use super::shared_access::SharedAccess;
use super::shared_order::SharedOrder;
use super::shared_replicas::ReplicaFollower;
use super::store::Store;
use super::{AcmeConfig, AcmeError, Challenges, OrderedNames};

/// Orders certificates from the ACME server of one config.
pub(super) struct AcmeClient {
    pub(super) config: AcmeConfig,
    challenges: Challenges,
    last_retry_after: RetryAfter,
    opened: Mutex<Opened>,
    /// Lock that is held during an order, so that only one order runs at a time.
    order_lock: Mutex<()>,
    /// `None` if this process shares no certificates.
    pub(super) shared: Option<SharedAccess>,
}

/// Result of an order without an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OrderOutcome {
    /// The ACME server issued the certificate.
    Issued,
    /// Another replica had ordered the certificate, and this process has stored it.
    Received,
    /// Another replica orders a certificate now.
    Busy,
}

/// The store and the account. The client opens each of them when an order needs it for the first time.
#[derive(Default)]
pub(super) struct Opened {
    store: Option<Store>,
    pub(super) account: Option<Account>,
}

impl AcmeClient {
    pub(super) fn new(config: AcmeConfig, challenges: Challenges) -> Self {
        let (last_retry_after, opened, order_lock) =
            (RetryAfter::default(), Mutex::default(), Mutex::default());
        let shared = SharedAccess::of(&config);
        Self { config, challenges, last_retry_after, opened, order_lock, shared }
    }

    /// Returns the background task that follows the shared store. Returns `None` if this process shares no
    /// certificates.
    pub(super) fn follower(&self) -> Option<ReplicaFollower> {
        let shared = self.shared.as_ref()?;
        Some(ReplicaFollower::new(shared.state.clone(), self.challenges.clone(), shared.changed.clone()))
    }

    /// Returns a receiver that wakes when a replica has stored a certificate.
    pub(super) fn changes(&self) -> Option<watch::Receiver<()>> {
        Some(self.shared.as_ref()?.changed.subscribe())
    }

    /// Reads the stored certificate for `names`. Returns `None` if the file is missing or invalid.
    pub(super) fn present(&self, names: &OrderedNames) -> Option<CertificateContents> {
        self.config.files(names).contents().ok()
    }

    /// Returns the delay that the ACME server requested with its last `Retry-After`, and clears the delay.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.last_retry_after.take()
    }

    /// Locks orders of this process. Returns `None` during an order.
    pub(super) fn try_lock_orders(&self) -> Option<MutexGuard<'_, ()>> {
        self.order_lock.try_lock().ok()
    }

    pub(super) async fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().await
    }

    /// Orders a certificate for `names`, and stores the certificate. `replaced` is the existing
    /// certificate, if any.
    pub(super) async fn order(
        &self,
        names: &OrderedNames,
        replaced: Option<&CertificateContents>,
    ) -> Result<OrderOutcome, AcmeError> {
        let _order_lock = self.order_lock.lock().await;
        if !self.config.terms_of_service_agreed {
            return Err(AcmeError::TermsNotAgreed);
        }
        // Checks the store before the order, because even a certificate that cannot be stored counts
        // towards the weekly limit of the ACME server.
        self.opened().await.store(&self.config)?.check_capacity()?;
        match &self.shared {
            Some(shared) => self.order_for_replicas(shared, names, replaced).await,
            None => self.order_now(names, replaced, None).await.map(|_| OrderOutcome::Issued),
        }
    }

    /// Orders a certificate, and stores it in the file. Returns the certificate and its key, in PEM.
    pub(super) async fn order_now(
        &self,
        names: &OrderedNames,
        replaced: Option<&CertificateContents>,
        shared: Option<&SharedOrder>,
    ) -> Result<String, AcmeError> {
        // Reloads the trusted root certificates if a file with root certificates has changed. If the file
        // cannot be read, the loaded root certificates stay in use.
        let _ = self.config.connector.refresh();
        let ordering = async {
            let account = self.account(shared).await?;
            let (config, challenges) = (&self.config, &self.challenges);
            let pem = OrderInputs { account: &account, config, challenges, names, replaced, shared };
            let pem = pem.order().await?;
            self.keep_certificate(names, &pem).await.map(|()| pem)
        };
        let ordered = timeout(self.config.pace.order, ordering).await.unwrap_or(Err(AcmeError::TimedOut));
        if ordered.as_ref().is_err_and(AcmeError::is_account_unknown) {
            self.opened().await.forget_account();
            if let Some(shared) = &self.shared {
                shared.state.forget_account().await;
            }
        }
        ordered
    }

    /// Stores a certificate and its key in the file for `names`.
    pub(super) async fn keep_certificate(&self, names: &OrderedNames, pem: &str) -> Result<(), AcmeError> {
        let mut opened = self.opened().await;
        let store = opened.store(&self.config)?;
        store.keep_certificate(&self.config.files(names), pem, |issued| check(issued, names))
    }

    /// Asks the ACME server when to renew the certificate `contents`. Returns `None` if no account is
    /// stored or the request fails.
    pub(super) async fn suggested(&self, contents: &CertificateContents) -> Option<Suggested> {
        let asking = async {
            if let Some(shared) = &self.shared {
                self.opened().await.copy_account(&self.config, &shared.state).await;
            }
            let kept = self.opened().await.store(&self.config).ok()?.account().ok()?;
            kept.as_ref()?;
            Suggested::of(&self.account(None).await.ok()?, contents).await
        };
        timeout(self.config.pace.answer, asking).await.ok()?
    }

    /// Returns the stored account. Creates an account if none is stored. During an order for all replicas,
    /// `shared` is the lock of the order.
    async fn account(&self, shared: Option<&SharedOrder>) -> Result<Account, AcmeError> {
        let mut opened = self.opened().await;
        if let Some(shared) = shared {
            opened.share_account(&self.config, shared).await?;
        }
        if let Some(account) = &opened.account {
            return Ok(account.clone());
        }
        let exchange = Exchange::new(&self.config, self.last_retry_after.clone());
        let builder = Account::builder_with_http(Box::new(exchange));
        let store = opened.store(&self.config)?;
        let account = match store.account()? {
            Some(kept) => builder.from_credentials(kept).await?,
            None => self.make_account(builder, store, shared).await?,
        };
        Ok(opened.account.insert(account).clone())
    }

    async fn make_account(
        &self,
        builder: AccountBuilder,
        store: &Store,
        shared: Option<&SharedOrder>,
    ) -> Result<Account, AcmeError> {
        let contacts: Vec<_> = self.config.contacts.iter().map(String::as_str).collect();
        let wanted = NewAccount {
            contact: &contacts,
            terms_of_service_agreed: self.config.terms_of_service_agreed,
            only_return_existing: false,
        };
        let external = self.config.external_account.as_ref();
        let external = external.map(|own| ExternalAccountKey::new(own.key_id.clone(), &own.key));
        let directory = self.config.directory.clone();
        let (account, made) = builder.create(&wanted, directory, external.as_ref()).await?;
        let made = serde_json::to_string(&made).map_err(|_| AcmeError::KeyNotMade)?;
        store.keep_account(&made)?;
        if let Some(shared) = shared {
            shared.keep_account(&made).await?;
        }
        tracing::info!(account = account.id(), "ACME account created");
        Ok(account)
    }
}

impl Opened {
    pub(super) fn store(&mut self, config: &AcmeConfig) -> Result<&Store, AcmeError> {
        let store = match self.store.take() {
            Some(store) => store,
            None => Store::open(&config.directory_of_server())?,
        };
        Ok(self.store.insert(store))
    }

    fn forget_account(&mut self) {
        self.account = None;
        if let Some(store) = &self.store {
            store.forget_account();
        }
    }
}

/// Checks that the issued certificate has not expired and contains the ordered names.
fn check(issued: &CertificateContents, names: &OrderedNames) -> Result<(), AcmeError> {
    let problem = issued.validity.problem_at(Clock::system().time_of_day());
    match problem {
        // The clock of the ACME server may be ahead of the clock of this machine.
        None | Some(CertificateProblem::NotYetValid) => {}
        Some(_) => return Err(AcmeError::CertificateTooOld),
    }
    if names.are_among(&issued.names) { Ok(()) } else { Err(AcmeError::CertificateForOtherNames) }
}
