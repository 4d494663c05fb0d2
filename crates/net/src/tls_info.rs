//! Negotiated parameters of a TLS connection, and the identity of the peer. These types exist without the feature
//! `tls` too, so that the properties of a connection do not depend on it.

use std::fmt;
use std::net::IpAddr;

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

/// Identity of a peer, from its certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerCertificate {
    /// The subject as text (RFC 4514), such as `CN=client,O=Example`. Empty if the certificate has no
    /// subject or cannot be parsed.
    pub subject: String,
    /// The issuer as text (RFC 4514).
    pub issuer: String,
    /// The subject alternative names that can be written as text.
    pub names: Vec<CertificateName>,
    /// The serial number, in hexadecimal.
    pub serial: String,
    /// The SHA-256 digest of the certificate, in hexadecimal.
    pub fingerprint: String,
    /// The certificate in DER.
    pub der: Vec<u8>,
}

/// Subject alternative name of a certificate (RFC 5280 §4.2.1.6). Names of different kinds are never equal.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum CertificateName {
    /// A host name.
    Dns(String),
    /// A mail address.
    Email(String),
    /// An IP address.
    Ip(IpAddr),
    /// A URI.
    Uri(String),
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) | Self::Email(name) | Self::Uri(name) => f.write_str(name),
            Self::Ip(address) => address.fmt(f),
        }
    }
}
