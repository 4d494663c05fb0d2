//! `cargo xtask differential DIR`: our verdicts on the corpus of `llhttp`, next to its own.
//!
//! DIR is a checkout of nodejs/llhttp; nothing of it is kept here but the names of its cases, in the list of
//! differences that are as they should be: `expected_differences.toml`.

// their side
mod markdown;
mod log;

// our side
mod ours;

// both
mod reading;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::expected::Expected;
use markdown::Case;
use reading::{Difference, Reading};

/// The corpus to compare with.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A checkout of nodejs/llhttp.
    directory: PathBuf,
    /// Print every difference with its input and both readings, not only those that fail the run.
    #[arg(long)]
    verbose: bool,
}

/// Compares every case, prints a summary, and fails if a difference is not listed or a listed one is none.
pub(crate) fn run(options: &Options) -> Result<()> {
    let cases = markdown::cases(&options.directory)?;
    let expected = Expected::read(LIST)?;
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    for case in &cases {
        let theirs = log::reading(case)?;
        let ours = ours::reading(case)?;
        let found = theirs.difference(&ours);
        tally.count(&theirs, &ours, found);
        let is_expected = expected.of(&case.name) == found.map(Difference::name);
        if !is_expected {
            failures.push(case.name.as_str());
        }
        if found.is_some() && options.verbose || !is_expected {
            print_difference(case, found, &theirs, &ours);
        }
    }
    tally.print(cases.len());
    let unknown = expected.names().filter(|name| cases.iter().all(|case| case.name != *name));
    failures.extend(unknown);
    if failures.is_empty() {
        return Ok(());
    }
    bail!(
        "{} cases are not as `expected_differences.toml` says:\n  {}",
        failures.len(),
        failures.join("\n  ")
    )
}

/// The differences that are as they should be.
const LIST: &str = include_str!("expected_differences.toml");

/// The number of cases by result.
#[derive(Default)]
struct Tally {
    both_accept: usize,
    both_refuse: usize,
    differences: BTreeMap<Difference, usize>,
}

impl Tally {
    fn count(&mut self, theirs: &Reading, ours: &Reading, difference: Option<Difference>) {
        match difference {
            Some(difference) => *self.differences.entry(difference).or_default() += 1,
            None if theirs.is_refused() && ours.is_refused() => self.both_refuse += 1,
            None => self.both_accept += 1,
        }
    }

    fn print(&self, cases: usize) {
        println!("{cases} cases");
        println!("{:4} accepted by both and read alike", self.both_accept);
        println!("{:4} refused by both at the same message", self.both_refuse);
        for (difference, count) in &self.differences {
            println!("{count:4} {}", difference.in_words());
        }
    }
}

fn print_difference(case: &Case, found: Option<Difference>, theirs: &Reading, ours: &Reading) {
    println!("{}\n  {}", case.name, found.map_or("no difference", Difference::in_words));
    println!("  type   {}", case.meta.kind);
    println!("  input  {}", case.bytes.escape_ascii());
    println!("  theirs {theirs}");
    println!("  ours   {ours}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_difference_is_one() {
        let expected = Expected::read(LIST).unwrap();
        let names = Difference::ALL.map(Difference::name);
        assert!(expected.names().count() > 0);
        assert!(expected.names().all(|case| expected.of(case).is_some_and(|of| names.contains(&of))));
    }
}
