//! `thruway bench ramp`.

use std::process::ExitCode;

use thruway_bench::ramp::{Ramp, Search, Step};
use thruway_bench::{Load, Pace, ProcessGroups, ProgressDisplay, Report, Threshold, rate};

use super::args::{Form, RampArgs};
use super::http::measure;
use super::output::{EXIT_FAILED, EXIT_INTERRUPTED, EXIT_THRESHOLD};
use super::{load, output};
use crate::config::Failure;

/// Finds the highest rate that a server can sustain.
pub(super) fn run(args: &RampArgs) -> Result<ExitCode, Failure> {
    if args.schema {
        output::print(&format!("{:#}", Ramp::schema().as_value()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.load.load.stages.is_some() {
        return Err(Failure::new("`ramp` chooses the rates, so it does not accept `--stages`")
            .with_hint("use `thruway bench http` for a load with stages"));
    }
    output::check_thresholds(&args.thresholds.fail_if, None, None)?;
    let stop = load::stop_flag(&ProcessGroups::default())?;
    let load = load::build(&args.targets, &args.load, &stop)?;
    let target = args.targets.join(" ");
    let p99_limit_us = args.p99.as_secs_f64() * 1e6;
    let mut search = Search::new(args.load.load.rate.unwrap_or(FIRST_RATE));
    let (mut steps, mut number, mut late_failure) = (Vec::new(), 0, None);
    let mut highest: Option<Report> = None;
    let display = ProgressDisplay::new(!args.load.load.is_not_live);
    while let Some(offered) = search.next().filter(|_| !stop.is_set()) {
        // Each attempt uses other random start times, because unlucky start times can make a rate fail.
        let pace = at_rate(&load.pace, offered).tried_again(number);
        let offer = Load { pace, ..load.clone() };
        number += 1;
        display.begin(format!("{} requests/s   ", rate(offered)));
        let report = match measure(&target, &offer, &display) {
            Ok(report) => report,
            // The results of earlier rates remain valid, so the report contains them.
            Err(failure) if !steps.is_empty() => {
                late_failure = Some(failure);
                break;
            }
            Err(failure) => return Err(failure),
        };
        let measured = Step::of(&report, p99_limit_us);
        display.note(measured.describe());
        if !stop.is_set() {
            search.note(measured.outcome());
            if measured.holds {
                // Each sustained rate is higher than the earlier sustained rates.
                highest = Some(Threshold::evaluate_all(&args.thresholds.fail_if, report));
            }
            steps.push(measured);
        }
    }
    display.finish();
    let ramp = Ramp::new(target, p99_limit_us, &load.pace, steps, &search).with_thresholds(highest.as_ref());
    output::print(&match args.output {
        Form::Text => ramp.to_text(),
        Form::Json => ramp.to_json(),
        Form::Csv => ramp.to_csv(),
        Form::Markdown => ramp.to_markdown(),
    })?;
    if matches!(args.output, Form::Json | Form::Csv) {
        ramp.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    }
    if let Some(failure) = late_failure {
        eprint!("{failure}");
        return Ok(ExitCode::from(EXIT_FAILED));
    }
    let is_violated = highest.is_some_and(|report| output::print_violations("", &report));
    Ok(match ramp.highest_requests_per_second {
        _ if stop.is_set() => ExitCode::from(EXIT_INTERRUPTED),
        Some(_) if is_violated => ExitCode::from(EXIT_THRESHOLD),
        Some(_) => ExitCode::SUCCESS,
        None => ExitCode::from(EXIT_FAILED),
    })
}

/// Returns `pace` with the rate `rate`. A closed loop becomes an open loop with constant intervals.
const fn at_rate(pace: &Pace, rate: f64) -> Pace {
    match pace {
        Pace::Poisson { seed, .. } => Pace::Poisson { rate, seed: *seed },
        Pace::Closed | Pace::Constant { .. } | Pace::Stages { .. } => Pace::Constant { rate },
    }
}

const FIRST_RATE: f64 = 1000.0;
