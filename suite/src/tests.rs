//! Tests of reports with given figures.

use std::time::Duration;

use crate::case::{CASES, Case, ComparisonKind, LoadCondition, Peers};
use crate::figures::{Figures, Metric};
use crate::results::{
    CandidateResult, CaseResult, Environment, Omission, ServerFacts, SuiteReport, SuiteSettings, Tool,
};
use crate::sections::LAYOUT;

/// Returns plausible figures of rounds with these response times in microseconds.
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

/// Returns the result of a known case with these candidates.
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

/// Returns a report with all cases. Thruway takes 10 µs, a faster candidate 8, and a slower one 20.
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
fn report_has_all_workloads_and_lists_peers_that_are_ahead() {
    let markdown = report_of_all_cases().to_markdown();
    let titles: Vec<_> = LAYOUT.workload.values().map(|layout| format!("\n## {}\n", layout.title)).collect();
    assert_contains(&markdown, &titles.iter().map(String::as_str).collect::<Vec<_>>());
    assert_contains(
        &markdown,
        &[
            "### Comparisons in which another candidate is ahead (of ",
            "| plaintext c=16 | server CPU per request | nginx 1.25 (1.23 to 1.25) |",
            "| case | candidate | requests/s | server CPU per request | p50 | p99 | ours / theirs: requests/s |",
            "| ours / theirs: server CPU per request | ours / theirs: p99 | succeeded / failed |",
            "| gateway 1 MB c=500 | thruway | 100,000 | 10.0 µs | 30.0 µs |",
            "| gateway 1 MB c=500 | haproxy | 50,000 | ",
            "| `pipelining depth 16` / `pipelining depth 1` | nginx | 1.00 (",
            "### Check of the load generator",
            "| it is not on the `PATH` | h2o |",
            "one worker \\| no log",
            "a &lt;fast> one",
            "thruway-suite all",
            "worker_processes 1;",
        ],
    );
    let ahead = markdown.split("is ahead").nth(1).unwrap().split("###").next().unwrap();
    let is_listed = ahead.contains("haproxy") || ahead.contains("over HTTP");
    assert!(!is_listed, "a slower candidate is not ahead: {ahead}");
    let [missed, met] = ["| MISSED", "| met |"].map(|verdict| markdown.find(verdict).unwrap());
    assert!(missed < met, "{markdown}");
    assert!(markdown.lines().all(|line| !line.ends_with(' ')));
}

#[test]
fn report_names_generator_limits_and_full_accept_queues() {
    let mut busy = case("plaintext c=16", &[("thruway", &[10.0; 3]), ("nginx", &[11.0; 3])]);
    let quiet = report(vec![busy.clone()]).to_markdown();
    assert!(
        !quiet.contains("queues were full") && !quiet.contains("the rates have little meaning in"),
        "{quiet}"
    );
    for (round, drops) in [(0, 3), (2, 4)] {
        busy.candidates[1].rounds[round].is_generator_limit = true;
        busy.candidates[1].rounds[round].listen_drops = drops;
    }
    busy.candidates[0].rounds[0].is_generator_limit = true;
    let expected = [
        "the rates have little meaning in these cases: plaintext c=16 (nginx).",
        "the times include this wait: plaintext c=16 (nginx: 7).",
    ];
    assert_contains(&report(vec![busy]).to_markdown(), &expected);
}

/// A server that quickly failed half of its requests once had a better ratio.
#[test]
fn report_lists_failures_and_does_not_compare_them() {
    let both = case("plaintext c=16", &[("thruway", &[10.0; 6]), ("nginx", &[5.0; 6])]);
    let ahead = "| plaintext c=16 | requests/s | nginx 0.50";
    assert_contains(&report(vec![both.clone()]).to_markdown(), &[ahead]);
    let mut failing = both.clone();
    failing.candidates[1].rounds[5].failed = 1;
    let markdown = report(vec![failing]).to_markdown();
    assert!(!markdown.contains(ahead), "{markdown}");
    assert_contains(&markdown, &["a round with 1000 responses and 1 failures", "| 6,000 / 1 |"]);

    let mut dead = both;
    dead.candidates[1].failure = Some("the program ended with signal 9".to_owned());
    dead.candidates[1].rounds.clear();
    dead.candidates[0].rounds[1].failed = 3;
    "timed out".clone_into(&mut dead.candidates[0].rounds[1].failure);
    let report = report(vec![dead]);
    assert!(!report.is_clean() && report.has_figures());
    assert_contains(
        &report.to_markdown(),
        &[
            "| plaintext c=16 | nginx | the program ended with signal 9 |",
            "| plaintext c=16 | thruway | a round with 1000 responses and 3 failures: timed out |",
            "Some requests or servers failed",
        ],
    );
    assert!(!SuiteReport { cases: Vec::new(), ..report }.has_figures());
}

#[test]
fn relay_shows_minimum_cost_but_is_not_ahead() {
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
            "### Minimum cost: a relay that does not read HTTP",
            "| gateway 2 B c=200 | thruway | 1.25 (1.25 to 1.25) | 0.80 (0.80 to 0.80) | 0.80 (",
            "| gateway 2 B c=200 | haproxy | 2.50 (2.50 to 2.50) | 0.40 (0.40 to 0.40) | 0.40 (",
            "because of the descriptor limit: gateway 2 B c=10000 (relay: 9968).",
            "| `gateway 2 B c=10000` / `gateway 2 B c=200` | thruway | 0.50 (",
            "| `gateway 2 B c=10000` / `gateway 2 B c=200` | haproxy | 0.25 (",
            "| `gateway 2 B c=10000` / `gateway 2 B c=200` | relay | 0.80 (",
        ],
    );
    let [floor, divided] = ["### Minimum cost", "### Requests/s in one case"].map(|caption| {
        let rest = markdown.split(caption).nth(1).unwrap();
        rest.split("\n#").next().unwrap()
    });
    assert!(!floor.contains("shared cores"), "the relay does not take part in that case: {floor}");
    assert!(!divided.contains("nginx"), "nginx does not take part in both cases: {divided}");
    assert!(!markdown.contains("is ahead"), "{markdown}");
    let without = report(vec![shared]).to_markdown();
    assert!(!without.contains("Minimum cost") && !without.contains("Requests/s in one case"), "{without}");
}
