//! `cargo xtask schema DIR`: compares our MCP types with the official schema.
//!
//! DIR has a folder with a `schema.json` for each MCP revision, and `ext-tasks` for the tasks extension. The
//! folder of MCP revision 2026-07-28 also has the official examples in `examples/TYPE`.

// official schema
mod definitions;

// official examples that our types read
mod examples;
mod type_names;

// our samples, validated with the official schema
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

/// Reads all examples and writes them back, validates samples of our types, and prints a summary.
///
/// # Errors
/// An example changes when it is read and written. A sample is invalid or has an unknown member. A member of
/// the schema is in no sample.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut failures = Vec::new();
    let (types, passed) = examples::check(&options.directory.join(EXAMPLES), &mut failures)?;
    println!("{passed:4} official examples did not change when read and written back");
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
        let errors: Vec<_> =
            samples.iter().filter_map(|sample| validation_error(definitions, sample, &sets)).collect();
        println!(
            "{:4} samples are valid in {}, for {} of its {} definitions",
            known.len().saturating_sub(errors.len()),
            definitions.name,
            known.iter().collect::<BTreeSet<_>>().len(),
            definitions.by_name.len()
        );
        failures.extend(errors);
    }
    let not_written = Expected::read(include_str!("coverage.toml"))?.check(&not_written(&sets));
    failures.extend(
        not_written.err().map(|error| format!("members without a sample (`coverage.toml`): {error}")),
    );
    Ok(())
}

/// Returns the validation error of a sample of the revision `own`, if any.
fn validation_error(
    own: &Definitions,
    sample: &Sample,
    sets: &[(Definitions, Vec<Sample>)],
) -> Option<String> {
    let Sample { definition, value } = sample;
    let mut known = sets.iter().map(|(of, _)| of).filter(|of| of.has(definition)).peekable();
    let error = if known.peek().is_none() {
        "no schema has this definition".to_owned()
    } else if !own.has(definition) {
        return None;
    } else if let Some(error) = own.validation_error(definition, value, false) {
        error
    } else if value.get("jsonrpc").is_some() {
        // The parts of a message are separate samples.
        return None;
    } else {
        // The schema also allows unknown and misspelled members. So this check requires that at least one
        // revision knows each member.
        let errors: Option<Vec<_>> = known.map(|of| of.validation_error(definition, value, true)).collect();
        format!("no revision of the schema knows all members: {}", errors?.join("; "))
    };
    Some(format!("{} {definition}: {error}\n  {value}", own.name))
}

/// Returns the schema members that no sample contains, each with its revision. Skips definitions without
/// samples.
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
