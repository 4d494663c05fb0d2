//! `cargo xtask differential DIR`: our verdicts on the corpus of `llhttp`, next to its own.
//!
//! DIR is a checkout of nodejs/llhttp; nothing of it is kept here but the names of its cases, in the list of
//! differences that are as they should be: `expected_differences.toml`.

// their side
mod corpus;

// our side
mod ours;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::expected::Expected;

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

/// The messages that a parser read, and the reason why no more were.
#[derive(Default)]
struct Reading {
    messages: Vec<Message>,
    /// The parser's own words for the error.
    refusal: Option<String>,
}

/// A message with a complete head.
#[derive(Default, PartialEq, Eq)]
struct Message {
    /// The parts of the start line.
    start_line: [String; 3],
    fields: Vec<(String, String)>,
    content: Vec<u8>,
    trailers: Vec<(String, String)>,
    is_complete: bool,
}

impl Reading {
    fn complete(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(|message| message.is_complete)
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for message in &self.messages {
            write!(f, "{} {:?}", message.start_line.join(" "), message.fields)?;
            write!(f, " \"{}\" {:?}", message.content.escape_ascii(), message.trailers)?;
            f.write_str(if message.is_complete { "; " } else { " …; " })?;
        }
        match &self.refusal {
            Some(refusal) => write!(f, "refused: {refusal}"),
            None => f.write_str("accepted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_differ_by_refusals_and_complete_messages() {
        let reading = |is_complete, refusal: Option<&str>| Reading {
            messages: vec![Message { is_complete, ..Message::default() }],
            refusal: refusal.map(str::to_owned),
        };
        let verdicts = [
            (reading(true, None), ["accepted by both and read alike", "otherwise", "stricter", "stricter"]),
            (reading(false, None), ["otherwise", "accepted by both and read alike", "stricter", "stricter"]),
            (
                reading(true, Some("a")),
                ["laxer", "laxer", "refused by both at the same message", "otherwise"],
            ),
            (
                reading(false, Some("b")),
                ["laxer", "laxer", "otherwise", "refused by both at the same message"],
            ),
        ];
        for (theirs, expected) in &verdicts {
            let found: Vec<_> = verdicts.iter().map(|(ours, _)| verdict(theirs, ours)).collect();
            assert_eq!(found, expected);
        }
    }
}
