//! Lists of known deviations from the expectations of external test suites, each with its reason.
//!
//! A deviation that is not in the list fails the run. An entry of the list that matches no deviation also
//! fails the run.

use std::collections::BTreeMap;

use anyhow::ensure;
use serde::Deserialize;

use super::list;

/// Deviations with the same reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    /// The suite, or the kind of difference.
    #[serde(default)]
    of: String,
    /// The kinds of runs that have these deviations; empty for all kinds.
    #[serde(default)]
    kinds: Vec<String>,
    reason: String,
    /// Names of results. A `*` at the end matches any suffix.
    names: Vec<String>,
}

/// The names of the known deviations, each with its `of`.
#[derive(Default)]
pub(super) struct Expected(BTreeMap<String, String>);

impl Expected {
    /// Reads a list.
    ///
    /// # Errors
    /// A name occurs twice, or a group has no reason.
    pub(super) fn read(list: &str) -> anyhow::Result<Self> {
        Self::read_where(list, |_, _| true)
    }

    /// Reads the groups of a list for one suite and one kind of run.
    pub(super) fn read_of(list: &str, of: &str, kind: &str) -> anyhow::Result<Self> {
        Self::read_where(list, |group_of, kinds| {
            group_of == of && (kinds.is_empty() || kinds.iter().any(|other| other == kind))
        })
    }

    fn read_where(list: &str, is_wanted: impl Fn(&str, &[String]) -> bool) -> anyhow::Result<Self> {
        let mut all = Self::default();
        for Group { of, kinds, reason, names } in list::read(list)? {
            ensure!(!reason.trim().is_empty(), "a group needs a reason: {names:?}");
            for name in names.into_iter().filter(|_| is_wanted(&of, &kinds)) {
                ensure!(!all.0.contains_key(&name), "listed twice: `{name}`");
                all.0.insert(name, of.clone());
            }
        }
        Ok(all)
    }

    /// Returns the `of` of the entry with exactly this name, if any.
    pub(super) fn of(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns all names of the list.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Compares the list with the deviations that a run found. Each deviation has a name and a description.
    ///
    /// # Errors
    /// A deviation is not listed, or an entry matches none.
    pub(super) fn check(&self, found: &[(String, String)]) -> anyhow::Result<()> {
        let new: Vec<_> =
            found.iter().filter(|(name, _)| !self.names().any(|entry| matches(entry, name))).collect();
        ensure!(new.is_empty(), "unexpected results, which the list does not contain: {new:#?}");
        let is_stale = |entry: &&str| !found.iter().any(|(name, _)| matches(entry, name));
        let stale: Vec<_> = self.names().filter(is_stale).collect();
        ensure!(stale.is_empty(), "the list contains expected results that did not occur: {stale:?}");
        Ok(())
    }
}

fn matches(entry: &str, name: &str) -> bool {
    entry.strip_suffix('*').map_or(entry == name, |start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::Expected;

    const LIST: &str = "[[expected]]\nof = 'a'\nreason = 'why'\nnames = ['one', 'b*']\n\
                        [[expected]]\nof = 'c'\nkinds = ['k']\nreason = 'why'\nnames = ['two']\n";

    #[test]
    fn unlisted_deviation_and_unmatched_entry_are_errors() {
        for (of, kind, found, is_good) in [
            ("a", "k", "one b.t", true),
            ("a", "k", "one b other", false),
            ("a", "k", "one", false),
            ("c", "k", "two", true),
            ("c", "other", "", true),
        ] {
            let found: Vec<_> =
                found.split_whitespace().map(|name| (name.to_owned(), String::new())).collect();
            let checked = Expected::read_of(LIST, of, kind).unwrap().check(&found);
            assert_eq!(checked.is_ok(), is_good, "{of} {kind} {found:?}");
        }
    }

    #[test]
    fn duplicate_name_and_missing_reason_are_errors() {
        assert_eq!(Expected::read(LIST).unwrap().of("two"), Some("c"));
        assert!(Expected::read(&LIST.replace("two", "one")).is_err());
        assert!(Expected::read(&LIST.replace("'why'", "' '")).is_err());
    }
}
