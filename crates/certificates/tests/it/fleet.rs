//! Several replicas of a site that share one store, and an ACME server.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use thruway_certificates::acme::{Acme, AcmeConfig, ChallengeKind, Challenges, Wanted};
use thruway_certificates::replicas::SharedSecrets;
use thruway_net::Clock;
use thruway_net::tls::TlsAcceptor;
use thruway_server::RunningServer;
use thruway_store::{SharedKey, Store};
use thruway_testkit::acme::AcmeServer;

use crate::scene::{TIMEOUT, config_of, is_issued, names, port, start_site};

/// The replicas, their ACME server, and their store.
pub(crate) struct Fleet {
    pub(crate) server: AcmeServer,
    pub(crate) store: Store,
    pub(crate) replicas: Vec<Replica>,
}

/// A replica with a listener for each type of challenge. Its ACME client is not running at first.
pub(crate) struct Replica {
    pub(crate) config: AcmeConfig,
    pub(crate) acceptor: Arc<TlsAcceptor>,
    challenges: Arc<Challenges>,
    site: Option<RunningServer>,
    _directory: TempDir,
}

/// The operator key of all tests.
pub(crate) fn operator_key(byte: u8) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode([byte; 32])
}

impl Fleet {
    /// Creates a fleet. The ACME server connects only to the last replica.
    pub(crate) fn new(count: usize, challenge: ChallengeKind) -> Self {
        Self::with_store(count, challenge, Store::memory())
    }

    pub(crate) fn with_store(count: usize, challenge: ChallengeKind, store: Store) -> Self {
        let server = AcmeServer::start();
        let replicas: Vec<_> =
            (0..count).map(|number| Replica::new(&server, &store, challenge, number)).collect();
        let fleet = Self { server, store, replicas };
        fleet.validate_at(count - 1);
        fleet
    }

    /// Makes the ACME server connect only to this replica from now on.
    pub(crate) fn validate_at(&self, replica: usize) {
        let site = self.replicas[replica].site.as_ref().unwrap();
        self.server.set_validation_ports(port(site, 0), port(site, 1));
    }

    /// Starts the ACME clients of all replicas, and waits until all have a certificate.
    pub(crate) fn issue(&self) -> Vec<Acme> {
        let clients: Vec<_> = self.replicas.iter().map(Replica::start).collect();
        for acme in &clients {
            assert!(acme.wait_until(TIMEOUT, is_issued), "{:?}", acme.statuses());
        }
        clients
    }

    /// Returns the certificate files of all replicas. Checks that they are equal.
    pub(crate) fn pem(&self) -> String {
        let pems: Vec<_> = self.replicas.iter().map(Replica::pem).collect();
        assert!(pems.iter().all(|pem| *pem == pems[0]), "the replicas have different certificates");
        pems.into_iter().next().unwrap()
    }
}

impl Replica {
    pub(crate) fn new(server: &AcmeServer, store: &Store, challenge: ChallengeKind, number: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let key = SharedKey::parse([operator_key(1).as_str()]).unwrap();
        let config = AcmeConfig {
            shared: Some(SharedSecrets::new(store.clone(), &key, format!("replica-{number}"))),
            ..config_of(server, directory.path(), challenge)
        };
        let (acceptor, challenges, site) = start_site(&config);
        Self { config, acceptor, challenges, site: Some(site), _directory: directory }
    }

    /// Makes the replica use other operator keys. The first key seals.
    pub(crate) fn set_keys(&mut self, store: &Store, keys: &[u8]) {
        let keys: Vec<_> = keys.iter().map(|byte| operator_key(*byte)).collect();
        let key = SharedKey::parse(keys.iter().map(String::as_str)).unwrap();
        self.config.shared = Some(SharedSecrets::new(store.clone(), &key, format!("rotated {keys:?}")));
    }

    /// Starts the ACME client.
    pub(crate) fn start(&self) -> Acme {
        let acme = Acme::new(Challenges::clone(&self.challenges));
        acme.follow(Some(Wanted { config: self.config.clone(), certificates: vec![names()] }));
        acme
    }

    /// Returns the text of the certificate file.
    pub(crate) fn pem(&self) -> String {
        fs::read_to_string(self.config.files(&names()).chain).unwrap()
    }

    pub(crate) fn put_pem(&self, pem: &str) {
        let path = self.config.files(&names()).chain;
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, pem).unwrap();
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Some(site) = self.site.take() {
            site.drain();
            site.join();
        }
    }
}

/// Waits until `is_so` returns `true`.
#[track_caller]
pub(crate) fn wait_until(is_so: impl Fn() -> bool) {
    let end = Clock::system().time_of_day() + TIMEOUT;
    while !is_so() {
        assert!(Clock::system().time_of_day() < end, "the condition was not met in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}
