//! Scenarios: sequences of dependent requests by virtual users, such as a login and the pages behind it.
//!
//! A scenario file is TOML. [`Scenario::read`] compiles the file. A [`Worker`](crate::Worker) then runs one
//! virtual user for each of its connections. This module sends nothing: it writes requests, and reads values and
//! cookies from responses.

// the file
mod error;
mod file;
mod data;

// the parts of a step
mod template;
mod cookies;
mod extract;
mod step;

// the compiled scenario, and the state of a virtual user
mod compile;
mod loops;
mod plan;
mod user;

// results
mod record;

pub use error::InvalidScenario;
pub use plan::Scenario;
pub use record::{PartRecord, ScenarioRecord};
pub(crate) use step::Received;
pub(crate) use user::UserState;
