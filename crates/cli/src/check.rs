//! `thruway check`.

use std::io::{Write, stdout};
use std::path::Path;
use std::process::ExitCode;

use thruway_gateway::Routes;

use crate::access_log;
use crate::args::CheckArgs;
use crate::config::{self, Config, Failure};
use crate::explain::explain;
use crate::routes::{self, Parts};
use crate::tls;

/// Says what the config would do, or what is wrong with it.
pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let said = match &args.config {
        Some(path) => say(path, args)?,
        None => format!("{:#}\n", config::schema().as_value()),
    };
    // Nobody may be reading there.
    let _ = write!(stdout(), "{said}");
    Ok(ExitCode::SUCCESS)
}

fn say(path: &Path, args: &CheckArgs) -> Result<String, Failure> {
    let config = Config::load(path)?;
    let routes = checked(&config)?;
    match &args.explain {
        Some(request) => explain(&config, &routes, request, &args.header),
        None => Ok(format!("`{}` is valid\n{config}", path.display())),
    }
}

/// The routes of `config`, if all of it can be served.
fn checked(config: &Config) -> Result<Routes, Failure> {
    match (routes::build(config, &Parts::default()), access_log::check(config), tls::check(config)) {
        (Ok((routes, _)), Ok(()), Ok(())) => Ok(routes),
        (routes, log, tls) => {
            Err(Failure::joined(routes.err().into_iter().chain(log.err()).chain(tls.err()).collect()))
        }
    }
}
