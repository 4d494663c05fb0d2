//! What the tests of several crates share: transcripts of the parsers, reproducible randomness, scripted peers.
//!
//! For development only. Nothing here opens a port or sleeps.

mod pipe;
mod random;
pub mod scene;
pub mod transcript;

pub use pipe::{DrivenEnd, Peer, pipe};
pub use random::Random;
