//! Tools for the tests of several crates: transcripts of the parsers, reproducible randomness, scripted
//! peers.
//!
//! For development only. This crate never sleeps. Only [`upstream`], [`acme`] and [`ocsp`] open ports, which
//! the system chooses.

pub mod acme;
mod authority;
pub mod heap;
mod issuer;
mod lock;
pub mod ocsp;
mod pipe;
mod random;
pub mod corpus;
pub mod scene;
pub mod sight;
pub mod transcript;
pub mod upstream;

pub use authority::Authority;
pub use issuer::Issuer;
pub use pipe::{DrivenEnd, Peer, pipe};
pub use random::Random;
