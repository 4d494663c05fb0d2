//! `tlsfuzzer`: conversations that say what a server must answer, to what is right and to what is not.
//!
//! `tlsfuzzer` is in no registry, so this needs a checkout. `tlsfuzzer.toml` lists the scripts, their
//! arguments and our differences.

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
    /// `true` if the script is for servers that ask for certificates.
    #[serde(default)]
    shows_certificate: bool,
    #[serde(default)]
    different: Vec<Different>,
}

/// Probes that fail for one reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Different {
    reason: String,
    /// Their names, or what they have in common: each run has another selection of some.
    probes: Vec<String>,
}

fn scripts() -> anyhow::Result<Vec<Script>> {
    let scripts: Vec<Script> = list::read(include_str!("tlsfuzzer.toml"))?;
    let mut differences = scripts.iter().flat_map(|script| &script.different);
    ensure!(differences.all(|different| !different.reason.trim().is_empty()), "a difference has no reason");
    Ok(scripts)
}

/// Runs the scripts for servers like this one.
pub(super) fn run(case: &Case<'_>) -> anyhow::Result<()> {
    let Some(checkout) = case.tlsfuzzer else {
        case.scene.not_installed("tlsfuzzer", "conversations (`--tlsfuzzer DIR`)");
        return Ok(());
    };
    for script in scripts()?.iter().filter(|script| script.shows_certificate == case.asks_clients) {
        case.scene.row("tlsfuzzer", &case.what(&script.name), || script.run(case, checkout))?;
    }
    Ok(())
}

impl Script {
    fn run(&self, case: &Case<'_>, checkout: &Path) -> anyhow::Result<String> {
        let mut command = Command::new(packages::python("tlsfuzzer", case.scene.stop)?.join("python"));
        command.arg(checkout.join("scripts").join(&self.name)).env("PYTHONPATH", checkout);
        command.args(["-h", "127.0.0.1", "-p", case.port]).args(&self.arguments);
        if case.scene.is_full {
            command.args(["-n", "0"]);
        }
        if self.shows_certificate {
            command.arg("-k").arg(case.directory.join("client.key"));
            command.arg("-c").arg(case.directory.join("client.pem"));
        }
        self.verdict(&child::any_output_of(command, LIMIT, case.scene.stop)?)
    }

    /// Returns the summary, unless a probe fails that is not listed as different.
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
        let new: Vec<_> = failed.iter().filter(|probe| !self.is_different(probe)).collect();
        ensure!(new.is_empty() && passed > 0, "{new:#?}");
        Ok(format!("{passed} probes, {} that differ are explained", failed.len()))
    }

    fn is_different(&self, probe: &str) -> bool {
        let mut names = self.different.iter().flat_map(|different| &different.probes);
        names.any(|name| probe.contains(name.as_str()))
    }
}

const LIMIT: Duration = Duration::from_mins(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_passes_if_no_probe_fails_but_those_that_differ() {
        assert!(scripts().unwrap().len() > 10);
        let different = Different { reason: "why".to_owned(), probes: vec!["padding".to_owned()] };
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
