//! `thruway bench compare`.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use thruway_bench::compare::{Candidate, Comparison, Sample};
use thruway_bench::{Load, Report, StopFlag};

use super::args::{CompareArgs, Form};
use super::groups::ProcessGroups;
use super::http::measure;
use super::progress::ProgressLine;
use super::rounds::measure_in_turn;
use super::started::Started;
use super::{EXIT_FAILED, EXIT_INTERRUPTED, interrupt, load, output};
use crate::config::Failure;

/// One of those that are compared.
struct Contender {
    name: String,
    load: Load,
    /// If it was started for this.
    started: Option<Started>,
    reports: Vec<Report>,
}

/// Loads the servers in turn and says which is faster.
pub(super) fn run(args: &CompareArgs) -> Result<ExitCode, Failure> {
    if args.schema {
        output::print(&format!("{:#}", Comparison::schema().as_value()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let baseline = args.baseline.as_deref().map(read_baseline).transpose()?;
    if args.targets.len() < 2 && baseline.is_none() {
        return Err(Failure::new("there is nothing to compare it with")
            .with_hint("give two URLs, or a `--baseline` that `--output json` has printed before"));
    }
    if let Some(Err((name, known))) =
        baseline.as_ref().map(|baseline| Comparison::can_be_told(args.rounds as usize, baseline))
    {
        let message = format!(
            "{} rounds beside {known} of `{}` in the baseline cannot tell a regression",
            args.rounds,
            name.escape_debug()
        );
        return Err(Failure::new(message)
            .with_hint("four rounds on each side can; more can tell a smaller one: `--rounds 10`"));
    }
    if args.load.content.as_deref() == Some("-") {
        return Err(Failure::new(
            "the standard input can be read only once, and each server needs the content",
        )
        .with_hint("put it into a file: `--content @FILE`"));
    }
    output::check(args.html.as_deref())?;
    let groups = ProcessGroups::default();
    let stop = interrupt::stop_flag(&groups)?;
    let mut contenders = contenders(args, &groups, &stop)?;
    measure_rounds(&mut contenders, args, &stop)?;
    // Whoever is interrupted tells of the rounds that are complete.
    let rounds = contenders.iter().map(|contender| contender.reports.len()).min().unwrap_or(0);
    for contender in &mut contenders {
        contender.reports.truncate(rounds);
    }
    if rounds == 0 {
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    }
    let is_clean = contenders.iter().flat_map(|contender| &contender.reports).all(Report::is_clean);
    let comparison = concluded(&contenders, baseline.as_ref());
    show(&comparison, &contenders, args)?;
    let is_worse = baseline.is_some() && say_regressions(&comparison, args.tolerance / 100.0);
    if !is_clean {
        eprintln!("\nwarning: some requests failed, so the figures are not those of the same work");
    }
    if stop.is_set() {
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    }
    Ok(if is_clean && !is_worse { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}

fn contenders(
    args: &CompareArgs,
    groups: &ProcessGroups,
    stop: &StopFlag,
) -> Result<Vec<Contender>, Failure> {
    args.targets.iter().map(|target| contender(target, args, groups, stop)).collect()
}

/// `URL`, or `URL -- COMMAND`.
fn contender(
    target: &str,
    args: &CompareArgs,
    groups: &ProcessGroups,
    stop: &StopFlag,
) -> Result<Contender, Failure> {
    let (url, command) = match target.split_once(" -- ") {
        Some((url, command)) => (url.trim(), Some(command.trim())),
        None => (target, None),
    };
    let started = command.map(|command| Started::start(command, groups)).transpose()?;
    let mut contender = Contender {
        name: url.to_owned(),
        load: load::build_unreached(&[url.to_owned()], &args.load, stop)?,
        started,
        reports: Vec::new(),
    };
    contender.load.addresses = match &mut contender.started {
        Some(started) => {
            contender.load.server = Some(started.id());
            started.wait_until_ready(&contender.load.addresses, stop)?
        }
        None => load::reachable(&contender.load.addresses)?,
    };
    Ok(contender)
}

/// As many rounds as asked for, or until it is interrupted.
fn measure_rounds(contenders: &mut [Contender], args: &CompareArgs, stop: &StopFlag) -> Result<(), Failure> {
    let rounds = args.rounds as usize;
    measure_in_turn(contenders, rounds, |contender, round| {
        let line = ProgressLine::new(format!("round {} of {rounds}, {}   ", round + 1, contender.name));
        // Chance arrivals are the same for all in a round, and others in the next.
        let pace = contender.load.pace.tried_again(round as u64);
        let report = measure(&contender.name, &Load { pace, ..contender.load.clone() }, &line)?;
        if stop.is_set() {
            return Ok(ControlFlow::Break(()));
        }
        contender.reports.push(report);
        Ok(ControlFlow::Continue(()))
    })
}

fn concluded(contenders: &[Contender], baseline: Option<&Comparison>) -> Comparison {
    let candidates = contenders.iter().map(|contender| Candidate {
        name: contender.name.clone(),
        rounds: contender.reports.iter().map(Sample::of).collect(),
    });
    let candidates = candidates.collect();
    let Some(baseline) = baseline else { return Comparison::new(candidates) };
    let (comparison, alone) = Comparison::with_baseline(candidates, baseline);
    for name in alone {
        eprintln!("warning: the baseline has nothing to compare `{name}` with");
    }
    comparison
}

fn show(comparison: &Comparison, contenders: &[Contender], args: &CompareArgs) -> Result<(), Failure> {
    output::print(&match args.output {
        Form::Text => comparison.to_text(),
        Form::Json => comparison.to_json(),
        Form::Csv => Comparison::to_csv(contenders.iter().flat_map(|contender| &contender.reports)),
        Form::Markdown => comparison.to_markdown(),
    })?;
    output::write(args.html.as_deref(), || {
        let last: Vec<Report> =
            contenders.iter().filter_map(|contender| contender.reports.last().cloned()).collect();
        comparison.to_html(&last)
    })
}

/// Whether there are any.
fn say_regressions(comparison: &Comparison, tolerance: f64) -> bool {
    let mut is_worse = false;
    for pair in comparison.regressions(tolerance) {
        is_worse = true;
        eprintln!(
            "regression: {} of {} is ×{:.3} of the baseline, surely beyond {:.1} %",
            pair.metric.label(),
            pair.candidate,
            pair.ratio.median,
            tolerance * 100.0
        );
    }
    is_worse
}

fn read_baseline(path: &Path) -> Result<Comparison, Failure> {
    let failure = |error: String| {
        Failure::new(format!("the baseline `{}` cannot be used: {error}", path.display()))
            .with_hint("a baseline is what `thruway bench compare … --output json` has printed")
    };
    let text = fs::read_to_string(path).map_err(|error| failure(error.to_string()))?;
    Comparison::from_json(&text).map_err(failure)
}
