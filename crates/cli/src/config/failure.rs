//! Messages for people about what cannot be used.

use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;

use annotate_snippets::{Annotation, AnnotationKind, Level, Renderer, Snippet};

use super::{Span, secrets};

/// What is wrong, where, and what to do about it; one thing or several. Or what only seems to be: a warning.
#[derive(Debug)]
pub(crate) struct Failure(String);

/// The text of a config.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// The same with stars in place of what is secret; made when something is shown.
    shown: OnceLock<String>,
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
        Self { path, text, shown: OnceLock::new() }
    }

    /// A failure with file, line and excerpt.
    pub(super) fn failure(&self, span: Span, message: impl fmt::Display) -> Failure {
        self.report(
            Level::ERROR,
            &message.to_string(),
            [AnnotationKind::Primary.span(self.first_line(&span))],
        )
    }

    /// A warning with file, line and excerpt.
    pub(super) fn warning(&self, span: Span, message: impl fmt::Display) -> Failure {
        self.report(
            Level::WARNING,
            &message.to_string(),
            [AnnotationKind::Primary.span(self.first_line(&span))],
        )
    }

    /// A failure at `span` because of what stands at `other`, which `label` says.
    pub(super) fn failure_between(&self, span: &Span, message: &str, other: &Span, label: &str) -> Failure {
        let other = AnnotationKind::Context.span(self.first_line(other)).label(label);
        self.report(Level::ERROR, message, [AnnotationKind::Primary.span(self.first_line(span)), other])
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

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
