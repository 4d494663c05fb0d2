//! `thruway bench compare`.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use thruway_bench::compare::{BaselineError, Candidate, Comparison, Sample, measure_in_turn};
use thruway_bench::{
    Environment, Load, ProcessGroups, ProgressDisplay, Report, Settings, StartedServer, StopFlag, Threshold,
    reachable_address,
};

use super::args::{CompareArgs, Form};
use super::http::measure;
use super::output::{EXIT_FAILED, EXIT_INTERRUPTED, EXIT_THRESHOLD, failure, not_planned, not_started};
use super::{load, output};
use crate::config::Failure;

/// A server of a comparison, with the reports of its completed rounds.
struct Contender {
    name: String,
    load: Load,
    /// Command that starts the server, or `None` if the server runs already.
    command: Option<String>,
    started: Option<StartedServer>,
    reports: Vec<Report>,
}

/// Measures the servers in turn and compares the results.
pub(super) fn run(args: &CompareArgs) -> Result<ExitCode, Failure> {
    if args.schema {
        output::print(&format!("{:#}", Comparison::schema().as_value()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let baseline = args.baseline.as_deref().map(read_baseline).transpose()?;
    if args.targets.len() < 2 && baseline.is_none() {
        return Err(Failure::new("compare needs a second target")
            .with_hint("pass two URLs, or pass the JSON of an earlier run with `--baseline`"));
    }
    if let Some(baseline) = &baseline {
        baseline.check_rounds(args.rounds as usize).map_err(not_a_baseline)?;
    }
    if args.load.content.as_deref() == Some("-") {
        return Err(Failure::new("the standard input can be read only once, but each server needs the body")
            .with_hint("write the body to a file and pass `--content @FILE`"));
    }
    output::check_thresholds(&args.thresholds.fail_if, args.load.load.stages.as_ref(), None)?;
    output::check(args.html.as_deref())?;
    let groups = ProcessGroups::default();
    let stop = load::stop_flag(&groups)?;
    let mut contenders: Vec<_> =
        args.targets.iter().map(|target| Contender::of(target, args, &stop)).collect::<Result<_, _>>()?;
    let is_tls = contenders.iter().any(|contender| contender.load.tls.is_some());
    args.load.load.options().check_tls(is_tls).map_err(not_planned)?;
    let settings = Settings::of(&contenders[0].load);
    if let Some(baseline) = &baseline {
        let names = contenders.iter().map(|contender| contender.name.as_str());
        if !baseline.check_baseline(names, &settings).map_err(not_a_baseline)? {
            eprintln!("warning: {BASELINE_WITHOUT_SETTINGS}");
        }
    }
    for contender in &mut contenders {
        contender.start(&groups, &stop)?;
    }
    let failure = measure_rounds(&mut contenders, args, &stop).err();
    // After an interruption, the comparison contains only complete rounds.
    let rounds = contenders.iter().map(|contender| contender.reports.len()).min().unwrap_or(0);
    for contender in &mut contenders {
        contender.reports.truncate(rounds);
    }
    if rounds == 0 {
        return failure.map_or_else(|| Ok(ExitCode::from(EXIT_INTERRUPTED)), Err);
    }
    let is_clean = contenders.iter().flat_map(|contender| &contender.reports).all(Report::is_clean);
    let comparison = concluded(&contenders, baseline.as_ref())
        .with_settings(settings)
        .with_environment(Environment::current());
    show(&comparison, &contenders, args)?;
    let is_violated = print_violations(&contenders);
    let is_worse = baseline.is_some() && print_regressions(&comparison, args.tolerance / 100.0);
    if let Some(failure) = &failure {
        eprint!("{failure}");
    }
    if stop.is_set() {
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    }
    if is_violated {
        return Ok(ExitCode::from(EXIT_THRESHOLD));
    }
    let is_good = is_clean && !is_worse && failure.is_none();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}

impl Contender {
    /// Parses `URL` or `URL -- COMMAND`. Does not start the command.
    fn of(target: &str, args: &CompareArgs, stop: &StopFlag) -> Result<Self, Failure> {
        let (url, command) = match target.split_once(" -- ") {
            Some((url, command)) => (url.trim(), Some(command.trim().to_owned())),
            None => (target, None),
        };
        let load = load::build_unreached(&[url.to_owned()], &args.load, stop)?;
        Ok(Self { name: url.to_owned(), load, command, started: None, reports: Vec::new() })
    }

    /// Starts the server if the target contains a command. Then finds the address at which the server accepts
    /// connections.
    fn start(&mut self, groups: &ProcessGroups, stop: &StopFlag) -> Result<(), Failure> {
        let addresses = &self.load.addresses;
        let Some(command) = &self.command else {
            self.load.addresses = vec![reachable_address(addresses).map_err(not_planned)?];
            return Ok(());
        };
        if let Ok(reached) = reachable_address(addresses) {
            return Err(Failure::new(format!("another process listens on {reached} already"))
                .with_hint("give each command an unused port"));
        }
        let started = StartedServer::start(command, groups).map_err(not_started)?;
        let started = self.started.insert(started);
        self.load.server = Some(started.id());
        self.load.addresses = vec![started.wait_until_ready(addresses, stop).map_err(not_started)?];
        Ok(())
    }

    /// Measures the server in one round.
    fn measure(&self, round: usize, rounds: usize, display: &ProgressDisplay) -> Result<Report, Failure> {
        display.begin(format!("round {} of {rounds}, {}   ", round + 1, self.name));
        // The random start times of requests are the same for all servers of a round, but differ between
        // rounds.
        let pace = self.load.pace.tried_again(round as u64);
        let report = measure(&self.name, &Load { pace, ..self.load.clone() }, display)?;
        display.note(Sample::of(&report).describe(round + 1, &self.name));
        Ok(report)
    }
}

/// Runs all rounds. Returns early if the user interrupts the command, or if a server can no longer be
/// measured.
fn measure_rounds(contenders: &mut [Contender], args: &CompareArgs, stop: &StopFlag) -> Result<(), Failure> {
    let rounds = args.rounds as usize;
    let display = ProgressDisplay::new(!args.load.load.is_not_live);
    measure_in_turn(contenders, rounds, |contender, round| {
        let report = contender.measure(round, rounds, &display)?;
        if stop.is_set() {
            return Ok(ControlFlow::Break(()));
        }
        contender.started.as_mut().map_or(Ok(()), StartedServer::still_runs).map_err(not_started)?;
        contender.reports.push(Threshold::evaluate_all(&args.thresholds.fail_if, report));
        Ok(ControlFlow::Continue(()))
    })
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn not_a_baseline(error: BaselineError) -> Failure {
    failure(&error, Some(error.hint()))
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
        eprintln!("warning: the baseline has no figures for `{name}`");
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
    if matches!(args.output, Form::Json | Form::Csv) {
        comparison.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    }
    output::write(args.html.as_deref(), || {
        let last: Vec<Report> =
            contenders.iter().filter_map(|contender| contender.reports.last().cloned()).collect();
        comparison.to_html(&last)
    })
}

/// Prints all violated thresholds of all rounds. Returns `true` if there is at least one.
fn print_violations(contenders: &[Contender]) -> bool {
    let mut is_violated = false;
    for Contender { name, reports, .. } in contenders {
        for (round, report) in (1..).zip(reports) {
            is_violated |= output::print_violations(&format!(" by {name} in round {round}"), report);
        }
    }
    is_violated
}

/// Prints all regressions. Returns `true` if there is at least one regression.
fn print_regressions(comparison: &Comparison, tolerance: f64) -> bool {
    let mut is_worse = false;
    for pair in comparison.regressions(tolerance) {
        is_worse = true;
        eprintln!(
            "regression: {} of {} is {:.3} times the baseline, and likely worse by more than {:.1} %",
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
        Failure::new(format!("cannot use the baseline `{}`: {error}", path.display())).with_hint(
            "`thruway bench compare … --output json` prints a baseline, and so does \
                 `thruway bench http … --output json`",
        )
    };
    let text = fs::read_to_string(path).map_err(|error| failure(error.to_string()))?;
    Comparison::from_json(&text).map_err(failure)
}

const BASELINE_WITHOUT_SETTINGS: &str =
    "the baseline does not contain its load settings, so its load may have been different";
