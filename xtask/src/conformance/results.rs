//! Reads the results of the suite, which writes the checks of each scenario into a separate directory.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

/// The checks of each scenario.
#[derive(Default)]
pub(super) struct Results(BTreeMap<String, Vec<Check>>);

/// One check of a scenario.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    id: String,
    status: Status,
    #[serde(default)]
    error_message: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Status {
    Success,
    Failure,
    /// An unmet recommendation, which counts as a failure.
    Warning,
    /// The check does not apply.
    Skipped,
    /// A note, not a check.
    Info,
}

impl Results {
    /// Reads the results of all scenarios in `directory`.
    pub(super) fn read(directory: &Path) -> anyhow::Result<Self> {
        let mut results = Self::default();
        results.read_group(directory, "")?;
        ensure!(!results.0.is_empty(), "no scenario was run");
        Ok(results)
    }

    /// Reads the scenarios in `directory` and in its group directories.
    fn read_group(&mut self, directory: &Path, group: &str) -> anyhow::Result<()> {
        for entry in fs::read_dir(directory).context("there are no results")? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(scenario) = scenario_name(&name) else {
                self.read_group(&path, &format!("{group}{name}/"))?;
                continue;
            };
            let scenario = format!("{group}{scenario}");
            // A scenario without this file did not finish.
            let mut checks = match fs::read(path.join("checks.json")) {
                Ok(bytes) => serde_json::from_slice(&bytes).context(scenario.clone())?,
                Err(_) => vec![Check::failed("did not finish")],
            };
            // The suite ignores errors that the client prints, so this code adds them to the results.
            let client_error = fs::read_to_string(path.join("stderr.txt")).unwrap_or_default();
            checks.extend((!client_error.is_empty()).then(|| Check::failed(&client_error)));
            self.0.entry(scenario).or_default().extend(checks);
        }
        Ok(())
    }

    /// Returns the failed checks.
    pub(super) fn failures(&self) -> Vec<String> {
        let checks = self.0.iter().flat_map(|(name, checks)| checks.iter().map(move |check| (name, check)));
        let failed = checks.filter(|(_, check)| check.is_failed());
        let text = |(name, Check { id, error_message, .. }): (&String, &Check)| {
            format!("{name}: {id}: {}", error_message.as_deref().unwrap_or("failed"))
        };
        failed.map(text).collect()
    }

    /// Returns the scenarios in which fewer checks passed than in `direct`. If a check does not apply through
    /// hops, the suite itself does not report a failure.
    pub(super) fn lost_from(&self, direct: &Self) -> Vec<String> {
        let passed = |results: &Self, name: &String| {
            let checks = results.0.get(name).into_iter().flatten();
            checks.filter(|check| check.status == Status::Success).count()
        };
        let counts = direct.0.keys().map(|name| (name, passed(self, name), passed(direct, name)));
        let lost = counts.filter(|(_, found, expected)| found < expected);
        let text =
            |(name, found, expected)| format!("{name}: {found} checks passed, but {expected} without hops");
        lost.map(text).collect()
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |is: fn(&Check) -> bool| self.0.values().flatten().filter(|check| is(check)).count();
        let passed = count(|check| check.status == Status::Success);
        let failed = count(Check::is_failed);
        let skipped = count(|check| check.status == Status::Skipped);
        write!(f, "{:9} {passed:6} {failed:6} {skipped:7}", self.0.len())
    }
}

impl Check {
    fn failed(why: &str) -> Self {
        Self { id: "run".to_owned(), status: Status::Failure, error_message: Some(why.trim().to_owned()) }
    }

    fn is_failed(&self) -> bool {
        matches!(self.status, Status::Failure | Status::Warning)
    }
}

/// Returns the name of the scenario in `NAME-2026-07-28T12-00-00-000Z`.
fn scenario_name(directory: &str) -> Option<&str> {
    let at = directory.len().checked_sub("-2026-07-28T12-00-00-000Z".len())?;
    let (name, time) = directory.split_at_checked(at)?;
    (time.starts_with('-') && time.ends_with('Z')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_results_and_client_errors_are_failures() {
        let directory = tempfile::tempdir().unwrap();
        for (name, checks, client_error) in [
            ("auth/bad", r#"[{"id":"a","status":"SUCCESS"}]"#, "error: why\n"),
            ("auth/good", r#"[{"id":"a","status":"SUCCESS"}]"#, ""),
            ("broken", "", ""),
            ("ping", r#"[{"id":"b","status":"WARNING","errorMessage":"why"}]"#, ""),
        ] {
            let scenario = directory.path().join(format!("{name}-2026-11-21T21-30-32-683Z"));
            fs::create_dir_all(&scenario).unwrap();
            fs::write(scenario.join("stderr.txt"), client_error).unwrap();
            if !checks.is_empty() {
                fs::write(scenario.join("checks.json"), checks).unwrap();
            }
        }
        let results = Results::read(directory.path()).unwrap();
        assert_eq!(
            results.failures(),
            ["auth/bad: run: error: why", "broken: run: did not finish", "ping: b: why"]
        );
        assert_eq!(results.0["auth/good"].len(), 1);
    }

    /// A bridge once sent JSON instead of an event stream. Three checks did not apply any more, and the suite
    /// reported a pass.
    #[test]
    fn check_that_no_longer_applies_counts_as_lost() {
        let results = |status| {
            let check = Check { id: "check".to_owned(), status, error_message: None };
            Results(BTreeMap::from([("polling".to_owned(), vec![check])]))
        };
        let (direct, bridged) = (results(Status::Success), results(Status::Info));
        assert_eq!(bridged.lost_from(&direct), ["polling: 0 checks passed, but 1 without hops"]);
        assert!(direct.lost_from(&direct).is_empty() && direct.lost_from(&bridged).is_empty());
    }
}
