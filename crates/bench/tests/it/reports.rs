//! Tests of reports.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thruway_bench::compare::{Candidate, Comparison, Sample};
use thruway_bench::ramp::{Step, StepOutcome};
use thruway_bench::{
    ConnectionOptions, Environment, ErrorCount, FailureKind, HttpRequest, HttpRequests, Limit, ListenQueue,
    Load, LoadUrl, Outcome, OverTime, Pace, Record, Report, StopFlag, WorkerUse,
};
use thruway_testkit::upstream;

/// Returns reports of two loads: a closed loop, and a fixed rate at which all responses fail because 404 is
/// expected.
fn reports() -> Vec<Report> {
    of_server(|address| {
        let closed = load(address, None, Pace::Closed);
        vec![closed, load(address, Some(404), Pace::Constant { rate: 200.0 })]
    })
}

/// Starts a server, runs two loads, and returns their reports.
pub(crate) fn of_server(loads: impl FnOnce(SocketAddr) -> Vec<Load>) -> Vec<Report> {
    let server = upstream::responds_ok().listen();
    let run = |(load, name): (Load, &str)| Report::new(name, &load, &load.run(&mut |_| {}).unwrap());
    loads(server.address).into_iter().zip(["a <b> & \"c\"", "d|e"]).map(run).collect()
}

pub(crate) fn load(address: SocketAddr, status: Option<u16>, pace: Pace) -> Load {
    let mut request = HttpRequest::get(LoadUrl::parse("http://a.example/").unwrap());
    request.expected.status = status;
    Load {
        requests: Arc::new(HttpRequests::new(&[request]).unwrap()),
        addresses: vec![address.into()],
        tls: None,
        connections: 2,
        workers: 1,
        pace,
        limit: Limit::Duration(Duration::from_millis(350)),
        warm_up: Duration::ZERO,
        connection_options: ConnectionOptions {
            is_http2: false,
            pipeline: 1,
            is_persistent: true,
            timeout: Duration::from_secs(20),
            drain: Duration::from_secs(1),
        },
        stop: StopFlag::default(),
        server: Some(std::process::id()),
    }
}

/// Returns the report of a closed loop of ten seconds: a thousand requests took a millisecond each, and
/// requests with these waits were cut off.
fn cut_off(waits: &[Duration]) -> Report {
    of_ten_seconds(waits, |_| {})
}

/// Returns the same report, with an outcome that `change` has modified.
fn of_ten_seconds(waits: &[Duration], change: impl FnOnce(&mut Outcome)) -> Report {
    let server = upstream::responds_ok().listen();
    let mut load = load(server.address, None, Pace::Closed);
    load.server = None;
    let mut record = Record::new();
    record.answered = 1000;
    for times in [&mut record.service, &mut record.response] {
        (0..1000).for_each(|_| times.record(Duration::from_millis(1)));
    }
    record.cut_off = waits.len() as u64;
    for wait in waits {
        record.cut_off_waits.record(*wait);
    }
    let (elapsed, window) = (Duration::from_secs(10), Duration::from_secs(10));
    let over_time = OverTime::new(Duration::from_secs(1));
    let mut outcome = Outcome {
        record,
        over_time,
        elapsed,
        silence: Duration::ZERO,
        window,
        workers: Vec::new(),
        server: None,
        listen_queue: None,
        is_stopped: false,
        missing: None,
        deliveries: None,
    };
    change(&mut outcome);
    Report::new("stalling", &load, &outcome)
}

/// Regression test: threads of the load generator shared two cores with the server. Each used a third of a
/// core and waited for as long, and the report did not mention it.
#[test]
fn worker_without_a_core_is_the_limit_like_a_busy_worker() {
    let of = |cpu, waited| {
        let used = WorkerUse { cpu: Duration::from_secs(cpu), waited: Duration::from_secs(waited) };
        of_ten_seconds(&[], |outcome| outcome.workers = vec![WorkerUse::default(), used])
    };
    let busy = of(10, 0);
    assert!(
        busy.generator.is_limit
            && busy.warnings[0].contains(
                "the load generator was the limit, not the server: use more workers on separate cores"
            ),
        "{busy:?}"
    );
    let waiting = of(3, 7);
    assert!((waiting.generator.busiest_worker_share - 0.3).abs() < 1e-9);
    assert!((waiting.generator.waiting_worker_share - 0.7).abs() < 1e-9);
    assert!(waiting.generator.is_limit, "{waiting:?}");
    assert!(waiting.warnings[0].contains("for 70 % of the time, it was ready to run but had no CPU core"));
    let late = of(3, 3);
    assert!(!late.generator.is_limit && late.warnings[0].contains("was late: for 30 %"), "{late:?}");
    // The usual case.
    let idle = of(6, 0);
    assert!(!idle.generator.is_limit && idle.warnings.is_empty(), "{idle:?}");
}

/// Regression test: a ramp attributed the figures of a load generator without a core to the server.
#[test]
fn ramp_step_with_a_late_generator_is_a_generator_limit() {
    let step = |waited, errors: &[FailureKind]| {
        let used = WorkerUse { cpu: Duration::from_secs(1), waited: Duration::from_secs(waited) };
        let mut report = of_ten_seconds(&[], |outcome| outcome.workers = vec![used]);
        let error = |kind: &FailureKind| ErrorCount { kind: *kind, count: 1, example: String::new() };
        report.errors = errors.iter().map(error).collect();
        // A closed loop has no target rate.
        Step::of(&report, f64::MAX)
    };
    assert_eq!(step(3, &[]).outcome(), StepOutcome::GeneratorLimit);
    assert_eq!(step(3, &[FailureKind::TimedOut]).outcome(), StepOutcome::GeneratorLimit);
    assert_eq!(step(3, &[FailureKind::WrongStatus]).outcome(), StepOutcome::Fails);
    assert_eq!(step(0, &[]).outcome(), StepOutcome::Fails);
    assert!((step(3, &[]).generator_waiting_share - 0.3).abs() < 1e-9);
}

/// Regression test: a load without any expected response reported "9.27 ms CPU per request" and "0 B
/// received".
#[test]
fn load_without_responses_has_no_per_request_figures() {
    let [_, failing] = &reports()[..] else { panic!("two loads") };
    assert_eq!(failing.requests.answered, 0);
    assert_eq!(failing.generator.cpu_us_per_request, None);
    assert!(failing.server.as_ref().is_some_and(|server| server.cpu_us_per_request.is_none()));
    for form in [failing.to_text(), failing.to_markdown(), failing.to_html()] {
        assert!(form.contains("– CPU per request") && !form.contains("received"), "{form}");
    }
    let nothing = of_ten_seconds(&[], |outcome| outcome.record = Record::new());
    for form in [nothing.to_text(), nothing.to_markdown()] {
        assert!(form.contains('–') && !form.contains("0.00 ns"), "{form}");
    }
    let again: Report = serde_json::from_str(&failing.to_json()).unwrap();
    assert_eq!(again.generator.cpu_us_per_request, None);
}

/// Regression test: the only machine-readable report of `bench http` was rejected as a baseline.
#[test]
fn intervals_of_a_load_are_the_rounds_of_a_baseline() {
    let [good, _] = &reports()[..] else { panic!("two loads") };
    let baseline = Comparison::from_json(&good.to_json()).unwrap();
    let [candidate] = &baseline.candidates[..] else { panic!("one load") };
    assert_eq!((&candidate.name, &baseline.settings), (&good.target, &Some(good.settings.clone())));
    assert!(candidate.rounds.len() < good.over_time.len(), "the last part may be short");
    let part = &good.over_time[0];
    let round = &candidate.rounds[0];
    assert_eq!(
        (round.achieved_requests_per_second, round.response_p99_us),
        (part.requests_per_second, part.p99_us)
    );
    assert!(!candidate.has_failed() && round.server_cpu_us_per_request.is_none());
}

#[test]
fn connections_dropped_by_a_full_listen_queue_are_reported() {
    let with = |found| of_ten_seconds(&[], |outcome| outcome.listen_queue = found);
    let full = with(Some(ListenQueue { overflows: 2, drops: 3 }));
    for form in [full.to_text(), full.to_markdown(), full.to_html(), full.to_csv()] {
        assert!(form.contains("dropped 3 connections"), "{form}");
    }
    assert!(with(Some(ListenQueue::default())).warnings.is_empty());
    assert!(with(None).warnings.is_empty());
}

#[test]
fn stall_at_the_end_of_a_closed_loop_is_in_every_report_format() {
    let stalled = cut_off(&[Duration::from_secs(1); 2]);
    assert!(stalled.is_stalled && !stalled.is_clean());
    assert!(stalled.response_time.max_us >= 1e6 && stalled.service_time == stalled.response_time);
    for form in [stalled.to_text(), stalled.to_markdown(), stalled.to_html()] {
        assert!(
            form.contains("≥ 1.0") && form.contains("the server stopped responding: 2 requests"),
            "{form}"
        );
    }
    let csv = stalled.to_csv();
    assert!(csv.contains("the server stopped responding") && csv.contains("response_at_least_from"), "{csv}");
    assert!(stalled.to_json().contains("\"is_stalled\": true"));
    assert_valid(&Report::schema(), &stalled.to_json());

    let late = cut_off(&[Duration::from_millis(20)]);
    assert!(late.is_clean() && late.warnings[0].starts_with("times with ≥ are lower bounds, because the end of the load cut off requests that had waited this long"), "{late:?}");
    let usual = cut_off(&[Duration::from_micros(300); 2]);
    assert!(usual.is_clean() && usual.warnings.is_empty() && !usual.to_text().contains('≥'));
}

fn assert_valid(schema: &schemars::Schema, json: &str) {
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    jsonschema::validate(schema.as_value(), &value).unwrap();
}

#[test]
fn every_report_format_has_the_results() {
    let reports = reports();
    let [good, failing] = &reports[..] else { panic!("two loads") };
    assert!(good.is_clean() && !failing.is_clean());
    for report in &reports {
        assert_valid(&Report::schema(), &report.to_json());
        let again: Report = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(again.target, report.target);
    }
    let text = failing.to_text();
    for part in [
        "offered rate",
        "200 requests/s",
        "wrong status (first: 200)",
        "no request got the expected response",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(failing.to_markdown().starts_with("# d\\|e\n"));
    assert!(
        good.to_csv()
            .lines()
            .nth(1)
            .unwrap()
            .starts_with("thruway-bench/3,\"a <b> & \"\"c\"\"\",closed,2,1,1,")
    );
}

#[test]
fn intervals_and_percentile_curve_are_in_order() {
    let report = &reports()[0];
    let parts = &report.over_time;
    assert!(!parts.is_empty() && parts.windows(2).all(|two| two[0].at_seconds < two[1].at_seconds));
    assert!(parts.iter().all(|part| part.p50_us <= part.p99_us && part.p99_us <= part.max_us));
    let curve = &report.service_time.curve;
    assert!(
        curve
            .windows(2)
            .all(|two| two[0].percentile <= two[1].percentile && two[0].time_us <= two[1].time_us)
    );
    assert_eq!(curve.last().map(|point| point.percentile), Some(100.0));
}

#[test]
fn html_page_is_self_contained_and_escapes_names() {
    let reports = reports();
    let candidates = reports.iter().map(|report| Candidate {
        name: report.target.clone(),
        rounds: vec![Sample { achieved_requests_per_second: 10.0, ..Sample::of(report) }; 3],
    });
    let environment = Environment { command: "thruway '<b>'".to_owned(), ..Environment::current() };
    let date = environment.date.clone();
    let comparison = Comparison::new(candidates.collect()).with_environment(environment.clone());
    let of_load = reports[0].clone().with_environment(environment);
    assert_valid(&Comparison::schema(), &comparison.to_json());
    assert!(comparison.to_html(&reports).contains("shows the median of these ratios"));
    assert!(comparison.to_markdown().contains("shows the median of these ratios"));
    for page in [of_load.to_html(), comparison.to_html(&reports)] {
        assert!(
            page.contains(&date) && page.contains("&lt;b&gt;&#x27;</code>") && !page.contains("'<b>"),
            "{page}"
        );
        assert!(page.contains("a &lt;b&gt; &amp;") && !page.contains("a <b>"), "{page}");
        assert!(page.contains("1 worker"), "the settings of the load are missing: {page}");
        assert!(page.contains("prefers-color-scheme: dark") && page.contains("name=\"viewport\""));
        for foreign in ["<script", "src=", "@import", "url(", "NaN", "inf"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
    // The distribution and the bars, a plot of the rate for each load, and a plot of times for each load that
    // has any. On a busy machine, requests that were never sent have times.
    let has_times = |report: &&Report| report.over_time.iter().any(|part| part.max_us > 0.0);
    let plots = 2 + reports.len() + reports.iter().filter(has_times).count();
    assert_eq!(comparison.to_html(&reports).matches("<svg ").count(), plots);
}
