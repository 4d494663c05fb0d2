//! Tests of clients that encrypt invalid messages with valid keys.

use std::sync::Arc;
use std::task::Poll;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider};
use rustls::{ClientConfig, Connection, ConnectionTrafficSecrets, ProtocolVersion, SupportedCipherSuite};
use thruway_net::Transport;
use thruway_testkit::{CertificateAuthority, PipePeer};

use crate::ends::{RustlsEnd, Tls, accepted_by, acceptor, client_config, cx, read, roots, write};

/// Encrypts arbitrary records like the client of a connection.
struct Sealer {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    sequence: u64,
    version: ProtocolVersion,
}

impl Sealer {
    fn of(client: Connection) -> Self {
        let version = client.protocol_version().unwrap();
        let (sequence, secrets) = client.dangerous_extract_secrets().unwrap().tx;
        let ConnectionTrafficSecrets::Aes128Gcm { key, iv } = secrets else { panic!("another cipher") };
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key.as_ref()).unwrap());
        Self { key, iv: iv.as_ref().try_into().unwrap(), sequence, version }
    }

    /// Returns a record of this type (RFC 8446 §5.2, RFC 5288 §3).
    fn seal(&mut self, content_type: u8, content: &[u8]) -> Vec<u8> {
        let mut nonce = self.iv;
        nonce.iter_mut().skip(4).zip(self.sequence.to_be_bytes()).for_each(|(byte, other)| *byte ^= other);
        if self.version == ProtocolVersion::TLSv1_3 {
            // TLS 1.3 encrypts the type too. The outer type of all records is the same.
            let content = [content, &[content_type]].concat();
            let head = head(APPLICATION_DATA, content.len() + AES_128_GCM.tag_len());
            let sealed = self.seal_with(nonce, &head, content);
            return [&head[..], &sealed].concat();
        }
        let bound = [&self.sequence.to_be_bytes()[..], &head(content_type, content.len())].concat();
        let sealed = self.seal_with(nonce, &bound, content.to_vec());
        let explicit = &nonce[4..];
        [&head(content_type, explicit.len() + sealed.len())[..], explicit, &sealed].concat()
    }

    fn seal_with(&mut self, nonce: [u8; NONCE_LEN], bound: &[u8], mut content: Vec<u8>) -> Vec<u8> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce, Aad::from(bound), &mut content).unwrap();
        self.sequence += 1;
        content
    }
}

/// Returns the header of a record.
fn head(content_type: u8, length: usize) -> [u8; 5] {
    let [high, low] = u16::try_from(length).unwrap().to_be_bytes();
    [content_type, 3, 3, high, low]
}

/// Returns a connection, and the encryption state of its client.
fn sealed(suite: SupportedCipherSuite) -> (Tls, PipePeer, Sealer) {
    let authority = CertificateAuthority::new();
    let provider = rustls::crypto::CryptoProvider { cipher_suites: vec![suite], ..default_provider() };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[suite.version()])
        .unwrap()
        .with_root_certificates(roots(&authority))
        .with_no_client_auth();
    config.enable_secret_extraction = true;
    let (stream, RustlsEnd { tls, peer, .. }) =
        accepted_by(&acceptor(&authority), &Arc::new(config), "a.example");
    (stream, peer, Sealer::of(tls))
}

const TLS13: SupportedCipherSuite = cipher_suite::TLS13_AES_128_GCM_SHA256;
const TLS12: SupportedCipherSuite = cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;

/// Returns the received bytes. Fails on an error.
fn received(stream: &mut Tls) -> String {
    String::from_utf8(read(stream, 100)).unwrap()
}

/// Returns `true` if a read fails.
fn has_failed(stream: &mut Tls) -> bool {
    matches!(stream.poll_read(&mut cx(), &mut [0; 100]), Poll::Ready(Err(_)))
}

#[test]
fn hand_made_records_are_read() {
    for suite in [TLS13, TLS12] {
        let (mut stream, peer, mut sealer) = sealed(suite);
        peer.send([sealer.seal(APPLICATION_DATA, b"by "), sealer.seal(APPLICATION_DATA, b"hand")].concat());
        assert_eq!(received(&mut stream), "by hand");
    }
}

#[test]
fn renegotiation_gets_one_warning_and_then_an_error() {
    let (mut stream, peer, mut sealer) = sealed(TLS12);
    let hello = [&[CLIENT_HELLO, 0, 0, 41, 3, 3][..], &[7; 32], &[0, 0, 2, 0xc0, 0x2b, 1, 0]].concat();
    peer.send(sealer.seal(HANDSHAKE, &hello));
    assert!(stream.poll_read(&mut cx(), &mut [0; 100]).is_pending());
    assert_eq!(peer.received().first(), Some(&ALERT), "`no_renegotiation`");
    peer.send(sealer.seal(APPLICATION_DATA, b"as before"));
    assert_eq!(received(&mut stream), "as before");
    peer.send(sealer.seal(HANDSHAKE, &hello));
    // rustls sends no more than one warning.
    assert!(has_failed(&mut stream));
}

#[test]
fn handshake_message_after_a_tls13_handshake_is_an_error() {
    let (mut stream, peer, mut sealer) = sealed(TLS13);
    peer.send(sealer.seal(HANDSHAKE, &[CLIENT_HELLO, 0, 0, 2, 3, 3]));
    assert!(has_failed(&mut stream));
    assert_eq!(peer.received().first(), Some(&APPLICATION_DATA), "an alert, sealed");
}

#[test]
fn number_of_encrypted_empty_records_is_limited() {
    for suite in [TLS13, TLS12] {
        let (mut stream, peer, mut sealer) = sealed(suite);
        for _ in 0..20 {
            peer.send(sealer.seal(APPLICATION_DATA, b""));
        }
        peer.send(sealer.seal(APPLICATION_DATA, b"some are allowed"));
        assert_eq!(received(&mut stream), "some are allowed");
        for _ in 0..100 {
            peer.send(sealer.seal(APPLICATION_DATA, b""));
        }
        assert!(has_failed(&mut stream));
    }
}

#[test]
fn unknown_records_and_interrupted_messages_end_the_connection() {
    // A part of a message, followed by something else than the rest (RFC 8446 §5.1).
    let interrupted: [(u8, &[u8]); 2] = [(HANDSHAKE, &[KEY_UPDATE, 0, 0]), (APPLICATION_DATA, b"x")];
    for records in
        [&[(99, &b"what"[..])][..], &[(CHANGE_CIPHER_SPEC, &[1])], &[(ALERT, &[])], &[(0, b"")], &interrupted]
    {
        let (mut stream, peer, mut sealer) = sealed(TLS13);
        for (content_type, content) in records {
            peer.send(sealer.seal(*content_type, content));
        }
        assert!(has_failed(&mut stream), "{records:?}");
    }
}

#[test]
fn number_of_unanswered_key_updates_is_limited() {
    let authority = CertificateAuthority::new();
    let (mut stream, mut other) =
        accepted_by(&acceptor(&authority), &Arc::new(client_config(&authority)), "a.example");
    // The client takes no responses, so they would accumulate.
    other.peer.set_receive_capacity(0);
    for _ in 0..100 {
        other.tls.refresh_traffic_keys().unwrap();
        other.send();
    }
    assert!(has_failed(&mut stream));
}

#[test]
fn early_data_is_not_accepted() {
    // Gives the client tickets of a server that accepts early data.
    let authority = CertificateAuthority::new();
    let files = authority.issue("server", &["a.example"]);
    let mut config = client_config(&authority);
    config.enable_early_data = true;
    let config = Arc::new(config);
    let mut lax = Arc::unwrap_or_clone(crate::ends::server_config(&files));
    lax.max_early_data_size = 1000;
    ticket_from(lax, &config);

    let (near, far) = thruway_testkit::pipe();
    let mut other = RustlsEnd::client(near, &config, "a.example");
    let Connection::Client(client) = &mut other.tls else { panic!("not a client") };
    std::io::Write::write_all(&mut client.early_data().expect("it has a ticket"), b"DELETE /").unwrap();
    let mut accepting = crate::ends::Scene::new().accept(far, &acceptor(&authority));
    let (stream, outcome) = crate::ends::drive_handshake(&mut accepting, &mut other);
    outcome.unwrap();
    let mut stream = stream.map_err(|(_, error)| error).unwrap();
    let Connection::Client(client) = &other.tls else { panic!("not a client") };
    assert!(!client.is_early_data_accepted());
    other.write(b"GET /");
    assert_eq!(received(&mut stream), "GET /");
    write(&mut stream, &[b"answer"]);
    other.pump().unwrap();
    assert_eq!(other.received, b"answer");
    // The tickets of Thruway do not allow early data.
    let mut again = RustlsEnd::client(thruway_testkit::pipe().0, &config, "a.example");
    let Connection::Client(client) = &mut again.tls else { panic!("not a client") };
    assert!(client.early_data().is_none());
}

/// Makes a server with `config` give the client a ticket.
fn ticket_from(config: rustls::ServerConfig, client: &Arc<ClientConfig>) {
    let name = rustls::pki_types::ServerName::try_from("a.example").unwrap();
    let mut client = rustls::ClientConnection::new(client.clone(), name).unwrap();
    let mut server = rustls::ServerConnection::new(Arc::new(config)).unwrap();
    for _ in 0..3 {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        server.read_tls(&mut &bytes[..]).unwrap();
        server.process_new_packets().unwrap();
        bytes.clear();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        client.read_tls(&mut &bytes[..]).unwrap();
        client.process_new_packets().unwrap();
    }
}

/// Record types (RFC 8446 §5.1).
const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;

/// Types of handshake messages (RFC 8446 §4).
const CLIENT_HELLO: u8 = 1;
const KEY_UPDATE: u8 = 24;
