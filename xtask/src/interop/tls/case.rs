//! A server before a judge.

use std::path::Path;

use super::certificates::Authority;
use crate::expected::Expected;
use crate::interop::check::Scene;

/// A server before a judge.
pub(super) struct Case<'s> {
    pub(super) scene: &'s Scene<'s>,
    /// A checkout of `tlsfuzzer`, if there is one.
    pub(super) tlsfuzzer: Option<&'s Path>,
    /// The kind of its certificate.
    pub(super) kind: &'static str,
    /// `true` if the server asks clients for certificates.
    pub(super) asks_clients: bool,
    /// The folder of the files of the server and of the judges.
    pub(super) directory: &'s Path,
    pub(super) authority: &'s Authority<'s>,
    pub(super) port: &'s str,
}

impl Case<'_> {
    /// Checks the findings of a judge, each with its id and its text, and returns their number.
    pub(super) fn check_findings(&self, judge: &str, found: &[(String, String)]) -> anyhow::Result<usize> {
        let list = include_str!("expected_findings.toml");
        Expected::read_of(list, judge, self.kind)?.check(found)?;
        Ok(found.len())
    }

    /// Returns a description of a check of this server.
    pub(super) fn what(&self, what: &str) -> String {
        format!("{}: {what}", self.kind)
    }
}
