//! Prints reports, writes HTML pages, and determines exit codes.

use std::fmt::Display;
use std::fs;
use std::io::{ErrorKind, Write, stdout};
use std::path::Path;
use std::process::ExitCode;

use thruway_bench::{Environment, PlanError, Report, Scenario, Stages, StartError, Threshold};

use super::args::{Form, ReportArgs};
use crate::config::Failure;

/// Prints a report and returns the exit code. If `--html` is set, also writes the report as an HTML page.
pub(super) fn show_report(report: Report, args: &ReportArgs) -> Result<ExitCode, Failure> {
    let report =
        Threshold::evaluate_all(&args.thresholds.fail_if, report).with_environment(Environment::current());
    print(&match args.output {
        Form::Text => report.to_text(),
        Form::Json => report.to_json(),
        Form::Csv => report.to_csv(),
        Form::Markdown => report.to_markdown(),
    })?;
    write(args.html.as_deref(), || report.to_html())?;
    let is_violated = print_violations("", &report);
    Ok(match report {
        Report { is_interrupted: true, .. } => ExitCode::from(EXIT_INTERRUPTED),
        _ if is_violated => ExitCode::from(EXIT_THRESHOLD),
        report if report.is_clean() => ExitCode::SUCCESS,
        _ => ExitCode::from(EXIT_FAILED),
    })
}

/// Returns an error if a condition of `thresholds` applies to a stage or a step that the load will not have.
/// Callers use this check before they start a load.
pub(super) fn check_thresholds(
    thresholds: &[Threshold],
    stages: Option<&Stages>,
    scenario: Option<&Scenario>,
) -> Result<(), Failure> {
    let mut checked = thresholds.iter().map(|threshold| threshold.check(stages, scenario));
    checked.find_map(Result::err).map_or(Ok(()), |error| Err(failure(&error, Some(error.hint()))))
}

/// Prints a line for each violated threshold of `report`. `of` names the load, such as ` by URL in round 2`. Returns
/// `true` if there is at least one.
pub(super) fn print_violations(of: &str, report: &Report) -> bool {
    let violated = report.thresholds.iter().filter(|threshold| threshold.is_violated);
    violated.map(|found| eprintln!("threshold violated{of}: {} ({found})", found.condition)).count() > 0
}

/// Prints `text` to the standard output. Returns no error if the reader has closed the pipe.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    let written = writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot print the report: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes an HTML page to the file `path`. Does nothing if `path` is `None`.
pub(super) fn write(path: Option<&Path>, page: impl FnOnce() -> String) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, page())
        .map_err(|error| Failure::new(format!("cannot write `{}`: {error}", path.display())))
}

/// Returns an error if the file `path` cannot be written. Callers use this check before they start a load, so
/// that no measurement is lost.
pub(super) fn check(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let opened = fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).map_err(|error| Failure::new(format!("cannot write `{}`: {error}", path.display())))
}

/// Returns a failure with the text of `error`. Adds `hint` if `hint` is not `None`.
pub(super) fn failure(error: impl Display, hint: Option<impl Display>) -> Failure {
    hint.into_iter().fold(Failure::new(error), Failure::with_hint)
}

/// Converts an error in the load options into a failure with a hint.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn not_planned(error: PlanError) -> Failure {
    failure(&error, error.hint())
}

/// Converts the error of a server process into a failure with a hint. The process did not start, or has
/// exited.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn not_started(error: StartError) -> Failure {
    failure(&error, error.hint())
}

/// Exit code if a request failed, or if a comparison shows a regression.
pub(super) const EXIT_FAILED: u8 = 1;

/// Exit code if a condition of `--fail-if` is true.
pub(super) const EXIT_THRESHOLD: u8 = 3;

/// Exit code after a signal: 128 plus 2, the number of SIGINT. Shells use the same exit code.
pub(super) const EXIT_INTERRUPTED: u8 = 130;
