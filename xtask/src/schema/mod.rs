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
    for name in Revision::ALL.into_iter().map(Revision::as_str).chain([samples::TASKS]) {
        sets.push((Definitions::load(directory, name)?, samples::of(name)?));
    }
    for (definitions, samples) in &sets {
        let names: Vec<_> = samples.iter().map(|sample| &sample.definition).collect();
        let known: Vec<_> = names.into_iter().filter(|name| definitions.has(name)).collect();
        let complaints: Vec<_> =
            samples.iter().filter_map(|sample| complaint(definitions, sample, &sets)).collect();
        println!(
            "{:4} messages and parts of them that we write are valid in {}: {} of its {} definitions",
            known.len().saturating_sub(complaints.len()),
            definitions.name,
            known.iter().collect::<BTreeSet<_>>().len(),
            definitions.by_name.len()
        );
        failures.extend(complaints);
    }
    let not_written = Expected::read(include_str!("coverage.toml"))?.check(&not_written(&sets));
    failures.extend(
        not_written.err().map(|error| format!("members without a sample (`coverage.toml`): {error}")),
    );
    Ok(())
}

/// Returns the error in a sample of the revision `own`, if it has one.
fn complaint(own: &Definitions, sample: &Sample, sets: &[(Definitions, Vec<Sample>)]) -> Option<String> {
    let Sample { definition, value } = sample;
    let mut known = sets.iter().map(|(of, _)| of).filter(|of| of.has(definition)).peekable();
    let complaint = if known.peek().is_none() {
        "no schema has this definition".to_owned()
    } else if !own.has(definition) {
        return None;
    } else if let Some(complaint) = own.complaint(definition, value, false) {
        complaint
    } else if value.get("jsonrpc").is_some() {
        // The parts of a message are samples too.
        return None;
    } else {
        // Validity alone allows any member besides those of the schema, misspelt ones among them: each must
        // be one that some revision knows.
        let complaints: Option<Vec<_>> = known.map(|of| of.complaint(definition, value, true)).collect();
        format!("no revision knows every member: {}", complaints?.join("; "))
    };
    Some(format!("{} {definition}: {complaint}\n  {value}", own.name))
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

const EXAMPLES: &str = "2026-07-28/examples";
