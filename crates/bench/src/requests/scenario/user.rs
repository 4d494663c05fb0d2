//! The state of a virtual user.

use std::fmt::Write as _;
use std::time::Duration;

use super::cookies::Cookies;
use super::data::DataTable;
use super::file::RowOrder;
use super::template::{Source, Values};

/// The state of a virtual user: the values of its iteration, and its cookies.
#[derive(Debug)]
pub(crate) struct UserState {
    /// Number of the user, from 0.
    pub(super) number: u64,
    /// Number of the iteration, from 0.
    pub(super) iteration: u64,
    /// Index of the current row of each data table.
    pub(super) rows: Vec<usize>,
    /// The extracted values of the iteration.
    pub(super) extracted: Vec<String>,
    pub(super) cookies: Cookies,
    /// Progress of the loop that ends with each step.
    pub(super) loops: Vec<LoopProgress>,
    pub(super) random: fastrand::Rng,
    /// Path and query of the last request.
    pub(super) target: String,
    /// Buffer for bodies, so that a user allocates it once.
    pub(super) body: Vec<u8>,
}

/// Progress of a loop.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LoopProgress {
    /// Number of complete runs.
    pub(super) done: u32,
    /// Number of all runs, or 0 before the first run is complete.
    pub(super) times: u32,
}

impl UserState {
    /// Returns a random time in a range.
    pub(crate) fn time_between(&mut self, (least, most): (Duration, Duration)) -> Duration {
        least + most.saturating_sub(least).mul_f64(self.random.f64())
    }
}

/// The values of an iteration, with the data tables.
pub(super) struct IterationValues<'a> {
    pub(super) user: &'a mut UserState,
    pub(super) tables: &'a [(DataTable, RowOrder)],
}

impl Values for IterationValues<'_> {
    fn write(&mut self, source: Source, text: &mut String) {
        let user = &mut *self.user;
        // Writing to a `String` never fails.
        let _ = match source {
            Source::Iteration => write!(text, "{}", user.iteration),
            Source::User => write!(text, "{}", user.number),
            Source::Random => write!(text, "{:016x}", user.random.u64(..)),
            Source::Column { table, column } => {
                text.push_str(self.tables[table].0.value(user.rows[table], column));
                Ok(())
            }
            Source::Extracted(slot) => {
                text.push_str(&user.extracted[slot]);
                Ok(())
            }
        };
    }
}
