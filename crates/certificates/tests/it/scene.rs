//! A site with both kinds of listeners, an ACME server, and an ACME client.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use thruway_certificates::acme::{
    Acme, AcmeConfig, CertificateStatus, ChallengeKind, Challenges, OrderedNames, Pace, Wanted,
};
use thruway_net::Clock;
use thruway_net::tls::{
    CertificateFiles, Roots, TlsAcceptor, TlsAcceptorConfig, TlsConnector, TlsConnectorConfig,
};
use thruway_server::{ListenAddr, Listener, RunningServer, Server};
use thruway_testkit::CertificateAuthority;
use thruway_testkit::acme::AcmeServer;

/// The site, its ACME server and its files. They end with the scene.
pub(crate) struct Scene {
    pub(crate) server: AcmeServer,
    _directory: TempDir,
    pub(crate) config: AcmeConfig,
    pub(crate) acceptor: Arc<TlsAcceptor>,
    challenges: Arc<Challenges>,
    site: Option<RunningServer>,
}

/// Time limit of each wait. It expires only if the test fails.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) const DAY: Duration = Duration::from_hours(24);

impl Scene {
    pub(crate) fn new(challenge: ChallengeKind) -> Self {
        Self::with_server(AcmeServer::start(), challenge)
    }

    /// Creates a scene with this ACME server. The client trusts the server's own authority.
    pub(crate) fn with_server(server: AcmeServer, challenge: ChallengeKind) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = config_of(&server, directory.path(), challenge);
        let (acceptor, challenges, site) = start_site(&config);
        server.set_validation_ports(port(&site, 0), port(&site, 1));
        Self { server, _directory: directory, config, acceptor, challenges, site: Some(site) }
    }

    /// Port of a listener: 0 is the one without TLS, 1 the one with TLS.
    pub(crate) fn port(&self, index: usize) -> u16 {
        port(self.site.as_ref().unwrap(), index)
    }

    /// Starts an ACME client for the certificate.
    pub(crate) fn start(&self) -> Acme {
        let acme = Acme::new(Challenges::clone(&self.challenges));
        acme.follow(Some(self.wanted()));
        acme
    }

    pub(crate) fn wanted(&self) -> Wanted {
        Wanted { config: self.config.clone(), certificates: vec![names()] }
    }

    pub(crate) fn files(&self) -> CertificateFiles {
        self.config.files(&names())
    }

    pub(crate) fn account(&self) -> PathBuf {
        self.config.directory_of_server().join("account.json")
    }

    /// Writes a certificate that is due for renewal: one of its ten days is left. Returns the content of the
    /// file.
    pub(crate) fn put_old_certificate(&self) -> String {
        let authority = CertificateAuthority::new();
        let key = authority.issue("old", &["a.example", "b.example"]);
        // A chain with another validity for the same key.
        let now = Clock::system().time_of_day();
        let names = ["a.example", "b.example"];
        let chain = authority.issue_for_key(authority.public_key_of(&key), &names, now - 9 * DAY, now + DAY);
        let pem = chain + &fs::read_to_string(&key.key).unwrap();
        let path = self.files().chain;
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &pem).unwrap();
        assert_eq!(self.files().contents().unwrap().names, names);
        pem
    }
}

/// Returns the config of an ACME client of `server`. The client trusts the server's own authority.
pub(crate) fn config_of(server: &AcmeServer, directory: &Path, challenge: ChallengeKind) -> AcmeConfig {
    let roots = Roots::Files(vec![server.root()]);
    let connector = TlsConnectorConfig { roots, ..TlsConnectorConfig::default() };
    AcmeConfig {
        directory: server.directory_url(),
        connector: Arc::new(TlsConnector::load(connector).unwrap()),
        terms_of_service_agreed: true,
        contacts: vec!["mailto:admin@a.example".to_owned()],
        external_account: None,
        store: directory.join("store"),
        shared: None,
        challenge,
        pace: PACE,
    }
}

/// Starts a site with a listener for each type of challenge.
pub(crate) fn start_site(config: &AcmeConfig) -> (Arc<TlsAcceptor>, Arc<Challenges>, RunningServer) {
    let challenges = Arc::new(Challenges::default());
    let files = config.files(&names());
    let tls = TlsAcceptorConfig {
        awaited: vec![files.chain.clone()],
        challenges: Some(challenges.tls_alpn()),
        ..TlsAcceptorConfig::new(vec![files])
    };
    let acceptor = Arc::new(TlsAcceptor::load(tls).unwrap());
    let address: ListenAddr = "127.0.0.1:0".parse().unwrap();
    let plain = Listener::new(address.clone()).redirect_to_https(443).answer_first(challenges.clone());
    let site = Server::new(|| "the site")
        .workers(1)
        .listen_on(plain)
        .listen_on(Listener::new(address).tls(acceptor.clone()))
        .start()
        .unwrap();
    (acceptor, challenges, site)
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(site) = self.site.take() {
            site.drain();
            site.join();
        }
    }
}

pub(crate) fn port(site: &RunningServer, index: usize) -> u16 {
    match &site.addresses()[index] {
        ListenAddr::Tcp(address) => address.port(),
        ListenAddr::Unix(_) => 0,
    }
}

/// The names of the certificate.
pub(crate) fn names() -> OrderedNames {
    OrderedNames::new(["a.example", "b.example"]).unwrap()
}

/// `true` if all certificates are issued, have no errors, and are not due soon.
pub(crate) fn is_issued(statuses: &[CertificateStatus]) -> bool {
    !statuses.is_empty()
        && statuses
            .iter()
            .all(|status| status.not_after.is_some() && status.last_error.is_none() && is_far(status))
}

/// `true` if the next order is more than a day away.
fn is_far(status: &CertificateStatus) -> bool {
    status.next_at > Clock::system().time_of_day() + DAY
}

/// Shorter than in production, to keep the tests fast.
pub(crate) const PACE: Pace = Pace {
    retry_first: Duration::from_millis(10),
    retry_max: Duration::from_millis(40),
    order: Duration::from_secs(2),
    answer: Duration::from_secs(1),
    poll: Duration::from_millis(5),
    lock: Duration::from_millis(1500),
    follow: Duration::from_millis(50),
    spread: Duration::from_secs(30),
};
