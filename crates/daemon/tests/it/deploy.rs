//! The Grafana dashboard and the alert rules in `deploy/` use only metrics that `/metrics` contains.

use std::collections::BTreeSet;

use thruway_daemon::{Config, Daemon, Finding};

use crate::client::{answering, end};

const DASHBOARD: &str = include_str!("../../../../deploy/grafana/thruway.json");
const RULES: &str = include_str!("../../../../deploy/prometheus/thruway.rules.yml");
const TESTS: &str = include_str!("../../../../deploy/prometheus/thruway.test.yml");

/// Returns the names of metrics in `text`, without the suffixes of histograms.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let prefixes = ["thruway_", "process_", "http_server_", "http_client_"];
    let names = words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)));
    names.map(|name| ["_bucket", "_count", "_sum"].iter().fold(name, |name, end| strip(name, end))).collect()
}

fn strip<'n>(name: &'n str, end: &str) -> &'n str {
    name.strip_suffix(end).unwrap_or(name)
}

#[test]
fn deployed_dashboard_and_rules_use_existing_metrics() {
    let daemon = Daemon::from_config(answering("")).unwrap();
    let exposition = daemon.handle().metrics();
    end(daemon);
    let titles = exposition.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let existing: BTreeSet<_> = titles.filter_map(|title| title.split(' ').next()).collect();
    for (file, text, count_min) in [("dashboard", DASHBOARD, 25), ("rules", RULES, 7), ("tests", TESTS, 7)] {
        let used = metrics_in(text);
        assert!(used.len() >= count_min, "{file}: {used:?}");
        let unknown: Vec<_> = used.difference(&existing).collect();
        assert!(unknown.is_empty(), "the {file} in deploy/ use unknown metrics: {unknown:?}");
    }
}

#[test]
fn deployed_config_of_a_fleet_lacks_only_its_secrets() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/fleet/thruway.toml");
    let failure = Config::from_file(file).err().unwrap();
    let is_missing = |finding: &Finding| finding.message().starts_with("cannot read `/run/secrets/");
    assert!(failure.findings().iter().all(is_missing), "{failure}");
}

#[test]
fn every_alert_has_a_test() {
    let alerts = RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    for alert in alerts {
        // The first test expects no alert, and the second test expects the alert.
        assert!(TESTS.matches(&format!("alertname: {alert}")).count() >= 2, "{alert}");
    }
}
