//! Reports of recorded figures.

use std::time::Duration;

use crate::case::{CASES, Case, ComparisonKind, LoadCondition, Peers};
use crate::figures::{Figures, Metric};
use crate::results::{
    CandidateResult, CaseResult, Environment, Omission, ServerFacts, SuiteReport, SuiteSettings, Tool,
};
use crate::sections::LAYOUT;

/// Returns possible figures of rounds that took so many microseconds each.
fn rounds(times: &[f64]) -> Vec<Figures> {
    let figures = |time: &f64| {
        let cpu = Some(Duration::from_secs_f64(time / 1000.0));
        Figures::counted(1000, time / 1000.0)
            .with(Metric::P50, *time)
            .with(Metric::P98, time * 2.8)
            .with(Metric::P99, time * 3.0)
            .with(Metric::Longest, time * 4.0)
            .with(Metric::MemoryPerConnection, 1000.0)
            .with_cpu(Metric::ServerCpu, cpu)
            .with_cpu(Metric::GeneratorCpu, cpu)
            .with_cpu(Metric::ProgramCpu, cpu)
    };
    times.iter().map(figures).collect()
}

/// Returns the result of a case of the table with these candidates.
pub(crate) fn case(name: &str, candidates: &[(&str, &[f64])]) -> CaseResult {
    let known = CASES.iter().find(|case| case.name == name).unwrap_or_else(|| panic!("no case {name}"));
    let candidate = |(name, times): &(&str, &[f64])| CandidateResult {
        name: (*name).to_owned(),
        rounds: rounds(times),
        ..CandidateResult::default()
    };
    CaseResult {
        workload: known.workload,
        name: name.to_owned(),
        between: known.between,
        candidates: candidates.iter().map(candidate).collect(),
    }
}

pub(crate) fn report(cases: Vec<CaseResult>) -> SuiteReport {
    SuiteReport {
        format: SuiteReport::FORMAT.to_owned(),
        environment: Environment {
            cpu: "a <fast> one".to_owned(),
            tools: vec![Tool { name: "wrk".to_owned(), version: "4.1".to_owned() }],
            ..Environment::default()
        },
        settings: SuiteSettings {
            command: "thruway-suite all".to_owned(),
            duration_seconds: 1.0,
            warm_up_seconds: 0.2,
            rounds: 3,
            limit_seconds: 600.0,
        },
        servers: vec![ServerFacts {
            name: "nginx".to_owned(),
            version: "1.2".to_owned(),
            about: "one worker | no log".to_owned(),
            command: "nginx -c CONFIG".to_owned(),
            config: Some("worker_processes 1;\n".to_owned()),
        }],
        cases,
        left_out: vec![Omission { what: "h2o".to_owned(), because: "it is not on the `PATH`".to_owned() }],
        is_interrupted: false,
        elapsed_seconds: 12.0,
    }
}

/// Returns a report of every case of the table: ours takes 10, another candidate 8, a third 20.
fn report_of_all_cases() -> SuiteReport {
    let names = |case: &'static Case| match case.between {
        ComparisonKind::Generators => ["thruway bench", "wrk", "ab"],
        ComparisonKind::PipeGenerators => ["thruway bench", "hand-written loop", "none"],
        ComparisonKind::Pipes => ["thruway", "thruway over HTTP", "rmcp"],
        _ if matches!(&case.peers, Peers::Only(names) if names[0].starts_with("thruway")) => {
            ["thruway", "thruway-realistic", "thruway-routes"]
        }
        _ if case.circumstance == LoadCondition::Reloads => {
            ["thruway", "thruway left alone", "thruway-routes"]
        }
        _ => [&case.ours, "nginx", "haproxy"],
    };
    let of = |known: &'static Case| {
        let [ours, fast, slow] = names(known);
        let candidates: [(&str, &[f64]); 3] =
            [(ours, &[10.0, 10.1, 9.9]), (fast, &[8.0, 8.1, 8.05]), (slow, &[20.0, 21.0, 19.0])];
        case(&known.name, &candidates)
    };
    report(CASES.iter().map(of).collect())
}

fn assert_contains(markdown: &str, parts: &[&str]) {
    for part in parts {
        assert!(markdown.contains(part), "{part}\n{markdown}");
    }
}

#[test]
fn a_report_has_a_section_for_each_workload_and_tells_which_peers_are_ahead() {
    let markdown = report_of_all_cases().to_markdown();
    let titles: Vec<_> = LAYOUT.workload.values().map(|layout| format!("\n## {}\n", layout.title)).collect();
    assert_contains(&markdown, &titles.iter().map(String::as_str).collect::<Vec<_>>());
    assert_contains(
        &markdown,
        &[
            "### Comparisons in which another candidate is shown to be ahead (of ",
            "| plaintext c=16 | server CPU per request | nginx 1.25 (1.23 to 1.25) |",
            "| case | candidate | requests/s | server CPU per request | p50 | p99 | ours / theirs: requests/s |",
            "| ours / theirs: server CPU per request | ours / theirs: p99 | answered / failed |",
            "| gateway 1 MB c=500 | thruway | 100,000 | 10.0 µs | 30.0 µs |",
            "| gateway 1 MB c=500 | haproxy | 50,000 | ",
            "| `pipelining depth 16` / `pipelining depth 1` | nginx | 1.00 (",
            "### Is the load generator to be trusted?",
            "| it is not on the `PATH` | h2o |",
            "one worker \\| no log",
            "a &lt;fast> one",
            "thruway-suite all",
            "worker_processes 1;",
        ],
    );
    let ahead = markdown.split("shown to be ahead").nth(1).unwrap().split("###").next().unwrap();
    let is_told = ahead.contains("haproxy") || ahead.contains("over HTTP");
    assert!(!is_told, "a slower candidate is not ahead: {ahead}");
    let [missed, met] = ["| MISSED", "| met |"].map(|verdict| markdown.find(verdict).unwrap());
    assert!(missed < met, "{markdown}");
    assert!(markdown.lines().all(|line| !line.ends_with(' ')));
}

#[test]
fn the_limits_of_the_load_generator_and_of_listeners_are_told() {
    let mut busy = case("plaintext c=16", &[("thruway", &[10.0; 3]), ("nginx", &[11.0; 3])]);
    let quiet = report(vec![busy.clone()]).to_markdown();
    assert!(!quiet.contains("no room") && !quiet.contains("rates say little in"), "{quiet}");
    for (round, drops) in [(0, 3), (2, 4)] {
        busy.candidates[1].rounds[round].is_generator_limit = true;
        busy.candidates[1].rounds[round].listen_drops = drops;
    }
    busy.candidates[0].rounds[0].is_generator_limit = true;
    let told = [
        "rates say little in these cases: plaintext c=16 (nginx).",
        "times there are times of a queue: plaintext c=16 (nginx: 7).",
    ];
    assert_contains(&report(vec![busy]).to_markdown(), &told);
}

/// A server that failed half of its requests quickly had a ratio in its favor.
#[test]
fn failures_are_told_and_compared_with_nothing() {
    let both = case("plaintext c=16", &[("thruway", &[10.0; 6]), ("nginx", &[5.0; 6])]);
    let ahead = "| plaintext c=16 | requests/s | nginx 0.50";
    assert_contains(&report(vec![both.clone()]).to_markdown(), &[ahead]);
    let mut failing = both.clone();
    failing.candidates[1].rounds[5].failed = 1;
    let markdown = report(vec![failing]).to_markdown();
    assert!(!markdown.contains(ahead), "{markdown}");
    assert_contains(&markdown, &["a round with 1000 answers and 1 failures", "| 6,000 / 1 |"]);

    let mut dead = both;
    dead.candidates[1].failure = Some("it has ended: signal 9".to_owned());
    dead.candidates[1].rounds.clear();
    dead.candidates[0].rounds[1].failed = 3;
    "timed out".clone_into(&mut dead.candidates[0].rounds[1].failure);
    let report = report(vec![dead]);
    assert!(!report.is_clean() && report.has_figures());
    assert_contains(
        &report.to_markdown(),
        &[
            "| plaintext c=16 | nginx | it has ended: signal 9 |",
            "| plaintext c=16 | thruway | a round with 1000 answers and 3 failures: timed out |",
            "Some requests failed",
        ],
    );
    assert!(!SuiteReport { cases: Vec::new(), ..report }.has_figures());
}

#[test]
fn the_floor_is_told_beside_the_gateways_and_is_no_defeat() {
    let candidates: [(&str, &[f64]); 4] =
        [("thruway", &[10.0; 6]), ("nginx", &[16.0; 6]), ("haproxy", &[20.0; 6]), ("relay", &[8.0; 6])];
    let few = case("gateway 2 B c=200", &candidates);
    let mut many = case(
        "gateway 2 B c=10000",
        &[("thruway", &[20.0; 6]), ("haproxy", &[80.0; 6]), ("relay", &[10.0; 6])],
    );
    many.candidates[2].connections = Some(9_968);
    let shared = case("gateway 2 B c=200, shared cores", &candidates[..3]);
    let markdown = report(vec![few.clone(), many, shared.clone()]).to_markdown();
    assert_contains(
        &markdown,
        &[
            "### The floor: a relay that reads no HTTP",
            "| gateway 2 B c=200 | thruway | 1.25 (1.25 to 1.25) | 0.80 (0.80 to 0.80) | 0.80 (",
            "| gateway 2 B c=200 | haproxy | 2.50 (2.50 to 2.50) | 0.40 (0.40 to 0.40) | 0.40 (",
            "descriptors are not enough: gateway 2 B c=10000 (relay: 9968).",
            "| `gateway 2 B c=10000` / `gateway 2 B c=200` | thruway | 0.50 (",
            "| `gateway 2 B c=10000` / `gateway 2 B c=200` | haproxy | 0.25 (",
            "| `gateway 2 B c=10000` / `gateway 2 B c=200` | relay | 0.80 (",
        ],
    );
    let [floor, divided] = ["### The floor", "### Requests/s in one case"].map(|caption| {
        let rest = markdown.split(caption).nth(1).unwrap();
        rest.split("\n#").next().unwrap()
    });
    assert!(!floor.contains("shared cores"), "the relay has no part there: {floor}");
    assert!(!divided.contains("nginx"), "nginx has no part in one of the cases: {divided}");
    assert!(!markdown.contains("shown to be ahead"), "{markdown}");
    let without = report(vec![shared]).to_markdown();
    assert!(!without.contains("The floor") && !without.contains("Requests/s in one case"), "{without}");
}
