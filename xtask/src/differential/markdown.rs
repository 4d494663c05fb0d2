//! The cases of the corpus: fenced blocks in Markdown, each `http` block followed by the `log` it should
//! cause.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// Stands in the target of many cases that are about something else; we would refuse them for it.
pub(super) const FRAGMENT: &str = "#hey";

/// One input and what `llhttp` says while it reads it.
pub(super) struct Case {
    /// File and headings, with a number where these are the same for several.
    pub(super) name: String,
    pub(super) meta: Meta,
    pub(super) bytes: Vec<u8>,
    pub(super) log: String,
}

/// The metadata in the comment before the input.
#[derive(Clone, Deserialize)]
pub(super) struct Meta {
    /// `request` or `response`, and after that what is special about the parser.
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// `true` if the parser must expect no body.
    #[serde(rename = "skipBody", default)]
    pub(super) skips_body: bool,
}

/// All cases below `directory`, which is a checkout of `llhttp`.
pub(super) fn cases(directory: &Path) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for side in ["request", "response"] {
        for path in markdown_files(&directory.join("test").join(side))? {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read `{}`", path.display()))?;
            let file = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let found =
                cases_of(&format!("{side}/{file}"), &text).with_context(|| path.display().to_string())?;
            cases.extend(found);
        }
    }
    number_equal_names(&mut cases);
    Ok(cases)
}

fn markdown_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory).with_context(|| {
        format!("cannot read `{}`: DIR must be a checkout of nodejs/llhttp", directory.display())
    })?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    Ok(paths)
}

fn cases_of(file: &str, text: &str) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let mut headings: Vec<&str> = Vec::new();
    let mut meta: Option<Meta> = None;
    let mut input: Option<String> = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some((level, heading)) = heading(line) {
            headings.truncate(level - 1);
            headings.push(heading);
        } else if let Some(json) = line.trim().strip_prefix("<!-- meta=") {
            meta = Some(serde_json::from_str(json.trim_end_matches("-->"))?);
        } else if line == "```http" {
            input = Some(block(&mut lines));
        } else if line == "```log" {
            let (Some(meta), Some(input)) = (meta.take(), input.take()) else {
                bail!("a log without input or meta data below `{}`", headings.join(" / "))
            };
            cases.push(Case {
                name: format!("{file}: {}", headings.join(" / ")),
                meta,
                bytes: bytes(&input)?,
                log: block(&mut lines),
            });
        }
    }
    Ok(cases)
}

/// Level and text of a heading. The title of a file, which is underlined, is none: the headings below it have
/// two marks and more.
fn heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches('#');
    let marks = line.len() - text.len();
    (marks >= 2).then(|| (marks - 1, text.trim()))
}

fn block<'t>(lines: &mut impl Iterator<Item = &'t str>) -> String {
    lines.take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect()
}

/// Returns the bytes of a block: its lines end with CRLF, except for the last one, and escapes are bytes.
fn bytes(block: &str) -> Result<Vec<u8>> {
    ensure!(!block.contains("${"), "a block with code, which only JavaScript can run");
    let text = block.strip_suffix('\n').unwrap_or(block).replace("\\\n", "").replace('\n', "\r\n");
    let mut bytes = Vec::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        rest = unescape(after, &mut bytes)?;
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

/// Appends the bytes of the escape at the start of `text`, after its backslash. Returns the rest.
fn unescape<'t>(text: &'t str, bytes: &mut Vec<u8>) -> Result<&'t str> {
    for (letter, byte) in [("r", b'\r'), ("n", b'\n'), ("t", b'\t'), ("f", 0x0c)] {
        if let Some(rest) = text.strip_prefix(letter) {
            bytes.push(byte);
            return Ok(rest);
        }
    }
    let (digits, radix, length_max) = match text.strip_prefix('x') {
        Some(digits) => (digits, 16, usize::MAX),
        None => (text, 8, 3),
    };
    let length = digits.chars().take(length_max).take_while(|digit| digit.is_digit(radix)).count();
    if length == 0 {
        bytes.push(b'\\');
        return Ok(text);
    }
    let (code, rest) = digits.split_at(length);
    let character =
        char::from_u32(u32::from_str_radix(code, radix)?).context("an escape for no character")?;
    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(rest)
}

fn number_equal_names(cases: &mut [Case]) {
    for i in 0..cases.len() {
        let (before, [case, ..]) = cases.split_at_mut(i) else { return };
        let numbered = format!("{} (", case.name);
        let count = before
            .iter()
            .filter(|other| other.name == case.name || other.name.starts_with(&numbered))
            .count();
        if count > 0 {
            case.name = format!("{} ({})", case.name, count + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_stand_for_bytes() {
        assert_eq!(bytes("GET /\nA: b\n\n\n").unwrap(), b"GET /\r\nA: b\r\n\r\n");
        assert_eq!(bytes("a\\\nb\n").unwrap(), b"ab");
        assert_eq!(bytes(r"\r\n\t\f\x41\x0c\101\0\q").unwrap(), b"\r\n\t\x0cA\x0cA\0\\q");
        assert!(bytes("${1}").is_err());
    }

    #[test]
    fn cases_are_named_after_their_headings() {
        let case = "<!-- meta={\"type\": \"request\"} -->\n```http\na\n```\n\n```log\noff=0 b\n```\n";
        let text = format!("Title\n=====\n\n## A\n{case}\n### B\n{case}\n## C\n{case}{case}");
        let mut cases = cases_of("file", &text).unwrap();
        number_equal_names(&mut cases);
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["file: A", "file: A / B", "file: C", "file: C (2)"]);
        assert!(cases.iter().all(|case| case.bytes == b"a" && case.log == "off=0 b\n"));
    }
}
