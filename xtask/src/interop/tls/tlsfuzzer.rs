//! Runs scripts of `tlsfuzzer`. The scripts hold valid and invalid TLS conversations with the server, and
//! check its messages.
//!
//! `tlsfuzzer` is not in a package registry, so these checks need a checkout. `tlsfuzzer.toml` lists the
//! scripts, their arguments and the expected failures.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::case::Case;
use crate::{child, list, packages};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    name: String,
    #[serde(default)]
    arguments: Vec<String>,
    /// `true` if the script runs against servers that request client certificates.
    #[serde(default)]
    shows_certificate: bool,
    #[serde(default)]
    different: Vec<ExpectedFailure>,
}

/// Probes that are expected to fail, with the reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedFailure {
    reason: String,
    /// Parts of the names of the probes. An entry may match no probe, because some scripts run a random
    /// selection of probes.
    probes: Vec<String>,
}

fn scripts() -> anyhow::Result<Vec<Script>> {
    let scripts: Vec<Script> = list::read(include_str!("tlsfuzzer.toml"))?;
    let mut differences = scripts.iter().flat_map(|script| &script.different);
    ensure!(
        differences.all(|different| !different.reason.trim().is_empty()),
        "an expected failure has no reason"
    );
    Ok(scripts)
}

/// Runs the scripts for this kind of server.
pub(super) fn run(case: &Case<'_>) -> anyhow::Result<()> {
    let Some(checkout) = case.tlsfuzzer else {
        case.checker.not_installed("tlsfuzzer", "conversations (`--tlsfuzzer DIR`)");
        return Ok(());
    };
    for script in
        scripts()?.iter().filter(|script| script.shows_certificate == case.requests_client_certificates)
    {
        case.checker.row("tlsfuzzer", &case.what(&script.name), || script.run(case, checkout))?;
    }
    Ok(())
}

impl Script {
    fn run(&self, case: &Case<'_>, checkout: &Path) -> anyhow::Result<String> {
        let mut command = Command::new(packages::python("tlsfuzzer", case.checker.stop)?.join("python"));
        command.arg(checkout.join("scripts").join(&self.name)).env("PYTHONPATH", checkout);
        command.args(["-h", "127.0.0.1", "-p", case.port]).args(&self.arguments);
        if case.checker.is_full {
            command.args(["-n", "0"]);
        }
        if self.shows_certificate {
            command.arg("-k").arg(case.directory.join("client.key"));
            command.arg("-c").arg(case.directory.join("client.pem"));
        }
        self.verdict(&child::any_output_of(command, LIMIT, case.checker.stop)?)
    }

    /// Returns a summary, or an error if a probe fails that `tlsfuzzer.toml` does not list.
    fn verdict(&self, printed: &str) -> anyhow::Result<String> {
        let count = |name: &str| {
            let value = printed.lines().rev().find_map(|line| line.strip_prefix(name));
            value.and_then(|value| value.trim().parse::<usize>().ok())
        };
        let passed = count("PASS:").with_context(|| child::tail(printed))?;
        let (_, failed) = printed.rsplit_once("\nFAILED:\n").unwrap_or_default();
        let failed = failed.lines().filter_map(|line| line.trim().strip_prefix('\'')?.strip_suffix('\''));
        let failed: Vec<_> = failed.collect();
        ensure!(Some(failed.len()) == count("FAIL:"), "{}", child::tail(printed));
        let new: Vec<_> = failed.iter().filter(|probe| !self.is_expected(probe)).collect();
        ensure!(new.is_empty() && passed > 0, "{new:#?}");
        Ok(format!("{passed} probes passed, {} failed as expected", failed.len()))
    }

    fn is_expected(&self, probe: &str) -> bool {
        let mut names = self.different.iter().flat_map(|different| &different.probes);
        names.any(|name| probe.contains(name.as_str()))
    }
}

const LIMIT: Duration = Duration::from_mins(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_passes_if_only_listed_probes_fail() {
        assert!(scripts().unwrap().len() > 10);
        let different = ExpectedFailure { reason: "why".to_owned(), probes: vec!["padding".to_owned()] };
        let script = Script { different: vec![different], ..Script::default() };
        for (printed, is_good) in [
            ("PASS: 3\nFAIL: 0\nXPASS: 0\n====\n", true),
            ("PASS: 3\nFAIL: 1\n====\nFAILED:\n\t'padding of 5'\n", true),
            ("PASS: 3\nFAIL: 1\n====\nFAILED:\n\t'sanity'\n", false),
            ("PASS: 0\nFAIL: 0\n", false),
            ("PASS: 3\nFAIL: 2\nFAILED:\n\t'padding of 5'\n", false),
            ("Traceback\n", false),
        ] {
            assert_eq!(script.verdict(printed).is_ok(), is_good, "{printed}");
        }
    }
}
