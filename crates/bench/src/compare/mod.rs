//! Compares servers that were measured in turn under the same load: computes which server is faster, and how
//! certain that is. Other modules generate the load.

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
