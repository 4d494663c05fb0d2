//! `cargo xtask differential DIR`: compares our parser with `llhttp` on the test corpus of `llhttp`.
//!
//! DIR is a checkout of nodejs/llhttp. This repository does not contain the corpus. The list of intended
//! differences, `expected_differences.toml`, has only the names of its cases.

// llhttp
mod corpus;

// our parser
mod ours;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::expected::Expected;
use corpus::ParseResult;

/// The corpus to compare with.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A checkout of nodejs/llhttp.
    directory: PathBuf,
}

/// Compares all cases and prints a summary. Fails if a difference is not listed, or if a listed difference
/// does not occur.
pub(crate) fn run(options: &Options) -> Result<()> {
    let cases = corpus::cases(&options.directory)?;
    let expected = Expected::read(include_str!("expected_differences.toml"))?;
    let mut counts = BTreeMap::<_, usize>::new();
    let mut differences = Vec::new();
    for case in &cases {
        let (theirs, ours) = (case.parse_result()?, ours::parse_result(case)?);
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

/// The verdicts for equal results.
const ALIKE: [&str; 2] = ["accepted by both with equal messages", "rejected by both at the same message"];

/// Compares the two results of a case: `stricter` if only we reject the input, `laxer` if only llhttp rejects
/// it, and `otherwise` if the messages differ.
fn verdict(theirs: &ParseResult, ours: &ParseResult) -> &'static str {
    match (theirs.rejection.is_some(), ours.rejection.is_some()) {
        (false, true) => "stricter",
        (true, false) => "laxer",
        (false, false) if theirs.messages == ours.messages => ALIKE[0],
        // Only complete messages count, because parsers may report different parts of a malformed message.
        (true, true) if theirs.complete().eq(ours.complete()) => ALIKE[1],
        _ => "otherwise",
    }
}

#[cfg(test)]
mod tests {
    use super::corpus::Message;
    use super::*;

    #[test]
    fn results_differ_by_rejection_and_complete_messages() {
        let parse_result = |(is_complete, rejection): (bool, Option<&str>)| ParseResult {
            messages: vec![Message { is_complete, ..Message::default() }],
            rejection: rejection.map(str::to_owned),
        };
        for (theirs, ours, expected) in [
            ((true, None), (true, None), ALIKE[0]),
            ((true, None), (false, None), "otherwise"),
            ((true, None), (true, Some("a")), "stricter"),
            ((true, Some("a")), (true, None), "laxer"),
            ((true, Some("a")), (true, Some("b")), ALIKE[1]),
            ((true, Some("a")), (false, Some("a")), "otherwise"),
        ] {
            assert_eq!(verdict(&parse_result(theirs), &parse_result(ours)), expected, "{theirs:?} {ours:?}");
        }
    }
}
