//! Automatic certificates, from ACME servers or from a local CA, and OCSP responses.
//!
//! [`acme`] orders certificates, renews them before they expire and stores them in files. A
//! [`TlsAcceptor`](thruway_net::tls::TlsAcceptor) reloads these files when they change. [`ocsp`] fetches
//! OCSP responses. [`replicas`] shares all these secrets among replicas. [`local_ca`] issues certificates for
//! development. This crate opens no port: the existing listeners of the server respond to ACME challenges.
#![forbid(unsafe_code)]

pub mod acme;
pub mod local_ca;
pub mod ocsp;
pub mod replicas;

mod private_files;
