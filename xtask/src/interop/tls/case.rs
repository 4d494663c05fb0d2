//! A server before a judge.

use std::path::Path;

use super::certificates::Authority;
use crate::expected::Expected;
use crate::interop::check::{self, Row, Setting};

/// A server before a judge.
pub(super) struct Case<'s> {
    pub(super) setting: &'s Setting<'s>,
    /// A checkout of `tlsfuzzer`, if there is one.
    pub(super) tlsfuzzer: Option<&'s Path>,
    /// The kind of its certificate.
    pub(super) kind: &'static str,
    /// The folder of the files of the server and of the judges.
    pub(super) directory: &'s Path,
    pub(super) authority: &'s Authority<'s>,
    pub(super) port: u16,
}

impl Case<'_> {
    /// Returns the findings of a judge that are expected.
    pub(super) fn expected(&self, judge: &str) -> anyhow::Result<Expected> {
        Expected::read_of(LIST, judge, self.kind)
    }

    /// The row of a judge that is `program`, if that is there.
    pub(super) fn row(
        &self,
        program: &'static str,
        what: &str,
        run: impl FnOnce() -> anyhow::Result<String>,
    ) -> Row {
        let what = format!("{}: {what}", self.kind);
        eprintln!("{program}: {what}");
        check::row(program, &what, run)
    }
}

const LIST: &str = include_str!("expected_findings.toml");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_of_judges_can_be_read() {
        for judge in ["testssl", "sslyze"] {
            assert!(Expected::read_of(LIST, judge, "RSA").is_ok(), "{judge}");
        }
    }
}
