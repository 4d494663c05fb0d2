//! Finds members of the schema that no sample of our types has.

use std::collections::{BTreeMap, BTreeSet};

use super::definitions::Definitions;
use super::samples::Sample;

/// The members that no sample has and that are not listed, and the listed ones that some sample has.
pub(super) fn check(sets: &[(Definitions, Vec<Sample>)]) -> Vec<String> {
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
    let expected: BTreeSet<_> =
        NOT_WRITTEN.iter().flat_map(|(members, _)| *members).map(|(of, member)| (*of, *member)).collect();
    let describe =
        |(of, member): &(&str, &str), what| format!("`{member}` of {of}: {what} (see `coverage.rs`)");
    let unlisted = missing.difference(&expected).map(|member| describe(member, "no sample has it"));
    let unneeded =
        expected.difference(&missing).map(|member| describe(member, "listed, and samples have it"));
    unlisted.chain(unneeded).collect()
}

/// Members that we do not write, with the reason.
const NOT_WRITTEN: &[(&[(&str, &str)], &str)] = &[
    (
        &[
            ("CallToolRequestParams", "task"),
            ("ClientCapabilities", "tasks"),
            ("CreateMessageRequestParams", "task"),
            ("ElicitRequestFormParams", "task"),
            ("ElicitRequestURLParams", "task"),
        ],
        "the tasks of 2025-11-25 were an experiment, and are gone from the core of the protocol",
    ),
    (
        &[
            ("CreateMessageRequestParams", "_meta"),
            ("ElicitRequestFormParams", "_meta"),
            ("ElicitRequestURLParams", "_meta"),
        ],
        "servers have nothing to say about what they ask; from 2026-07-28 on they cannot",
    ),
];
