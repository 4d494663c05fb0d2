//! TLS for client connections and upstream connections. Thruway reads certificate files again when they
//! change, and at each reload.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use thruway_certificates::acme::{Acme, CertificateStatus, Challenges};
use thruway_certificates::local_ca::{Issued, LocalCaError, LocalCertificate};
use thruway_certificates::ocsp::{Staple, StapleStatus, Stapler};
use thruway_certificates::replicas::SharedSecrets;
use thruway_net::Clock;
use thruway_net::tls::{CertificateError, CertificateProblem, ServedCertificate, TlsAcceptor, TlsConnector};
use thruway_server::ListenAddr;

use crate::acme::{challenges, ticket_keeper};
use crate::config::{Config, Failure};
use crate::routes::Parts;

/// Watches certificate files, orders ACME certificates, and fetches OCSP responses. Clones share the same
/// state.
#[derive(Clone)]
pub(crate) struct TlsManager {
    current: Arc<Mutex<CurrentTls>>,
    acme: Acme,
    stapler: Stapler,
    /// Secrets that the replicas share, if any.
    secrets: Option<SharedSecrets>,
}

/// A certificate that a listener sends to its clients.
pub(crate) struct ListenerCertificate {
    pub(crate) listener: ListenAddr,
    pub(crate) certificate: ServedCertificate,
}

/// TLS acceptors and connectors of the running config.
struct CurrentTls {
    acceptors: Vec<(ListenAddr, Arc<TlsAcceptor>)>,
    /// Certificates of the local CA.
    internal: Vec<LocalCertificate>,
    /// Time of the last check if certificates of the local CA expire soon.
    internal_checked: Duration,
    connectors: Vec<Arc<TlsConnector>>,
    /// Errors that are already in the log. Thruway logs each error only once.
    logged: Vec<CertificateError>,
}

impl TlsManager {
    /// Returns a manager that shares the account, the certificates, the ticket keys and the OCSP responses with
    /// all replicas in `secrets`.
    pub(crate) fn new(secrets: Option<SharedSecrets>) -> Self {
        let acme = Acme::new(Challenges::clone(&challenges()));
        let stapler = Stapler::default();
        stapler.share(secrets.clone());
        ticket_keeper().follow(secrets.clone());
        let current = CurrentTls {
            acceptors: Vec::new(),
            internal: Vec::new(),
            internal_checked: Clock::system().now(),
            connectors: Vec::new(),
            logged: Vec::new(),
        };
        Self { current: Arc::new(Mutex::new(current)), acme, stapler, secrets }
    }

    /// Puts the current TLS acceptor into each listener of `config` whose TLS settings have not changed, so
    /// that clients can resume sessions.
    pub(crate) fn reuse_acceptors(&self, config: &mut Config) {
        let current = self.lock();
        for listener in &mut config.listeners {
            let Some(tls) = &mut listener.tls else { continue };
            let same = |(address, acceptor): &&(ListenAddr, Arc<TlsAcceptor>)| {
                *address == listener.address && *acceptor == tls.acceptor
            };
            if let Some((_, acceptor)) = current.acceptors.iter().find(same) {
                tls.acceptor = acceptor.clone();
            }
        }
    }

    /// Switches to `config` and `parts`: watches their certificate files, orders their ACME certificates, and
    /// fetches their OCSP responses.
    pub(crate) fn follow(&self, config: &Config, parts: &Parts) {
        let acceptors = config.listener_tls().map(|(address, tls)| (address.clone(), tls.acceptor.clone()));
        let connectors =
            parts.upstreams().filter_map(|upstream| Some(upstream.config().tls.as_ref()?.connector.clone()));
        let peers = config
            .shared
            .as_ref()
            .and_then(|shared| shared.peers.as_ref())
            .and_then(|peers| Some(peers.tls.as_ref()?.connector.clone()));
        let internal = config.listener_tls().flat_map(|(_, tls)| tls.internal.iter().cloned()).collect();
        let mut current = self.lock();
        current.internal = internal;
        current.internal_checked = Clock::system().now();
        current.acceptors = acceptors.collect();
        current.connectors = connectors.chain(peers).collect();
        current.logged.clear();
        current.refresh();
        for invalid in current.acceptors.iter().flat_map(|(_, acceptor)| invalid(acceptor)) {
            tracing::warn!("{invalid}: most clients will refuse this certificate");
        }
        drop(current);
        let mut wanted = config.acme.clone();
        if let Some(wanted) = &mut wanted {
            wanted.config.shared.clone_from(&self.secrets);
        }
        self.acme.follow(wanted);
        let stapled = config.listener_tls().filter(|(_, tls)| tls.ocsp_stapling);
        let stapled = stapled.map(|(_, tls)| tls.acceptor.clone());
        self.stapler.follow(stapled.collect());
    }

    /// Returns the certificates that listeners send to clients.
    pub(crate) fn listener_certificates(&self) -> Vec<ListenerCertificate> {
        let current = self.lock();
        let of_listener = |(address, acceptor): &(ListenAddr, Arc<TlsAcceptor>)| {
            let listener = address.clone();
            acceptor
                .served()
                .into_iter()
                .map(move |certificate| ListenerCertificate { listener: listener.clone(), certificate })
        };
        current.acceptors.iter().flat_map(of_listener).collect()
    }

    /// Returns the state of the ACME certificates.
    pub(crate) fn acme_statuses(&self) -> Vec<CertificateStatus> {
        self.acme.statuses()
    }

    /// Checks for changed certificate files at the interval `FILE_CHECK_INTERVAL`, until the daemon has
    /// ended.
    pub(crate) fn watch(&self) {
        let current = Arc::downgrade(&self.current);
        thread::spawn(move || {
            loop {
                thread::sleep(FILE_CHECK_INTERVAL);
                let Some(current) = current.upgrade() else { return };
                current.lock().unwrap_or_else(PoisonError::into_inner).refresh();
            }
        });
    }

    /// Returns the state of the fetched OCSP responses.
    pub(crate) fn ocsp_statuses(&self) -> Vec<StapleStatus> {
        self.stapler.statuses()
    }

    fn lock(&self) -> MutexGuard<'_, CurrentTls> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CurrentTls {
    /// Reads changed certificate files again. If a file cannot be used, keeps the previous certificates.
    fn refresh(&mut self) {
        let now = Clock::system().now();
        if now.saturating_sub(self.internal_checked) >= INTERNAL_CHECK_INTERVAL {
            self.internal_checked = now;
            for error in self.internal.iter().filter_map(|certificate| issue(certificate).err()) {
                tracing::error!("{error}");
            }
        }
        let of_acceptors = self.acceptors.iter().map(|(_, acceptor)| acceptor.refresh());
        let outcomes = of_acceptors.chain(self.connectors.iter().map(|connector| connector.refresh()));
        let mut wrong = Vec::new();
        for outcome in outcomes {
            match outcome {
                Ok(true) => tracing::info!("certificates reloaded"),
                Ok(false) => {}
                Err(error) => wrong.push(error),
            }
        }
        wrong.extend(self.acceptors.iter().flat_map(|(_, acceptor)| acceptor.problems()));
        for error in wrong.iter().filter(|error| !self.logged.contains(error)) {
            tracing::error!(
                "cannot use the changed certificates, keeping the previous certificates: {error}"
            );
        }
        let withheld: Vec<_> = self.acceptors.iter().flat_map(|(_, acceptor)| withhold(acceptor)).collect();
        for error in withheld.iter().filter(|error| !self.logged.contains(error)) {
            tracing::error!("OCSP response not sent to clients: {error}");
        }
        wrong.extend(withheld);
        self.logged = wrong;
    }
}

/// Returns an error if a certificate or an OCSP response is invalid, for example because it has expired.
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    let failures = config.listener_tls().flat_map(|(_, tls)| {
        let failure = |error: CertificateError| config.failure_at(&tls.span, &error).with_hint(error.hint());
        let staples = rejected(&tls.acceptor).into_iter().map(|rejected| rejected.error);
        invalid(&tls.acceptor).into_iter().chain(staples).map(failure)
    });
    Failure::all(failures.collect()).map_or(Ok(()), Err)
}

/// Returns the errors of an acceptor's certificates. Ignores ACME certificates, because Thruway renews
/// them.
fn invalid(acceptor: &TlsAcceptor) -> Vec<CertificateError> {
    let mut invalid = acceptor.invalid_at(Clock::system().time_of_day());
    invalid.retain(|error| !acceptor.config().awaited.contains(&error.path));
    invalid
}

/// An OCSP response that is not valid now.
struct RejectedStaple {
    certificate: Vec<u8>,
    response: Vec<u8>,
    error: CertificateError,
}

fn rejected(acceptor: &TlsAcceptor) -> Vec<RejectedStaple> {
    let now = Clock::system().time_of_day();
    let served = acceptor.served().into_iter();
    let rejected = |ServedCertificate { contents, ocsp, .. }: ServedCertificate| {
        let (of_file, certificate) = (ocsp?, contents.chain.first()?.clone());
        let error = Staple::of_chain(&of_file.response, &contents.chain, now).err()?;
        let problem = CertificateProblem::Refused(error.to_string());
        let error = CertificateError { path: of_file.path, problem };
        Some(RejectedStaple { certificate, response: of_file.response, error })
    };
    served.filter_map(rejected).collect()
}

/// Makes the acceptor send no OCSP responses that are invalid, and returns their errors.
fn withhold(acceptor: &TlsAcceptor) -> Vec<CertificateError> {
    let rejected = rejected(acceptor);
    let (responses, errors): (Vec<_>, Vec<_>) =
        rejected.into_iter().map(|of| ((of.certificate, of.response), of.error)).unzip();
    acceptor.withhold(responses);
    errors
}

/// Issues the certificates of the local CA that are missing or expire soon.
///
/// # Errors
/// The local CA cannot issue a certificate.
pub(crate) fn issue_internal(config: &Config) -> Result<(), Failure> {
    let failures = config.listener_tls().filter_map(|(_, tls)| {
        let error = tls.internal.iter().find_map(|certificate| issue(certificate).err());
        // A listener that starts now must have its certificate. If another file has an error, the check of the
        // files reports it.
        let _ = tls.acceptor.refresh();
        error.map(|error| config.failure_at(&tls.span, error))
    });
    Failure::all(failures.collect()).map_or(Ok(()), Err)
}

/// Issues a certificate of the local CA, if it is missing or expires soon.
fn issue(certificate: &LocalCertificate) -> Result<(), LocalCaError> {
    let (root, names) = (certificate.root(), certificate.names().join(", "));
    match certificate.issue()? {
        Issued::Kept => {}
        Issued::Certificate => tracing::info!(names, "the local CA issued a certificate"),
        Issued::RootAndCertificate => {
            tracing::info!(names, "created a local CA, which issued a certificate");
            let root = root.display();
            tracing::info!(
                "clients must trust the root certificate: `curl --cacert {root}`, or for all programs on Debian \
                 `sudo cp {root} /usr/local/share/ca-certificates/thruway.crt && sudo update-ca-certificates`"
            );
        }
    }
    Ok(())
}

/// Interval between two checks if certificates of the local CA expire soon.
const INTERNAL_CHECK_INTERVAL: Duration = Duration::from_hours(1);

/// Interval between two checks for changed certificate files.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(2);
