//! Tests with TLS servers.

use std::future::poll_fn;
use std::io::{IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use thruway_client::{Client, ClientConfig, ClientError, Config, Connection, UpstreamAddr, connect, secure};
use thruway_net::Transport;
use thruway_net::tls::{
    CertificateFiles, Roots, TlsConnector, TlsConnectorConfig, TlsFailure, TlsServerName,
};
use thruway_testkit::CertificateAuthority;
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::sockets::{TEST_TIMEOUT, run, spend_poll_budget};

/// The way in which a server ends the body of its response.
#[derive(Clone, Copy)]
enum End {
    CloseNotify,
    CutOff,
}

/// A server that answers one request on each connection with a body of unknown length. It runs until the
/// process ends.
fn server(files: &CertificateFiles, end: End) -> SocketAddr {
    let chain = CertificateDer::pem_file_iter(&files.chain).unwrap().map(Result::unwrap).collect();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(&files.key).unwrap())
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), socket);
            let mut request = [0; 1000];
            // A client that does not trust the certificate disconnects.
            let Ok(1..) = stream.read(&mut request) else { continue };
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nhello").unwrap();
            if matches!(end, End::CloseNotify) {
                stream.conn.send_close_notify();
                stream.flush().unwrap();
            }
        }
    });
    address
}

fn client(address: SocketAddr, tls: Option<TlsConnectorConfig>) -> Client {
    let tls = tls.map(|tls| Arc::new(TlsConnector::load(tls).unwrap()));
    Client::with_config(ClientConfig {
        connect_to: Some(UpstreamAddr::from(address)),
        tls,
        ..ClientConfig::default()
    })
}

async fn get(client: &Client, url: &str) -> Result<Vec<u8>, ClientError> {
    Ok(client.get(url).send().await?.collect(1 << 20).await?.to_vec())
}

#[test]
fn client_trusts_configured_roots_and_checks_the_name() {
    run(async {
        let authority = CertificateAuthority::new();
        let address = server(&authority.issue("server", &["a.example"]), End::CloseNotify);
        let trusting = TlsConnectorConfig {
            roots: Roots::SystemAnd(vec![authority.root()]),
            ..TlsConnectorConfig::default()
        };
        let client = client(address, Some(trusting));
        assert_eq!(get(&client, "https://a.example/").await, Ok(b"hello".to_vec()));
        let other_name = get(&client, "https://b.example/").await;
        assert_eq!(other_name, Err(ClientError::Tls(TlsFailure::CertificateForOtherName)));
    });
}

#[test]
fn server_with_unknown_issuer_is_rejected_if_verification_is_on() {
    run(async {
        let address = server(&CertificateAuthority::new().issue("server", &["a.example"]), End::CloseNotify);
        let result = get(&client(address, None), "https://a.example/").await;
        assert_eq!(result, Err(ClientError::Tls(TlsFailure::CertificateUnknownIssuer)));
        let lax = TlsConnectorConfig { verify: false, ..TlsConnectorConfig::default() };
        let result = get(&client(address, Some(lax)), "https://a.example/").await;
        assert_eq!(result, Ok(b"hello".to_vec()));
    });
}

#[test]
fn body_without_close_notify_is_incomplete() {
    run(async {
        let authority = CertificateAuthority::new();
        let address = server(&authority.issue("server", &["a.example"]), End::CutOff);
        let lax = TlsConnectorConfig { verify: false, ..TlsConnectorConfig::default() };
        let result = get(&client(address, Some(lax)), "https://a.example/").await;
        assert_eq!(result, Err(ClientError::Exchange(thruway_client::Error::ContentIncomplete)));
    });
}

/// With TLS too, the poll budget of the task must not hide a closed connection.
#[test]
fn closed_connection_is_detected_without_poll_budget() {
    run(async {
        let authority = CertificateAuthority::new();
        let address = server(&authority.issue("server", &["a.example"]), End::CloseNotify);
        let lax = TlsConnectorConfig { verify: false, ..TlsConnectorConfig::default() };
        let connector = TlsConnector::load(lax).unwrap();
        let name = TlsServerName::new("a.example").unwrap();
        let stream = connect(&address.into(), TEST_TIMEOUT).await.unwrap();
        let mut stream = secure(stream, &connector, &name, TEST_TIMEOUT).await.unwrap();
        poll_fn(|cx| stream.poll_write(cx, &[IoSlice::new(b"GET")])).await.unwrap();
        let mut connection = Connection::new(stream, &Config::default());
        let is_found = async {
            spend_poll_budget().await;
            while connection.is_alive() {
                yield_now().await;
                spend_poll_budget().await;
            }
        };
        timeout(TEST_TIMEOUT, is_found).await.expect("the connection is not found closed");
    });
}
