//! `cargo xtask differential DIR`: our verdicts on the corpus of `llhttp`, next to its own.
//!
//! DIR is a checkout of nodejs/llhttp; nothing of it is kept here but the names of its cases, in the list of
//! differences that are as they should be: `expected_differences.toml`.

// their side
mod corpus;

// our side
mod ours;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::expected::Expected;
use corpus::Reading;

/// The corpus to compare with.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A checkout of nodejs/llhttp.
    directory: PathBuf,
}

/// Compares every case, prints a summary, and fails if a difference is not listed or a listed one is none.
pub(crate) fn run(options: &Options) -> Result<()> {
    let cases = corpus::cases(&options.directory)?;
    let expected = Expected::read(include_str!("expected_differences.toml"))?;
    let mut counts = BTreeMap::<_, usize>::new();
    let mut differences = Vec::new();
    for case in &cases {
        let (theirs, ours) = (case.reading()?, ours::reading(case)?);
        let verdict = verdict(&theirs, &ours);
        *counts.entry(verdict).or_default() += 1;
        if !ALIKE.contains(&verdict) {
            let input = case.bytes.escape_ascii();
            let text = format!("{verdict}; {}: {input}; theirs: {theirs}; ours: {ours}", case.meta.kind);
            let listed = expected.of(&case.name).unwrap_or(verdict);
            ensure!(listed == verdict, "{}: listed as {listed}, but {text}", case.name);
            differences.push((case.name.clone(), text));
        }
    }
    println!("{} cases", cases.len());
    for (verdict, count) in counts {
        println!("{count:4} {verdict}");
    }
    expected.check(&differences)
}

/// The verdicts that are no differences.
const ALIKE: [&str; 2] = ["accepted by both and read alike", "refused by both at the same message"];

/// Compares two readings of a case. We are `stricter` if we refuse what they accept, `laxer` if we accept
/// what they refuse, and `otherwise` stands for another result of the same kind.
fn verdict(theirs: &Reading, ours: &Reading) -> &'static str {
    match (theirs.refusal.is_some(), ours.refusal.is_some()) {
        (false, true) => "stricter",
        (true, false) => "laxer",
        (false, false) if theirs.messages == ours.messages => ALIKE[0],
        // Parsers may report different parts of a broken message.
        (true, true) if theirs.complete().eq(ours.complete()) => ALIKE[1],
        _ => "otherwise",
    }
}

#[cfg(test)]
mod tests {
    use super::corpus::Message;
    use super::*;

    #[test]
    fn readings_differ_by_refusals_and_complete_messages() {
        let reading = |(is_complete, refusal): (bool, Option<&str>)| Reading {
            messages: vec![Message { is_complete, ..Message::default() }],
            refusal: refusal.map(str::to_owned),
        };
        for (theirs, ours, expected) in [
            ((true, None), (true, None), ALIKE[0]),
            ((true, None), (false, None), "otherwise"),
            ((true, None), (true, Some("a")), "stricter"),
            ((true, Some("a")), (true, None), "laxer"),
            ((true, Some("a")), (true, Some("b")), ALIKE[1]),
            ((true, Some("a")), (false, Some("a")), "otherwise"),
        ] {
            assert_eq!(verdict(&reading(theirs), &reading(ours)), expected, "{theirs:?} {ours:?}");
        }
    }
}
