//! Where reports go.

use std::fs;
use std::io::{ErrorKind, Write, stdout};
use std::path::Path;

use crate::config::Failure;

/// On the standard output. Nobody may be reading there any more.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    let written = writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("the report cannot be printed: {error}")))
        }
        _ => Ok(()),
    }
}

/// Into a file, if there is to be one.
pub(super) fn write(path: Option<&Path>, page: impl FnOnce() -> String) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, page())
        .map_err(|error| Failure::new(format!("`{}` cannot be written: {error}", path.display())))
}

/// Whether a file can be written there: to be asked before the load, not after it.
pub(super) fn check(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let opened = fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).map_err(|error| Failure::new(format!("`{}` cannot be written: {error}", path.display())))
}
