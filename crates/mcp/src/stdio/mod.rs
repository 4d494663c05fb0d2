//! Messages on streams: one message a line.

mod lines;
mod passing;

pub use lines::{Line, Lines};
pub use passing::{Passed, passed};
