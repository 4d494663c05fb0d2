//! A server before a judge.

use std::path::Path;

use super::certificates::Authority;
use crate::interop::check::{self, Row, Setting};

/// A server before a judge.
pub(super) struct Case<'s> {
    pub(super) setting: &'s Setting<'s>,
    /// A checkout of `tlsfuzzer`, if there is one.
    pub(super) tlsfuzzer: Option<&'s Path>,
    /// What its certificate is.
    pub(super) kind: &'static str,
    /// Where the server's files are; judges leave theirs there.
    pub(super) directory: &'s Path,
    pub(super) authority: &'s Authority<'s>,
    pub(super) port: u16,
}

impl Case<'_> {
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
