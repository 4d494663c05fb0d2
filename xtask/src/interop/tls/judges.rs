//! Judges of protocols, ciphers, certificates and known holes: `testssl.sh`, and `sslyze` with Mozilla's
//! recommendation for current servers (`intermediate`).

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::case::Case;
use super::certificates::HOST;
use crate::program::find_on_path;
use crate::{child, packages};

/// An entry of the report.
#[derive(Deserialize)]
struct Finding {
    id: String,
    severity: String,
    #[serde(rename = "finding")]
    text: String,
}

impl Finding {
    /// Returns `true` if the finding is no fault of the server. The judge's `openssl` may lack a feature, or
    /// get no ticket. Tickets go with the first response, and this client sends no request, so a ticket
    /// arrives by chance.
    fn is_note(&self) -> bool {
        let is_chance = ["engine_problem", "sessionresumption_ticket"].contains(&self.id.as_str());
        ["OK", "INFO", "DEBUG"].contains(&self.severity.as_str()) || self.severity == "WARN" && is_chance
    }
}

/// Judges a server by `testssl.sh`, as its authors call it; Debian calls it `testssl`.
pub(super) fn testssl(case: &Case<'_>) -> anyhow::Result<()> {
    let program = find_on_path("testssl.sh").map_or("testssl", |_| "testssl.sh");
    case.scene.check(program, &case.what("protocols, ciphers, holes"), || {
        let report = case.directory.join("testssl.json");
        let mut command = Command::new(program);
        // The judge asks no other machine for names or revocation lists.
        command.args(["--quiet", "--color", "0", "--warnings", "batch", "--nodns", "none"]);
        command.args(["--ip", "127.0.0.1", "--openssl-timeout", "20"]);
        command.arg("--add-ca").arg(case.authority.root()).arg("--jsonfile").arg(&report);
        command.arg(format!("https://{HOST}:{}", case.port)).current_dir(case.directory);
        let printed = child::any_output_of(command, TESTSSL_LIMIT, case.scene.stop)?;
        let report = fs::read_to_string(&report).with_context(|| child::tail(&printed))?;
        let all: Vec<Finding> = serde_json::from_str(&report).context("its report is not complete")?;
        let count = all.len();
        ensure!(count >= FINDINGS_MIN, "it looked at {count} things only\n{}", child::tail(&printed));
        let bad = all.into_iter().filter(|finding| !finding.is_note());
        let bad = bad.map(|finding| (finding.id, format!("{}: {}", finding.severity, finding.text)));
        let explained = case.check_findings("testssl", &bad.collect::<Vec<_>>())?;
        Ok(format!("{count} things, nothing worse than a note but {explained} that are explained"))
    })
}

/// Fewer, and it has given up.
const FINDINGS_MIN: usize = 80;

/// It tries hundreds of handshakes, each with a process.
const TESTSSL_LIMIT: Duration = Duration::from_mins(8);

/// Judges a server by `sslyze`, which is installed with Python.
pub(super) fn sslyze(case: &Case<'_>) -> anyhow::Result<()> {
    case.scene.check("python3", &case.what("sslyze, as Mozilla wants it"), || {
        let mut command = Command::new(packages::python("sslyze", case.scene.stop)?.join("sslyze"));
        command.args(["--mozilla_config", "intermediate", "--certinfo_ca_file"]).arg(case.authority.root());
        command.arg(format!("{HOST}:{}{{127.0.0.1}}", case.port));
        let printed = child::any_output_of(command, SSLYZE_LIMIT, case.scene.stop)?;
        let explained = case.check_findings("sslyze", &findings_in(&printed)?)?;
        Ok(format!("compliant but for {explained} that are explained"))
    })
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
    use super::findings_in;

    #[test]
    fn a_verdict_has_its_findings_and_no_verdict_is_no_success() {
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
