//! Dependencies between crates, as `dependencies.toml` allows them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::manifest::Manifest;
use super::source;
use super::tree::{Finding, Tree};

/// Returns the table of `dependencies.toml`, by package.
fn table() -> anyhow::Result<BTreeMap<String, Row>> {
    Ok(toml::from_str(include_str!("dependencies.toml"))?)
}

/// The dependencies that a package may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    ours: Vec<String>,
    /// Packages of other authors; any if absent.
    others: Option<Vec<String>>,
    #[serde(default)]
    no_std: bool,
}

/// The packages that any may use for its tests, and none otherwise.
const FOR_TESTS: &[&str] = &["thruway-testkit"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let table = match table() {
        Ok(table) => table,
        Err(error) => return vec![Finding::new("xtask/src/tidy/dependencies.toml", 0, error)],
    };
    let ours = tree.manifests().filter(|(path, _)| !path.starts_with("peers/"));
    ours.flat_map(|(path, manifest)| check_package(&table, tree, path, manifest)).collect()
}

fn check_package(
    table: &BTreeMap<String, Row>,
    tree: &Tree,
    path: &str,
    manifest: &Manifest,
) -> Vec<Finding> {
    let Some(package) = manifest.package.as_ref().map(|package| package.name.as_str()) else {
        return Vec::new();
    };
    let Some(row) = table.get(package) else {
        let message = format!("`{package}` is missing: add it to `xtask/src/tidy/dependencies.toml`");
        return vec![Finding::new(path, 0, message)];
    };
    let is_for_tests = |name: &str| is_ours(name) && !FOR_TESTS.contains(&name);
    let needed = manifest.needs().map(String::as_str);
    let needed_for_tests = manifest.needs_for_tests().map(String::as_str).filter(|name| is_for_tests(name));
    let refused = needed.chain(needed_for_tests).filter(|name| !row.allows(package, name));
    let refuse = |name| Finding::new(path, 0, format!("`{package}` must not depend on `{name}`"));
    let mut findings: Vec<_> = refused.map(refuse).collect();
    if row.no_std {
        findings.extend(check_no_std(tree, path));
    }
    findings
}

impl Row {
    fn allows(&self, package: &str, name: &str) -> bool {
        if !is_ours(name) {
            return self.others.as_ref().is_none_or(|others| others.iter().any(|other| other == name));
        }
        // No product depends on a package for tests.
        let allows_all = self.ours == ["*"] && (package != "thruway" || !FOR_TESTS.contains(&name));
        allows_all || self.ours.iter().any(|own| own == name)
    }
}

fn is_ours(name: &str) -> bool {
    name.starts_with("thruway") || name == "xtask"
}

/// Without `std`, the compiler keeps files, sockets, threads and clocks out of a protocol crate.
fn check_no_std(tree: &Tree, manifest: &str) -> Vec<Finding> {
    let directory = manifest.trim_end_matches("Cargo.toml");
    let root = format!("{directory}src/lib.rs");
    let mut findings = Vec::new();
    let has_no_std = tree.source(&root).is_some_and(|source| {
        (0..source.tokens.len()).any(|at| source.is_at(at, &["#", "!", "[", "no_std", "]"]))
    });
    if !has_no_std {
        findings.push(Finding::new(&root, 0, "a protocol crate has no I/O and no clock: it is `#![no_std]`"));
    }
    let sources = tree.sources().filter(|(path, _)| path.starts_with(&format!("{directory}src/")));
    for (path, source) in sources {
        for at in 0..source.tokens.len() {
            let token = &source.tokens[at];
            if source.is_at(at, &["extern", "crate", "std", source::ANY]) && !token.is_test {
                findings.push(Finding::new(path, token.line, "`std` has no place in a protocol crate"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    fn manifest(package: &str, dependencies: &str) -> String {
        format!("[package]\nname = \"{package}\"\n{dependencies}")
    }

    fn finds(package: &str, dependencies: &str) -> usize {
        let manifest = manifest(package, dependencies);
        found(check, &[("crates/a/Cargo.toml", &manifest), ("crates/a/src/lib.rs", "#![no_std]")]).len()
    }

    #[test]
    fn a_crate_uses_only_what_the_table_says() {
        assert_eq!(finds("thruway-http1", "[dependencies]\nthruway-message = \"1\"\nmemchr = \"1\""), 0);
        assert_eq!(finds("thruway-http1", "[dependencies]\nthruway-net = \"1\""), 1);
        assert_eq!(finds("thruway-message", "[dependencies]\ntokio = \"1\""), 1);
        assert_eq!(finds("thruway-message", "[target.'cfg(unix)'.dependencies]\nlibc = \"1\""), 1);
        assert_eq!(finds("thruway-net", "[build-dependencies]\nthruway-server = \"1\""), 1);
        assert_eq!(finds("thruway-mcp-macros", "[dependencies]\nsyn = \"3\""), 0);
        assert_eq!(finds("thruway-mcp-macros", "[dependencies]\nserde = \"1\""), 1);
        assert_eq!(finds("thruway-new", ""), 1);
    }

    #[test]
    fn tools_for_tests_are_used_by_tests_only() {
        assert_eq!(
            finds("thruway-http1", "[dev-dependencies]\nthruway-testkit = \"1\"\nhttparse = \"1\""),
            0
        );
        assert_eq!(finds("thruway-http1", "[dev-dependencies]\nthruway-net = \"1\""), 1);
        assert_eq!(finds("thruway", "[dependencies]\nthruway-testkit = \"1\""), 1);
    }

    #[test]
    fn a_protocol_crate_is_without_std() {
        let manifest = manifest("thruway-message", "");
        let finds =
            |text| found(check, &[("crates/a/Cargo.toml", &manifest), ("crates/a/src/lib.rs", text)]).len();
        assert_eq!(finds("#![no_std]\n#[cfg(test)]\nextern crate std;\n"), 0);
        assert_eq!(finds("#![cfg_attr(not(test), no_std)]"), 1);
        assert_eq!(finds("#![no_std]\nextern crate std;\n"), 1);
    }
}
