//! What judges find, and what they are expected to find, each with its reason.

use std::collections::BTreeSet;

use anyhow::ensure;
use serde::Deserialize;

/// The list in `expected_findings.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    finding: Vec<Group>,
}

/// Findings of one judge that have one reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    judge: String,
    reason: String,
    ids: Vec<String>,
    /// The kinds of certificates with which it is found. Default all.
    #[serde(default)]
    kinds: Vec<String>,
}

/// Fails unless `found` is what `judge` was expected to find about a server with a certificate of this kind: each has an id, and a text.
///
/// # Errors
/// Those that are not listed, and those that are and were not found.
pub(super) fn check(judge: &str, kind: &str, found: &[(String, String)]) -> anyhow::Result<()> {
    compare(&expected(judge, kind)?, found)
}

fn expected(judge: &str, kind: &str) -> anyhow::Result<BTreeSet<String>> {
    let list: Expected = toml::from_str(include_str!("expected_findings.toml"))?;
    let mut ids = BTreeSet::new();
    for group in list.finding {
        ensure!(!group.reason.trim().is_empty(), "a finding needs a reason: {:?}", group.ids);
        let is_here =
            group.judge == judge && (group.kinds.is_empty() || group.kinds.iter().any(|k| k == kind));
        for id in group.ids.into_iter().filter(|_| is_here) {
            ensure!(ids.insert(id.clone()), "listed twice: `{id}`");
        }
    }
    Ok(ids)
}

fn compare(expected: &BTreeSet<String>, found: &[(String, String)]) -> anyhow::Result<()> {
    let new: Vec<_> = found.iter().filter(|(id, _)| !expected.contains(id)).collect();
    ensure!(new.is_empty(), "found: {new:#?}");
    let stale: Vec<_> = expected.iter().filter(|id| !found.iter().any(|(found, _)| found == *id)).collect();
    ensure!(stale.is_empty(), "listed as expected, but not found: {stale:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_expected_finding_has_a_reason() {
        for judge in ["testssl", "sslyze"] {
            assert!(expected(judge, "RSA").is_ok());
        }
    }

    #[test]
    fn what_is_found_must_be_listed_and_what_is_listed_found() {
        let expected = BTreeSet::from(["listed".to_owned()]);
        let found =
            |ids: &[&str]| -> Vec<_> { ids.iter().map(|id| ((*id).to_owned(), String::new())).collect() };
        assert!(compare(&expected, &found(&["listed"])).is_ok());
        assert!(compare(&expected, &found(&["listed", "other"])).is_err());
        assert!(compare(&expected, &found(&[])).is_err());
    }
}
