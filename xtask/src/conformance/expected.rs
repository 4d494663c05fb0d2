//! The scenarios that are expected to fail, each with the reason.

use std::collections::BTreeSet;

use anyhow::ensure;
use serde::Deserialize;

use super::results::Scenario;

/// The list in `expected_failures.toml`.
pub(super) struct ExpectedFailures(BTreeSet<String>);

/// What the list says of the results of a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It passed and is not listed.
    AsItShouldBe,
    /// It failed and is listed.
    FailsAsExpected,
    /// It failed and is not listed.
    Fails,
    /// It passed and is listed.
    IsStale,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    failure: Vec<Group>,
}

/// Scenarios that fail for one reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    reason: String,
    scenarios: Vec<String>,
}

impl ExpectedFailures {
    /// Reads the list, in which no scenario may stand twice and no reason be missing.
    pub(super) fn load() -> anyhow::Result<Self> {
        let file: File = toml::from_str(include_str!("expected_failures.toml"))?;
        let mut names = BTreeSet::new();
        for group in file.failure {
            ensure!(!group.reason.trim().is_empty(), "a failure needs a reason: {:?}", group.scenarios);
            for name in group.scenarios {
                ensure!(names.insert(name.clone()), "listed twice: `{name}`");
            }
        }
        Ok(Self(names))
    }

    /// Whether the results are as expected.
    pub(super) fn verdict(&self, scenario: &Scenario) -> Verdict {
        match (scenario.failures().next().is_some(), self.0.contains(&scenario.name)) {
            (false, false) => Verdict::AsItShouldBe,
            (true, true) => Verdict::FailsAsExpected,
            (true, false) => Verdict::Fails,
            (false, true) => Verdict::IsStale,
        }
    }

    /// All scenarios of the list.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::Status;
    use super::super::results::tests::scenario;
    use super::*;

    #[test]
    fn every_listed_failure_has_a_reason() {
        assert!(ExpectedFailures::load().is_ok());
    }

    #[test]
    fn a_listed_scenario_must_fail_and_any_other_must_pass() {
        let expected = ExpectedFailures(BTreeSet::from(["listed".to_owned()]));
        let verdict = |name, status| expected.verdict(&scenario(name, status));
        assert_eq!(verdict("listed", Status::Failure), Verdict::FailsAsExpected);
        assert_eq!(verdict("listed", Status::Success), Verdict::IsStale);
        assert_eq!(verdict("other", Status::Warning), Verdict::Fails);
        assert_eq!(verdict("other", Status::Skipped), Verdict::AsItShouldBe);
    }
}
