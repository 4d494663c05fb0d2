//! Client of one ACME server. All renewers share this client. The client contains the account, the
//! certificate store, and a lock that allows one order at a time.

use std::time::Duration;

use instant_acme::{Account, AccountBuilder, ExternalAccountKey, NewAccount};
use thruway_net::Clock;
use thruway_net::tls::{CertificateContents, CertificateProblem};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::exchange::{Exchange, RetryAfter};
use super::order::order;
use super::renewal::Suggested;
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
}

/// The store and the account. The client opens each of them when an order needs it for the first time.
#[derive(Default)]
struct Opened {
    store: Option<Store>,
    account: Option<Account>,
}

impl AcmeClient {
    pub(super) fn new(config: AcmeConfig, challenges: Challenges) -> Self {
        let (last_retry_after, opened, order_lock) =
            (RetryAfter::default(), Mutex::default(), Mutex::default());
        Self { config, challenges, last_retry_after, opened, order_lock }
    }

    /// Reads the stored certificate for `names`. Returns `None` if the file is missing or invalid.
    pub(super) fn present(&self, names: &OrderedNames) -> Option<CertificateContents> {
        self.config.files(names).contents().ok()
    }

    /// Returns the delay that the ACME server requested with its last `Retry-After`, and clears the delay.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.last_retry_after.take()
    }

    /// Orders a certificate for `names`, and stores the certificate. `replaced` is the existing
    /// certificate, if any.
    pub(super) async fn order(
        &self,
        names: &OrderedNames,
        replaced: Option<&CertificateContents>,
    ) -> Result<(), AcmeError> {
        let _order_lock = self.order_lock.lock().await;
        let ordering = self.order_now(names, replaced);
        let ordered = timeout(self.config.pace.order, ordering).await.unwrap_or(Err(AcmeError::TimedOut));
        if ordered.as_ref().is_err_and(AcmeError::is_account_unknown) {
            self.opened.lock().await.forget_account();
        }
        ordered
    }

    async fn order_now(
        &self,
        names: &OrderedNames,
        replaced: Option<&CertificateContents>,
    ) -> Result<(), AcmeError> {
        if !self.config.terms_of_service_agreed {
            return Err(AcmeError::TermsNotAgreed);
        }
        // Reloads the trusted root certificates if a file with root certificates has changed. If the file
        // cannot be read, the loaded root certificates stay in use.
        let _ = self.config.connector.refresh();
        // Checks the store before the order, because even a certificate that cannot be stored counts
        // towards the weekly limit of the ACME server.
        self.opened.lock().await.store(&self.config)?.check_capacity()?;
        let account = self.account().await?;
        let pem = order(&account, &self.config, &self.challenges, names, replaced).await?;
        let mut opened = self.opened.lock().await;
        let store = opened.store(&self.config)?;
        store.keep_certificate(&self.config.files(names), &pem, |issued| check(issued, names))
    }

    /// Asks the ACME server when to renew the certificate `contents`. Returns `None` if no account is
    /// stored or the request fails.
    pub(super) async fn suggested(&self, contents: &CertificateContents) -> Option<Suggested> {
        let asking = async {
            let kept = self.opened.lock().await.store(&self.config).ok()?.account().ok()?;
            kept.as_ref()?;
            Suggested::of(&self.account().await.ok()?, contents).await
        };
        timeout(self.config.pace.answer, asking).await.ok()?
    }

    /// Returns the stored account. Creates an account if none is stored.
    async fn account(&self) -> Result<Account, AcmeError> {
        let mut opened = self.opened.lock().await;
        if let Some(account) = &opened.account {
            return Ok(account.clone());
        }
        let exchange = Exchange::new(&self.config, self.last_retry_after.clone());
        let builder = Account::builder_with_http(Box::new(exchange));
        let store = opened.store(&self.config)?;
        let account = match store.account()? {
            Some(kept) => builder.from_credentials(kept).await?,
            None => self.make_account(builder, store).await?,
        };
        Ok(opened.account.insert(account).clone())
    }

    async fn make_account(&self, builder: AccountBuilder, store: &Store) -> Result<Account, AcmeError> {
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
        store.keep_account(&made)?;
        tracing::info!(account = account.id(), "ACME account created");
        Ok(account)
    }
}

impl Opened {
    fn store(&mut self, config: &AcmeConfig) -> Result<&Store, AcmeError> {
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
