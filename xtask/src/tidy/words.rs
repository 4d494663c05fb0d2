//! Plain language: counts of hard sentences in comments, messages and Markdown, and banned words
//! (`CONTRIBUTING.md` has the rules). Counting does not replace reading.

use super::tree::{Finding, Tree, has_extension};

/// Maximum number of clauses with a subject such as "who" or "what", per 1000 words.
const HEADLESS_MAX: f64 = 0.4;
/// Maximum share of doc comments that open with a word such as "What", in percent.
const OPENINGS_MAX: f64 = 1.0;
/// Maximum share of sentences with more than [`LONG_WORDS`] words, in percent.
const LONG_MAX: f64 = 1.0;
/// Maximum share of lines of comments and prose with more than [`WIDE_COLUMNS`] columns, in percent.
const WIDE_MAX: f64 = 0.8;

const LONG_WORDS: usize = 32;
const WIDE_COLUMNS: usize = 120;

const SUBJECTS: [&str; 7] = ["who", "whoever", "whomever", "nobody", "somebody", "everybody", "anybody"];
const OPENINGS: [&str; 8] = ["What", "Whether", "How", "Where", "Who", "Those", "Nothing", "None"];
/// Words that follow "those" if it is the subject of a clause.
const AFTER_THOSE: [&str; 7] = ["that", "who", "of", "without", "with", "beyond", "in"];

/// Words that text must not contain, and their replacements.
const BANNED: [(&str, &str); 2] = [("octet", "byte"), ("octets", "bytes")];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (mut counts, mut findings) = (Counts::default(), Vec::new());
    for (path, file) in tree.files().filter(|(path, _)| is_read(path)) {
        for line in file.text.lines().filter(|line| is_prose(path, line)) {
            counts.lines += 1;
            counts.wide += usize::from(line.chars().count() > WIDE_COLUMNS);
        }
        for paragraph in paragraphs(path, &file.text) {
            counts.add(path, &paragraph, &mut findings);
        }
    }
    let excess = counts.excess();
    if excess.is_empty() {
        // Below the limits, single hard sentences are allowed.
        findings.retain(|(is_banned, _)| *is_banned);
    }
    let findings = findings.into_iter().map(|(_, finding)| finding);
    findings.chain(excess.into_iter().map(|message| Finding::new("", 0, message))).collect()
}

/// Sources of others, and lists of names, are not read.
fn is_read(path: &str) -> bool {
    let is_text = ["rs", "md", "toml"].iter().any(|extension| has_extension(path, extension));
    let is_foreign =
        path.starts_with("third_party/") || path.contains("/reports/") || path.ends_with("Cargo.toml");
    is_text && !is_foreign && !path.starts_with("xtask/src/tidy/")
}

fn is_prose(path: &str, line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with('|') && (!has_extension(path, "rs") || line.starts_with("//"))
}

/// A comment, a message or a block of Markdown.
struct Paragraph {
    line: usize,
    is_doc: bool,
    text: String,
}

/// Returns the paragraphs of a file. Code blocks, tables and headings are left out.
fn paragraphs(path: &str, text: &str) -> Vec<Paragraph> {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    let (mut is_code, mut is_open) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let (body, is_doc) = if has_extension(path, "rs") {
            let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            let Some(body) = doc.or_else(|| line.strip_prefix("//")) else {
                (is_code, is_open) = (false, false);
                let found = messages(line).map(|text| Paragraph { line: index + 1, is_doc: false, text });
                paragraphs.extend(found);
                continue;
            };
            (body.trim(), doc.is_some())
        } else if has_extension(path, "toml") {
            (line.strip_prefix('#').unwrap_or_default().trim(), false)
        } else {
            (line, false)
        };
        if body.starts_with("```") {
            is_code = !is_code;
        }
        if is_code || body.is_empty() || body.starts_with(['|', '#']) || body.starts_with("```") {
            is_open = false;
            continue;
        }
        let item = body.strip_prefix("- ").or_else(|| body.strip_prefix("* "));
        let is_continued = |last: &&mut Paragraph| is_open && item.is_none() && last.is_doc == is_doc;
        if let Some(last) = paragraphs.last_mut().filter(is_continued) {
            last.text.push(' ');
            last.text.push_str(body);
        } else {
            let text = item.unwrap_or(body).to_owned();
            paragraphs.push(Paragraph { line: index + 1, is_doc, text });
        }
        is_open = true;
    }
    paragraphs
}

/// Returns the string literals of a line that are sentences.
fn messages(line: &str) -> impl Iterator<Item = String> {
    let unescaped = line.replace("\\\"", "'");
    let literals: Vec<String> = unescaped.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    literals.into_iter().filter(|text| text.matches(' ').count() >= 3 && !text.contains("::"))
}

#[derive(Default)]
struct Counts {
    words: usize,
    sentences: usize,
    headless: usize,
    docs: usize,
    openings: usize,
    long: usize,
    lines: usize,
    wide: usize,
}

impl Counts {
    /// Adds a paragraph, and a finding for each hard sentence. The flag of a finding is `true` for a banned word.
    fn add(&mut self, path: &str, paragraph: &Paragraph, findings: &mut Vec<(bool, Finding)>) {
        let plain = without_code(&paragraph.text);
        let mut find = |is_banned, message| {
            findings.push((is_banned, Finding::new(path, paragraph.line, message)));
        };
        self.docs += usize::from(paragraph.is_doc);
        let opening = plain.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        if paragraph.is_doc && OPENINGS.contains(&opening) {
            self.openings += 1;
            find(false, format!("the doc comment opens with `{opening}`: begin with a verb or a noun"));
        }
        for sentence in sentences(&plain) {
            let words: Vec<_> = words(sentence).collect();
            self.words += words.len();
            self.sentences += 1;
            if words.len() > LONG_WORDS {
                self.long += 1;
                find(false, format!("{} words in a sentence: split it", words.len()));
            }
            for (place, (word, begins_clause)) in words.iter().enumerate() {
                let next = words.get(place + 1).map(|(word, _)| word.to_lowercase()).unwrap_or_default();
                let word = word.to_lowercase();
                if let Some((_, instead)) = BANNED.iter().find(|(banned, _)| *banned == word) {
                    find(true, format!("say {instead} instead of `{word}`"));
                }
                let is_clause = *begins_clause && !sentence.ends_with('?');
                let is_subject = SUBJECTS.contains(&&*word)
                    || is_clause && word == "what"
                    || is_clause && word == "those" && AFTER_THOSE.contains(&&*next);
                if is_subject {
                    self.headless += 1;
                    find(false, format!("`{word}` is the subject of a clause: name the actor"));
                }
            }
        }
    }

    /// Returns a message for each limit that is exceeded.
    #[expect(clippy::cast_precision_loss, reason = "the counts are far below 2^52")]
    fn excess(&self) -> Vec<String> {
        let share = |part: usize, all: usize| 100.0 * part as f64 / all.max(1) as f64;
        let limits = [
            (
                "clauses without an actor per 1000 words",
                share(self.headless, self.words) * 10.0,
                HEADLESS_MAX,
            ),
            ("percent of doc comments with a bad opening", share(self.openings, self.docs), OPENINGS_MAX),
            ("percent of sentences that are too long", share(self.long, self.sentences), LONG_MAX),
            ("percent of lines that are too wide", share(self.wide, self.lines), WIDE_MAX),
        ];
        let exceeded = limits.into_iter().filter(|(_, count, most)| count > most);
        exceeded.map(|(name, count, most)| format!("{count:.2} {name}, at most {most} are allowed")).collect()
    }
}

/// Returns the text with `X` in place of code and without link targets.
fn without_code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts.map(|(place, part)| if place % 2 == 0 { part } else { "X" }).collect()
}

/// Splits a paragraph behind `.`, `;`, `!` and `?` if a capital letter follows.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut start = 0;
    let ends = text.match_indices(['.', ';', '!', '?']).filter_map(|(at, _)| {
        let rest = text[at + 1..].strip_prefix(' ')?;
        rest.starts_with(|c: char| c.is_uppercase() || c == '[').then_some(at + 1)
    });
    let ends: Vec<_> = ends.chain([text.len()]).collect();
    ends.into_iter().map(move |end| text[std::mem::replace(&mut start, end)..end].trim())
}

/// Returns the words of a sentence. The flag is `true` for the first word of the sentence or of a clause.
fn words(sentence: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut begins_clause = true;
    sentence.split_whitespace().filter_map(move |part| {
        let word = part.trim_matches(|c: char| !c.is_alphabetic());
        let begins = begins_clause || part.starts_with('(');
        begins_clause = part.ends_with([',', ';', ':', '.']);
        (!word.is_empty()).then_some((word, begins))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    #[test]
    fn hard_sentences_are_found_in_comments_messages_and_prose() {
        for (path, text, part) in [
            ("a.rs", "/// What it is.\n", "opens with `What`"),
            ("a.rs", "// The client waits, and\n// who reads is told.\n", "`who` is the subject"),
            ("a.rs", "let a = \"those that are closed stay open\";\n", "`those` is the subject"),
            ("a.md", "Wait. What is read stays.\n", "`what` is the subject"),
            ("a.toml", "# nobody listens here\n", "`nobody` is the subject"),
            ("a.md", &format!("{} end.\n", "word ".repeat(LONG_WORDS)), "33 words"),
            ("a.md", &format!("{}\n", "w".repeat(WIDE_COLUMNS + 1)), "too wide"),
            ("a.md", "An octet.\n", "say byte instead of `octet`"),
        ] {
            let found = found(check, &[(path, text)]);
            assert!(found.iter().any(|finding| finding.contains(part)), "{text:?}: {found:?}");
        }
    }

    #[test]
    fn plain_sentences_code_and_tables_pass() {
        for (path, text) in [
            ("a.rs", "/// Returns the size of what `who` has sent.\nlet who = what(\"a b\");\n"),
            ("a.md", "```\nwhoever asks\n```\n| who | nobody |\n# Who\n"),
            ("a.md", "What is it?\n"),
            ("third_party/a.rs", "/// What it is.\n"),
        ] {
            assert_eq!(found(check, &[(path, text)]), [""; 0], "{text:?}");
        }
    }
}
