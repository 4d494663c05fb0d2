//! Messages for people about what cannot be used.

use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;

use annotate_snippets::{Annotation, AnnotationKind, Level, Renderer, Snippet};

use thruway_message::mask_userinfo;

use super::environment::Filled;
use super::{Span, secrets};

/// An error or a warning with its place, cause and next step, or several of them. Printing it masks
/// credentials in URLs.
#[derive(Debug)]
pub(crate) struct Failure(String);

/// The text of a config.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// The text with stars in place of secrets; made when the first excerpt is shown.
    shown: OnceLock<String>,
    /// The values from the environment. Messages name the variables instead.
    filled: OnceLock<Filled>,
}

impl Failure {
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self(format!("error: {message}\n"))
    }

    /// What could be served all the same.
    pub(crate) fn warning(message: impl fmt::Display) -> Self {
        Self(format!("warning: {message}\n"))
    }

    /// Several failures as one; `None` if there is none.
    pub(crate) fn all(failures: Vec<Self>) -> Option<Self> {
        (!failures.is_empty()).then(|| Self::joined(failures))
    }

    /// Several failures as one.
    pub(crate) fn joined(failures: Vec<Self>) -> Self {
        let texts: Vec<String> = failures.into_iter().map(|failure| failure.0).collect();
        Self(texts.join("\n"))
    }

    pub(crate) fn with_hint(self, hint: impl fmt::Display) -> Self {
        Self(format!("{}\nhint: {hint}\n", self.0))
    }
}

impl Source {
    pub(super) fn new(path: PathBuf, text: String) -> Self {
        Self { path, text, shown: OnceLock::new(), filled: OnceLock::new() }
    }

    /// Keeps the values from the environment, and returns them. Messages do not show them from then on.
    pub(super) fn keep_filled(&self, filled: Filled) -> &Filled {
        self.filled.get_or_init(|| filled)
    }

    /// Returns `true` if the text at `span` has a variable of the environment.
    pub(super) fn has_variable(&self, span: &Span) -> bool {
        self.filled.get().is_some_and(|filled| filled.is_at(span))
    }

    /// A failure with file, line and excerpt.
    pub(super) fn failure(&self, span: Span, message: impl fmt::Display) -> Failure {
        let message = self.without_private_values(message.to_string(), &[&span]);
        self.report(Level::ERROR, &message, [AnnotationKind::Primary.span(self.first_line(&span))])
    }

    /// A warning with file, line and excerpt.
    pub(super) fn warning(&self, span: Span, message: impl fmt::Display) -> Failure {
        let message = self.without_private_values(message.to_string(), &[&span]);
        self.report(Level::WARNING, &message, [AnnotationKind::Primary.span(self.first_line(&span))])
    }

    /// A failure at `span` because of what stands at `other`, which `label` says.
    pub(super) fn failure_between(&self, span: &Span, message: &str, other: &Span, label: &str) -> Failure {
        let private = |text: &str| self.without_private_values(text.to_owned(), &[span, other]);
        let (message, label) = (private(message), private(label));
        let other = AnnotationKind::Context.span(self.first_line(other)).label(&*label);
        self.report(Level::ERROR, &message, [AnnotationKind::Primary.span(self.first_line(span)), other])
    }

    /// Returns `message` with the text of the file, which names variables and has stars for secrets, in place
    /// of private values: those that come from the environment, and hidden ones at `spans`.
    fn without_private_values(&self, message: String, spans: &[&Span]) -> String {
        let is_meant = |at: &Span| spans.contains(&at);
        let filled = self.filled.get().into_iter().flat_map(Filled::texts);
        let message = filled.fold(message, |message, (at, value)| {
            let stand_in = unquoted(self.shown().get(at.clone()).unwrap_or_default());
            secrets::without_value(message, value, stand_in, is_meant(at))
        });
        let hidden = spans.iter().filter(|span| self.hides(span)).filter_map(|span| {
            let text = self.text.get((*span).clone()).filter(|text| text.starts_with(['"', '\'']))?;
            Some((unquoted(text), unquoted(self.shown().get((*span).clone())?)))
        });
        hidden.fold(message, |message, (value, stars)| secrets::without_value(message, value, stars, true))
    }

    /// `FILE:LINE` of `span`.
    pub(super) fn place(&self, span: &Span) -> String {
        let before = self.text.get(..span.start).unwrap_or_default();
        format!("{}:{}", self.path.display(), before.matches('\n').count() + 1)
    }

    /// Whether what stands at `span` is not shown.
    pub(super) fn hides(&self, span: &Span) -> bool {
        self.shown().get(span.clone()) != self.text.get(span.clone())
    }

    fn shown(&self) -> &str {
        self.shown.get_or_init(|| secrets::hidden(&self.text))
    }

    /// A span over several lines shows the first of them.
    fn first_line(&self, span: &Span) -> Span {
        let length = self.text.get(span.clone()).map_or(0, |text| text.lines().next().unwrap_or("").len());
        span.start..span.start + length
    }

    fn report<'a, const N: usize>(
        &'a self,
        level: Level<'a>,
        message: &str,
        annotations: [Annotation<'a>; N],
    ) -> Failure {
        let path = self.path.to_string_lossy();
        let snippet = Snippet::source(self.shown()).path(&*path).annotations(annotations);
        let report = [level.primary_title(message).element(snippet)];
        Failure(format!("{}\n", Renderer::plain().render(&report)))
    }
}

/// Returns the first line of a TOML string without its quotes.
fn unquoted(text: &str) -> &str {
    let quotes = |c| matches!(c, '"' | '\'');
    text.trim_start_matches(quotes).trim_start().lines().next().unwrap_or_default().trim_end_matches(quotes)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&mask_userinfo(&self.0))
    }
}
