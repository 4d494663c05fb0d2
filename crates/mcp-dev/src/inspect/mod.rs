//! The description of a running server, as a JSON document and as text.

mod inspection;
mod report;

pub use inspection::{INSPECTION_FORMAT, InspectError, Inspection, ListError};
