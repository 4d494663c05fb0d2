//! Checks the manifests of packages: description, lints, and dependencies (`dependencies.toml`).

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Deserialize;
use toml::{Table, Value};

use super::tree::{Tree, finding};

/// The dependencies that a package may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AllowedDependencies {
    ours: Vec<String>,
    /// Allowed third-party packages; all if absent.
    others: Option<Vec<String>>,
    #[serde(default)]
    no_std: bool,
}

/// A package that other packages may use, but only in their tests.
const FOR_TESTS: &str = "thruway-testkit";

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    // Clippy uses the config file nearest to a package and silently ignores the others.
    let configs = tree.files().map(|(path, _)| path).filter(|path| path.ends_with("clippy.toml"));
    if !configs.eq(["clippy.toml"]) {
        findings.push(finding(
            "clippy.toml",
            0,
            "the repository must have exactly one `clippy.toml`, in the root",
        ));
    }
    for (path, file) in tree.files().filter(|(path, _)| path.ends_with("Cargo.toml")) {
        match violations(tree, path, &file.text) {
            Ok(messages) => findings.extend(messages.iter().map(|message| finding(path, 0, message))),
            Err(error) => findings.push(finding(path, 0, format!("{error:#}"))),
        }
    }
    findings
}

fn violations(tree: &Tree, path: &str, manifest: &str) -> anyhow::Result<Vec<String>> {
    let manifest: Table = toml::from_str(manifest)?;
    let Some(package) = manifest.get("package") else { return Ok(Vec::new()) };
    let name = package.get("name").and_then(Value::as_str).context("the package has no name")?;
    let mut messages = Vec::new();
    if package.get("description").and_then(Value::as_str).is_none_or(|text| text.trim().is_empty()) {
        messages.push("the package has no `description`".to_owned());
    }
    // A workspace root cannot inherit lints.
    let inherited = Value::Table(Table::from_iter([("workspace".to_owned(), true.into())]));
    if !manifest.contains_key("workspace") && manifest.get("lints") != Some(&inherited) {
        messages.push("the package must have `[lints] workspace = true` and no other lints".to_owned());
    }
    if !path.starts_with("peers/") {
        let table: BTreeMap<String, AllowedDependencies> = toml::from_str(include_str!("dependencies.toml"))?;
        let row = table.get(name);
        let row = row.with_context(|| format!("add `{name}` to `xtask/src/tidy/dependencies.toml`"))?;
        let forbidden = dependencies(&manifest).filter(|(kind, needed)| !row.allows(name, kind, needed));
        messages.extend(forbidden.map(|(_, needed)| format!("`{name}` must not depend on `{needed}`")));
        if row.no_std && !is_no_std(tree, path.trim_end_matches("Cargo.toml")) {
            messages.push("a protocol crate must be `#![no_std]`: it has no I/O and no clock".to_owned());
        }
    }
    Ok(messages)
}

/// Returns the dependencies for all platforms, each with the name of the table that contains it.
fn dependencies(manifest: &Table) -> impl Iterator<Item = (&'static str, &String)> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let tables = targets.filter_map(Value::as_table).chain([manifest]);
    tables.flat_map(|tables| {
        ["dependencies", "build-dependencies", "dev-dependencies"].into_iter().flat_map(|kind| {
            let table = tables.get(kind).and_then(Value::as_table);
            table.into_iter().flat_map(Table::keys).map(move |name| (kind, name))
        })
    })
}

impl AllowedDependencies {
    /// Returns `true` if `package` may have the dependency `name` in the table `kind`.
    fn allows(&self, package: &str, kind: &str, name: &String) -> bool {
        let is_for_tests = kind == "dev-dependencies";
        if !name.starts_with("thruway") && name != "xtask" {
            return is_for_tests || self.others.as_ref().is_none_or(|others| others.contains(name));
        }
        // The product must not depend on the package for tests.
        let allows_all = self.ours == ["*"] && (package != "thruway" || name != FOR_TESTS);
        allows_all || is_for_tests && name == FOR_TESTS || self.ours.contains(name)
    }
}

/// Returns `true` if the crate is `#![no_std]`, so that it cannot use files, sockets, threads or clocks.
fn is_no_std(tree: &Tree, folder: &str) -> bool {
    let has_attribute = tree.source(&format!("{folder}src/lib.rs")).is_some_and(|(_, root)| {
        (0..root.tokens.len()).any(|at| root.is_at(at, &["#", "!", "[", "no_std", "]"]))
    });
    let mut sources = tree.sources().filter(|(path, _)| path.starts_with(&format!("{folder}src/")));
    has_attribute
        && sources.all(|(_, source)| {
            let mut product = (0..source.tokens.len()).filter(|at| !source.tokens[*at].is_test);
            !product.any(|at| source.is_at(at, &["extern", "crate", "std"]))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(manifest: &str, root: &str) -> usize {
        let files = [("clippy.toml", ""), ("crates/a/Cargo.toml", manifest), ("crates/a/src/lib.rs", root)];
        check(&Tree::of(&files)).len()
    }

    fn package(name: &str, rest: &str) -> String {
        format!("package = {{ name = '{name}', description = 'A' }}\nlints.workspace = true\n{rest}")
    }

    #[test]
    fn package_needs_a_description_and_the_workspace_lints() {
        for (manifest, count) in [
            (&*package("xtask", ""), 0),
            ("[workspace]\nmembers = []", 0),
            ("package = { name = 'xtask' }\nlints.workspace = true", 1),
            ("package = { name = 'xtask', description = ' ' }\nlints.workspace = true", 1),
            ("package = { name = 'xtask', description = 'A' }", 1),
            (&package("xtask", "lints.rust.unsafe_code = 'warn'"), 1),
        ] {
            assert_eq!(finds(manifest, ""), count, "{manifest}");
        }
    }

    #[test]
    fn repository_needs_exactly_one_clippy_config() {
        assert_eq!(check(&Tree::of(&[])).len(), 1);
        assert_eq!(check(&Tree::of(&[("clippy.toml", ""), ("a/.clippy.toml", "")])).len(), 1);
    }

    #[test]
    fn package_uses_only_allowed_dependencies() {
        for (name, dependency, count) in [
            ("thruway-http1", "dependencies.memchr = '1'", 0),
            ("thruway-http1", "dependencies.thruway-message = '1'", 0),
            ("thruway-http1", "dependencies.thruway-net = '1'", 1),
            ("thruway-message", "dependencies.tokio = '1'", 1),
            ("thruway-message", "target.'cfg(unix)'.dependencies.libc = '1'", 1),
            ("thruway-net", "build-dependencies.thruway-server = '1'", 1),
            ("thruway-http1", "dev-dependencies = { thruway-testkit = '1', httparse = '1' }", 0),
            ("thruway-http1", "dev-dependencies.thruway-net = '1'", 1),
            ("thruway", "dependencies.thruway-testkit = '1'", 1),
            ("thruway-new", "dependencies.thruway-net = '1'", 1),
        ] {
            assert_eq!(finds(&package(name, dependency), "#![no_std]"), count, "{name} {dependency}");
        }
    }

    #[test]
    fn protocol_crate_must_be_no_std() {
        let finds = |root| finds(&package("thruway-message", ""), root);
        assert_eq!(finds("#![no_std]\n#[cfg(test)]\nextern crate std;\n"), 0);
        assert_eq!(finds("#![cfg_attr(not(test), no_std)]"), 1);
        assert_eq!(finds("#![no_std]\nextern crate std;\n"), 1);
    }
}
