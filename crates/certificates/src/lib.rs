//! Automatic certificates (ACME) and OCSP responses.
//!
//! [`acme`] orders certificates, renews them before they expire and stores them in files, which a
//! [`TlsAcceptor`](thruway_net::tls::TlsAcceptor) reads again when they change. [`ocsp`] fetches OCSP
//! responses. This crate opens no port: the server's own listeners respond to the challenges.
#![forbid(unsafe_code)]

pub mod acme;
pub mod ocsp;
