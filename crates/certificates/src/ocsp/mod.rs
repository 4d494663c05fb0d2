//! Fetches OCSP responses (RFC 6960) and staples them to certificates in TLS handshakes.
//!
//! ```text
//! TlsAcceptor ─▶ Subject: request and responder ─▶ fetch ─▶ Staple: verified response ─▶ TlsAcceptor
//! ```
//! The stapler fetches a new response before the current response expires. If a request fails, the current
//! response stays in use until it expires.

mod subject;
mod staple;
mod signature;
mod fetch;
mod shared_fetch;
mod stapler;
mod error;

pub use error::OcspError;
pub(crate) use signature::is_issued_by;
pub use staple::Staple;
pub use stapler::{StapleStatus, Stapler};
pub use subject::{Named, Subject};
