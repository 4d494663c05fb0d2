//! Renews one certificate: waits until its renewal is due, orders a new certificate, and waits longer after
//! each failure.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use thruway_net::Clock;
use thruway_net::tls::CertificateContents;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::acme_client::{AcmeClient, OrderOutcome};
use super::due::retry_after;
use super::renewal::Renewal;
use super::status::Statuses;
use super::{AcmeError, CertificateStatus, OrderedNames};

/// Task that renews one certificate.
pub(super) struct Renewer {
    acme_client: Arc<AcmeClient>,
    names: OrderedNames,
    statuses: Statuses,
    renewal: Option<Renewal>,
    failures: Failures,
    /// Random number from 0 to 1 that varies the renewal time, so that certificates are renewed at
    /// different times.
    chance: f64,
    /// Wakes this renewer when another replica has stored a certificate. `None` if this process shares no
    /// certificates.
    changes: Option<watch::Receiver<()>>,
}

/// Consecutive failures of orders.
#[derive(Default)]
struct Failures {
    count: u32,
    last: Option<String>,
    next: Option<Instant>,
}

impl Renewer {
    pub(super) fn new(acme_client: Arc<AcmeClient>, names: OrderedNames, statuses: Statuses) -> Self {
        let (renewal, failures, changes) = (None, Failures::default(), acme_client.changes());
        Self { acme_client, names, statuses, renewal, failures, chance: fastrand::f64(), changes }
    }

    /// Renews the certificate in an endless loop.
    pub(super) async fn run(mut self) {
        if let Some(shared) = &self.acme_client.shared {
            shared.state.secrets.wait_for_connection().await;
        }
        loop {
            // Reads the file again, because another process may have renewed the certificate or an operator
            // may have removed the file.
            if self.acme_client.share(&self.names).await {
                self.failures = Failures::default();
            }
            self.share_failures().await;
            let present = self.acme_client.present(&self.names);
            let wait = self.wait(present.as_ref()).await;
            self.publish(present.as_ref(), wait);
            if wait.is_zero() {
                self.order(present).await;
            } else {
                self.sleep(wait).await;
            }
        }
    }

    /// Sleeps until a certificate of another replica may be in the shared store, but no longer than `wait`.
    async fn sleep(&mut self, wait: Duration) {
        let (Some(changes), Some(shared)) = (&mut self.changes, &self.acme_client.shared) else {
            // Sleeps for at most one hour, because the system clock may be changed during the sleep.
            return sleep(wait.min(CHECK_INTERVAL_MAX)).await;
        };
        tokio::select! {
            () = sleep(wait.min(shared.check_interval())) => {}
            _ = changes.changed() => {}
        }
    }

    /// Adopts the failures of other replicas, so that all replicas together do not order more often than a
    /// single process.
    async fn share_failures(&mut self) {
        let Some(shared) = &self.acme_client.shared else { return };
        let failures = shared.state.failures(&self.names).await;
        let Some((count, wait)) = failures.filter(|(count, _)| *count > self.failures.count) else { return };
        let last =
            self.failures.last.take().or_else(|| Some("the order of another replica failed".to_owned()));
        self.failures = Failures { count, last, next: Some(Instant::now() + wait) };
    }

    /// Returns the time until the next order.
    async fn wait(&mut self, present: Option<&CertificateContents>) -> Duration {
        let left = self.failures.next.map(|next| next.saturating_duration_since(Instant::now()));
        self.until_due(present).await.max(left.unwrap_or_default())
    }

    async fn until_due(&mut self, present: Option<&CertificateContents>) -> Duration {
        let Some(present) = present.filter(|present| self.names.are_among(&present.names)) else {
            return Duration::ZERO;
        };
        let at = self.renewal_of(present).await;
        at.duration_since(now()).unwrap_or_default()
    }

    async fn renewal_of(&mut self, present: &CertificateContents) -> SystemTime {
        let held = self.renewal.take().filter(|renewal| renewal.holds_for(present));
        let renewal = match held {
            Some(renewal) => renewal,
            None => Renewal::of(present, self.acme_client.suggested(present).await.as_ref(), self.chance),
        };
        self.renewal.insert(renewal).at
    }

    async fn order(&mut self, present: Option<CertificateContents>) {
        let ordered = self.ordered(present).await;
        let issued = self.acme_client.present(&self.names);
        let outcome = match ordered {
            // The renewal of the issued certificate is already due. Without this error, the renewer would
            // order certificates in a loop.
            Ok(OrderOutcome::Issued) if self.until_due(issued.as_ref()).await.is_zero() => {
                Err(AcmeError::CertificateTooOld)
            }
            outcome => outcome,
        };
        match outcome {
            Ok(OrderOutcome::Issued) => {
                tracing::info!(name = self.names.first(), "certificate issued");
                self.failures = Failures::default();
            }
            Ok(OrderOutcome::Received) => {
                tracing::info!(name = self.names.first(), "certificate of another replica stored");
                self.failures = Failures::default();
            }
            Ok(OrderOutcome::Busy) => self.sleep(self.acme_client.config.pace.follow).await,
            Err(error) => self.failed(&error).await,
        }
    }

    /// Runs the order in a separate task, so that a panic does not stop the renewer.
    async fn ordered(&self, present: Option<CertificateContents>) -> Result<OrderOutcome, AcmeError> {
        let (acme_client, names) = (self.acme_client.clone(), self.names.clone());
        let mut order = JoinSet::new();
        order.spawn(async move { acme_client.order(&names, present.as_ref()).await });
        match order.join_next().await {
            Some(Ok(ordered)) => ordered,
            _ => Err(AcmeError::Panicked),
        }
    }

    async fn failed(&mut self, error: &AcmeError) {
        if matches!(error, AcmeError::SharedStore(_)) {
            return self.wait_for_shared_store(error);
        }
        let count = self.failures.count.saturating_add(1);
        let server_wait = self.acme_client.retry_after();
        let wait = retry_after(count, server_wait, &self.acme_client.config.pace, fastrand::f64());
        let name = self.names.first();
        tracing::warn!(name, failures = count, again_in = ?wait, "cannot get a certificate: {error}");
        self.failures = Failures { count, last: Some(error.to_string()), next: Some(Instant::now() + wait) };
        if let Some(shared) = &self.acme_client.shared
            && error.concerns_all_replicas()
        {
            shared.state.keep_failures(&self.names, count, wait).await;
        }
    }

    /// Tries the shared store again soon. Does not delay the next order, because the ACME server got no
    /// request. The log contains only the first of several failures.
    fn wait_for_shared_store(&mut self, error: &AcmeError) {
        let (count, wait, last) =
            (self.failures.count.max(1), self.acme_client.config.pace.follow, error.to_string());
        if self.failures.last.as_ref() != Some(&last) {
            let name = self.names.first();
            tracing::warn!(name, "cannot get a certificate: {error}");
        }
        self.failures = Failures { count, last: Some(last), next: Some(Instant::now() + wait) };
    }

    fn publish(&self, present: Option<&CertificateContents>, wait: Duration) {
        self.statuses.publish(CertificateStatus {
            names: self.names.clone(),
            path: self.acme_client.config.files(&self.names).chain,
            not_after: present.map(|present| present.validity.not_after),
            next_at: now() + wait,
            failures: self.failures.count,
            last_error: self.failures.last.clone(),
        });
    }
}

fn now() -> SystemTime {
    Clock::system().time_of_day()
}

const CHECK_INTERVAL_MAX: Duration = Duration::from_hours(1);
