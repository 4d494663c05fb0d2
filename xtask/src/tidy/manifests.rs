//! The description and the lints of each package.

use super::manifest::Manifest;
use super::tree::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = clippy_configs(tree);
    for (path, manifest) in tree.manifests() {
        findings.extend(complaints(manifest).map(|message| Finding::new(path, 0, message)));
    }
    findings
}

fn complaints(manifest: &Manifest) -> impl Iterator<Item = &'static str> {
    let package = manifest.package.as_ref();
    let is_described =
        |description: &Option<String>| description.as_ref().is_some_and(|text| !text.trim().is_empty());
    let no_description = package.is_some_and(|package| !is_described(&package.description));
    let has_lints = manifest.lints.as_ref().is_some_and(|lints| {
        lints.get("workspace").and_then(toml::Value::as_bool).unwrap_or_default() && lints.len() == 1
    });
    // A workspace root cannot inherit lints.
    let no_lints = package.is_some() && manifest.workspace.is_none() && !has_lints;
    [
        no_description.then_some("a package says in its `description` what it is for"),
        no_lints.then_some("a package has `[lints] workspace = true` and no lints of its own"),
    ]
    .into_iter()
    .flatten()
}

/// Clippy takes the config nearest to a package and silently ignores the others.
fn clippy_configs(tree: &Tree) -> Vec<Finding> {
    let is_config = |path: &str| matches!(path.rsplit('/').next(), Some("clippy.toml" | ".clippy.toml"));
    let mut findings: Vec<_> = tree
        .files()
        .filter(|(path, _)| is_config(path) && *path != "clippy.toml")
        .map(|(path, _)| Finding::new(path, 0, "there is exactly one `clippy.toml`, in the root"))
        .collect();
    if !tree.has("clippy.toml") {
        findings.push(Finding::new("clippy.toml", 0, "is missing"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    const GOOD: &str = "[package]\nname = \"a\"\ndescription = \"A\"\n[lints]\nworkspace = true";

    fn finds(files: &[(&str, &str)]) -> usize {
        found(check, files).len()
    }

    #[test]
    fn a_package_has_a_description_and_the_lints_of_the_workspace() {
        let finds = |manifest| finds(&[("clippy.toml", ""), ("a/Cargo.toml", manifest)]);
        assert_eq!(finds(GOOD), 0);
        assert_eq!(finds("[workspace]\nmembers = []"), 0);
        assert_eq!(finds("[package]\nname = \"a\"\n[lints]\nworkspace = true"), 1);
        assert_eq!(finds("[package]\nname = \"a\"\ndescription = \" \"\n[lints]\nworkspace = true"), 1);
        assert_eq!(finds("[package]\nname = \"a\"\ndescription = \"A\""), 1);
        assert_eq!(
            finds("[package]\nname = \"a\"\ndescription = \"A\"\n[lints.rust]\nunsafe_code = \"warn\""),
            1
        );
    }

    #[test]
    fn there_is_one_config_of_clippy() {
        assert_eq!(finds(&[]), 1);
        assert_eq!(finds(&[("clippy.toml", ""), ("a/clippy.toml", "")]), 1);
        assert_eq!(finds(&[("clippy.toml", ""), ("a/.clippy.toml", "")]), 1);
    }
}
