//! Secrets that the replicas of a gateway share: ACME accounts and certificates, keys of session tickets,
//! and OCSP responses.
//!
//! ```text
//! acme ──────┐
//! ocsp ──────┼─▶ SharedSecrets: seals with the operator key ─▶ thruway_store::Store
//! tickets ───┘
//! ```
//! The store contains only sealed values. A value that another key sealed, or that somebody changed, counts
//! as missing.

pub(crate) mod secrets;
mod tickets;

pub use secrets::SharedSecrets;
pub use tickets::TicketKeeper;
