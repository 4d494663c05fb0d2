//! Negotiated parameters of a TLS connection.

use std::fmt;

use rustls::{HandshakeKind, ProtocolVersion};

use super::{PeerCertificate, TlsStream};
use crate::transport::Transport;

/// A version of TLS.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

/// Negotiated parameters of a TLS connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsInfo {
    /// The TLS version.
    pub version: TlsVersion,
    /// The IANA name of the cipher suite.
    pub cipher_suite: &'static str,
    /// The IANA name of the key exchange group. Empty if there was no key exchange, as in a resumed TLS 1.2
    /// session.
    pub key_exchange: &'static str,
    /// The server name that the client requested (SNI), in lower case.
    pub server_name: Option<Box<str>>,
    /// The negotiated protocol (ALPN).
    pub alpn: Option<Box<[u8]>>,
    /// `true` if the session of an earlier connection was resumed.
    pub is_resumed: bool,
    /// The certificate of the peer, if the peer sent a certificate. The server has verified each client
    /// certificate.
    pub peer_certificate: Option<PeerCertificate>,
}

impl TlsVersion {
    /// Returns `TLSv1.2` or `TLSv1.3`, as used in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<T: Transport> TlsStream<T> {
    /// Returns `true` if the session of an earlier connection was resumed.
    pub fn is_resumed(&self) -> bool {
        self.session.common().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Returns the parameters of the connection. Moves the server name into the result, so that a second
    /// call returns no server name.
    pub fn take_info(&mut self) -> TlsInfo {
        let common = self.session.common();
        let suite = common.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        let group = common.negotiated_key_exchange_group().and_then(|group| group.name().as_str());
        let certificate = common.peer_certificates().and_then(|chain| chain.first());
        TlsInfo {
            version: match common.protocol_version() {
                Some(ProtocolVersion::TLSv1_2) => TlsVersion::Tls12,
                _ => TlsVersion::Tls13,
            },
            cipher_suite: suite.unwrap_or_default(),
            key_exchange: group.unwrap_or_default(),
            alpn: common.alpn_protocol().map(Box::from),
            is_resumed: self.is_resumed(),
            peer_certificate: certificate.map(PeerCertificate::of),
            server_name: self.server_name.take(),
        }
    }
}
