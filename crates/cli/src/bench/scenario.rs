//! `thruway bench scenario`.

use std::path::PathBuf;
use std::process::ExitCode;

use thruway_bench::{Load, ProcessGroups, ProgressDisplay, Report, Scenario};

use super::args::{LoadArgs, ReportArgs};
use super::output::{failure, not_planned};
use super::{http, load, output};
use crate::config::{Failure, parse_headers};

/// Run virtual users, each of which sends a sequence of dependent requests
///
/// The scenario file describes the steps of a user in TOML. `docs/guide/load-testing.md` describes its keys. One
/// run of all steps is an iteration. The exit codes are the same as of `thruway bench http`.
#[derive(clap::Args)]
#[command(mut_args(for_users))]
pub(crate) struct ScenarioArgs {
    /// Scenario file
    #[arg(value_name = "FILE", required_unless_present = "schema")]
    file: Option<PathBuf>,
    /// URL of the server, which replaces the URL in the file: `http://HOST:PORT`
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// Replaces the help of options that have another meaning for virtual users.
fn for_users(arg: clap::Arg) -> clap::Arg {
    Scenario::option_help(arg.get_id().as_str()).map_or(arg.clone(), |help| arg.help(help))
}

/// Runs a scenario and prints a report.
pub(super) fn run(args: &ScenarioArgs) -> Result<ExitCode, Failure> {
    let ScenarioArgs { file: Some(file), url, load, report } = args else {
        output::print(&format!("{:#}", Report::schema().as_value()))?;
        return Ok(ExitCode::SUCCESS);
    };
    let scenario = Scenario::read(file, url.as_deref(), &parse_headers(&load.header)?)
        .map_err(|error| failure(error, None::<&str>))?;
    output::check_thresholds(&report.thresholds.fail_if, load.stages.as_ref(), Some(&scenario))?;
    output::check(report.html.as_deref())?;
    let stop = load::stop_flag(&ProcessGroups::default())?;
    let planned = Load { server: report.pid, ..scenario.load(&load.options(), &stop).map_err(not_planned)? };
    let measured =
        http::measure(&file.display().to_string(), &planned, &ProgressDisplay::new(!load.is_not_live))?;
    output::show_report(measured, report)
}
