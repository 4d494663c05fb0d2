//! Finds members of the schema that no sample of our types has.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::definitions::Definitions;
use super::samples::Sample;

/// The members that no sample has and that are not listed, and the listed ones that some sample has.
pub(super) fn check(sets: &[(Definitions, Vec<Sample>)]) -> anyhow::Result<Vec<String>> {
    let mut missing = BTreeSet::new();
    for (definitions, samples) in sets {
        let mut written = BTreeMap::<_, BTreeSet<&str>>::new();
        for sample in samples.iter().filter(|sample| definitions.has(&sample.definition)) {
            let members = sample.value.as_object().into_iter().flat_map(serde_json::Map::keys);
            written.entry(sample.definition.as_str()).or_default().extend(members.map(String::as_str));
        }
        for (definition, written) in written {
            let absent = definitions.members(definition).filter(|member| !written.contains(member.as_str()));
            missing.extend(absent.map(|member| (definition, member.as_str())));
        }
    }
    let list: List = toml::from_str(include_str!("coverage.toml"))?;
    let members = list.not_written.iter().flat_map(|group| &group.members);
    let expected: BTreeSet<_> = members.filter_map(|member| member.split_once('.')).collect();
    let describe =
        |(of, member): &(&str, &str), what| format!("`{member}` of {of}: {what} (see `coverage.toml`)");
    let unlisted = missing.difference(&expected).map(|member| describe(member, "no sample has it"));
    let unneeded =
        expected.difference(&missing).map(|member| describe(member, "listed, and samples have it"));
    Ok(unlisted.chain(unneeded).collect())
}

/// The list in `coverage.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    not_written: Vec<NotWritten>,
}

/// Members that we do not write, as `DEFINITION.MEMBER`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NotWritten {
    #[expect(dead_code, reason = "for readers; each entry needs one")]
    reason: String,
    members: Vec<String>,
}
