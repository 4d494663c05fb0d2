//! The legacy era, up to 2025-11-25: a handshake, then a session.

// requests in

// results out
mod downgrade;

#[cfg(test)]
mod tests;

pub use downgrade::downgrade;
pub use downgrade::negotiate;
pub use downgrade::{downgrade_result, downgrade_tool};
