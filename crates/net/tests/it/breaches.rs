//! Tests of peers that break the rules or send nothing.

use std::io::ErrorKind;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rustls::AlertDescription;
use thruway_net::Transport;
use thruway_net::tls::HandshakeError;
use thruway_testkit::{CertificateAuthority, pipe};

use crate::ends::{HANDSHAKE_TIMEOUT, RustlsEnd, Scene, accepted, acceptor, client_config, cx, poll};

/// Returns the error of a handshake with a client that sends `bytes`, and the bytes sent to the client.
fn refused(bytes: &[u8]) -> (HandshakeError, Vec<u8>) {
    let (near, far) = pipe();
    let mut accepting = Scene::new().accept(far, &acceptor(&CertificateAuthority::new()));
    near.send(bytes);
    let Poll::Ready(Err((_, error))) = poll(&mut accepting) else { panic!("the handshake continues") };
    (error, near.received())
}

#[test]
fn garbage_is_rejected_with_an_alert() {
    for garbage in [&[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0][..], &[0xff; 100], &[0x80, 0x2e, 1, 0, 2, 0, 0]] {
        let (error, sent) = refused(garbage);
        assert!(matches!(error, HandshakeError::Refused(_)), "{error}");
        // A fatal alert.
        assert_eq!((sent.first(), sent.get(5)), (Some(&0x15), Some(&2)), "{error}");
    }
}

#[test]
fn oversized_handshake_message_is_rejected_from_its_header() {
    let (near, far) = pipe();
    let mut accepting = Scene::new().accept(far, &acceptor(&CertificateAuthority::new()));
    // The header of a message of 16 MiB.
    near.send([&[0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff][..], &[0; 16_380]].concat());
    let Poll::Ready(Err((_, error))) = poll(&mut accepting) else { panic!("the handshake continues") };
    assert!(matches!(error, HandshakeError::Refused(_)), "{error}");
}

#[test]
fn plain_http_is_detected_and_its_bytes_are_returned() {
    let (error, sent) = refused(b"GET / HTTP/1.1\r\n");
    let HandshakeError::PlainHttp(bytes) = error else { panic!("{error}") };
    assert_eq!(&bytes[..], b"GET / HTTP/1.1\r\n");
    assert!(sent.is_empty());
}

#[test]
fn stalled_handshake_times_out() {
    let authority = CertificateAuthority::new();
    for sent_bytes in [0, 1, 50] {
        let scene = Scene::new();
        let (near, far) = pipe();
        let mut accepting = scene.accept(far, &acceptor(&authority));
        let mut hello = Vec::new();
        let mut other = RustlsEnd::client(near, &Arc::new(client_config(&authority)), "a.example");
        other.tls.write_tls(&mut hello).unwrap();
        other.peer.send(&hello[..sent_bytes]);
        assert!(poll(&mut accepting).is_pending());
        scene.time.advance(HANDSHAKE_TIMEOUT);
        assert!(matches!(poll(&mut accepting), Poll::Ready(Err((_, HandshakeError::TimedOut)))));
    }
}

#[test]
fn drain_ends_a_silent_handshake_within_200_ms() {
    let scene = Scene::new();
    let (_near, far) = pipe();
    let mut accepting = scene.accept(far, &acceptor(&CertificateAuthority::new()));
    scene.worker.drain();
    assert!(poll(&mut accepting).is_pending());
    scene.time.advance(Duration::from_millis(200));
    assert!(matches!(poll(&mut accepting), Poll::Ready(Err((_, HandshakeError::TimedOut)))));
}

#[test]
fn client_that_closes_during_the_handshake_is_no_tls_error() {
    let (near, far) = pipe();
    let mut accepting = Scene::new().accept(far, &acceptor(&CertificateAuthority::new()));
    near.finish();
    assert!(matches!(poll(&mut accepting), Poll::Ready(Err((_, HandshakeError::Ended)))));
}

#[test]
fn modified_record_ends_the_connection_with_an_alert() {
    let (mut stream, mut other) = accepted(&CertificateAuthority::new());
    other.peer.send([0x17, 3, 3, 0, 32].into_iter().chain([7; 32]).collect::<Vec<u8>>());
    let Poll::Ready(Err(error)) = stream.poll_read(&mut cx(), &mut [0; 100]) else { panic!() };
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert_eq!(other.pump(), Err(rustls::Error::AlertReceived(AlertDescription::BadRecordMac)));
    assert!(matches!(stream.poll_read(&mut cx(), &mut [0; 100]), Poll::Ready(Err(_))));
}

#[test]
fn oversized_record_ends_the_connection() {
    let (mut stream, mut other) = accepted(&CertificateAuthority::new());
    other.peer.send([&[0x17, 3, 3, 0xff, 0xff][..], &vec![0; 70_000]].concat());
    assert!(matches!(stream.poll_read(&mut cx(), &mut [0; 100]), Poll::Ready(Err(_))));
    assert!(other.pump().is_err());
}

#[test]
fn data_before_an_invalid_record_is_read_first() {
    let (mut stream, mut other) = accepted(&CertificateAuthority::new());
    other.write(b"whole");
    other.peer.send([0x17, 3, 3, 0, 32].into_iter().chain([7; 32]).collect::<Vec<u8>>());
    let mut buffer = [0; 100];
    assert!(matches!(stream.poll_read(&mut cx(), &mut buffer), Poll::Ready(Ok(5))));
    assert!(matches!(stream.poll_read(&mut cx(), &mut buffer), Poll::Ready(Err(_))));
}

#[test]
fn unencrypted_empty_records_end_the_connection() {
    let (mut stream, other) = accepted(&CertificateAuthority::new());
    // Only the owner of the keys can encrypt records, so an invalid record ends the connection at once.
    other.peer.send([0x17, 3, 3, 0, 0].repeat(10_000));
    assert!(matches!(stream.poll_read(&mut cx(), &mut [0; 100]), Poll::Ready(Err(_))));
}
