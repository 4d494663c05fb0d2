//! The workloads that published reports of the field use, as a suite: which loads there are, which of them fit into a time,
//! what was measured, and the report of it. Nothing here starts servers or makes loads.

// what is measured
mod cases;
mod gateway;
mod plan;

// what came of it
mod figures;
mod results;

// what that means
mod targets;
mod floor;
mod sections;
mod tables;

// in which form
mod forms;
mod html;

pub use cases::{Amount, Between, Case, Circumstance, Operation, Peers, Request, Security, Workload, cases};
pub use figures::{Figures, Metric, SpreadOfTimes, kept};
pub use plan::{Asked, Plan, PlannedCase};
pub use results::{
    CandidateResult, CaseResult, Environment, LeftOut, ServerFacts, SuiteReport, SuiteSettings, Tool,
};
pub use targets::{Judged, judge};

#[cfg(test)]
mod tests;
