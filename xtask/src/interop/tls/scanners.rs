//! Scans protocols, ciphers, certificates and known vulnerabilities with `testssl.sh` and `sslyze`. `sslyze`
//! checks Mozilla's recommendation for general-purpose servers (`intermediate`).

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::case::Case;
use super::certificates::HOST;
use crate::program::find_on_path;
use crate::{child, packages};

/// An entry of the report of `testssl.sh`.
#[derive(Deserialize)]
struct Finding {
    id: String,
    severity: String,
    #[serde(rename = "finding")]
    text: String,
}

impl Finding {
    /// Returns `true` if the finding is not a fault of the server. For example, the `openssl` of the scanner
    /// may lack a feature. The scanner may also get no session ticket: the server sends tickets with the
    /// first response, but the scanner sends no request.
    fn is_note(&self) -> bool {
        let is_chance = ["engine_problem", "sessionresumption_ticket"].contains(&self.id.as_str());
        ["OK", "INFO", "DEBUG"].contains(&self.severity.as_str()) || self.severity == "WARN" && is_chance
    }
}

/// Scans a server with `testssl.sh`, which Debian installs as `testssl`.
pub(super) fn testssl(case: &Case<'_>) -> anyhow::Result<()> {
    let program = find_on_path("testssl.sh").map_or("testssl", |_| "testssl.sh");
    case.checker.check(program, &case.what("protocols, ciphers, vulnerabilities"), || {
        let report = case.directory.join("testssl.json");
        let mut command = Command::new(program);
        // With `--nodns`, the scanner contacts no DNS servers.
        command.args(["--quiet", "--color", "0", "--warnings", "batch", "--nodns", "none"]);
        command.args(["--ip", "127.0.0.1", "--openssl-timeout", "20"]);
        command.arg("--add-ca").arg(case.authority.root()).arg("--jsonfile").arg(&report);
        command.arg(format!("https://{HOST}:{}", case.port)).current_dir(case.directory);
        let printed = child::any_output_of(command, TESTSSL_LIMIT, case.checker.stop)?;
        let report = fs::read_to_string(&report).with_context(|| child::tail(&printed))?;
        let all: Vec<Finding> = serde_json::from_str(&report).context("the report is incomplete")?;
        let count = all.len();
        ensure!(
            count >= FINDINGS_MIN,
            "only {count} findings, so the scan is incomplete\n{}",
            child::tail(&printed)
        );
        let bad = all.into_iter().filter(|finding| !finding.is_note());
        let bad = bad.map(|finding| (finding.id, format!("{}: {}", finding.severity, finding.text)));
        let expected = case.check_findings("testssl", &bad.collect::<Vec<_>>())?;
        Ok(format!("{count} findings; {expected} are faults, and all of them are expected"))
    })
}

/// Minimum number of findings of a complete scan.
const FINDINGS_MIN: usize = 80;

/// The scanner tries hundreds of handshakes, each in a new process.
const TESTSSL_LIMIT: Duration = Duration::from_mins(8);

/// Scans a server with `sslyze`, which is installed with pip.
pub(super) fn sslyze(case: &Case<'_>) -> anyhow::Result<()> {
    case.checker.check("python3", &case.what("sslyze, Mozilla's recommendation"), || {
        let mut command = Command::new(packages::python("sslyze", case.checker.stop)?.join("sslyze"));
        command.args(["--mozilla_config", "intermediate", "--certinfo_ca_file"]).arg(case.authority.root());
        command.arg(format!("{HOST}:{}{{127.0.0.1}}", case.port));
        let printed = child::any_output_of(command, SSLYZE_LIMIT, case.checker.stop)?;
        let expected = case.check_findings("sslyze", &findings_in(&printed)?)?;
        Ok(format!("compliant except {expected} expected findings"))
    })
}

/// Returns the findings in the output, each with an ID and a text.
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
    use super::findings_in;

    #[test]
    fn findings_are_read_and_a_missing_verdict_is_an_error() {
        let found =
            |verdict: &str| findings_in(&format!("COMPLIANCE AGAINST MOZILLA\n\n    a:443: {verdict}\n"));
        assert_eq!(
            found("FAILED - Not compliant.\n        * ciphers: RC4: why").unwrap(),
            [("ciphers".to_owned(), "RC4: why".to_owned())]
        );
        assert!(found("OK - Compliant.").unwrap().is_empty());
        assert!(found("ERROR - Scan did not run").is_err() && findings_in("could not connect").is_err());
    }
}
