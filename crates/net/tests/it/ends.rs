//! The two ends of a connection: one is Thruway's, the other is rustls with buffers.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConnection};
use thruway_net::tls::{
    HandshakeError, Roots, TlsAcceptor, TlsAcceptorConfig, TlsConnector, TlsConnectorConfig, TlsServerName,
    TlsStream, accept_tls, connect_tls,
};
use thruway_net::{Clock, ManualTime, PooledBuffer, Transport, Worker};
use thruway_testkit::{CertificateAuthority, PipePeer, PipeTransport, pipe};

pub(crate) type Tls = TlsStream<PipeTransport>;
pub(crate) type Accepting = Pin<Box<dyn Future<Output = Result<Tls, (PipeTransport, HandshakeError)>>>>;

pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

pub(crate) fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// A worker with manual time.
pub(crate) struct Scene {
    pub(crate) time: ManualTime,
    pub(crate) worker: Rc<Worker>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let time = ManualTime::default();
        Self { worker: Worker::for_test(Clock::manual(time.clone())), time }
    }

    /// Starts to accept a TLS connection on `far`.
    pub(crate) fn accept(&self, far: PipeTransport, acceptor: &Arc<TlsAcceptor>) -> Accepting {
        let (acceptor, guard) = (acceptor.clone(), self.worker.guard_for_test());
        Box::pin(async move {
            accept_tls(far, PooledBuffer::default(), &acceptor, &guard, HANDSHAKE_TIMEOUT).await
        })
    }
}

/// Returns an acceptor with one certificate.
pub(crate) fn acceptor(authority: &CertificateAuthority) -> Arc<TlsAcceptor> {
    let config = TlsAcceptorConfig::new(vec![authority.issue("server", &["a.example"])]);
    Arc::new(TlsAcceptor::load(config).unwrap())
}

pub(crate) fn connector(authority: &CertificateAuthority) -> TlsConnector {
    let roots = Roots::Files(vec![authority.root()]);
    TlsConnector::load(TlsConnectorConfig { roots, ..TlsConnectorConfig::default() }).unwrap()
}

pub(crate) fn roots(authority: &CertificateAuthority) -> RootCertStore {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.root()).unwrap()).unwrap();
    roots
}

pub(crate) fn client_config(authority: &CertificateAuthority) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots(authority))
        .with_no_client_auth()
}

/// The rustls end of a connection.
pub(crate) struct RustlsEnd {
    pub(crate) tls: Connection,
    pub(crate) peer: PipePeer,
    pub(crate) received: Vec<u8>,
    /// The lengths of the received records, from their headers.
    pub(crate) records: Vec<usize>,
}

impl RustlsEnd {
    pub(crate) fn client(peer: PipePeer, config: &Arc<ClientConfig>, name: &str) -> Self {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        Self::new(peer, ClientConnection::new(config.clone(), name).unwrap().into())
    }

    pub(crate) fn server(peer: PipePeer, config: Arc<rustls::ServerConfig>) -> Self {
        Self::new(peer, ServerConnection::new(config).unwrap().into())
    }

    fn new(peer: PipePeer, tls: Connection) -> Self {
        Self { tls, peer, received: Vec::new(), records: Vec::new() }
    }

    /// Processes the received bytes, and sends the pending bytes. Returns the first error.
    pub(crate) fn pump(&mut self) -> Result<(), rustls::Error> {
        let bytes = self.peer.received();
        self.records.extend(record_lengths(&bytes));
        let mut left = &bytes[..];
        while !left.is_empty() {
            self.tls.read_tls(&mut left).unwrap();
            let outcome = self.tls.process_new_packets();
            self.read();
            if let Err(error) = outcome {
                self.send();
                return Err(error);
            }
        }
        self.send();
        Ok(())
    }

    fn read(&mut self) {
        let mut piece = [0; 4096];
        loop {
            match self.tls.reader().read(&mut piece) {
                Ok(0) => return,
                Ok(length) => self.received.extend_from_slice(&piece[..length]),
                Err(error) => return assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    }

    pub(crate) fn send(&mut self) {
        let mut bytes = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut bytes).unwrap();
        }
        self.peer.send(bytes);
    }

    pub(crate) fn write(&mut self, content: &[u8]) {
        self.tls.set_buffer_limit(None);
        self.tls.writer().write_all(content).unwrap();
        self.send();
    }
}

/// Returns the lengths of complete records.
pub(crate) fn record_lengths(mut bytes: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let [_, _, _, high, low, rest @ ..] = bytes {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        lengths.push(length);
        bytes = rest.get(length..).unwrap_or_default();
    }
    lengths
}

/// Drives both ends until Thruway's end has finished the handshake.
pub(crate) fn drive_handshake<F: Future + Unpin>(
    ours: &mut F,
    other: &mut RustlsEnd,
) -> (F::Output, Result<(), rustls::Error>) {
    for _ in 0..ROUNDS {
        let sent = other.pump();
        if let Poll::Ready(outcome) = poll(ours) {
            return (outcome, sent.and_then(|()| other.pump()));
        }
    }
    panic!("the handshake does not finish");
}

/// Returns a client's connection after the handshake.
pub(crate) fn accepted(authority: &CertificateAuthority) -> (Tls, RustlsEnd) {
    accepted_by(&acceptor(authority), &Arc::new(client_config(authority)), "a.example")
}

pub(crate) fn accepted_by(
    acceptor: &Arc<TlsAcceptor>,
    config: &Arc<ClientConfig>,
    name: &str,
) -> (Tls, RustlsEnd) {
    let (near, far) = pipe();
    let mut other = RustlsEnd::client(near, config, name);
    let mut accepting = Scene::new().accept(far, acceptor);
    let (stream, other_outcome) = drive_handshake(&mut accepting, &mut other);
    other_outcome.unwrap();
    settled(stream.map_err(|(_, error)| error).unwrap(), other)
}

/// Sends the data that would otherwise be sent with the first application data.
fn settled(mut stream: Tls, mut other: RustlsEnd) -> (Tls, RustlsEnd) {
    assert!(stream.poll_flush(&mut cx()).is_ready());
    other.pump().unwrap();
    (stream, other)
}

/// Returns a connection to a server after the handshake.
pub(crate) fn connected(authority: &CertificateAuthority) -> (Tls, RustlsEnd) {
    let (stream, other) = just_connected(authority);
    settled(stream, other)
}

/// Connects to a server, and returns the connection while the last handshake flight of the server is unsent.
pub(crate) fn just_connected(authority: &CertificateAuthority) -> (Tls, RustlsEnd) {
    let files = authority.issue("server", &["a.example"]);
    let (near, far) = pipe();
    let mut other = RustlsEnd::server(near, server_config(&files));
    let connector = connector(authority);
    let mut connecting = Box::pin(async move {
        connect_tls(far, &connector, &TlsServerName::new("a.example").unwrap(), None).await
    });
    let (stream, outcome) = drive_handshake(&mut connecting, &mut other);
    outcome.unwrap();
    (stream.unwrap(), other)
}

pub(crate) fn server_config(files: &thruway_net::tls::CertificateFiles) -> Arc<rustls::ServerConfig> {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let chain = CertificateDer::pem_file_iter(&files.chain).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    Arc::new(config)
}

/// Reads all bytes that have arrived at Thruway's end.
pub(crate) fn read(stream: &mut Tls, buffer_bytes: usize) -> Vec<u8> {
    let mut content = Vec::new();
    let mut buffer = vec![0; buffer_bytes];
    while let Poll::Ready(read) = stream.poll_read(&mut cx(), &mut buffer) {
        match read.unwrap() {
            0 => break,
            read => content.extend_from_slice(&buffer[..read]),
        }
    }
    content
}

/// Writes as much as the stream takes, and returns the number of bytes.
pub(crate) fn write(stream: &mut Tls, slices: &[&[u8]]) -> usize {
    let slices: Vec<_> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
    match stream.poll_write(&mut cx(), &slices) {
        Poll::Ready(written) => written.unwrap(),
        Poll::Pending => 0,
    }
}

/// Returns a sequence of bytes in which a misplaced byte is visible.
pub(crate) fn numbered(length: usize) -> Vec<u8> {
    (0_u32..).flat_map(u32::to_le_bytes).take(length).collect()
}

const ROUNDS: usize = 20_000;
