//! A server for the TLS test tools.

use std::path::Path;

use super::certificates::Authority;
use crate::expected::Expected;
use crate::interop::check::Checker;

/// A server under test, with the files that the tools need.
pub(super) struct Case<'s> {
    pub(super) checker: &'s Checker<'s>,
    /// A checkout of `tlsfuzzer`, if any.
    pub(super) tlsfuzzer: Option<&'s Path>,
    /// The kind of certificate of the server.
    pub(super) kind: &'static str,
    /// `true` if the server requests client certificates.
    pub(super) requests_client_certificates: bool,
    /// The folder with the files of the server and of the tools.
    pub(super) directory: &'s Path,
    pub(super) authority: &'s Authority<'s>,
    pub(super) port: &'s str,
}

impl Case<'_> {
    /// Compares the findings of a tool with the expected findings. Each finding has an ID and a text. Returns
    /// the number of findings.
    pub(super) fn check_findings(&self, tool: &str, found: &[(String, String)]) -> anyhow::Result<usize> {
        let list = include_str!("expected_findings.toml");
        Expected::read_of(list, tool, self.kind)?.check(found)?;
        Ok(found.len())
    }

    /// Returns a description of a check of this server.
    pub(super) fn what(&self, what: &str) -> String {
        format!("{}: {what}", self.kind)
    }
}
