//! `cargo xtask interop --prometheus`: a real Prometheus scrapes a gateway under load. Checks the alert rules
//! and the Grafana dashboard in `deploy/`.

mod api;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use thruway_testkit::CertificateAuthority;

use super::check::Checker;
use super::words;
use crate::child::{self, Running};
use crate::packages;
use crate::program::{find_on_path, repository};
use crate::server::{Server, free_addresses};

/// Checks the files in `deploy/` with Prometheus and `promtool`.
pub(super) fn run(checker: &Checker<'_>) -> anyhow::Result<()> {
    if find_on_path("apt-get").is_none() && find_on_path("promtool").is_none() {
        checker.not_installed("prometheus", "alert rules and dashboard");
        return Ok(());
    }
    let programs = programs(checker)?;
    let deploy = repository().join("deploy/prometheus");
    for (what, file) in [("check", "thruway.rules.yml"), ("test", "thruway.test.yml")] {
        checker.row("promtool", &format!("{what} rules"), || {
            let mut promtool = Command::new(programs.join("promtool"));
            promtool.current_dir(&deploy).args([what, "rules", file]);
            checker.output(&format!("promtool {what} rules"), promtool)?;
            Ok(format!("`{file}` is correct"))
        })?;
    }
    let backend = Server::start(demo(checker), &checker.directory.join("backend.log"), checker.stop)?;
    let site = Site::start(checker, &programs, &backend)?;
    checker.row("promtool", "check metrics", || site.check_metrics(&programs))?;
    checker.row("prometheus", "scrapes", || site.scrapes())?;
    checker.row("prometheus", "exemplars", || site.exemplars())?;
    checker.row("prometheus", "alert rules", || site.rules())?;
    checker.row("prometheus", "dashboard", || site.dashboard())?;
    let Site { gateway, .. } = site;
    checker.row("thruway", "with Prometheus", || gateway.end(checker.stop))
}

/// Returns the directory of `prometheus` and `promtool`: the installed programs, or Debian's package.
fn programs(checker: &Checker<'_>) -> anyhow::Result<PathBuf> {
    match find_on_path("promtool") {
        Some(promtool) if find_on_path("prometheus").is_some() => {
            Ok(promtool.parent().context("the program has no directory")?.to_owned())
        }
        _ => Ok(packages::debian("prometheus", checker.stop)?.join("usr/bin")),
    }
}

fn demo(checker: &Checker<'_>) -> Command {
    let mut demo = Command::new(checker.program);
    demo.args(["serve", "--listen", "127.0.0.1:0"]);
    demo
}

/// A gateway, and a Prometheus that scrapes it. Dropping this value ends both.
struct Site<'s> {
    checker: &'s Checker<'s>,
    gateway: Server,
    admin: String,
    prometheus: String,
    _prometheus: Running,
}

impl<'s> Site<'s> {
    fn start(checker: &'s Checker<'s>, programs: &Path, backend: &Server) -> anyhow::Result<Self> {
        let [admin, prometheus] = free_addresses::<2>()?;
        let authority = CertificateAuthority::new();
        let files = authority.issue("gateway", &["127.0.0.1"]);
        let placeholders = [
            ("admin", admin.port().to_string()),
            ("backend", backend.address().to_owned()),
            ("chain", files.chain.display().to_string()),
            ("key", files.key.display().to_string()),
            ("program", checker.program.display().to_string()),
        ];
        let config = words::replaced(include_str!("gateway.toml"), &placeholders);
        let file = checker.directory.join("gateway.toml");
        let gateway = Server::serve(checker.program, &config, &file, checker.stop)?;
        let rules = repository().join("deploy/prometheus/thruway.rules.yml");
        let settings = checker.directory.join("prometheus.yml");
        fs::write(
            &settings,
            format!(
                "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [\"{}\"]\n\
                 scrape_configs:\n  - job_name: thruway\n    static_configs: [{{ targets: [\"{admin}\"] }}]\n",
                rules.display()
            ),
        )?;
        let mut command = Command::new(programs.join("prometheus"));
        command.arg(format!("--config.file={}", settings.display()));
        command.arg(format!("--storage.tsdb.path={}", checker.directory.join("tsdb").display()));
        command.arg(format!("--web.listen-address={prometheus}"));
        command.arg("--enable-feature=exemplar-storage");
        let running = Running::start(command, &checker.directory.join("prometheus.log"))?;
        let (admin, prometheus) = (admin.to_string(), prometheus.to_string());
        Ok(Self { checker, gateway, admin, prometheus, _prometheus: running })
    }

    /// Runs `promtool check metrics`, which also checks the names of metrics.
    fn check_metrics(&self, programs: &Path) -> anyhow::Result<String> {
        let text = self.checker.directory.join("metrics");
        fs::write(&text, api::get(&self.admin, "/metrics")?)?;
        let mut promtool = Command::new("sh");
        promtool.args(["-c", "exec \"$0\" check metrics < \"$1\" 2>&1"]);
        promtool.arg(programs.join("promtool")).arg(&text);
        let printed = child::any_output_of(promtool, self.checker.limit(), self.checker.stop)?;
        let unexpected: Vec<_> = printed.lines().filter(|line| !line.trim().is_empty()).collect();
        ensure!(unexpected.is_empty(), "promtool reports:\n{}", unexpected.join("\n"));
        Ok("`promtool` has no objections".to_owned())
    }

    /// Sends a bounded number of requests until Prometheus has scraped the gateway several times.
    fn scrapes(&self) -> anyhow::Result<String> {
        let mut requests = 0;
        let gateway = self.gateway.address();
        let scraped = || {
            for target in ["/", "/plaintext", "/gone", "/closed"] {
                api::response(gateway, target)?;
                requests += 1;
            }
            // Prometheus refuses connections at first.
            let counts = self.query("min(count_over_time(up{job=\"thruway\"}[1m]))").unwrap_or_default();
            let count = counts.first().and_then(|sample| sample["value"][1].as_str()?.parse::<u32>().ok());
            Ok(count.filter(|count| *count >= SCRAPES_MIN))
        };
        let count = self.checker.stop.wait("Prometheus to scrape", SCRAPE_LIMIT, scraped)?;
        let up = self.query("up{job=\"thruway\"} == 1")?;
        let targets = api::json(&self.prometheus, "/api/v1/targets")?;
        ensure!(up.len() == 1, "Prometheus cannot scrape the gateway: {targets}");
        Ok(format!("{count} scrapes during {requests} requests"))
    }

    /// Checks that Prometheus has stored exemplars with trace ids and span ids for each histogram of
    /// requests.
    fn exemplars(&self) -> anyhow::Result<String> {
        let mut total = 0;
        for histogram in WITH_EXEMPLARS {
            let query = format!("/api/v1/query_exemplars?query={histogram}_bucket&start=0&end={END_OF_TIME}");
            let document = api::json(&self.prometheus, &query)?;
            let series = document["data"].as_array().cloned().unwrap_or_default();
            let exemplars: Vec<_> =
                series.iter().filter_map(|series| series["exemplars"].as_array()).flatten().collect();
            ensure!(!exemplars.is_empty(), "{histogram} has no exemplars: {document}");
            let has_id = |exemplar: &Value, name: &str, digits| {
                exemplar["labels"][name].as_str().is_some_and(|id| id.len() == digits)
            };
            let is_valid =
                |exemplar: &&Value| has_id(exemplar, "trace_id", 32) && has_id(exemplar, "span_id", 16);
            ensure!(exemplars.iter().all(is_valid), "an exemplar of {histogram} lacks its trace: {document}");
            total += exemplars.len();
        }
        Ok(format!("{total} exemplars in {} histograms", WITH_EXEMPLARS.len()))
    }

    /// Checks that Prometheus evaluates all rules, and that the failures of this gateway raise their alerts.
    fn rules(&self) -> anyhow::Result<String> {
        let mut names = Vec::new();
        let is_evaluated = || {
            let document = api::json(&self.prometheus, "/api/v1/rules")?;
            let groups = document["data"]["groups"].as_array().cloned().unwrap_or_default();
            let rules: Vec<_> =
                groups.iter().filter_map(|group| group["rules"].as_array()).flatten().collect();
            ensure!(rules.iter().all(|rule| rule["health"] != "err"), "a rule fails: {document}");
            let is_done = !rules.is_empty() && rules.iter().all(|rule| rule["health"] == "ok");
            names = rules.iter().filter_map(|rule| rule["name"].as_str().map(str::to_owned)).collect();
            // The checks of the upstream `gone` fail, and the disk is full.
            let is_raised = |name: &str| {
                rules.iter().any(|rule| {
                    rule["name"] == name && matches!(rule["state"].as_str(), Some("pending" | "firing"))
                })
            };
            let raised = ["ThruwayServerDown", "ThruwayUpstreamWithoutServer", "ThruwayLogLinesDropped"];
            Ok((is_done && raised.into_iter().all(is_raised)).then_some(rules.len()))
        };
        let count = self.checker.stop.wait("Prometheus to evaluate the rules", SCRAPE_LIMIT, is_evaluated)?;
        Ok(format!("{count} rules are valid: {}", names.join(", ")))
    }

    /// Checks that every expression of the dashboard has a result. An expression with a wrong metric has
    /// none.
    fn dashboard(&self) -> anyhow::Result<String> {
        let dashboard = fs::read_to_string(repository().join("deploy/grafana/thruway.json"))?;
        let dashboard: Value = serde_json::from_str(&dashboard)?;
        let panels = dashboard["panels"].as_array().context("the dashboard has no panels")?;
        let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
        let expressions: Vec<_> = targets.filter_map(|target| target["expr"].as_str()).collect();
        ensure!(!expressions.is_empty(), "the dashboard has no expressions");
        let mut without_result = Vec::new();
        for expression in &expressions {
            let query = expression.replace("$__rate_interval", "30s").replace("$job", "thruway");
            let samples = self.query(&query.replace("$instance", ".*")).with_context(|| query.clone())?;
            if samples.is_empty() && !WITHOUT_SAMPLES.iter().any(|metric| expression.contains(metric)) {
                without_result.push(*expression);
            }
        }
        if !without_result.is_empty() {
            bail!("these expressions have no result:\n{}", without_result.join("\n"));
        }
        Ok(format!("{} expressions have results", expressions.len()))
    }

    /// Returns the samples of a query.
    fn query(&self, query: &str) -> anyhow::Result<Vec<Value>> {
        let target = format!("/api/v1/query?query={}", api::encoded(query));
        let document = api::json(&self.prometheus, &target)?;
        ensure!(document["status"] == "success", "Prometheus refuses the query: {document}");
        Ok(document["data"]["result"].as_array().cloned().unwrap_or_default())
    }
}

/// Metrics that may have no samples: no client calls a tool of the MCP endpoint, and the failures of an
/// upstream can all be failures of its server.
const WITHOUT_SAMPLES: [&str; 2] = ["thruway_mcp_tool_calls_total", "thruway_upstream_failures_total"];

/// Histograms of requests.
const WITH_EXEMPLARS: [&str; 3] = [
    "http_server_request_duration_seconds",
    "http_client_request_duration_seconds",
    "thruway_upstream_request_duration_seconds",
];

/// A time after each exemplar, in seconds since the Unix epoch.
const END_OF_TIME: u64 = 4_000_000_000;

const SCRAPES_MIN: u32 = 5;
const SCRAPE_LIMIT: Duration = Duration::from_mins(1);
