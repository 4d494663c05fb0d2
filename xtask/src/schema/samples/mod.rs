//! Samples of our own of everything that we write, written as the product writes it.

// the way to write
mod writer;

// pieces
mod parts;

// messages
mod server;
mod client;
mod tasks;

use anyhow::Result;
use thruway_mcp::Revision;

use writer::Samples;

pub(super) use writer::Sample;

/// All samples of a revision.
pub(super) fn of(revision: Revision) -> Result<Vec<Sample>> {
    let mut samples = Samples::new(revision, &parts::implementation())?;
    parts::write(&mut samples)?;
    server::write(&mut samples)?;
    client::write(&mut samples)?;
    Ok(samples.all)
}

/// All samples of the tasks extension.
pub(super) fn of_tasks() -> Result<Vec<Sample>> {
    let mut samples = Samples::new(Revision::LATEST, &parts::implementation())?;
    tasks::write(&mut samples)?;
    Ok(samples.all)
}
