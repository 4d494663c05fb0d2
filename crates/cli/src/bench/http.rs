//! `thruway bench http`.

use std::process::ExitCode;

use thruway_bench::{Load, Report};

use super::args::{Form, HttpArgs, ReportArgs};
use super::groups::ProcessGroups;
use super::progress::ProgressLine;
use super::{EXIT_FAILED, EXIT_INTERRUPTED, interrupt, load, output};
use crate::config::Failure;

/// Loads a server and reports.
pub(super) fn run(args: &HttpArgs) -> Result<ExitCode, Failure> {
    if args.report.schema {
        output::print(&format!("{:#}", Report::schema().as_value()))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::check(args.report.html.as_deref())?;
    let stop = interrupt::stop_flag(&ProcessGroups::default())?;
    let load = Load { server: args.report.pid, ..load::build(&args.targets, &args.load, &stop)? };
    let report = measure(&args.targets.join(" "), &load, &ProgressLine::new(""))?;
    show(&report, &args.report)
}

/// Prints a report and writes its page; the exit code says what it says.
pub(super) fn show(report: &Report, args: &ReportArgs) -> Result<ExitCode, Failure> {
    output::print(&match args.output {
        Form::Text => report.to_text(),
        Form::Json => report.to_json(),
        Form::Csv => report.to_csv(),
        Form::Markdown => report.to_markdown(),
    })?;
    output::write(args.html.as_deref(), || report.to_html())?;
    Ok(match report {
        Report { is_interrupted: true, .. } => ExitCode::from(EXIT_INTERRUPTED),
        report if report.is_clean() => ExitCode::SUCCESS,
        _ => ExitCode::from(EXIT_FAILED),
    })
}

/// Makes a load, with a line about how it goes.
pub(super) fn measure(target: &str, load: &Load, line: &ProgressLine) -> Result<Report, Failure> {
    let outcome = load.run(&mut |progress| line.show(load, progress));
    line.finish();
    Ok(Report::new(target, load, &outcome.map_err(|error| load::unreachable(&error))?))
}
