//! The thread that orders certificates.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::acme_client::AcmeClient;
use super::renewer::Renewer;
use super::status::Statuses;
use super::{AcmeConfig, CertificateStatus, Challenges, OrderedNames};

/// Orders certificates on a separate thread, and renews the certificates before they expire. Clones share
/// the thread.
#[derive(Clone)]
pub struct Acme {
    challenges: Challenges,
    statuses: Statuses,
    /// Channel to the thread. `None` before the thread starts.
    thread: Arc<Mutex<Option<UnboundedSender<Option<Wanted>>>>>,
}

/// Certificates to order, and the config of the ACME client.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Config of the ACME client.
    pub config: AcmeConfig,
    /// Names of each certificate to order.
    pub certificates: Vec<OrderedNames>,
}

/// The running renewers of the current config.
#[derive(Default)]
struct CurrentRenewers {
    acme_client: Option<Arc<AcmeClient>>,
    renewers: BTreeMap<OrderedNames, JoinHandle<()>>,
    /// Task that follows the shared store.
    follower: Option<JoinHandle<()>>,
}

impl Acme {
    /// Returns an [`Acme`] that orders no certificates yet. The listeners must respond to ACME servers with
    /// the responses in `challenges`.
    pub fn new(challenges: Challenges) -> Self {
        Self { challenges, statuses: Statuses::default(), thread: Arc::default() }
    }

    /// Orders and renews the certificates in `wanted` from now on, and stops the renewal of all other
    /// certificates. An order in progress continues if `wanted` has the same config as before and still
    /// contains the certificate.
    pub fn follow(&self, wanted: Option<Wanted>) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && wanted.is_none() {
            return;
        }
        let sender = thread.get_or_insert_with(|| self.start());
        // The thread runs until the sender is dropped. `send` fails only if the runtime could not start or
        // the thread panicked.
        let _ = sender.send(wanted);
    }

    /// Returns the status of each certificate.
    pub fn statuses(&self) -> Vec<CertificateStatus> {
        self.statuses.all()
    }

    /// Waits until `is_so` returns `true` for the statuses, but no longer than `within`. Returns the last
    /// result of `is_so`.
    pub fn wait_until(&self, within: Duration, is_so: impl Fn(&[CertificateStatus]) -> bool) -> bool {
        self.statuses.wait_until(within, is_so)
    }

    fn start(&self) -> UnboundedSender<Option<Wanted>> {
        let (sender, receiver) = unbounded_channel();
        let (challenges, statuses) = (self.challenges.clone(), self.statuses.clone());
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(run(receiver, &challenges, &statuses)),
                Err(error) => tracing::error!(%error, "cannot start the runtime for ACME orders"),
            }
        });
        sender
    }
}

async fn run(mut wanted: UnboundedReceiver<Option<Wanted>>, challenges: &Challenges, statuses: &Statuses) {
    let mut present = CurrentRenewers::default();
    while let Some(next) = wanted.recv().await {
        present.follow(next, challenges, statuses).await;
    }
}

impl CurrentRenewers {
    async fn follow(&mut self, wanted: Option<Wanted>, challenges: &Challenges, statuses: &Statuses) {
        let (config, certificates) = wanted.map(|wanted| (wanted.config, wanted.certificates)).unzip();
        let certificates = certificates.unwrap_or_default();
        let is_same =
            self.acme_client.as_ref().is_some_and(|acme_client| Some(&acme_client.config) == config.as_ref());
        let is_wanted = |names: &OrderedNames| is_same && certificates.contains(names);
        let over: Vec<_> = self.renewers.extract_if(.., |names, _| !is_wanted(names)).collect();
        for (_, renewer) in over {
            renewer.abort();
            // The next renewer may start only after the aborted renewer has released the store and has
            // removed the challenge responses.
            let _ = renewer.await;
        }
        statuses.keep_only(&certificates);
        let acme_client = self.acme_client.take().filter(|_| is_same);
        let fresh = || config.map(|config| Arc::new(AcmeClient::new(config, challenges.clone())));
        let is_fresh = acme_client.is_none();
        self.acme_client = acme_client.or_else(fresh);
        if is_fresh {
            self.follow_shared_store();
        }
        let Some(acme_client) = &self.acme_client else { return };
        for names in certificates {
            let renewer =
                || tokio::spawn(Renewer::new(acme_client.clone(), names.clone(), statuses.clone()).run());
            self.renewers.entry(names.clone()).or_insert_with(renewer);
        }
    }

    /// Starts the task that follows the shared store of the current client, and ends the previous task.
    fn follow_shared_store(&mut self) {
        if let Some(previous) = self.follower.take() {
            previous.abort();
        }
        let follower = self.acme_client.as_ref().and_then(|acme_client| acme_client.follower());
        self.follower = follower.map(|follower| tokio::spawn(follower.run()));
    }
}
