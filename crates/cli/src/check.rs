//! `thruway check`.

use std::io::{Write, stderr, stdout};
use std::path::Path;
use std::process::ExitCode;

use crate::args::CheckArgs;
use crate::config::Failure;

/// Prints the description of a config, its warnings, or the way of a request through it.
pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let text = match &args.config {
        Some(path) => describe(path, args)?,
        None => format!("{:#}\n", thruway_daemon::schema().as_value()),
    };
    // The reader may have closed the pipe.
    let _ = write!(stdout(), "{text}");
    Ok(ExitCode::SUCCESS)
}

fn describe(path: &Path, args: &CheckArgs) -> Result<String, Failure> {
    if let Some(request) = &args.explain {
        return thruway_daemon::explain(path, request, &args.header);
    }
    let checked = thruway_daemon::check(path, args.offline)?;
    if let Some(warnings) = checked.warnings {
        let _ = writeln!(stderr(), "{warnings}");
    }
    Ok(format!("`{}` is valid\n{}", path.display(), checked.description))
}
