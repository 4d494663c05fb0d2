//! Orders one certificate for all replicas, and copies shared certificates to the files of this process.

use std::fs;

use thruway_net::Clock;
use thruway_net::tls::CertificateContents;

use super::acme_client::{AcmeClient, Opened, OrderOutcome};
use super::shared_access::SharedAccess;
use super::shared_order::SharedOrder;
use super::shared_state::SharedState;
use super::{AcmeConfig, AcmeError, OrderedNames};

impl AcmeClient {
    /// Stores the shared certificate for `names` in the file, if it is newer than the file. If the shared
    /// store lacks the certificate, copies the file to the shared store. Does nothing if this process shares
    /// no certificates. Returns `true` if the file has changed.
    pub(super) async fn share(&self, names: &OrderedNames) -> bool {
        let Some(shared) = &self.shared else { return false };
        let outcome = self.share_now(shared, names).await;
        let has_changed = matches!(outcome, Ok(true));
        shared.log(outcome.map(drop));
        has_changed
    }

    async fn share_now(&self, shared: &SharedAccess, names: &OrderedNames) -> Result<bool, AcmeError> {
        let own = self.present(names).filter(|own| names.are_among(&own.names));
        let theirs = shared.state.certificate(names).await?;
        let now = Clock::system().time_of_day();
        match (own, theirs) {
            (Some(own), theirs) if theirs.as_ref().is_none_or(|theirs| theirs.is_older_than(&own)) => {
                if own.validity.problem_at(now).is_none() && !shared.has_just_uploaded(names) {
                    self.upload(shared, names, &own).await?;
                    shared.record_upload(names);
                }
                Ok(false)
            }
            (own, Some(theirs)) if own.as_ref().is_none_or(|own| theirs.is_newer_than(own)) => {
                self.keep_certificate(names, &theirs.pem).await?;
                tracing::info!(name = names.first(), "certificate of another replica stored");
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Copies the certificate in the file to the shared store.
    async fn upload(
        &self,
        shared: &SharedAccess,
        names: &OrderedNames,
        own: &CertificateContents,
    ) -> Result<(), AcmeError> {
        // During an order of this process, a second lock of this process would end the lock of the order.
        let Some(_order_lock) = self.try_lock_orders() else { return Ok(()) };
        let Some(lock) = shared.state.lock(names).await? else { return Ok(()) };
        let outcome = self.upload_locked(shared, &lock, names, own).await;
        lock.release().await;
        outcome
    }

    async fn upload_locked(
        &self,
        shared: &SharedAccess,
        lock: &SharedOrder,
        names: &OrderedNames,
        own: &CertificateContents,
    ) -> Result<(), AcmeError> {
        let theirs = shared.state.certificate(names).await?;
        if theirs.is_some_and(|theirs| !theirs.is_older_than(own)) {
            return Ok(());
        }
        let path = self.config.files(names).chain;
        let pem = fs::read_to_string(&path).map_err(|error| AcmeError::Store(path, error.kind()))?;
        lock.keep_certificate(pem, own).await
    }

    /// Orders a certificate for all replicas, unless another replica has ordered it.
    pub(super) async fn order_for_replicas(
        &self,
        shared: &SharedAccess,
        names: &OrderedNames,
        replaced: Option<&CertificateContents>,
    ) -> Result<OrderOutcome, AcmeError> {
        let Some(lock) = shared.state.lock(names).await? else { return Ok(OrderOutcome::Busy) };
        let ordered = tokio::select! {
            ordered = self.order_locked(shared, &lock, names, replaced) => ordered,
            () = lock.wait_until_lost() => Err(AcmeError::LockLost),
        };
        lock.release().await;
        ordered
    }

    async fn order_locked(
        &self,
        shared: &SharedAccess,
        lock: &SharedOrder,
        names: &OrderedNames,
        replaced: Option<&CertificateContents>,
    ) -> Result<OrderOutcome, AcmeError> {
        let theirs = shared.state.certificate(names).await?;
        if let Some(theirs) = theirs.filter(|theirs| replaced.is_none_or(|own| theirs.is_newer_than(own))) {
            self.keep_certificate(names, &theirs.pem).await?;
            return Ok(OrderOutcome::Received);
        }
        let pem = self.order_now(names, replaced, Some(lock)).await.map_err(AcmeError::during_order)?;
        let issued = self.config.files(names).contents().map_err(AcmeError::CertificateUnusable)?;
        if let Err(error) = lock.keep_certificate(pem, &issued).await {
            // This process has the certificate. `share` copies it to the shared store later.
            tracing::warn!(name = names.first(), "cannot share the issued certificate yet: {error}");
        }
        Ok(OrderOutcome::Issued)
    }
}

impl Opened {
    /// Copies the shared account, so that this process can ask the ACME server for renewal times.
    pub(super) async fn copy_account(&mut self, config: &AcmeConfig, shared: &SharedState) {
        let Ok(Some(theirs)) = shared.account().await else { return };
        let Ok(store) = self.store(config) else { return };
        if store.account_json().is_ok_and(|own| own.as_ref() != Some(&theirs))
            && store.keep_account(&theirs).is_ok()
        {
            self.account = None;
        }
    }

    /// Makes the shared account the account of this process. If the shared store has no account, copies the
    /// account of this process to the shared store.
    pub(super) async fn share_account(
        &mut self,
        config: &AcmeConfig,
        shared: &SharedOrder,
    ) -> Result<(), AcmeError> {
        let theirs = shared.account().await?;
        let store = self.store(config)?;
        let own = store.account_json()?;
        match (theirs, own) {
            (Some(theirs), own) if own.as_ref() != Some(&theirs) => {
                store.keep_account(&theirs)?;
                self.account = None;
            }
            // Also extends the lifetime of the shared account.
            (_, Some(own)) => shared.keep_account(&own).await?,
            _ => {}
        }
        Ok(())
    }
}
