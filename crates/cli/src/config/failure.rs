//! Messages for people about what cannot be used.

use std::fmt;
use std::path::PathBuf;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::Span;

/// What is wrong, where, and what to do about it; one thing or several.
#[derive(Debug)]
pub(crate) struct Failure(String);

/// The text of a config.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl Failure {
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self(format!("error: {message}\n"))
    }

    /// Several failures as one; `None` if there is none.
    pub(crate) fn all(failures: Vec<Self>) -> Option<Self> {
        let texts: Vec<String> = failures.into_iter().map(|failure| failure.0).collect();
        (!texts.is_empty()).then(|| Self(texts.join("\n")))
    }

    pub(crate) fn with_hint(self, hint: impl fmt::Display) -> Self {
        Self(format!("{}\nhint: {hint}\n", self.0))
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
        Failure(format!("{}\n", Renderer::plain().render(&report)))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
