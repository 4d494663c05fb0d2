//! Judges of protocols, ciphers, certificates and known holes: `testssl.sh`, and `sslyze` with Mozilla's
//! recommendation for current servers (`intermediate`).

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::case::Case;
use super::certificates::HOST;
use crate::child;
use crate::interop::check::Row;
use crate::packages;
use crate::program::find_on_path;

/// An entry of the report.
#[derive(Deserialize)]
struct Finding {
    id: String,
    severity: String,
    #[serde(rename = "finding")]
    text: String,
}

impl Finding {
    /// Returns `true` if the finding is not about the server: the judge's `openssl` lacks a feature, or got
    /// no ticket. Tickets go with the first response, and this client sends no request, so a ticket arrives
    /// by chance.
    fn is_chance(&self) -> bool {
        self.severity == "WARN" && ["engine_problem", "sessionresumption_ticket"].contains(&self.id.as_str())
    }
}

/// Judges a server by `testssl.sh`.
pub(super) fn testssl(case: &Case<'_>) -> Vec<Row> {
    let what = "protocols, ciphers, holes";
    let Some(program) = TESTSSL.into_iter().find(|program| find_on_path(program).is_some()) else {
        return vec![Row::not_installed(TESTSSL[0], what)];
    };
    vec![case.row(TESTSSL[0], what, || run_testssl(case, program))]
}

fn run_testssl(case: &Case<'_>, program: &str) -> anyhow::Result<String> {
    let report = case.directory.join("testssl.json");
    let mut command = Command::new(program);
    // The judge asks no other machine for names or revocation lists.
    command.args(["--quiet", "--color", "0", "--warnings", "batch", "--nodns", "none"]);
    command.args(["--ip", "127.0.0.1", "--openssl-timeout", "20"]);
    command.arg("--add-ca").arg(case.authority.root()).arg("--jsonfile").arg(&report);
    command.arg(format!("https://{HOST}:{}", case.port)).current_dir(case.directory);
    let printed = child::any_output_of(command, TESTSSL_LIMIT, case.setting.stop)?;
    let report = fs::read_to_string(&report).with_context(|| child::tail(&printed))?;
    let all: Vec<Finding> = serde_json::from_str(&report).context("its report is not complete")?;
    let count = all.len();
    ensure!(count >= FINDINGS_MIN, "it looked at {count} things only\n{}", child::tail(&printed));
    let bad: Vec<_> = all
        .into_iter()
        .filter(|finding| !NOTES.contains(&finding.severity.as_str()) && !finding.is_chance())
        .map(|finding| (finding.id, format!("{}: {}", finding.severity, finding.text)))
        .collect();
    case.expected("testssl")?.check(&bad)?;
    Ok(format!("{count} things, nothing worse than a note but {} that are explained", bad.len()))
}

/// As Debian calls it, and as its authors do.
const TESTSSL: [&str; 2] = ["testssl", "testssl.sh"];

/// Severities of findings that are no fault.
const NOTES: [&str; 3] = ["OK", "INFO", "DEBUG"];

/// Fewer, and it has given up.
const FINDINGS_MIN: usize = 80;

/// It tries hundreds of handshakes, each with a process.
const TESTSSL_LIMIT: Duration = Duration::from_mins(8);

/// Judges a server by `sslyze`.
pub(super) fn sslyze(case: &Case<'_>) -> Vec<Row> {
    let what = "as Mozilla wants it (intermediate)";
    if find_on_path("python3").is_none() {
        return vec![Row::not_installed("sslyze", what)];
    }
    vec![case.row("sslyze", what, || run_sslyze(case))]
}

fn run_sslyze(case: &Case<'_>) -> anyhow::Result<String> {
    let python = packages::python("sslyze", case.setting.stop)?;
    let mut command = Command::new(python.with_file_name("sslyze"));
    command.args(["--mozilla_config", "intermediate", "--certinfo_ca_file"]).arg(case.authority.root());
    command.arg(format!("{HOST}:{}{{127.0.0.1}}", case.port));
    let printed = child::any_output_of(command, SSLYZE_LIMIT, case.setting.stop)?;
    let found = findings_in(&printed)?;
    case.expected("sslyze")?.check(&found)?;
    Ok(format!("compliant but for {} that are explained", found.len()))
}

/// Returns the findings: an id and a text in each line.
fn findings_in(printed: &str) -> anyhow::Result<Vec<(String, String)>> {
    let (_, verdict) = printed.split_once("COMPLIANCE AGAINST").with_context(|| child::tail(printed))?;
    if verdict.contains("OK - Compliant") {
        return Ok(Vec::new());
    }
    let lines = verdict.lines().filter_map(|line| line.trim().strip_prefix("* ")?.split_once(": "));
    let found: Vec<_> = lines.map(|(id, text)| (id.to_owned(), text.to_owned())).collect();
    ensure!(verdict.contains("FAILED - Not compliant") && !found.is_empty(), "{}", child::tail(printed));
    Ok(found)
}

const SSLYZE_LIMIT: Duration = Duration::from_mins(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_has_its_findings() {
        let printed =
            "COMPLIANCE AGAINST MOZILLA\n\n    a:443: FAILED - Not compliant.\n        * ciphers: RC4: why\n";
        assert_eq!(findings_in(printed).unwrap(), [("ciphers".to_owned(), "RC4: why".to_owned())]);
        assert!(findings_in("COMPLIANCE AGAINST MOZILLA\n a:443: OK - Compliant.\n").unwrap().is_empty());
    }

    #[test]
    fn no_verdict_is_no_success() {
        assert!(findings_in("could not connect").is_err());
        assert!(findings_in("COMPLIANCE AGAINST MOZILLA\n a:443: ERROR - Scan did not run\n").is_err());
    }
}
