//! Reports of recorded figures, in every form.

use thruway_bench::Handshakes;

use crate::case::{Case, ComparisonKind, LoadCondition, Peers, Workload};
use crate::cases::cases;
use crate::figures::{Figures, SpreadOfTimes};
use crate::layout::LAYOUT;
use crate::results::{
    CandidateResult, CaseResult, Environment, Omission, ServerFacts, SuiteReport, SuiteSettings, Tool,
};

/// Returns possible figures of rounds that took so many microseconds each.
fn rounds(times: &[f64]) -> Vec<Figures> {
    let figures = |time: &f64| Figures {
        answered: 1000,
        failed: 0,
        failure: String::new(),
        seconds: 1.0,
        rate: 1e6 / time,
        times: Some(SpreadOfTimes {
            min_us: time / 2.0,
            mean_us: *time,
            deviation_us: 1.0,
            p50_us: *time,
            p90_us: time * 2.0,
            p95_us: time * 2.5,
            p98_us: time * 2.8,
            p99_us: time * 3.0,
            max_us: time * 4.0,
        }),
        received_rate: Some(1e6),
        handshakes: Some(Handshakes { full: 1000, resumed: 0, per_second: 1e6 / time }),
        server_cpu: Some(*time),
        generator_cpu: Some(*time),
        is_generator_limit: false,
        listen_drops: 0,
        memory_per_connection: Some(1000.0),
        program_cpu: Some(*time),
        memory_growth: Some(1000.0),
    };
    times.iter().map(figures).collect()
}

/// A case of the table with these candidates.
pub(crate) fn case(name: &str, candidates: &[(&str, &[f64])]) -> CaseResult {
    let known = cases(Workload::all());
    let case = known.iter().find(|case| case.name == name).unwrap_or_else(|| panic!("no case {name}"));
    CaseResult {
        workload: case.workload,
        name: name.to_owned(),
        between: case.between,
        command: case.command(std::time::Duration::from_secs(1)),
        connections: case.connections.into(),
        pipeline: case.pipeline.into(),
        candidates: candidates
            .iter()
            .map(|(name, times)| CandidateResult {
                name: (*name).to_owned(),
                rounds: rounds(times),
                failure: None,
                connections: None,
            })
            .collect(),
    }
}

pub(crate) fn report(cases: Vec<CaseResult>) -> SuiteReport {
    SuiteReport {
        format: SuiteReport::FORMAT.to_owned(),
        environment: Environment {
            date: "2026-01-02".to_owned(),
            cpu: "a <fast> one".to_owned(),
            cores: 2,
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

/// Every case of the table up to a rank, measured: ours takes 10, another one 8, a third 20.
fn up_to_rank(rank: u8) -> SuiteReport {
    let names = |case: &Case| match case.between {
        ComparisonKind::Generators => ["thruway bench", "wrk", "ab"],
        ComparisonKind::PipeGenerators => ["thruway bench", "hand-written loop", "none"],
        ComparisonKind::Pipes => ["thruway", "thruway over HTTP", "rmcp"],
        _ if matches!(case.peers, Peers::Only([first, ..]) if first.starts_with("thruway")) => {
            ["thruway", "thruway-realistic", "thruway-routes"]
        }
        _ if case.circumstance == LoadCondition::Reloads => {
            ["thruway", "thruway left alone", "thruway-routes"]
        }
        _ => [case.ours, "nginx", "haproxy"],
    };
    let of = |known: &Case| {
        let [ours, fast, slow] = names(known);
        case(
            &known.name,
            &[(ours, &[10.0, 10.1, 9.9]), (fast, &[8.0, 8.1, 8.05]), (slow, &[20.0, 21.0, 19.0])],
        )
    };
    report(cases(Workload::all()).iter().filter(|case| case.rank <= rank).map(of).collect())
}

#[test]
fn a_report_has_a_section_for_each_workload_and_says_who_is_ahead() {
    let markdown = up_to_rank(u8::MAX).to_markdown();
    // The cases of the last one are all about load generators.
    for workload in &Workload::all()[..Workload::all().len() - 1] {
        assert!(
            markdown.contains(&format!("\n## {}\n", LAYOUT.of(*workload).title)),
            "{}",
            LAYOUT.of(*workload).title
        );
    }
    for part in [
        "### Comparisons in which another candidate is shown to be ahead (of ",
        "| plaintext c=16 | server CPU per request | nginx 1.25 (1.23 to 1.25) |",
        "### By operation, on one connection (ours)",
        "### By concurrency (ours)",
        "### With and without a connection for each request (ours)",
        "### Pipes against HTTP: requests/s",
        "### Before a backend that closes after each response: p99",
        "### One connection, ten thousand, and shared cores: memory per connection",
        "### Ours with more in the config, and while it is read again: p99",
        "| gateway 1 MB c=500 | 100,000 |",
        "requests/s with pipelining, as a multiple of those without",
        "## Is the load generator to be trusted?",
        "| it is not on the `PATH` | h2o |",
        "one worker \\| no log",
        "thruway-suite all",
        "worker_processes 1;",
    ] {
        assert!(markdown.contains(part), "{part}\n{markdown}");
    }
    let ahead = markdown.split("shown to be ahead").nth(1).unwrap().split("###").next().unwrap();
    assert!(
        !ahead.contains("haproxy") && !ahead.contains("over HTTP"),
        "a slower candidate is not ahead: {ahead}"
    );
    assert!(markdown.lines().all(|line| !line.ends_with(' ')));
}

#[test]
fn what_is_missed_stands_before_what_is_met() {
    let text = up_to_rank(0).to_text();
    let [missed, met] = ["MISSED", "  met"].map(|word| text.find(word).unwrap_or_else(|| panic!("{text}")));
    assert!(missed < met, "{text}");
    assert!(text.contains("Of ") && text.contains("Left out"), "{text}");
}

#[test]
fn a_page_needs_nothing_else_and_takes_names_for_text() {
    let page = up_to_rank(0).to_html();
    assert!(page.contains("a &lt;fast&gt; one") && !page.contains("<fast>"));
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("name=\"viewport\""));
    assert_eq!(page.matches("<svg ").count(), Workload::all().len() - 1);
    for foreign in ["<script", "src=", "@import", "url(", "NaN", "inf\""] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}

/// On a phone, they went on beyond the edge.
#[test]
fn labels_of_bars_fit_above_them() {
    let page = up_to_rank(u8::MAX).to_html();
    let labels: Vec<_> =
        page.split("<text x=\"0\"").skip(1).filter_map(|rest| rest.split(['>', '<']).nth(1)).collect();
    assert!(labels.len() > 50, "{}", labels.len());
    assert!(labels.contains(&"c=16 / nginx: server CPU ×1.25"), "{labels:?}");
    assert!(labels.contains(&"tools/call echo c=1, a connection… / nginx: server CPU ×1.25"), "{labels:?}");
    assert!(labels.iter().all(|label| label.chars().count() <= 60), "{labels:?}");
}

#[test]
fn what_was_measured_is_written_down_and_read_again() {
    let whole = up_to_rank(u8::MAX);
    let json = whole.to_json();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    jsonschema::validate(SuiteReport::schema().as_value(), &value).unwrap();
    assert_eq!(SuiteReport::from_json(&json).unwrap(), whole);
    let other = json.replace(SuiteReport::FORMAT, "thruway-bench/1");
    assert!(SuiteReport::from_json(&other).unwrap_err().contains("thruway-bench/1"));
    let csv = whole.to_csv();
    // Names with commas are quoted; the commas in them are those that differ.
    let lines: Vec<_> = csv.lines().map(|line| line.matches(',').count()).collect();
    assert!(lines.len() > 500 && lines.iter().all(|commas| (lines[0]..=lines[0] + 2).contains(commas)));
    assert!(csv.contains("\nmcp-stdio,\"stdio tools/call echo, window 1\",thruway,1,1000,0,"), "{csv}");
}

#[test]
fn where_the_load_generator_was_the_limit_is_said() {
    let mut busy = case("plaintext c=16", &[("thruway", &[10.0; 3]), ("nginx", &[11.0; 3])]);
    for round in [0, 2] {
        busy.candidates[1].rounds[round].is_generator_limit = true;
    }
    busy.candidates[0].rounds[0].is_generator_limit = true;
    let markdown = report(vec![busy]).to_markdown();
    assert!(markdown.contains("rates say little there: plaintext c=16 (nginx)."), "{markdown}");
}

#[test]
fn connections_that_found_no_room_are_told() {
    let mut crowded = case("plaintext c=16", &[("thruway", &[10.0; 3]), ("nginx", &[11.0; 3])]);
    assert!(!report(vec![crowded.clone()]).to_text().contains("no room"));
    crowded.candidates[1].rounds[0].listen_drops = 3;
    crowded.candidates[1].rounds[2].listen_drops = 4;
    let text = report(vec![crowded]).to_text();
    assert!(text.contains("Listeners had no room") && text.contains("plaintext c=16 (nginx: 7)."), "{text}");
}

/// A server that failed half of its requests quickly had a ratio in its favor.
#[test]
fn who_fails_requests_is_not_compared() {
    let mut failing = case("plaintext c=16", &[("thruway", &[10.0; 6]), ("nginx", &[5.0; 6])]);
    let ahead = "| plaintext c=16 | requests/s | nginx 0.50";
    assert!(report(vec![failing.clone()]).to_markdown().contains(ahead));
    failing.candidates[1].rounds[5].failed = 1;
    let markdown = report(vec![failing]).to_markdown();
    assert!(
        !markdown.contains(ahead) && markdown.contains("a round with 1000 answers and 1 failures"),
        "{markdown}"
    );
}

/// Rounds before that were enough for a target to be met.
#[test]
fn ours_misses_its_targets_if_it_ends() {
    let mut dead = case("plaintext c=16", &[("thruway", &[1000.0; 6]), ("nginx", &[5.0; 6])]);
    let verdicts = |case: &CaseResult| report(vec![case.clone()]).to_markdown();
    assert!(!verdicts(&dead).contains("MISSED: REQUESTS FAILED"));
    dead.candidates[0].failure = Some("it has ended: signal 9".to_owned());
    assert!(verdicts(&dead).contains("MISSED: REQUESTS FAILED"), "{}", verdicts(&dead));
    dead.candidates[0].rounds.clear();
    assert!(verdicts(&dead).contains("MISSED: REQUESTS FAILED"), "{}", verdicts(&dead));
}

#[test]
fn what_failed_is_told_and_no_ratio_is_made_of_nothing() {
    let mut dead = case("plaintext c=16", &[("thruway", &[10.0; 2]), ("nginx", &[])]);
    dead.candidates[1].failure = Some("it has ended: signal 9".to_owned());
    dead.candidates[0].rounds[1].failed = 3;
    "timed out".clone_into(&mut dead.candidates[0].rounds[1].failure);
    let report = report(vec![dead]);
    assert!(!report.is_clean() && report.has_figures());
    let markdown = report.to_markdown();
    for part in [
        "| plaintext c=16 | nginx | it has ended: signal 9 |",
        "| plaintext c=16 | thruway | a round with 1000 answers and 3 failures: timed out |",
        "Some requests failed",
        "0 were measured",
    ] {
        assert!(markdown.contains(part), "{part}\n{markdown}");
    }
    assert!(!SuiteReport { cases: Vec::new(), ..report }.has_figures());
}

#[test]
fn the_floor_is_told_beside_ours_and_others_and_is_nobodys_defeat() {
    let candidates: [(&str, &[f64]); 4] =
        [("thruway", &[10.0; 6]), ("nginx", &[16.0; 6]), ("haproxy", &[20.0; 6]), ("relay", &[8.0; 6])];
    let small = case("gateway 2 B c=50", &candidates);
    let shared = case("gateway 2 B c=200, shared cores", &candidates[..3]);
    let markdown = report(vec![small.clone(), shared.clone()]).to_markdown();
    for part in [
        "| case | ours / relay | relay / nginx | relay / haproxy |",
        "### The floor: server CPU per request",
        "| gateway 2 B c=50 | 1.25 (1.25 to 1.25) | 0.50 (0.50 to 0.50) | 0.40 (0.40 to 0.40) |",
        "### The floor: requests/s",
        "| gateway 2 B c=50 | 0.80 (0.80 to 0.80) | 2.00 (2.00 to 2.00) | 2.50 (2.50 to 2.50) |",
        "### The floor: p99",
        "`relay` reads no HTTP",
    ] {
        assert!(markdown.contains(part), "{part}\n{markdown}");
    }
    let floor = markdown.split("### The floor").nth(1).unwrap();
    let floor = floor.split("\n#").next().unwrap();
    assert!(!floor.contains("shared cores"), "it has no part there: {floor}");
    assert!(!markdown.contains("shown to be ahead"), "{markdown}");
    let without = report(vec![shared]).to_markdown();
    assert!(!without.contains("floor") && !without.contains("relay"), "{without}");
}

#[test]
fn what_ten_thousand_clients_leave_of_a_rate_is_told_of_each() {
    let few = case(
        "gateway 2 B c=200",
        &[("thruway", &[10.0; 6]), ("nginx", &[16.0; 6]), ("haproxy", &[20.0; 6]), ("relay", &[8.0; 6])],
    );
    let mut many = case(
        "gateway 2 B c=10000",
        &[("thruway", &[20.0; 6]), ("haproxy", &[80.0; 6]), ("relay", &[10.0; 6])],
    );
    many.candidates[2].connections = Some(9_968);
    let markdown = report(vec![few.clone(), many.clone()]).to_markdown();
    let table = markdown.split("### The floor: remaining requests/s").nth(1).unwrap();
    let table = table.split("\n#").next().unwrap();
    for part in [
        "| `gateway 2 B c=10000` / `gateway 2 B c=200` |",
        "| thruway | 0.50 (",
        "| haproxy | 0.25 (",
        "| relay | 0.80 (",
    ] {
        assert!(table.contains(part), "{part}\n{table}");
    }
    assert!(!table.contains("nginx"), "{table}");
    let fewer = "descriptors are not enough: relay had 9968 in gateway 2 B c=10000.";
    assert!(markdown.contains(fewer), "{markdown}");
    assert_eq!(SuiteReport::from_json(&report(vec![many.clone()]).to_json()).unwrap().cases[0], many);
    let alone = report(vec![many]).to_markdown();
    assert!(!alone.contains("remaining requests"), "{alone}");
    let markdown = report(vec![few]).to_markdown();
    assert!(!markdown.contains("remaining requests") && !markdown.contains("Fewer"), "{markdown}");
}

#[test]
fn reports_of_an_earlier_run_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    crate::remove_reports(&directory.path().join("missing")).unwrap();
    for name in ["report.md", "report.json", "notes.md"] {
        std::fs::write(directory.path().join(name), "earlier").unwrap();
    }
    crate::remove_reports(directory.path()).unwrap();
    let left: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.md"]);
}
