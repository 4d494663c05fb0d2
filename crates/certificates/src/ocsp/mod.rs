//! OCSP responses (RFC 6960), which are fetched and stapled to the certificate.
//!
//! ```text
//! TlsAcceptor ─▶ Subject: request and responder ─▶ fetch ─▶ Staple: verified response ─▶ TlsAcceptor
//! ```
//! A response is fetched again before it expires. A failure leaves the previous response in use until it
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
