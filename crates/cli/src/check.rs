//! `thruway check`.

use std::process::ExitCode;

use crate::args::CheckArgs;
use crate::config::{Config, Failure};
use crate::routes;

/// Says what the config would do, or what is wrong with it.
pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let config = Config::load(&args.config)?;
    routes::build(&config)?;
    println!("`{}` is valid", args.config.display());
    for address in &config.listeners {
        println!("listens on {address}");
    }
    for route in &config.routes {
        println!("{route}");
    }
    Ok(ExitCode::SUCCESS)
}
