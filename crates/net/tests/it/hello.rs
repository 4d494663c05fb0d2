//! Tests of reading the client's first message without decryption.

use std::sync::Arc;
use std::task::Poll;

use thruway_net::PooledBuffer;
use thruway_net::tls::{HandshakeError, read_client_hello};
use thruway_testkit::{CertificateAuthority, pipe};

use crate::ends::{HANDSHAKE_TIMEOUT, RustlsEnd, Scene, client_config, poll};

#[test]
fn client_hello_is_parsed_and_its_bytes_are_kept() {
    let authority = CertificateAuthority::new();
    let mut config = client_config(&authority);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let config = Arc::new(config);
    for (early, cut) in [(0, usize::MAX), (0, 1), (100, 7)] {
        let scene = Scene::new();
        let (near, mut far) = pipe();
        let mut bytes = Vec::new();
        let mut other = RustlsEnd::client(near, &config, "A.Example");
        other.tls.write_tls(&mut bytes).unwrap();
        bytes.extend_from_slice(b"more");
        let (first, rest) = bytes.split_at(early);
        other.peer.limit_read_size(cut);
        other.peer.send(rest);
        let (first, guard) = (PooledBuffer::copy_of(first), scene.worker.guard_for_test());
        let mut reading =
            Box::pin(async move { read_client_hello(&mut far, first, &guard, HANDSHAKE_TIMEOUT).await });
        let Poll::Ready(outcome) = poll(&mut reading) else { panic!() };
        let (hello, received) = outcome.unwrap();
        assert_eq!(hello.server_name.as_deref(), Some("a.example"));
        assert_eq!(hello.alpn, config.alpn_protocols);
        // The bytes after the message may have been read or not.
        assert!(bytes.starts_with(&received) && received.len() >= bytes.len() - 4);
    }
}

#[test]
fn invalid_client_hello_is_rejected() {
    for (bytes, is_ended) in [(&b"GET / HTTP/1.1\r\n\r\n"[..], false), (&[0x16, 3, 1], true), (b"", true)] {
        let scene = Scene::new();
        let (near, mut far) = pipe();
        near.send(bytes);
        near.finish();
        let guard = scene.worker.guard_for_test();
        let early = PooledBuffer::default();
        let mut reading =
            Box::pin(async move { read_client_hello(&mut far, early, &guard, HANDSHAKE_TIMEOUT).await });
        let Poll::Ready(Err(error)) = poll(&mut reading) else { panic!() };
        assert_eq!(matches!(error, HandshakeError::Ended), is_ended, "{error}");
    }
}

#[test]
fn silent_client_times_out() {
    let scene = Scene::new();
    let (_near, mut far) = pipe();
    let guard = scene.worker.guard_for_test();
    let early = PooledBuffer::default();
    let mut reading =
        Box::pin(async move { read_client_hello(&mut far, early, &guard, HANDSHAKE_TIMEOUT).await });
    assert!(poll(&mut reading).is_pending());
    scene.time.advance(HANDSHAKE_TIMEOUT);
    assert!(matches!(poll(&mut reading), Poll::Ready(Err(HandshakeError::TimedOut))));
}
