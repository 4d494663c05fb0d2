//! `thruway check`.

use std::io::{Write, stdout};
use std::process::ExitCode;

use crate::args::CheckArgs;
use crate::config::{Config, Failure};
use crate::{access_log, routes};

/// Says what the config would do, or what is wrong with it.
pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let config = Config::load(&args.config)?;
    let failures = [routes::build(&config).err(), access_log::check(&config).err()];
    if let Some(failure) = Failure::all(failures.into_iter().flatten().collect()) {
        return Err(failure);
    }
    // Nobody may be reading there.
    let _ = write!(stdout(), "`{}` is valid\n{config}", args.config.display());
    Ok(ExitCode::SUCCESS)
}
