//! Errors and warnings about a config, with their positions in the file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use annotate_snippets::{Annotation, AnnotationKind, Level, Renderer, Snippet};
use thruway_message::mask_userinfo;

use super::Span;
use super::values::Filled;

/// Errors and warnings about a config, or about another input of a command. The printed text masks
/// credentials in URLs.
#[derive(Debug)]
pub struct Failure(Vec<Finding>);

/// One error or warning: its message, its position in the file, and hints about the next step.
#[derive(Clone, Debug)]
pub struct Finding {
    severity: Severity,
    message: String,
    file: Option<PathBuf>,
    line: Option<usize>,
    /// The printed text: the message with an excerpt of the file.
    report: String,
    hints: Vec<String>,
    /// `true` if the excerpt has stars in place of a value.
    is_masked: bool,
}

/// The severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The config cannot be used.
    Error,
    /// The config can be used, but probably has an unwanted effect.
    Warning,
}

/// The text of a config file and of its included files, for messages with excerpts.
pub(super) struct Source {
    /// The path of the config file.
    pub(super) path: PathBuf,
    /// The text of the config file. The texts of the included files follow, each after a line break.
    pub(super) text: String,
    /// The included files, in the order of their texts.
    included: Vec<IncludedFile>,
    hide: fn(&str) -> String,
    /// The text with stars in place of secrets, computed for the first excerpt.
    shown: OnceLock<String>,
    /// Values from environment variables. Messages show the names of the variables instead.
    filled: OnceLock<Filled>,
}

/// An included file.
struct IncludedFile {
    path: PathBuf,
    /// Position of the file in the text of the [`Source`].
    start: usize,
}

impl Failure {
    /// Returns an error without a position in a file.
    pub fn new(message: impl fmt::Display) -> Self {
        Self(vec![Finding::new(Severity::Error, message)])
    }

    /// Returns an error about a whole file, without a line.
    pub(super) fn about_file(file: &Path, message: impl fmt::Display) -> Self {
        Self(vec![Finding { file: Some(file.to_owned()), ..Finding::new(Severity::Error, message) }])
    }

    /// Returns a warning without a position in a file.
    pub(crate) fn warning(message: impl fmt::Display) -> Self {
        Self(vec![Finding::new(Severity::Warning, message)])
    }

    /// Joins several failures. Returns `None` if `failures` is empty.
    pub(crate) fn all(failures: Vec<Self>) -> Option<Self> {
        (!failures.is_empty()).then(|| Self::joined(failures))
    }

    /// Joins several failures.
    pub(crate) fn joined(failures: Vec<Self>) -> Self {
        Self(failures.into_iter().flat_map(|failure| failure.0).collect())
    }

    /// Removes the findings at these places (`FILE:LINE`). Returns `None` if no finding is left.
    pub(super) fn without_places(mut self, places: &[String]) -> Option<Self> {
        self.0.retain(|finding| finding.place().is_none_or(|place| !places.contains(&place)));
        (!self.0.is_empty()).then_some(self)
    }

    /// Adds a hint about the next step to the last finding.
    pub fn with_hint(mut self, hint: impl fmt::Display) -> Self {
        if let Some(last) = self.0.last_mut() {
            last.hints.push(hint.to_string());
        }
        self
    }

    /// Returns all findings, in the order in which they are printed.
    pub fn findings(&self) -> &[Finding] {
        &self.0
    }
}

impl Finding {
    fn new(severity: Severity, message: impl fmt::Display) -> Self {
        let message = message.to_string();
        let report = format!("{severity}: {message}\n");
        Self { severity, message, file: None, line: None, report, hints: Vec::new(), is_masked: false }
    }

    /// Returns the severity of the finding.
    pub const fn severity(&self) -> Severity {
        self.severity
    }

    /// Returns the message, with masked credentials.
    pub fn message(&self) -> String {
        mask_userinfo(&self.message).into_owned()
    }

    /// Returns the file, if the finding is about a file.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Returns the line number in the file, if the finding has a position. The first line has the number 1.
    pub const fn line(&self) -> Option<usize> {
        self.line
    }

    /// Returns the place in the file as `FILE:LINE`, if the finding has a position.
    fn place(&self) -> Option<String> {
        Some(format!("{}:{}", self.file.as_ref()?.display(), self.line?))
    }

    /// Returns hints for the next step. The list is empty if the finding has no hints.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&mask_userinfo(&self.report))?;
        self.hints.iter().try_for_each(|hint| write!(f, "\nhint: {}\n", mask_userinfo(hint)))?;
        if self.is_masked {
            f.write_str("\nnote: stars replace a value that may be secret\n")
        } else {
            Ok(())
        }
    }
}

impl std::error::Error for Failure {}

impl Source {
    /// Returns a source with this text. `hide` replaces the secrets in the text by stars.
    pub(super) fn new(path: PathBuf, text: String, hide: fn(&str) -> String) -> Self {
        Self { path, text, included: Vec::new(), hide, shown: OnceLock::new(), filled: OnceLock::new() }
    }

    /// Adds an included file with this text.
    pub(super) fn include(&mut self, path: PathBuf, text: &str) {
        self.text.push('\n');
        self.included.push(IncludedFile { path, start: self.text.len() });
        self.text.push_str(text);
        self.shown = OnceLock::new();
    }

    /// Returns the config file and all included files, each with the position of its text.
    pub(super) fn files(&self) -> impl Iterator<Item = (&Path, Span)> {
        let paths = [&self.path].into_iter().chain(self.included.iter().map(|file| &file.path));
        let starts = [0].into_iter().chain(self.included.iter().map(|file| file.start));
        let ends = self.included.iter().map(|file| file.start - 1).chain([self.text.len()]);
        paths.zip(starts.zip(ends)).map(|(path, (start, end))| (path.as_path(), start..end))
    }

    /// Returns the file that contains the byte at `at`, and the position of its text.
    fn file_at(&self, at: usize) -> (&Path, Span) {
        let before = self.files().take_while(|(_, file)| file.start <= at);
        before.last().unwrap_or((&self.path, 0..self.text.len()))
    }

    /// Stores the values from environment variables, and returns them. Later messages do not show these
    /// values.
    pub(super) fn keep_filled(&self, filled: Filled) -> &Filled {
        self.filled.get_or_init(|| filled)
    }

    /// Returns `true` if the text at `span` contains an environment variable.
    pub(super) fn has_variable(&self, span: &Span) -> bool {
        self.filled.get().is_some_and(|filled| filled.is_at(span))
    }

    /// Returns an error with file, line and excerpt.
    pub(super) fn failure(&self, span: Span, message: impl fmt::Display) -> Failure {
        let message = self.without_private_values(message.to_string(), &[&span]);
        self.report(Severity::Error, &message, &span, None)
    }

    /// Returns an error with exactly this `message`, without masking. The caller must ensure that `message`
    /// contains no value of the config.
    pub(super) fn failure_without_values(&self, span: &Span, message: impl fmt::Display) -> Failure {
        self.report(Severity::Error, &message.to_string(), span, None)
    }

    /// Returns a warning with file, line and excerpt.
    pub(super) fn warning(&self, span: Span, message: impl fmt::Display) -> Failure {
        let message = self.without_private_values(message.to_string(), &[&span]);
        self.report(Severity::Warning, &message, &span, None)
    }

    /// Returns an error at `span`. The excerpt also marks `other`, and shows `label` there.
    pub(super) fn failure_between(&self, span: &Span, message: &str, other: &Span, label: &str) -> Failure {
        let private = |text: &str| self.without_private_values(text.to_owned(), &[span, other]);
        let (message, label) = (private(message), private(label));
        self.report(Severity::Error, &message, span, Some((other, &label)))
    }

    /// Replaces private values in `message`. A value from an environment variable becomes the text of the
    /// file, such as `${NAME}`. A secret at one of the positions `spans` becomes stars.
    fn without_private_values(&self, message: String, spans: &[&Span]) -> String {
        let is_meant = |at: &Span| spans.contains(&at);
        let filled = self.filled.get().into_iter().flat_map(Filled::texts);
        let message = filled.fold(message, |message, (at, value)| {
            let stand_in = unquoted(self.shown().get(at.clone()).unwrap_or_default());
            without_value(message, value, stand_in, is_meant(at))
        });
        let hidden = spans.iter().filter(|span| self.hides(span)).filter_map(|span| {
            let text = self.text.get((*span).clone()).filter(|text| text.starts_with(['"', '\'']))?;
            Some((unquoted(text), unquoted(self.shown().get((*span).clone())?)))
        });
        hidden.fold(message, |message, (value, stars)| without_value(message, value, stars, true))
    }

    /// Returns the position of `span` as `FILE:LINE`.
    pub(super) fn place(&self, span: &Span) -> String {
        let (path, _) = self.file_at(span.start);
        format!("{}:{}", path.display(), self.line(span))
    }

    /// Returns the line number of `span` in its file. The first line has the number 1.
    fn line(&self, span: &Span) -> usize {
        let (_, file) = self.file_at(span.start);
        self.text.get(file.start..span.start).unwrap_or_default().matches('\n').count() + 1
    }

    /// Returns `true` if the value at `span` is a secret or may be a secret. Messages hide such values.
    pub(super) fn hides(&self, span: &Span) -> bool {
        self.shown().get(span.clone()) != self.text.get(span.clone())
    }

    /// Returns the text with stars in place of secrets.
    pub(super) fn shown(&self) -> &str {
        self.shown.get_or_init(|| {
            let files = self.files().map(|(_, file)| (self.hide)(&self.text[file]));
            files.collect::<Vec<_>>().join("\n")
        })
    }

    /// Returns the first line of `span`, because an excerpt shows only one line.
    fn first_line(&self, span: &Span) -> Span {
        let length = self.text.get(span.clone()).map_or(0, |text| text.lines().next().unwrap_or("").len());
        span.start..span.start + length
    }

    /// Returns the finding with an excerpt. The excerpt also marks the position of `other`, with its label.
    fn report(
        &self,
        severity: Severity,
        message: &str,
        span: &Span,
        other: Option<(&Span, &str)>,
    ) -> Failure {
        let (path, file) = self.file_at(span.start);
        let other = other.map(|(other, label)| (self.file_at(other.start), other, label));
        let (same, elsewhere) = match other {
            Some(((_, of_other), other, label)) if of_other == file => (Some((other, label)), None),
            other => (None, other),
        };
        let primary = AnnotationKind::Primary.span(self.first_line_in(&file, span));
        let marks = [primary].into_iter().chain(same.map(|(span, label)| self.context(&file, span, label)));
        let snippet = self.excerpt(path, &file).annotations(marks);
        let level = match severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut report = level.primary_title(message).element(snippet);
        if let Some(((path, file), span, label)) = elsewhere {
            report = report.element(self.excerpt(path, &file).annotation(self.context(&file, span, label)));
        }
        Failure(vec![Finding {
            severity,
            message: message.to_owned(),
            file: Some(path.to_owned()),
            line: Some(self.line(span)),
            report: format!("{}\n", Renderer::plain().render(&[report])),
            hints: Vec::new(),
            is_masked: self.hides(&self.line_around(span)),
        }])
    }

    /// Returns the whole line in which `span` begins.
    fn line_around(&self, span: &Span) -> Span {
        let (before, after) = self.text.split_at_checked(span.start).unwrap_or((&self.text, ""));
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        start..span.start + after.find('\n').unwrap_or(after.len())
    }

    /// Returns the mark of `span` with a label.
    fn context<'l>(&self, file: &Span, span: &Span, label: &'l str) -> Annotation<'l> {
        AnnotationKind::Context.span(self.first_line_in(file, span)).label(label)
    }

    /// Returns the text of `file` for an excerpt.
    fn excerpt<'s>(&'s self, path: &'s Path, file: &Span) -> Snippet<'s, Annotation<'s>> {
        Snippet::source(self.shown().get(file.clone()).unwrap_or_default()).path(path.to_string_lossy())
    }

    /// Returns the first line of `span`, relative to the start of its file.
    fn first_line_in(&self, file: &Span, span: &Span) -> Span {
        let line = self.first_line(span);
        line.start - file.start..line.end - file.start
    }
}

/// Returns `message` with `stand_in` in place of `value`, because `value` is private.
///
/// A short value may occur in any word by chance, so this function replaces a short value only between
/// backquotes. `is_meant` is `true` if the message is about `value`. Such a message may also quote parts of
/// `value` between backquotes. If `value` itself does not occur, this function replaces these parts.
pub(super) fn without_value(message: String, value: &str, stand_in: &str, is_meant: bool) -> String {
    let value = value.trim();
    if value.is_empty() || value == stand_in {
        return message;
    }
    let escaped = value.escape_debug().to_string();
    // Each occurrence is replaced once, because `stand_in` may contain `value`.
    let replaced = if value.chars().count() >= VALUE_CHARS_MIN {
        replaced_once(&message, [value, &escaped], stand_in)
    } else {
        let [value, escaped] = [value, &escaped].map(|text| format!("`{text}`"));
        replaced_once(&message, [&value, &escaped], &format!("`{stand_in}`"))
    };
    if !is_meant || replaced != message {
        return replaced;
    }
    let is_part = |quoted: &str| {
        let is_scheme = matches!(quoted, "http://" | "https://");
        quoted.chars().count() > 1 && !is_scheme && (value.contains(quoted) || escaped.contains(quoted))
    };
    let parts = message.split('`').enumerate();
    let parts = parts.map(|(place, part)| if place % 2 == 1 && is_part(part) { stand_in } else { part });
    parts.collect::<Vec<_>>().join("`")
}

/// Returns `message` with `stand_in` in place of the texts. Does not replace anything within `stand_in`.
fn replaced_once(message: &str, [one, other]: [&str; 2], stand_in: &str) -> String {
    let without_one = message
        .split(one)
        .map(|part| if other == one { part.to_owned() } else { part.replace(other, stand_in) });
    without_one.collect::<Vec<_>>().join(stand_in)
}

/// Minimum length of a value that is replaced even without backquotes. A shorter value may occur in a word by
/// chance, and is too short to be a secret.
const VALUE_CHARS_MIN: usize = 4;

/// Returns the first line of a TOML string without its quotes.
fn unquoted(text: &str) -> &str {
    let quotes = |c| matches!(c, '"' | '\'');
    text.trim_start_matches(quotes).trim_start().lines().next().unwrap_or_default().trim_end_matches(quotes)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, finding) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str("\n")?;
            }
            finding.fmt(f)?;
        }
        Ok(())
    }
}
/// Errors about unknown keys.
#[derive(Default)]
pub(in crate::config) struct UnknownKeys {
    pub(super) failures: Vec<(usize, Failure)>,
    /// Positions of the tables with unknown keys.
    tables: Vec<Span>,
    /// `true` if the value of an unknown key is a table or an array.
    has_sections: bool,
}

impl UnknownKeys {
    /// Adds an error at the position `at`. `tables` are the positions of the tables that contain the key. `is_section` is
    /// `true` if its value is a table or an array.
    pub(super) fn add(&mut self, at: usize, failure: Failure, tables: Vec<Span>, is_section: bool) {
        self.failures.push((at, failure));
        self.tables.extend(tables);
        self.has_sections |= is_section;
    }

    /// Adds these errors to `others`, the errors that later checks have found. Without unknown keys, returns
    /// `others`. Leaves out errors that may be a consequence of an unknown key: those about a table with an
    /// unknown key, and all errors if a whole section was skipped.
    pub(in crate::config) fn and(self, others: Vec<Failure>, source: &Source) -> Vec<Failure> {
        if self.failures.is_empty() {
            return others;
        }
        let lines: Vec<_> = self.tables.iter().map(|table| source.place(table)).collect();
        let others = if self.has_sections { Vec::new() } else { others };
        let others = others.into_iter().filter_map(|failure| failure.without_places(&lines));
        in_order(self.failures).into_iter().chain(others).collect()
    }
}

/// Sorts errors by their position.
pub(super) fn in_order(mut failures: Vec<(usize, Failure)>) -> Vec<Failure> {
    failures.sort_by_key(|(at, _)| *at);
    failures.into_iter().map(|(_, failure)| failure).collect()
}
