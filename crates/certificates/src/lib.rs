//! Certificates that come by themselves.
//!
//! [`acme`] orders them, renews them ahead of their expiry and keeps them in files, which a
//! [`TlsAcceptor`](thruway_net::tls::TlsAcceptor) reads again when they change. [`ocsp`] fetches what their
//! issuers say of revocation. Nothing here listens: names are validated by what the server's own listeners
//! answer.
#![forbid(unsafe_code)]

pub mod acme;
pub mod ocsp;
