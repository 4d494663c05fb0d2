//! Messages over byte streams: one message per line.

mod lines;
mod passing;

pub use lines::{Line, Lines};
pub use passing::{Passed, passed};
