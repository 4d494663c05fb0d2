//! The ACME server: it listens and can be made to misbehave.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thruway_server::{
    Config, ListenAddr, Listener, OwnedRequest, Response, RunningServer, Server, Timeouts, TlsAcceptor,
    TlsAcceptorConfig,
};

use super::answers::Answering;
use super::state::{Misbehaviour, Ports, State};
use crate::authority::Authority;
use crate::lock::lock;

/// An ACME server. It ends with this.
pub struct AcmeServer {
    state: Arc<State>,
    address: ListenAddr,
    running: Option<RunningServer>,
}

impl AcmeServer {
    /// One that behaves.
    ///
    /// # Panics
    /// It cannot listen.
    pub fn start() -> Self {
        let authority = Authority::new();
        let files = authority.issue("acme", &["127.0.0.1"]);
        Self::start_as(authority, TlsAcceptorConfig::new(vec![files]))
    }

    /// Starts a server with an untrusted certificate.
    ///
    /// # Panics
    /// It cannot listen.
    pub fn with_a_wrong_certificate() -> Self {
        let files = Authority::new();
        let config = TlsAcceptorConfig::new(vec![files.issue("acme", &["127.0.0.1"])]);
        Self::start_as(Authority::new(), config)
    }

    fn start_as(authority: Authority, tls: TlsAcceptorConfig) -> Self {
        let state = Arc::new(State {
            authority,
            ports: Default::default(),
            misbehaviour: Mutex::default(),
            orders: Mutex::default(),
            requests: AtomicUsize::new(0),
            validity: Mutex::new((HOUR, 90 * 24 * HOUR)),
        });
        let acceptor = Arc::new(TlsAcceptor::load(tls).expect("the certificate is good"));
        let address: ListenAddr = "127.0.0.1:0".parse().expect("it is an address");
        let answering = state.clone();
        let answer = move |request: OwnedRequest| {
            let state = answering.clone();
            async move { answer(&state, request).await }
        };
        let timeouts = Timeouts { drain: Duration::ZERO, ..Timeouts::default() };
        let running = Server::new(answer)
            .workers(1)
            .config(Config { timeouts, ..Config::default() })
            .listen_on(Listener::new(address).tls(acceptor))
            .start()
            .expect("there is a port");
        let address = running.addresses()[0].clone();
        Self { state, address, running: Some(running) }
    }

    /// The URL of its directory.
    pub fn directory(&self) -> String {
        format!("https://{}/directory", self.address)
    }

    /// The file with the certificate of the authority that has issued its own, and issues the others.
    pub fn root(&self) -> PathBuf {
        self.state.authority.root()
    }

    /// Validates names at these ports of this machine; 0 for nowhere. Until this is said, answers to
    /// challenges have to wait.
    pub fn validate_at(&self, http: u16, tls: u16) {
        *lock(&self.state.ports.0) = Some(Ports { http, tls });
        self.state.ports.1.notify_all();
    }

    /// Does this wrong from now on.
    pub fn misbehave(&self, misbehaviour: Misbehaviour) {
        *lock(&self.state.misbehaviour) = misbehaviour;
    }

    /// Issues certificates that have been valid for `since`, and are so for `left`.
    pub fn issue_for(&self, since: Duration, left: Duration) {
        *lock(&self.state.validity) = (since, left);
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> usize {
        self.state.requests.load(Ordering::Relaxed)
    }

    /// Returns the number of issued certificates.
    pub fn issued(&self) -> usize {
        lock(&self.state.orders).issued()
    }

    /// Returns the number of created accounts.
    pub fn accounts(&self) -> usize {
        lock(&self.state.orders).accounts()
    }

    /// Returns the key ids of external accounts that were bound.
    pub fn external_accounts(&self) -> Vec<String> {
        lock(&self.state.orders).external.clone()
    }

    /// Returns the number of orders that name the certificate that they replace.
    pub fn replacements(&self) -> usize {
        lock(&self.state.orders).replacements()
    }
}

impl Drop for AcmeServer {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.drain();
            running.join();
        }
    }
}

async fn answer(state: &State, mut request: OwnedRequest) -> Response {
    state.requests.fetch_add(1, Ordering::Relaxed);
    let misbehaviour = lock(&state.misbehaviour).clone();
    if misbehaviour == Misbehaviour::Hangs && request.path() == "/order" {
        std::future::pending::<()>().await;
    }
    let host = request.field("Host").map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned());
    let origin = format!("https://{}", host.unwrap_or_default());
    let path = request.path().to_owned();
    let content = request.content().collect(CONTENT_BYTES).await.unwrap_or_default();
    Answering { state, misbehaviour, origin, path }.answer(&content)
}

const HOUR: Duration = Duration::from_hours(1);
const CONTENT_BYTES: usize = 1 << 16;
