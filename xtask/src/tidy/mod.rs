//! `cargo xtask tidy`: the rules of the house that neither the compiler nor clippy knows.
//!
//! One module is one family of rules. A rule takes the files as a value, so that each has a test that it can
//! fail; a test runs all of them over the repository, so that `cargo test` is enough.

// the input
mod tree;
mod source;
mod modules;

// the rules
mod manifests;
mod structure;
mod limits;
mod names;
mod text;
mod words;

use anyhow::ensure;

use tree::Tree;

/// Checks the repository and prints what breaks a rule.
pub(crate) fn run() -> anyhow::Result<()> {
    let tree = Tree::read()?;
    let findings = check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    ensure!(findings.is_empty(), "{} findings", findings.len());
    println!("{} files are tidy", tree.files().count());
    Ok(())
}

fn check(tree: &Tree) -> Vec<String> {
    let rules = [manifests::check, structure::check, limits::check, names::check, text::check, words::check];
    rules.iter().flat_map(|rule| rule(tree)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let findings = check(&Tree::read().unwrap());
        assert!(findings.is_empty(), "\n{}", findings.join("\n"));
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
}
