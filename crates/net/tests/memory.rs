//! Tests the memory of a waiting TLS connection: it owns keys and states, and no buffers.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use thruway_net::tls::{TlsAcceptor, TlsAcceptorConfig, accept_tls};
use thruway_net::{Clock, ManualTime, PooledBuffer, Transport, Worker};
use thruway_testkit::CertificateAuthority;
use thruway_testkit::heap::{CountingAllocator, held_bytes};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The bytes that connections own. The memory of their clients does not count.
#[derive(Default)]
struct Owned(isize);

impl Owned {
    /// Adds the bytes that `work` leaves allocated.
    fn count<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let before = held_bytes();
        let outcome = work();
        self.0 += held_bytes() - before;
        outcome
    }
}

/// A connection in memory that has allocated all its memory in advance.
#[derive(Clone)]
struct Line(Rc<Bytes>);

struct Bytes {
    to_server: RefCell<VecDeque<u8>>,
    to_client: RefCell<Vec<u8>>,
}

impl Line {
    fn new() -> Self {
        Self(Rc::new(Bytes {
            to_server: RefCell::new(VecDeque::with_capacity(1 << 16)),
            to_client: RefCell::new(Vec::with_capacity(1 << 16)),
        }))
    }
}

impl Transport for Line {
    fn poll_read(&mut self, _: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self.0.to_server.borrow_mut().read(buffer) {
            Ok(0) => Poll::Pending,
            outcome => Poll::Ready(outcome),
        }
    }

    fn poll_write(&mut self, _: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.0.to_client.borrow_mut().write_vectored(slices))
    }

    fn poll_send_file(&mut self, _: &mut Context<'_>, _: &File, _: u64, _: usize) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn discard_unsent(&mut self) {}
}

/// Sends the client's pending bytes, and passes the server's bytes to the client.
fn pump(client: &mut ClientConnection, line: &Line) {
    let sent = std::mem::replace(&mut *line.0.to_client.borrow_mut(), Vec::with_capacity(1 << 16));
    let mut left = &sent[..];
    while !left.is_empty() {
        client.read_tls(&mut left).unwrap();
        client.process_new_packets().unwrap();
    }
    while client.wants_write() {
        client.write_tls(&mut *line.0.to_server.borrow_mut()).unwrap();
    }
}

#[test]
fn waiting_tls_connection_owns_little_memory() {
    let authority = CertificateAuthority::new();
    let acceptor = TlsAcceptorConfig::new(vec![authority.issue("server", &["a.example"])]);
    let acceptor = Rc::new(TlsAcceptor::load(acceptor).unwrap());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.root()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    let worker = Worker::for_test(Clock::manual(ManualTime::default()));
    let mut cx = Context::from_waker(Waker::noop());
    let mut owned = Owned::default();
    let mut streams = Vec::with_capacity(CONNECTIONS);
    for place in 0..=CONNECTIONS {
        if place == 1 {
            // The first connection has created the shared state.
            owned = Owned::default();
        }
        let line = Line::new();
        let name = ServerName::try_from("a.example").unwrap();
        let mut client = ClientConnection::new(config.clone(), name).unwrap();
        let (far, guard, acceptor) = (line.clone(), worker.guard_for_test(), acceptor.clone());
        let mut accepting: Pin<Box<dyn Future<Output = _>>> = Box::pin(async move {
            let within = Duration::from_secs(1);
            accept_tls(far, PooledBuffer::default(), &acceptor, &guard, within).await
        });
        let mut stream = loop {
            pump(&mut client, &line);
            if let Poll::Ready(outcome) = owned.count(|| accepting.as_mut().poll(&mut cx)) {
                break outcome.map_err(|(_, error)| error).unwrap();
            }
        };
        client.writer().write_all(b"question").unwrap();
        pump(&mut client, &line);
        owned.count(|| {
            let mut buffer = [0; 100];
            assert!(matches!(stream.poll_read(&mut cx, &mut buffer), Poll::Ready(Ok(8))));
            assert!(stream.poll_write(&mut cx, &[IoSlice::new(b"answer")]).is_ready());
            assert!(stream.poll_read(&mut cx, &mut buffer).is_pending());
        });
        pump(&mut client, &line);
        streams.push((stream, client));
    }
    let each = owned.0 / CONNECTIONS.cast_signed();
    println!("{each} bytes on the heap, and {} bytes in the connection value", size_of_val(&streams[0].0));
    assert!((1..OWNED_BYTES_MAX).contains(&each), "{each} bytes");
}

const CONNECTIONS: usize = 50;

/// The limit excludes memory inside the cryptography library, about one kilobyte for each key.
const OWNED_BYTES_MAX: isize = 8 << 10;
