//! The ACME server on its port, and its control methods for tests.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thruway_server::{
    Config, ListenAddr, Listener, OwnedRequest, Response, RunningServer, Server, Timeouts, TlsAcceptor,
    TlsAcceptorConfig,
};

use super::responses::RequestContext;
use super::state::{Misbehavior, Ports, State};
use crate::authority::CertificateAuthority;
use crate::lock::lock;

/// A running ACME server. Dropping it stops the server.
pub struct AcmeServer {
    state: Arc<State>,
    address: ListenAddr,
    running: Option<RunningServer>,
}

impl AcmeServer {
    /// Starts a server that behaves correctly.
    ///
    /// # Panics
    /// Panics if the server cannot listen.
    pub fn start() -> Self {
        let authority = CertificateAuthority::new();
        let files = authority.issue("acme", &["127.0.0.1"]);
        Self::start_with(authority, TlsAcceptorConfig::new(vec![files]))
    }

    /// Starts a server with a TLS certificate from an untrusted authority.
    ///
    /// # Panics
    /// Panics if the server cannot listen.
    pub fn start_with_untrusted_certificate() -> Self {
        let untrusted = CertificateAuthority::new();
        let config = TlsAcceptorConfig::new(vec![untrusted.issue("acme", &["127.0.0.1"])]);
        Self::start_with(CertificateAuthority::new(), config)
    }

    fn start_with(authority: CertificateAuthority, tls: TlsAcceptorConfig) -> Self {
        let state = Arc::new(State {
            authority,
            ports: Default::default(),
            misbehavior: Mutex::default(),
            orders: Mutex::default(),
            requests: AtomicUsize::new(0),
            validity: Mutex::new((HOUR, 90 * 24 * HOUR)),
        });
        let acceptor = Arc::new(TlsAcceptor::load(tls).expect("the certificate should be valid"));
        let address: ListenAddr = "127.0.0.1:0".parse().expect("the address should be valid");
        let shared = state.clone();
        let handler = move |request: OwnedRequest| {
            let state = shared.clone();
            async move { respond(&state, request).await }
        };
        let timeouts = Timeouts { drain: Duration::ZERO, ..Timeouts::default() };
        let running = Server::new(handler)
            .workers(1)
            .config(Config { timeouts, ..Config::default() })
            .listen_on(Listener::new(address).tls(acceptor))
            .start()
            .expect("a free port should be available");
        let address = running.addresses()[0].clone();
        Self { state, address, running: Some(running) }
    }

    /// Returns the URL of the ACME directory.
    pub fn directory_url(&self) -> String {
        format!("https://{}/directory", self.address)
    }

    /// Returns the path of the root certificate (PEM). The server's own certificate and all issued
    /// certificates chain to it, unless the server was started with an untrusted certificate.
    pub fn root(&self) -> PathBuf {
        self.state.authority.root()
    }

    /// Sets the loopback ports at which the server validates names. If a port is 0, validations at this port
    /// fail. Requests for a validation wait until a test calls this method.
    pub fn set_validation_ports(&self, http: u16, tls: u16) {
        *lock(&self.state.ports.0) = Some(Ports { http, tls });
        self.state.ports.1.notify_all();
    }

    /// Sets the misbehavior for all later requests.
    pub fn set_misbehavior(&self, misbehavior: Misbehavior) {
        *lock(&self.state.misbehavior) = misbehavior;
    }

    /// Sets the validity of later certificates: they begin `age` ago and expire in `remaining`.
    pub fn set_validity(&self, age: Duration, remaining: Duration) {
        *lock(&self.state.validity) = (age, remaining);
    }

    /// Returns the number of received requests.
    pub fn requests(&self) -> usize {
        self.state.requests.load(Ordering::Relaxed)
    }

    /// Returns the number of issued certificates.
    pub fn issued(&self) -> usize {
        lock(&self.state.orders).issued_count()
    }

    /// Returns the number of created orders.
    pub fn orders(&self) -> usize {
        lock(&self.state.orders).order_count()
    }

    /// Returns the number of created accounts.
    pub fn accounts(&self) -> usize {
        lock(&self.state.orders).account_count()
    }

    /// Returns the key ids of bound external accounts.
    pub fn external_accounts(&self) -> Vec<String> {
        lock(&self.state.orders).external_accounts.clone()
    }

    /// Returns the number of orders that replace an earlier certificate (RFC 9773).
    pub fn replacements(&self) -> usize {
        lock(&self.state.orders).replacement_count()
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

async fn respond(state: &State, mut request: OwnedRequest) -> Response {
    state.requests.fetch_add(1, Ordering::Relaxed);
    let misbehavior = lock(&state.misbehavior).clone();
    if misbehavior == Misbehavior::OrdersHang && request.path() == "/order" {
        std::future::pending::<()>().await;
    }
    let host = request.field("Host").map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned());
    let origin = format!("https://{}", host.unwrap_or_default());
    let path = request.path().to_owned();
    let content = request.content().collect(REQUEST_BYTES_MAX).await.unwrap_or_default();
    RequestContext { state, misbehavior, origin, path }.respond(&content)
}

const HOUR: Duration = Duration::from_hours(1);
const REQUEST_BYTES_MAX: usize = 1 << 16;
