//! Tests of the names and numbers in JSON and CSV, and of the page that documents these names.

use std::collections::BTreeSet;

use serde_json::Value;
use thruway_bench::compare::{Candidate, Comparison, Sample};
use thruway_bench::ramp::{Ramp, Search, Step};
use thruway_bench::report::reference;
use thruway_bench::{Limit, Load, Pace, Report, Stages, Threshold};

use crate::reports::{load, of_server};

const PAGE: &str = include_str!("../../../../docs/guide/load-test-reports.md");

/// Returns the names of the first column of the table below `heading`.
fn documented(heading: &str) -> BTreeSet<&'static str> {
    let section = PAGE.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
}

/// Returns conditions with each unit. In microseconds, `0.3ms` is not exactly a floating-point number.
fn conditions() -> Vec<Threshold> {
    let conditions = ["p99 > 0.3ms", "stage 1: errors > 0.30000000000000004%", "failed > 1", "rate < 0.1"];
    conditions.map(|condition| condition.parse().unwrap()).to_vec()
}

/// Returns the reports of a closed loop, and of an open loop with stages.
fn measured() -> Vec<Report> {
    of_server(|address| {
        let stages: Stages = "100ms:200,100ms:333.3".parse().unwrap();
        let limit = Limit::Duration(stages.duration());
        let open = load(address, Some(404), Pace::Stages { stages: stages.into(), seed: Some(7) });
        vec![load(address, None, Pace::Closed), Load { limit, ..open }]
    })
    .into_iter()
    .map(|report| Threshold::evaluate_all(&conditions(), report))
    .collect()
}

fn ramp(report: &Report) -> Ramp {
    let step = Step::of(report, 1_000.000_000_1);
    let mut search = Search::new(1000.0 / 3.0);
    search.note(thruway_bench::ramp::StepOutcome::Holds);
    Ramp::new("a", 1_000.000_000_1, &Pace::Closed, vec![step], &search).with_thresholds(Some(report))
}

fn comparison(reports: &[Report]) -> Comparison {
    // The ratio of these two rates has infinitely many digits.
    let candidates = reports.iter().zip([3.0, 7.0]).map(|(report, achieved_requests_per_second)| Candidate {
        name: report.target.clone(),
        rounds: vec![Sample { achieved_requests_per_second, ..Sample::of(report) }; 6],
    });
    Comparison::new(candidates.collect())
}

/// Calls `visit` with each value in `value` that is neither an object nor an array, and with its path.
fn visit(value: &Value, path: &str, visit_value: &mut dyn FnMut(&str, &Value)) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let dot = if path.is_empty() { "" } else { "." };
                visit(value, &format!("{path}{dot}{name}"), visit_value);
            }
        }
        Value::Array(items) => {
            for item in items {
                visit(item, &format!("{path}[]"), visit_value);
            }
        }
        value => visit_value(path, value),
    }
}

/// Returns the path without the name of the parent if the parent has the type *times*.
fn of_times(path: &str) -> Option<&str> {
    let parents = [
        "service_time.",
        "response_time.",
        "deliveries.",
        "stages[].response_time.",
        "steps[].response_time.",
        "urls[].response_time.",
        "iterations.iteration_time.",
    ];
    parents.into_iter().find_map(|parent| path.strip_prefix(parent))
}

/// Asserts that the page documents all names in the report of a load.
pub(crate) fn assert_report_documented(report: &Report) {
    assert_documented(&report.to_json(), &documented("`thruway-bench/3`"));
}

fn assert_documented(json: &str, names: &BTreeSet<&str>) {
    let times = documented("Times");
    let value: Value = serde_json::from_str(json).unwrap();
    let mut count = 0;
    visit(&value, "", &mut |path, _| {
        let is_known = of_times(path).map_or_else(|| names.contains(path), |path| times.contains(path));
        // An empty or absent array or object has no members.
        let is_array = names.contains(&*format!("{path}[]"));
        assert!(is_known || is_array, "`{path}` is not in docs/guide/load-test-reports.md");
        count += 1;
    });
    assert!(count > 10, "{json}");
}

#[test]
fn page_is_generated_from_the_code() {
    assert!(
        reference() == PAGE,
        "docs/guide/load-test-reports.md is stale; rewrite it: \
         cargo run -p thruway-bench --example reports > docs/guide/load-test-reports.md"
    );
}

#[test]
fn page_documents_each_name_in_the_output() {
    let reports = measured();
    let [of_load, of_comparison, of_ramp] =
        ["bench", "bench-compare", "bench-ramp"].map(|format| documented(&format!("`thruway-{format}/3`")));
    let outputs = [
        (reports[0].to_json(), &of_load),
        (reports[1].to_json(), &of_load),
        (comparison(&reports).to_json(), &of_comparison),
        (ramp(&reports[1]).to_json(), &of_ramp),
    ];
    for (json, names) in outputs {
        assert_documented(&json, names);
    }
    let csv = reports[0].to_csv();
    let header: BTreeSet<&str> = csv.lines().next().unwrap().split(',').collect();
    assert_eq!(header, documented("CSV"));
    let of_steps = ramp(&reports[1]).to_csv();
    for column in of_steps.lines().next().unwrap().split(',') {
        assert!(of_ramp.contains(&*format!("steps[].{column}")), "{column}");
    }
}

#[test]
fn numbers_have_a_unit_in_their_name_and_no_noise() {
    let reports = measured();
    let is_short = |text: &str| {
        let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        decimals <= 6 && text.len() <= 16 && !text.contains('e')
    };
    let jsons = [
        reports[0].to_json(),
        reports[1].to_json(),
        comparison(&reports).to_json(),
        ramp(&reports[1]).to_json(),
    ];
    for json in &jsons {
        let value: Value = serde_json::from_str(json).unwrap();
        visit(&value, "", &mut |path, value| {
            let Value::Number(number) = value else { return };
            assert!(is_short(&number.to_string()), "{path}: {number}");
            let units = ["_us", "_seconds", "_per_second", "_bytes", "_share", "_us_per_request"];
            let has_unit = units.iter().any(|unit| path.ends_with(unit));
            let has_none = path.ends_with(".percentile")
                || path.contains("thresholds[].")
                || path.starts_with("pairs[].ratio.")
                || path.starts_with("pairs[].added_us.");
            assert!(!number.is_f64() || has_unit || has_none, "{path} has no unit");
        });
    }
    for csv in [reports[0].to_csv(), reports[1].to_csv(), ramp(&reports[1]).to_csv()] {
        let values = csv.lines().skip(1).flat_map(|line| line.split(','));
        for value in values.filter(|value| value.parse::<f64>().is_ok()) {
            assert!(is_short(value), "{value}: {csv}");
        }
    }
}
