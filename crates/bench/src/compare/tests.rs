use super::*;

fn candidate(name: &str, rates: &[f64]) -> Candidate {
    let rounds = rates.iter().map(|rate| Sample {
        achieved_requests_per_second: *rate,
        response_p50_us: 1e6 / rate,
        response_p99_us: 100.0,
        server_cpu_us_per_request: None,
        failed: 0,
        is_generator_late: Some(false),
        generator_waiting_share: Some(0.0),
        thresholds: Vec::new(),
    });
    Candidate { name: name.to_owned(), rounds: rounds.collect() }
}

fn verdicts(comparison: &Comparison) -> Vec<Verdict> {
    comparison.pairs.iter().map(|pair| pair.verdict).collect()
}

#[test]
fn verdict_follows_from_the_confidence_interval() {
    use Verdict::{Faster, NoDifferenceShown, Slower};
    let slow = candidate("a", &[100.0, 110.0, 90.0, 105.0, 95.0, 98.0]);
    let fast = candidate("b", &[121.0, 132.0, 109.0, 125.0, 115.0, 118.0]);
    let comparison = Comparison::new(vec![slow.clone(), fast.clone()]);
    assert_eq!(verdicts(&comparison), [Faster, Faster, NoDifferenceShown]);
    assert_eq!(comparison.pairs[0].added_us, None);
    assert!(comparison.pairs[1].added_us.is_some_and(|added| added.high < -1000.0 && added.low > -3000.0));
    assert_eq!(verdicts(&Comparison::new(vec![fast, slow.clone()])), [Slower, Slower, NoDifferenceShown]);
    let same = candidate("c", &[101.0, 108.0, 91.0, 104.0, 96.0, 97.0]);
    assert_eq!(verdicts(&Comparison::new(vec![slow, same])), [NoDifferenceShown; 3]);
}

#[test]
fn baseline_survives_json_and_regressions_exceed_the_tolerance() {
    let before = Comparison::new(vec![candidate("a", &[100.0, 102.0, 98.0, 101.0])]);
    let before = Comparison::from_json(&before.to_json()).unwrap();
    let after = candidate("b", &[80.0, 81.0, 79.0, 80.5]);
    let (after, alone) = Comparison::with_baseline(vec![after], &before);
    assert!(alone.is_empty());
    assert_eq!(after.regressions(0.05).count(), 2);
    assert_eq!(after.regressions(0.2).count(), 0);
    let two = Comparison::new(vec![candidate("x", &[1.0]), candidate("y", &[1.0])]);
    assert_eq!(Comparison::with_baseline(vec![candidate("b", &[1.0])], &two).1, ["b"]);
    assert!(Comparison::from_json("{}").is_err());
}

/// Regression test: one round always gave a verdict, with an interval without width. Two or three rounds gave
/// an interval that was labeled as 95 %.
#[test]
fn too_few_rounds_give_no_verdict_and_no_regression() {
    let rounds = |name: &str, rate: f64, n| candidate(name, &vec![rate; n]);
    for n in [1, 2, 3, 5] {
        let comparison = Comparison::new(vec![rounds("a", 100.0, n), rounds("b", 200.0, n)]);
        assert_eq!(verdicts(&comparison), [Verdict::NoDifferenceShown; 3], "{n}");
        let text = comparison.to_text();
        assert!(text.contains("too few rounds for a verdict") && !text.contains("(95 %"), "{text}");
        assert!(comparison.to_markdown().contains("**Warning:** there are too few rounds"));
        assert!(comparison.to_html(&[]).contains("there are too few rounds"));
    }
    let enough = Comparison::new(vec![rounds("a", 100.0, 6), rounds("b", 200.0, 6)]);
    assert!(enough.warnings.is_empty());

    let known = |n| Comparison::new(vec![rounds("a", 200.0, n)]);
    for (n, baseline, has_verdict) in
        [(1, 1, false), (10, 1, false), (3, 3, false), (4, 4, true), (10, 2, true)]
    {
        assert_eq!(
            Comparison::check_round_counts(n, &known(baseline)).is_ok(),
            has_verdict,
            "{n} and {baseline}"
        );
        let (comparison, _) = Comparison::with_baseline(vec![rounds("a", 100.0, n)], &known(baseline));
        assert_eq!(comparison.regressions(0.05).count() > 0, has_verdict, "{n} and {baseline}");
        assert_eq!(verdicts(&comparison)[0] == Verdict::LikelySlower, has_verdict, "{n} and {baseline}");
    }
}

/// Regression test: with a baseline from another hour, an unchanged server was "surely" more than 5 % slower
/// in one of seven runs. The machine's speed differs between runs and drifts within each, which no number of
/// rounds reveals.
#[test]
fn machine_drift_is_no_regression_but_a_large_slowdown_is() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut normal = move || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
    let mut run = |rate: f64| {
        let (machine, mut drift): (f64, f64) = (0.03 * normal(), 0.0);
        let rounds: Vec<f64> = (0..8)
            .map(|_| {
                drift = 0.8 * drift + 0.005 * normal();
                rate * (machine + drift + 0.005 * normal()).exp()
            })
            .collect();
        candidate("a", &rounds)
    };
    let (mut apart, mut alarms, mut found) = (0, 0, 0);
    for _ in 0..1000 {
        let (before, same, slower) = (run(100.0), run(100.0), run(75.0));
        let medians = [&before, &same].map(|run| run.summary(Metric::AchievedRate).unwrap().median);
        apart += i32::from(medians[1] < 0.95 * medians[0]);
        let baseline = Comparison::new(vec![before]);
        let regressions = |run| Comparison::with_baseline(vec![run], &baseline).0.regressions(0.05).count();
        alarms += i32::from(regressions(same) > 0);
        found += i32::from(regressions(slower) > 0);
    }
    assert!(apart > 80, "the machine drifts: {apart} medians of 1000 are 5 % apart");
    assert!(alarms < 40, "{alarms} false alarms of 1000");
    assert!(found > 950, "{found} regressions of 1000 were found");
}

#[test]
fn difference_to_a_separate_run_is_reported_only_as_likely() {
    let before = Comparison::new(vec![candidate("a", &[100.0, 102.0, 98.0, 101.0])]);
    let (after, _) = Comparison::with_baseline(vec![candidate("a", &[50.0, 51.0, 49.0, 50.0])], &before);
    assert_eq!(verdicts(&after)[..2], [Verdict::LikelySlower; 2]);
    for form in [after.to_text(), after.to_markdown(), after.to_html(&[]), after.to_json()] {
        assert!(form.contains("the verdicts are likely, but not certain"), "{form}");
        assert!(form.contains("likely slower") || form.contains("likely_slower"), "{form}");
    }
    assert!(after.to_text().contains("(separate runs: 0.462 to 0.542)"), "{}", after.to_text());
    assert!(!after.to_text().contains("95 %") && !after.pairs[0].ratio.has_enough_values());
}

/// Regression test: a load generator without a core made a server look slower. Only the reports of single
/// loads mentioned it.
#[test]
fn late_generator_gives_a_warning_and_no_regression() {
    let late = |name: &str, rate: f64, rounds: usize| {
        let mut late = candidate(name, &[rate; 6]);
        for sample in &mut late.rounds[..rounds] {
            (sample.is_generator_late, sample.generator_waiting_share) = (Some(true), Some(0.4));
        }
        late
    };
    let paired = Comparison::new(vec![candidate("a", &[100.0; 6]), late("b", 50.0, 2)]);
    for form in [paired.to_text(), paired.to_markdown(), paired.to_html(&[]), paired.to_json()] {
        assert!(form.contains("late or was the bottleneck in 2 of 6 rounds of `b`"), "{form}");
        assert!(form.contains("For up to 40 % of the time"), "{form}");
    }
    assert!(paired.to_json().contains("\"is_generator_late\": true"));
    let quiet = Comparison::new(vec![candidate("a", &[100.0; 6])]);
    let (starved, _) = Comparison::with_baseline(vec![late("a", 50.0, 4)], &quiet);
    assert_eq!(verdicts(&starved)[0], Verdict::GeneratorLate);
    assert_eq!(starved.regressions(0.05).count(), 0);
    let busy = Comparison::new(vec![late("a", 100.0, 6)]);
    let (alike, _) = Comparison::with_baseline(vec![late("a", 50.0, 6)], &busy);
    assert_eq!(verdicts(&alike)[0], Verdict::LikelySlower);
}

/// Regression test: the only machine-readable format of `bench http` was rejected as a baseline.
#[test]
fn invalid_baseline_is_rejected_with_the_reason() {
    for (text, reason) in [
        ("a", "it is not valid JSON:"),
        ("{}", "it has no `format`"),
        (
            "{\"format\": \"a\"}",
            "its format is `a`, instead of `thruway-bench-compare/3` or `thruway-bench/3`",
        ),
        ("{\"format\": \"thruway-bench-compare/3\"}", "it has no member `candidates`"),
        ("{\"format\": \"thruway-bench-compare/3\", \"candidates\": 1}", "has the wrong type"),
    ] {
        let refused = Comparison::from_json(text).unwrap_err();
        assert!(refused.contains(reason), "{refused}");
    }
}

/// Regression test: a server for which half of the requests failed quickly was reported as faster.
#[test]
fn candidate_with_failed_requests_is_neither_faster_nor_slower() {
    let mut fast = candidate("b", &[200.0; 6]);
    fast.rounds[3].failed = 1;
    let slow = candidate("a", &[100.0; 6]);
    for pair in [[slow.clone(), fast.clone()], [fast.clone(), slow.clone()]] {
        let comparison = Comparison::new(pair.into());
        assert_eq!(verdicts(&comparison), [Verdict::Failed; 3]);
        for form in [comparison.to_text(), comparison.to_markdown(), comparison.to_html(&[])] {
            assert!(form.contains("requests to `b` failed"), "{form}");
            assert!(
                form.contains("failed") && !form.contains("faster") && !form.contains("slower"),
                "{form}"
            );
        }
        assert!(comparison.to_json().contains("\"verdict\": \"failed\""));
    }
    let (against_failed, _) = Comparison::with_baseline(vec![slow], &Comparison::new(vec![fast]));
    assert_eq!(verdicts(&against_failed), [Verdict::Failed; 3]);
    assert_eq!(against_failed.regressions(0.0).count(), 0);
}

/// Regression test: only text and JSON had this figure.
#[test]
fn latency_added_by_a_gateway_is_in_every_report_format() {
    let with_p50 = |name: &str, p50: f64| {
        let mut candidate = candidate(name, &[100.0; 6]);
        candidate.rounds.iter_mut().for_each(|sample| sample.response_p50_us = p50);
        candidate
    };
    let comparison = Comparison::new(vec![with_p50("direct", 100.0), with_p50("gateway", 350.0)]);
    for form in [comparison.to_text(), comparison.to_markdown(), comparison.to_html(&[])] {
        assert!(form.contains("+250 µs (+250 µs to +250 µs, 96 %)"), "{form}");
    }
}

#[test]
fn every_second_round_reverses_the_order() {
    let rounds = order(3, 6, 5);
    for pair in rounds.chunks(2) {
        let reversed: Vec<_> = pair[0].iter().rev().copied().collect();
        assert_eq!(pair[1], reversed);
    }
    assert!(rounds.iter().any(|round| round[..] != [0, 1, 2]));
    assert_eq!(rounds, order(3, 6, 5));
}
