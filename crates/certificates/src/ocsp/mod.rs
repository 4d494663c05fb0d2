//! What issuers say of the revocation of certificates (OCSP, RFC 6960), fetched for clients, who are then
//! given it with the certificate.
//!
//! ```text
//! TlsAcceptor ─▶ Subject: what to ask, and whom ─▶ fetch ─▶ Staple: what was answered, verified ─▶ TlsAcceptor
//! ```
//! It is fetched again ahead of its expiry. What goes wrong leaves what was answered before, until that
//! expires.

mod subject;
mod staple;
mod signature;
mod fetch;
mod stapler;
mod error;

pub use error::OcspError;
pub use staple::Staple;
pub use stapler::{StapleStatus, Stapler};
pub use subject::{Named, Subject};
