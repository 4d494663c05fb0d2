//! The legacy era, up to 2025-11-25: a handshake, then a session.

// requests in
mod initialize;

// results out
mod content;
mod tools;

#[cfg(test)]
mod tests;

pub use content::downgrade;
pub use initialize::negotiate;
pub use tools::{downgrade_result, downgrade_tool};
