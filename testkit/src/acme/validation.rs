//! Validation of names: the server checks that the owner of the account controls the name.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};
use sha2::{Digest, Sha256};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::oid::ObjectIdentifier;

/// Validates `name` with `http-01` (RFC 8555 §8.3), at this loopback port.
pub(super) fn validate_http_01(
    port: u16,
    name: &str,
    token: &str,
    key_authorization: &str,
) -> Result<(), String> {
    let mut stream = connect(port)?;
    let request = format!(
        "GET /.well-known/acme-challenge/{token} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    let mut response = String::new();
    stream.read_to_string(&mut response).map_err(|error| error.to_string())?;
    let (head, content) = response.split_once("\r\n\r\n").unwrap_or_default();
    if head.starts_with("HTTP/1.1 200 ") && content.trim_end() == key_authorization {
        Ok(())
    } else {
        Err(format!("found {}", response.lines().next().unwrap_or("nothing")))
    }
}

/// Validates `name` with `tls-alpn-01` (RFC 8737 §3), at this loopback port.
pub(super) fn validate_tls_alpn_01(port: u16, name: &str, key_authorization: &str) -> Result<(), String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?.dangerous();
    let mut config =
        builder.with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate)).with_no_client_auth();
    config.alpn_protocols = vec![ALPN_PROTOCOL.to_vec()];
    let server = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    let mut client = ClientConnection::new(Arc::new(config), server).map_err(|error| error.to_string())?;
    let mut stream = connect(port)?;
    while client.is_handshaking() {
        client.complete_io(&mut stream).map_err(|error| error.to_string())?;
    }
    if client.alpn_protocol() != Some(ALPN_PROTOCOL) {
        return Err("the server selected another ALPN protocol".to_owned());
    }
    let leaf =
        client.peer_certificates().and_then(|chain| chain.first()).ok_or("the server sent no certificate")?;
    let certificate = Certificate::from_der(leaf).map_err(|error| error.to_string())?.tbs_certificate;
    let extensions = certificate.extensions.unwrap_or_default();
    let extension =
        extensions.iter().find(|extension| extension.extn_id == ACME_IDENTIFIER && extension.critical);
    let digest = extension
        .map(|extension| extension.extn_value.as_bytes())
        .ok_or("the certificate has no acmeIdentifier extension")?;
    // The DER header of an `OCTET STRING` of 32 bytes, and the digest.
    let expected = [&[4, 32], &Sha256::digest(key_authorization)[..]].concat();
    if digest == expected { Ok(()) } else { Err("the certificate contains another digest".to_owned()) }
}

fn connect(port: u16) -> Result<TcpStream, String> {
    let connect = || {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok::<_, std::io::Error>(stream)
    };
    connect().map_err(|error| error.to_string())
}

/// Accepts each server certificate. `tls-alpn-01` checks only the digest in the certificate.
#[derive(Debug)]
struct AcceptAnyCertificate;

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

const ALPN_PROTOCOL: &[u8] = b"acme-tls/1";

/// `id-pe-acmeIdentifier`.
const ACME_IDENTIFIER: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.31");

/// Timeout of a validation. Long enough for slow machines.
pub(super) const TIMEOUT: Duration = Duration::from_mins(1);
