//! What was agreed upon, and with whom.

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

/// What is known of a connection in TLS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsInfo {
    /// The version.
    pub version: TlsVersion,
    /// The cipher suite, as IANA calls it.
    pub cipher_suite: &'static str,
    /// The group of the key exchange, as IANA calls it; empty if there was none, as in a resumption of TLS
    /// 1.2.
    pub key_exchange: &'static str,
    /// The name of the server that the client has asked for (SNI), in lower case.
    pub server_name: Option<Box<str>>,
    /// The protocol that was agreed upon (ALPN).
    pub alpn: Option<Box<[u8]>>,
    /// Whether the session of an earlier connection was resumed.
    pub is_resumed: bool,
    /// The certificate of the other end. That of a client was verified; a client without one has none.
    pub peer_certificate: Option<PeerCertificate>,
}

impl TlsVersion {
    /// `TLSv1.2` or `TLSv1.3`, as logs have it.
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
    /// Whether the session of an earlier connection was resumed.
    pub fn is_resumed(&self) -> bool {
        self.session.common().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// What was agreed upon. The name that the client has asked for is taken out.
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
