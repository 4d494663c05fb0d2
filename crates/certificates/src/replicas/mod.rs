//! Secrets that the replicas of a gateway share: ACME accounts and certificates, keys of session tickets,
//! and OCSP responses.
//!
//! ```text
//! acme ──────┐
//! ocsp ──────┼─▶ SharedSecrets: seals with the operator key ─▶ thruway_store::Store
//! tickets ───┘
//! ```
//! The store contains only sealed values. A value counts as missing if it was changed, or if another key sealed
//! it.

pub(crate) mod secrets;
mod tickets;

pub(crate) use secrets::HeldLock;
pub use secrets::SharedSecrets;
pub use tickets::TicketKeeper;
