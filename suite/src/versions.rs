//! Versions of programs and packages, for the report.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::packages::{NPM_LOCK, REQUIREMENTS};
use crate::peers::{Peer, Version};
use crate::process::first_line;

/// Returns the version of a peer; `unknown` rather than an error.
pub(crate) fn of_peer(peer: &Peer, program: &Path, peers_from: Option<&Path>) -> String {
    let read = |name: String| fs::read_to_string(peers_from?.join(name)).ok();
    let version = match &peer.version {
        Version::Printed(argument) => first_line(Command::new(program).arg(argument)),
        Version::Locked(package) => read("Cargo.lock".to_owned()).and_then(|lock| locked(&lock, package)),
        Version::GoModule(module) => read("go/go.mod".to_owned()).and_then(|file| required(&file, module)),
        Version::NpmLock(folder, package) => {
            read(format!("{folder}/{NPM_LOCK}")).and_then(|lock| npm_locked(&lock, package))
        }
        Version::Requirement(folder, package) => {
            read(format!("{folder}/{REQUIREMENTS}")).and_then(|file| pinned(&file, package))
        }
        Version::Go => first_line(Command::new("go").arg("version").arg(program))
            .and_then(|line| line.rsplit_once(": ").map(|(_, version)| version.to_owned())),
    };
    version.unwrap_or_else(|| "unknown".to_owned())
}

/// The version that stands after the name of a package in a `Cargo.lock`.
fn locked(lock: &str, package: &str) -> Option<String> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    Some(lines.nth(1)?.strip_prefix("version = \"")?.trim_end_matches('"').to_owned())
}

/// The version that a `go.mod` requires of a module.
fn required(file: &str, module: &str) -> Option<String> {
    let line = file.lines().find(|line| line.split_whitespace().any(|word| word == module))?;
    line.split_whitespace().skip_while(|word| *word != module).nth(1).map(str::to_owned)
}

/// The version of a package in a `package-lock.json`.
fn npm_locked(lock: &str, package: &str) -> Option<String> {
    let lock: Value = serde_json::from_str(lock).ok()?;
    let version = &lock["packages"][format!("node_modules/{package}")]["version"];
    version.as_str().map(str::to_owned)
}

/// The version that a `requirements.txt` pins a package to.
fn pinned(file: &str, package: &str) -> Option<String> {
    let mut lines = file.lines().filter_map(|line| line.split_once("=="));
    lines.find(|(name, _)| *name == package).map(|(_, version)| version.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{locked, npm_locked, pinned, required};

    #[test]
    fn a_locked_version_is_that_of_the_package_with_exactly_this_name() {
        let lock = "[[package]]\nname = \"axum-core\"\nversion = \"0.5.6\"\n\n[[package]]\nname = \"axum\"\nversion = \"0.8.9\"\n";
        assert_eq!(locked(lock, "axum").as_deref(), Some("0.8.9"));
        assert_eq!(locked(lock, "hyper"), None);
    }

    #[test]
    fn a_required_version_is_found_on_a_line_of_its_own_or_in_a_block() {
        assert_eq!(required("require example.org/a v1.2.3\n", "example.org/a").as_deref(), Some("v1.2.3"));
        assert_eq!(
            required("require (\n\texample.org/b v2.0.0\n)\n", "example.org/b").as_deref(),
            Some("v2.0.0")
        );
        assert_eq!(required("require example.org/a v1.2.3\n", "example.org/b"), None);
    }

    #[test]
    fn a_version_from_npm_is_that_of_the_package_at_the_top() {
        let lock = r#"{"packages": {"": {}, "node_modules/@a/b": {"version": "2.4.0"}, "node_modules/c/node_modules/d": {"version": "1.0.0"}}}"#;
        assert_eq!(npm_locked(lock, "@a/b").as_deref(), Some("2.4.0"));
        assert_eq!(npm_locked(lock, "d"), None);
    }

    #[test]
    fn a_pinned_version_is_that_of_the_package_with_exactly_this_name() {
        let file = "# why\nmcp-types==2.3.1\nmcp==2.3.0\n";
        assert_eq!(pinned(file, "mcp").as_deref(), Some("2.3.0"));
        assert_eq!(pinned(file, "types"), None);
    }
}
