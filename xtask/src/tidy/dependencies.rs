//! Which crate may use which: the table of `docs/architecture.md`, to be changed in both places.

use super::manifest::Manifest;
use super::tree::Tree;
use super::{Finding, source};

/// What a package may use.
struct Row {
    package: &'static str,
    /// Packages of this workspace; [`ALL`] for those who only drive and test the others.
    ours: &'static [&'static str],
    /// Packages of others.
    others: Others,
}

enum Others {
    Any,
    Only(&'static [&'static str]),
    /// The same, and `std` neither: protocol crates have no sockets and no clocks.
    OnlyWithoutStd(&'static [&'static str]),
}

const fn row(package: &'static str, ours: &'static [&'static str], others: Others) -> Row {
    Row { package, ours, others }
}

const ALL: &[&str] = &["*"];

const TABLE: &[Row] = &[
    // protocol
    row("thruway-message", &[], Others::OnlyWithoutStd(&["memchr"])),
    row("thruway-http1", &["thruway-message"], Others::OnlyWithoutStd(&["itoa", "memchr"])),
    row("thruway-jwt", &[], Others::OnlyWithoutStd(&["base64", "jsonwebtoken", "serde_json"])),
    row(
        "thruway-mcp",
        &["thruway-message"],
        Others::OnlyWithoutStd(&["base64", "jsonschema", "memchr", "serde", "serde_json"]),
    ),
    // engine
    row("thruway-net", &[], Others::Any),
    row(
        "thruway-server",
        // JSON Web Tokens are for an example.
        &["thruway-message", "thruway-http1", "thruway-jwt", "thruway-net"],
        Others::Any,
    ),
    row("thruway-client", &["thruway-message", "thruway-http1", "thruway-net"], Others::Any),
    // products
    row("thruway-mcp-macros", &[], Others::Only(&["proc-macro2", "quote", "syn"])),
    row(
        "thruway-mcp-server",
        &[
            "thruway-message",
            "thruway-jwt",
            "thruway-mcp",
            "thruway-mcp-macros",
            "thruway-server",
            "thruway-net",
        ],
        Others::Any,
    ),
    row(
        "thruway-mcp-client",
        // The server is for its tests.
        &["thruway-message", "thruway-mcp", "thruway-client", "thruway-net", "thruway-mcp-server"],
        Others::Any,
    ),
    row(
        "thruway-mcp-gateway",
        &[
            "thruway-message",
            "thruway-jwt",
            "thruway-mcp",
            "thruway-mcp-server",
            "thruway-mcp-client",
            "thruway-client",
            "thruway-net",
            // For its tests.
            "thruway-server",
        ],
        Others::Any,
    ),
    row(
        "thruway-mcp-sdk",
        &[
            "thruway-mcp",
            "thruway-mcp-macros",
            "thruway-mcp-server",
            "thruway-mcp-client",
            "thruway-mcp-gateway",
            "thruway-net",
            // For its tests.
            "thruway-message",
            "thruway-server",
            "thruway-client",
        ],
        Others::Any,
    ),
    row(
        "thruway-gateway",
        &[
            "thruway-message",
            "thruway-http1",
            "thruway-jwt",
            "thruway-mcp",
            "thruway-server",
            "thruway-client",
            "thruway-net",
        ],
        Others::Any,
    ),
    row("thruway-demo", &["thruway-mcp-sdk", "thruway-server"], Others::Any),
    row(
        "thruway-daemon",
        &[
            "thruway-message",
            "thruway-http1",
            "thruway-mcp-sdk",
            "thruway-server",
            "thruway-client",
            "thruway-net",
            "thruway-gateway",
            "thruway-certificates",
            "thruway-demo",
        ],
        Others::Any,
    ),
    row(
        "thruway-certificates",
        &["thruway-message", "thruway-server", "thruway-client", "thruway-net"],
        Others::Any,
    ),
    row(
        "thruway-bench",
        // Servers are for its tests.
        &[
            "thruway-message",
            "thruway-http1",
            "thruway-mcp",
            "thruway-mcp-sdk",
            "thruway-server",
            "thruway-client",
            "thruway-net",
        ],
        Others::Any,
    ),
    row("thruway", ALL, Others::Any),
    // for development only
    row("thruway-testkit", ALL, Others::Any),
    row("thruway-conformance", ALL, Others::Any),
    row("thruway-fuzz", ALL, Others::Any),
    row("thruway-suite", ALL, Others::Any),
    row("xtask", ALL, Others::Any),
];

/// The packages that any may use for its tests, and none otherwise.
const FOR_TESTS: &[&str] = &["thruway-testkit"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let ours = tree.manifests().filter(|(path, _)| !path.starts_with("peers/"));
    ours.flat_map(|(path, manifest)| check_package(tree, path, manifest)).collect()
}

fn check_package(tree: &Tree, path: &str, manifest: &Manifest) -> Vec<Finding> {
    let Some(package) = &manifest.package else { return Vec::new() };
    let Some(row) = TABLE.iter().find(|row| row.package == package.name) else {
        let message = format!(
            "`{}` is not in the table of dependencies: add it to `xtask/src/tidy/dependencies.rs`",
            package.name
        );
        return vec![Finding::new(path, 0, message)];
    };
    let mut findings = Vec::new();
    let mut refuse = |name: &str| {
        findings.push(Finding::new(path, 0, format!("`{}` must not depend on `{name}`", row.package)));
    };
    for name in manifest.needs().filter(|name| !row.allows(name)) {
        refuse(name);
    }
    for name in manifest.needs_for_tests() {
        if is_ours(name) && !row.allows(name) && !FOR_TESTS.contains(&name.as_str()) {
            refuse(name);
        }
    }
    if matches!(row.others, Others::OnlyWithoutStd(_)) {
        findings.extend(check_no_std(tree, path));
    }
    findings
}

impl Row {
    fn allows(&self, name: &str) -> bool {
        if is_ours(name) {
            // No product is built from what is for development only.
            return self.ours == ALL && (self.package != "thruway" || !FOR_TESTS.contains(&name))
                || self.ours.contains(&name);
        }
        match self.others {
            Others::Any => true,
            Others::Only(names) | Others::OnlyWithoutStd(names) => names.contains(&name),
        }
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
