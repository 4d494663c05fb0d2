//! The differences that are as they should be, each with its reason.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::reading::Difference;

/// The list in `expected_differences.toml`.
pub(super) struct ExpectedDifferences(BTreeMap<String, Difference>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    difference: Vec<Group>,
}

/// Cases that differ in one way for one reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    how: Difference,
    reason: String,
    cases: Vec<String>,
}

impl ExpectedDifferences {
    /// Reads the list, in which no case may stand twice and no reason be missing.
    pub(super) fn load() -> Result<Self> {
        let file: File = toml::from_str(include_str!("expected_differences.toml"))?;
        let mut by_case = BTreeMap::new();
        for group in file.difference {
            ensure!(!group.reason.trim().is_empty(), "a difference needs a reason: {:?}", group.cases);
            for case in group.cases {
                ensure!(by_case.insert(case.clone(), group.how).is_none(), "listed twice: `{case}`");
            }
        }
        Ok(Self(by_case))
    }

    /// How `case` is expected to differ.
    pub(super) fn of(&self, case: &str) -> Option<Difference> {
        self.0.get(case).copied()
    }

    /// All cases of the list.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_difference_has_one_reason() {
        let expected = ExpectedDifferences::load().unwrap();
        assert!(expected.names().count() > 0);
        assert!(expected.names().all(|name| expected.of(name).is_some()));
    }
}
