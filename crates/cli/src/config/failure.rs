//! Messages for people about what cannot be used.

use std::fmt;
use std::path::PathBuf;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::Span;

/// What is wrong, where, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    text: String,
    hint: Option<String>,
}

/// The text of a config.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl Failure {
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self { text: format!("error: {message}"), hint: None }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl Source {
    /// A failure with file, line and excerpt.
    pub(super) fn failure(&self, span: Span, message: impl fmt::Display) -> Failure {
        let message = message.to_string();
        let path = self.path.to_string_lossy();
        // A span over several lines shows the first of them.
        let first_line =
            self.text.get(span.clone()).map_or(0, |text| text.lines().next().unwrap_or("").len());
        let span = span.start..span.start + first_line;
        let snippet = Snippet::source(&self.text).path(&*path).annotation(AnnotationKind::Primary.span(span));
        let report = [Level::ERROR.primary_title(&message).element(snippet)];
        Failure { text: Renderer::plain().render(&report).to_string(), hint: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        match &self.hint {
            Some(hint) => writeln!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}
