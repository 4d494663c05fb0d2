//! Samples of everything that we write, written as the product writes it.
//!
//! `samples.json` lists them, with the revisions that have them. Each is read as our type and must be written
//! as it was. Samples of conversions between revisions come from the product itself.

mod writer;
mod table;
mod conversions;

use anyhow::Result;
use thruway_mcp::Revision;

use table::Table;
use writer::Samples;

pub(super) use writer::Sample;

/// Returns all samples of a revision.
pub(super) fn of(revision: Revision) -> Result<Vec<Sample>> {
    let table = Table::read()?;
    let mut samples = Samples::new(revision, &table.part("implementation")?)?;
    table.write(&mut samples)?;
    conversions::write(&table, &mut samples)?;
    Ok(samples.all)
}

/// Returns all samples of the tasks extension.
pub(super) fn of_tasks() -> Result<Vec<Sample>> {
    let table = Table::read()?;
    let mut samples = Samples::new(Revision::LATEST, &table.part("implementation")?)?;
    table.write_tasks(&mut samples)?;
    Ok(samples.all)
}
