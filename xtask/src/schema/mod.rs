//! `cargo xtask schema DIR`: our types next to the official schema of the Model Context Protocol.
//!
//! DIR has a folder for each revision with its `schema.json`, one of 2026-07-28 with the official examples in
//! `examples/TYPE`, and `ext-tasks` for the tasks extension. Nothing of it is kept here but names of types.

// theirs
mod definitions;

// theirs, read by us
mod examples;
mod type_names;

// ours, judged by their schema
mod samples;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use serde_json::Map;
use thruway_mcp::Revision;

use crate::expected::Expected;
use definitions::Definitions;
use samples::Sample;

/// The schema to compare with.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The official schemas and examples.
    directory: PathBuf,
}

/// Reads every example and writes it back, writes samples of our own and validates them, and prints a
/// summary.
///
/// # Errors
/// An example is not read, or written as something else; a sample is not valid, has a member that no revision
/// knows, or lacks one that its revision has.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut failures = Vec::new();
    let (types, passed) = examples::check(&options.directory.join(EXAMPLES), &mut failures)?;
    println!("{passed:4} official examples are read, and written as they were");
    println!("{types:4} types have examples");
    check_samples(&options.directory, &mut failures)?;
    for failure in &failures {
        println!("\n{failure}");
    }
    ensure!(failures.is_empty(), "{} checks against the schema failed", failures.len());
    Ok(())
}

fn check_samples(directory: &Path, failures: &mut Vec<String>) -> Result<()> {
    let mut sets = Vec::new();
    for revision in Revision::ALL {
        sets.push((Definitions::load(directory, revision.as_str())?, samples::of(revision)?));
    }
    sets.push((Definitions::load(directory, TASKS)?, samples::of_tasks()?));
    for (definitions, samples) in &sets {
        let of: Vec<_> = samples.iter().filter(|sample| definitions.has(&sample.definition)).collect();
        let names: BTreeSet<_> = of.iter().map(|sample| sample.definition.as_str()).collect();
        let (count, failed) = (of.len(), failures.len());
        failures.extend(of.iter().filter_map(|sample| {
            let complaint = definitions.complaint(&sample.definition, &sample.value, false)?;
            Some(describe(definitions, sample, &complaint))
        }));
        println!(
            "{:4} messages and parts of them that we write are valid in {}: {} of its {} definitions",
            count + failed - failures.len(),
            definitions.name,
            names.len(),
            definitions.by_name.len()
        );
    }
    let all: Vec<_> = sets.iter().map(|(definitions, _)| definitions).collect();
    for (definitions, samples) in &sets {
        failures.extend(samples.iter().filter_map(|sample| misnamed(definitions, sample, &all)));
    }
    let not_written = Expected::read(include_str!("coverage.toml"))?.check(&not_written(&sets));
    failures.extend(
        not_written.err().map(|error| format!("members without a sample (`coverage.toml`): {error}")),
    );
    Ok(())
}

/// Validity alone allows any member besides those of the schema, misspelt ones among them: each must be one
/// that some revision knows.
fn misnamed(own: &Definitions, sample: &Sample, all: &[&Definitions]) -> Option<String> {
    let mut of = all.iter().filter(|definitions| definitions.has(&sample.definition)).peekable();
    if of.peek().is_none() {
        return Some(describe(own, sample, "no schema has this definition"));
    }
    if sample.is_message || !own.has(&sample.definition) {
        return None;
    }
    let mut complaint = String::new();
    for definitions in of {
        complaint = definitions.complaint(&sample.definition, &sample.value, true)?;
    }
    Some(describe(own, sample, &format!("no revision knows every member: {complaint}")))
}

/// Returns the members of definitions with samples that no sample has, each with the revision.
fn not_written(sets: &[(Definitions, Vec<Sample>)]) -> Vec<(String, String)> {
    let mut missing = Vec::new();
    for (definitions, samples) in sets {
        let mut written = BTreeMap::<_, BTreeSet<_>>::new();
        for sample in samples.iter().filter(|sample| definitions.has(&sample.definition)) {
            let members = sample.value.as_object().into_iter().flat_map(Map::keys);
            written.entry(&sample.definition).or_default().extend(members);
        }
        for (definition, written) in written {
            let absent = definitions.members(definition).filter(|member| !written.contains(member));
            missing.extend(absent.map(|member| (format!("{definition}.{member}"), definitions.name.clone())));
        }
    }
    missing
}

fn describe(definitions: &Definitions, sample: &Sample, complaint: &str) -> String {
    format!("{} {}: {complaint}\n  {}", definitions.name, sample.definition, sample.value)
}

const EXAMPLES: &str = "2026-07-28/examples";

const TASKS: &str = "ext-tasks";
