//! `cargo xtask tidy`: the rules of the house that neither the compiler nor clippy knows.
//!
//! One module is one family of rules. A rule takes the files as a value, so that each has a test that it can
//! fail; a test runs all of them over the repository, so that `cargo test` is enough.

// the input
mod tree;
mod source;
mod modules;
mod manifest;

// the rules
mod dependencies;
mod manifests;
mod reach;
mod cycles;
mod limits;
mod names;
mod attributes;
mod text;
mod words;

// the text for users
#[cfg(test)]
mod messages;

use anyhow::bail;

use tree::{Finding, Tree};

/// Checks the repository and prints what breaks a rule.
pub(crate) fn run() -> anyhow::Result<()> {
    let tree = Tree::read()?;
    let findings = check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => println!("{} files are tidy", tree.len()),
        n => bail!("{n} findings"),
    }
    Ok(())
}

fn check(tree: &Tree) -> Vec<Finding> {
    let rules: [fn(&Tree) -> Vec<Finding>; 9] = [
        dependencies::check,
        manifests::check,
        reach::check,
        cycles::check,
        limits::check,
        names::check,
        attributes::check,
        text::check,
        words::check,
    ];
    rules.iter().flat_map(|rule| rule(tree)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let findings: Vec<_> =
            check(&Tree::read().unwrap()).iter().map(|finding| format!("\n{finding}")).collect();
        assert!(findings.is_empty(), "{}", findings.concat());
    }

    /// `third_party/h2` must be the release with the patch beside it, and nothing else: the patch is what
    /// upstream gets.
    #[test]
    fn the_patch_of_h2_fits_its_folder() {
        let mut git = std::process::Command::new("git");
        git.current_dir(crate::program::repository());
        git.args(["apply", "--reverse", "--check", "--directory", "third_party/h2", "third_party/h2.patch"]);
        let output = git.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Returns the findings of `rule` in `files`, for the tests of the rules.
    pub(super) fn found(rule: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
        rule(&Tree::of(files)).iter().map(Finding::to_string).collect()
    }
}
