//! Messages over byte streams: one message per line.

mod lines;
mod skipped;

pub use lines::{Line, Lines};
pub use skipped::{SkippedMessage, passed};
