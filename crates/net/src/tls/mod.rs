//! Implements TLS 1.3 and 1.2 over any transport, with rustls.
//!
//! ```text
//! files ─▶ TlsAcceptor  ─▶ accept  ─┐
//!                                   ├─▶ TlsStream: a Transport
//! files ─▶ TlsConnector ─▶ connect ─┘
//! ```
//! rustls implements the protocol. This module passes bytes between rustls and the transport, through
//! buffers that all connections of a thread share. This module also reads certificate files, and reports
//! the identity of the peer. The module sends no requests to other servers.

// certificate files
mod certificates;
mod identity;
mod names;
mod challenges;
mod staples;

// settings of servers and clients
mod acceptor;
mod connector;
mod verifier;
mod tickets;
mod shared_tickets;

// state of a connection
mod session;
mod scratch;
mod stream;
mod handshake;
mod failure;

// first message of a client, read without decryption
mod client_hello;

pub use acceptor::{ClientAuthentication, ServedCertificate, TlsAcceptor, TlsAcceptorConfig};
pub use certificates::{CertificateContents, CertificateError, CertificateFiles, CertificateProblem};
pub use challenges::{ALPN_ACME, TlsAlpnChallenges, UnusableChallenge};
pub use client_hello::{ClientHello, read_client_hello};
pub use connector::{InvalidServerName, Roots, TlsConnector, TlsConnectorConfig, TlsServerName};
pub use failure::HandshakeError;
pub use handshake::{accept_tls, connect_tls, end_tls, wait_for_close};
pub use identity::{Validity, normal_subject};
pub use names::NameMatch;
pub(crate) use scratch::Scratch;
pub use shared_tickets::{SharedTicketKeys, TicketKey};
pub use staples::FileStaple;
pub use stream::TlsStream;

pub use crate::tls_failure::TlsFailure;
pub use crate::tls_info::{CertificateName, PeerCertificate, TlsInfo, TlsVersion};
