//! Compares servers that were measured under the same load, one after the other. Computes which server is
//! faster, and how certain this result is. Other modules generate the load.

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
