//! Reports, their files and exit codes.

use std::fmt::Display;
use std::fs;
use std::io::{ErrorKind, Write, stdout};
use std::path::Path;
use std::process::ExitCode;

use thruway_bench::{PlanError, Report, StartError};

use super::args::{Form, ReportArgs};
use crate::config::Failure;

/// Prints a report and writes its page; the exit code says what it says.
pub(super) fn show_report(report: &Report, args: &ReportArgs) -> Result<ExitCode, Failure> {
    print(&match args.output {
        Form::Text => report.to_text(),
        Form::Json => report.to_json(),
        Form::Csv => report.to_csv(),
        Form::Markdown => report.to_markdown(),
    })?;
    write(args.html.as_deref(), || report.to_html())?;
    Ok(match report {
        Report { is_interrupted: true, .. } => ExitCode::from(EXIT_INTERRUPTED),
        report if report.is_clean() => ExitCode::SUCCESS,
        _ => ExitCode::from(EXIT_FAILED),
    })
}

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

/// An error with its hint, if it has one.
pub(super) fn failure(error: impl Display, hint: Option<impl Display>) -> Failure {
    hint.into_iter().fold(Failure::new(error), Failure::with_hint)
}

/// Why a load cannot be planned.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn not_planned(error: PlanError) -> Failure {
    failure(&error, error.hint())
}

/// Why a server that was started is of no use.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn not_started(error: StartError) -> Failure {
    failure(&error, error.hint())
}

/// A request failed, or a comparison shows a regression.
pub(super) const EXIT_FAILED: u8 = 1;

/// Ended by a signal: what the shell says of SIGINT.
pub(super) const EXIT_INTERRUPTED: u8 = 130;
