//! Several servers under the same load, in turn: which is faster, and how sure that is. Nothing here makes
//! the load.

mod rounds;
pub(crate) mod verdict;
pub(crate) mod comparison;
mod baseline;
mod forms;

#[cfg(test)]
mod tests;

pub use baseline::BaselineError;
pub use comparison::Comparison;
pub use rounds::{measure_in_turn, order};
pub use verdict::{Candidate, Metric, Pair, Sample, Verdict};
