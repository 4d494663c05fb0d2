//! `testssl.sh`: protocols, ciphers, certificates and known holes, each with a severity.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::case::Case;
use super::certificates::HOST;
use crate::child;
use crate::interop::check::Row;
use crate::program::find_on_path;

/// What it writes of each thing that it looks at.
#[derive(Deserialize)]
struct Finding {
    id: String,
    severity: String,
    #[serde(rename = "finding")]
    text: String,
}

impl Finding {
    /// Whether it says nothing of the server: that its own `openssl` lacks something, or has got no ticket.
    /// Tickets go with the first answer, and this client asks for nothing: whether one comes before it goes
    /// is chance.
    fn is_chance(&self) -> bool {
        self.severity == "WARN" && ["engine_problem", "sessionresumption_ticket"].contains(&self.id.as_str())
    }
}

/// Judges a server.
pub(super) fn run(case: &Case<'_>) -> Vec<Row> {
    let what = "protocols, ciphers, holes";
    let Some(program) = PROGRAMS.into_iter().find(|program| find_on_path(program).is_some()) else {
        return vec![Row::not_installed(PROGRAMS[0], what)];
    };
    vec![case.row(PROGRAMS[0], what, || judge(case, program))]
}

fn judge(case: &Case<'_>, program: &str) -> anyhow::Result<String> {
    let report = case.directory.join("testssl.json");
    let mut command = Command::new(program);
    // Nobody outside is asked, neither for names nor for lists of revoked certificates.
    command.args(["--quiet", "--color", "0", "--warnings", "batch", "--nodns", "none"]);
    command.args(["--ip", "127.0.0.1", "--openssl-timeout", "20"]);
    command.arg("--add-ca").arg(case.authority.root()).arg("--jsonfile").arg(&report);
    command.arg(format!("https://{HOST}:{}", case.port)).current_dir(case.directory);
    let printed = child::any_output_of(command, LIMIT, case.setting.stop)?;
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
const PROGRAMS: [&str; 2] = ["testssl", "testssl.sh"];

/// What is good or neither good nor bad.
const NOTES: [&str; 3] = ["OK", "INFO", "DEBUG"];

/// Fewer, and it has given up.
const FINDINGS_MIN: usize = 80;

/// It tries hundreds of handshakes, each with a process.
const LIMIT: Duration = Duration::from_mins(8);
