//! Clients resume TLS sessions on other replicas.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use thruway_certificates::replicas::{SharedSecrets, TicketKeeper};
use thruway_net::tls::{CertificateFiles, TlsAcceptor, TlsAcceptorConfig};
use thruway_server::{ListenAddr, Listener, RunningServer, Server};
use thruway_store::{SharedKey, Store};
use thruway_testkit::CertificateAuthority;

use crate::fleet::{operator_key, wait_until};
use crate::scene::port;

/// A site with shared ticket keys. Dropping it stops the site.
struct Site {
    keeper: TicketKeeper,
    running: Option<RunningServer>,
}

impl Site {
    fn start(files: &CertificateFiles) -> Self {
        let keeper = TicketKeeper::default();
        let tls = TlsAcceptorConfig {
            shared_tickets: Some(keeper.keys()),
            sessions_max: 0,
            ..TlsAcceptorConfig::new(vec![files.clone()])
        };
        let acceptor = Arc::new(TlsAcceptor::load(tls).unwrap());
        let address: ListenAddr = "127.0.0.1:0".parse().unwrap();
        let site = Server::new(|| "the site").workers(1).listen_on(Listener::new(address).tls(acceptor));
        Self { keeper, running: Some(site.start().unwrap()) }
    }

    fn follow(&self, store: &Store, key: u8, name: &str) {
        let key = SharedKey::parse([operator_key(key).as_str()]).unwrap();
        self.keeper.follow(Some(SharedSecrets::new(store.clone(), &key, name)));
    }

    /// Sends a request, so that the client gets tickets. Returns the kind of the handshake.
    fn request(&self, config: &Arc<ClientConfig>) -> HandshakeKind {
        let server = ServerName::try_from("a.example").unwrap();
        let client = ClientConnection::new(config.clone(), server).unwrap();
        let stream = TcpStream::connect(("127.0.0.1", port(self.running.as_ref().unwrap(), 0))).unwrap();
        let mut stream = StreamOwned::new(client, stream);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.ends_with("the site"), "{response}");
        stream.into_parts().0.handshake_kind().unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(site) = self.running.take() {
            site.drain();
            site.join();
        }
    }
}

/// Returns the config of a client without tickets.
fn client(authority: &CertificateAuthority) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.root()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Arc::new(builder.unwrap().with_root_certificates(roots).with_no_client_auth())
}

#[test]
fn client_resumes_its_session_on_another_replica() {
    let authority = CertificateAuthority::new();
    let files = authority.issue("server", &["a.example"]);
    let (store, sites) = (Store::memory(), [Site::start(&files), Site::start(&files)]);
    sites[0].follow(&store, 1, "one");
    sites[1].follow(&store, 1, "two");
    // Each attempt starts without tickets. An attempt fails until both replicas have read the keys.
    wait_until(|| {
        let config = client(&authority);
        let kinds = [&sites[0], &sites[1], &sites[0]].map(|site| site.request(&config));
        kinds == [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed]
            || kinds
                == [HandshakeKind::FullWithHelloRetryRequest, HandshakeKind::Resumed, HandshakeKind::Resumed]
    });
}

#[test]
fn replica_with_another_operator_key_uses_its_own_ticket_keys() {
    let authority = CertificateAuthority::new();
    let files = authority.issue("server", &["a.example"]);
    let (store, sites) = (Store::memory(), [Site::start(&files), Site::start(&files)]);
    sites[0].follow(&store, 1, "one");
    sites[1].follow(&store, 2, "two");
    // Each replica resumes its own sessions, but not the sessions of the other replica.
    for site in &sites {
        wait_until(|| {
            let config = client(&authority);
            site.request(&config) != HandshakeKind::Resumed && site.request(&config) == HandshakeKind::Resumed
        });
    }
    let config = client(&authority);
    sites[0].request(&config);
    assert_ne!(sites[1].request(&config), HandshakeKind::Resumed);
}
