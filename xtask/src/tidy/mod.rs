//! `cargo xtask tidy`: checks the repository rules that the compiler and clippy do not check.
//!
//! Each module contains related rules. Each rule gets the files as an argument, so its test can pass faulty
//! files. A test also checks the repository with all rules, so `cargo test` finds violations.

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

/// Checks the repository and prints all violations.
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
    fn repository_has_no_findings() {
        let findings = check(&Tree::read().unwrap());
        assert!(findings.is_empty(), "\n{}", findings.join("\n"));
    }

    /// `third_party/h2` must equal the release with `h2.patch` applied, because we send this patch to the
    /// authors of h2.
    #[test]
    fn h2_patch_matches_its_folder() {
        let mut git = std::process::Command::new("git");
        git.current_dir(crate::program::repository());
        git.args(["apply", "--reverse", "--check", "--directory", "third_party/h2", "third_party/h2.patch"]);
        let output = git.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
