//! `sslyze`, by what Mozilla recommends for servers of today (`intermediate`).

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::case::Case;
use super::certificates::HOST;
use crate::child;
use crate::interop::check::Row;
use crate::packages;
use crate::program::find_on_path;

/// Judges a server.
pub(super) fn run(case: &Case<'_>) -> Vec<Row> {
    let what = "as Mozilla wants it (intermediate)";
    if find_on_path("python3").is_none() {
        return vec![Row::not_installed("sslyze", what)];
    }
    vec![case.row("sslyze", what, || judge(case))]
}

fn judge(case: &Case<'_>) -> anyhow::Result<String> {
    let python = packages::python("sslyze", case.setting.stop)?;
    let mut command = Command::new(python.with_file_name("sslyze"));
    command.args(["--mozilla_config", "intermediate", "--certinfo_ca_file"]).arg(case.authority.root());
    command.arg(format!("{HOST}:{}{{127.0.0.1}}", case.port));
    let printed = child::any_output_of(command, LIMIT, case.setting.stop)?;
    let found = findings_in(&printed)?;
    case.expected("sslyze")?.check(&found)?;
    Ok(format!("compliant but for {} that are explained", found.len()))
}

/// What it says does not comply: an id and a text in each line.
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

const LIMIT: Duration = Duration::from_mins(3);

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
