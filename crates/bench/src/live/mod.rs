//! The display of a running load on a terminal: a screen with a histogram, or one line.
//!
//! The main thread draws at most five times a second, and the workers run on other threads. The display reads no
//! input.

mod details;
mod view;
mod screen;
mod display;

pub use details::{ProgressDetails, StageProgress};
pub use display::ProgressDisplay;
pub use screen::restore_terminal;
