//! Fetches OCSP responses in a background thread.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use thruway_client::Client;
use thruway_net::Clock;
use thruway_net::tls::TlsAcceptor;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::fetch::{client, refresh_after, retry_after};
use super::shared_fetch::{SharedFetch, key_of};
use super::{OcspError, Staple, Subject};
use crate::replicas::SharedSecrets;

/// Fetches OCSP responses on a separate thread, and passes the responses to TLS acceptors. Clones share the
/// thread.
#[derive(Clone, Default)]
pub struct Stapler {
    pace: StaplerPace,
    statuses: Arc<(Mutex<Vec<StapleStatus>>, Condvar)>,
    /// Channel to the thread. `None` before the thread starts.
    thread: Arc<Mutex<Option<UnboundedSender<StaplerMessage>>>>,
}

type Acceptors = Vec<Arc<TlsAcceptor>>;

/// Message to the thread that fetches OCSP responses.
enum StaplerMessage {
    Follow(Acceptors),
    Share(Option<SharedSecrets>),
    FetchNow,
}

/// Timeouts and retry intervals.
#[derive(Clone, Copy)]
struct StaplerPace {
    /// Timeout of an OCSP request.
    answer: Duration,
    /// Delay after the first failure. Each further failure doubles the delay.
    retry: Duration,
    /// Interval at which the thread looks for changed certificates.
    look: Duration,
}

/// OCSP status of a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StapleStatus {
    /// Path of the file with the certificate chain.
    pub path: PathBuf,
    /// End of the validity of the stapled response. `None` if no response is stapled.
    pub next_update: Option<SystemTime>,
    /// Number of consecutive failures.
    pub failures: u32,
    /// Error of the last request, if that request failed.
    pub last_error: Option<OcspError>,
}

/// A certificate of an acceptor, and its current OCSP response.
struct StapledCertificate {
    path: PathBuf,
    /// The OCSP request. `None` if the certificate names no responder.
    subject: Option<Arc<Subject>>,
    staple: Option<Staple>,
    /// Time of the next request.
    next: Instant,
    failures: u32,
    last_error: Option<OcspError>,
}

/// The TLS acceptors that get OCSP responses, their certificates, and the OCSP requests in progress.
struct StapledCertificates {
    acceptors: Acceptors,
    stapled: HashMap<Vec<u8>, StapledCertificate>,
    fetches: JoinSet<(Vec<u8>, Result<Staple, OcspError>)>,
    client: Client,
    /// Store in which replicas share the responses, if any.
    secrets: Option<SharedSecrets>,
    pace: StaplerPace,
}

impl Stapler {
    /// Returns a stapler with custom intervals, for tests. `answer` is the timeout of an OCSP request.
    /// `retry` is the delay after the first failure, and the interval at which the stapler looks for
    /// changed certificates.
    pub fn with_pace(answer: Duration, retry: Duration) -> Self {
        let pace = StaplerPace { answer, retry, look: retry };
        Self { pace, ..Self::default() }
    }

    /// Staples OCSP responses to the certificates of `acceptors` from now on. All other acceptors stop
    /// stapling.
    pub fn follow(&self, acceptors: Vec<Arc<TlsAcceptor>>) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && acceptors.is_empty() {
            return;
        }
        let sender = thread.get_or_insert_with(|| self.start());
        // The thread runs until the sender is dropped. `send` fails only if the runtime could not start or
        // the thread panicked.
        let _ = sender.send(StaplerMessage::Follow(acceptors));
    }

    /// Shares the responses with all replicas in `secrets` from now on. Then one replica fetches each response,
    /// and the other replicas read the response from the store.
    pub fn share(&self, secrets: Option<SharedSecrets>) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && secrets.is_none() {
            return;
        }
        let _ = thread.get_or_insert_with(|| self.start()).send(StaplerMessage::Share(secrets));
    }

    /// Fetches the OCSP responses of all certificates immediately.
    pub fn fetch_now(&self) {
        if let Some(thread) = &*self.thread.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = thread.send(StaplerMessage::FetchNow);
        }
    }

    /// Returns the OCSP status of each certificate that names a responder.
    pub fn statuses(&self) -> Vec<StapleStatus> {
        self.lock_statuses().clone()
    }

    /// Waits until `is_so` returns `true` for the statuses, but no longer than `within`. Returns the last
    /// result of `is_so`.
    pub fn wait_until(&self, within: Duration, is_so: impl Fn(&[StapleStatus]) -> bool) -> bool {
        let waited =
            self.statuses.1.wait_timeout_while(self.lock_statuses(), within, |statuses| !is_so(statuses));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn lock_statuses(&self) -> MutexGuard<'_, Vec<StapleStatus>> {
        self.statuses.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> UnboundedSender<StaplerMessage> {
        let (sender, receiver) = unbounded_channel();
        // The closure must not contain a sender, because the thread ends when the last sender is dropped.
        let (pace, statuses) = (self.pace, self.statuses.clone());
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(run(receiver, pace, &statuses)),
                Err(error) => tracing::error!(%error, "cannot start the runtime for OCSP requests"),
            }
        });
        sender
    }
}

async fn run(
    mut wanted: UnboundedReceiver<StaplerMessage>,
    pace: StaplerPace,
    statuses: &(Mutex<Vec<StapleStatus>>, Condvar),
) {
    let (client, fetches) = (client(pace.answer), JoinSet::new());
    let (acceptors, stapled, secrets) = (Vec::new(), HashMap::new(), None);
    let mut looking = StapledCertificates { acceptors, stapled, fetches, client, secrets, pace };
    loop {
        tokio::select! {
            said = wanted.recv() => match said {
                Some(StaplerMessage::Follow(acceptors)) => looking.follow(acceptors),
                Some(StaplerMessage::Share(secrets)) => looking.secrets = secrets,
                Some(StaplerMessage::FetchNow) => looking.stapled.values_mut().for_each(|stapled| stapled.next = Instant::now()),
                None => return,
            },
            Some(Ok((certificate, outcome))) = looking.fetches.join_next() => {
                looking.take(&certificate, outcome);
            }
            () = sleep(pace.look) => {}
        }
        looking.look();
        *statuses.0.lock().unwrap_or_else(PoisonError::into_inner) = looking.statuses();
        statuses.1.notify_all();
    }
}

impl StapledCertificates {
    /// Sets the TLS acceptors that get OCSP responses. Acceptors that are not in `acceptors` stop stapling,
    /// because the stapler no longer renews their responses.
    fn follow(&mut self, acceptors: Acceptors) {
        for before in &self.acceptors {
            if !acceptors.iter().any(|now| Arc::ptr_eq(now, before)) {
                self.stapled.keys().for_each(|certificate| before.staple(certificate, None));
            }
        }
        self.acceptors = acceptors;
    }

    /// Updates the list of certificates, starts due requests, and passes the current responses to the
    /// acceptors.
    fn look(&mut self) {
        let served: Vec<_> = self.acceptors.iter().flat_map(|acceptor| acceptor.served()).collect();
        let is_served = |certificate: &Vec<u8>| {
            served.iter().any(|served| served.contents.chain.first() == Some(certificate))
        };
        self.stapled.retain(|certificate, _| is_served(certificate));
        for served in &served {
            let Some(certificate) = served.contents.chain.first() else { continue };
            if !self.stapled.contains_key(certificate) {
                let stapled = StapledCertificate::new(served.path.clone(), &served.contents.chain);
                self.stapled.insert(certificate.clone(), stapled);
            }
        }
        self.fetch_due();
        let now = Clock::system().time_of_day();
        for (certificate, stapled) in &mut self.stapled {
            stapled.staple.take_if(|staple| staple.next_update <= now);
            for acceptor in &self.acceptors {
                acceptor.staple(certificate, stapled.staple.as_ref().map(|staple| &*staple.der));
            }
        }
    }

    fn fetch_due(&mut self) {
        let now = Instant::now();
        for (certificate, stapled) in &mut self.stapled {
            let Some(subject) = stapled.subject.clone() else { continue };
            if stapled.next > now {
                continue;
            }
            // Sets the time of the next request before this request starts, because this request may
            // never end.
            stapled.next = now + 4 * self.pace.answer + self.pace.retry;
            let fetch = SharedFetch {
                client: self.client.clone(),
                subject,
                key: key_of(certificate),
                newest: stapled.staple.as_ref().map(|staple| staple.this_update),
                timeout: self.pace.answer,
            };
            let (secrets, certificate) = (self.secrets.clone(), certificate.clone());
            self.fetches.spawn(async move { (certificate, fetch.run(secrets.as_ref()).await) });
        }
    }

    /// Stores the result of an OCSP request and schedules the next request.
    fn take(&mut self, certificate: &[u8], outcome: Result<Staple, OcspError>) {
        let Some(stapled) = self.stapled.get_mut(certificate) else { return };
        let chance = fastrand::f64();
        let wait = match outcome {
            Ok(staple) => {
                let file = stapled.path.display();
                tracing::info!(%file, "OCSP response fetched");
                let wait = refresh_after(&staple, Clock::system().time_of_day(), chance);
                (stapled.staple, stapled.failures, stapled.last_error) = (Some(staple), 0, None);
                wait
            }
            Err(error) => {
                stapled.failures = stapled.failures.saturating_add(1);
                let file = stapled.path.display();
                tracing::warn!(%file, failures = stapled.failures, "cannot fetch an OCSP response: {error}");
                if error == OcspError::Revoked {
                    // Removes the previous response, because that response states that the certificate is
                    // not revoked.
                    stapled.staple = None;
                }
                stapled.last_error = Some(error);
                retry_after(stapled.failures, self.pace.retry, chance)
            }
        };
        stapled.next = Instant::now() + wait;
    }

    fn statuses(&self) -> Vec<StapleStatus> {
        let asked = self.stapled.values().filter(|stapled| stapled.subject.is_some());
        let status = |stapled: &StapledCertificate| StapleStatus {
            path: stapled.path.clone(),
            next_update: stapled.staple.as_ref().map(|staple| staple.next_update),
            failures: stapled.failures,
            last_error: stapled.last_error.clone(),
        };
        asked.map(status).collect()
    }
}

impl StapledCertificate {
    fn new(path: PathBuf, chain: &[Vec<u8>]) -> Self {
        Self {
            path,
            subject: Subject::of(chain).map(Arc::new),
            staple: None,
            next: Instant::now(),
            failures: 0,
            last_error: None,
        }
    }
}

impl Default for StaplerPace {
    fn default() -> Self {
        Self { answer: Duration::from_secs(10), retry: Duration::from_mins(1), look: Duration::from_secs(2) }
    }
}
