//! The legacy era, up to 2025-11-25: a handshake, then a session.

mod content;
mod initialize;

pub use content::downgrade;
pub use initialize::negotiate;
