//! Checks the files of a crate: each file belongs to a build, imports have no cycles, and each type has
//! `impl` blocks in few files.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::LazyLock;

use regex::Regex;

use super::modules::{Crate, Uses};
use super::tree::{Tree, finding, regex};

/// Maximum number of files with inherent `impl` blocks of one type.
const IMPL_FILES_MAX: usize = 3;

/// Finds files that no `mod` declares, the shortest import cycle of each crate, and types with `impl` blocks
/// in too many files.
pub(super) fn check(tree: &Tree) -> Vec<String> {
    let roots = tree.sources().map(|(path, _)| path).filter(|path| is_root(tree, path));
    let crates: Vec<_> = roots.map(|root| (root, Crate::read(tree, root))).collect();
    let is_reached = |path: &str| crates.iter().any(|(_, read)| read.files.contains(path));
    let dead = tree.sources().map(|(path, _)| path).filter(|path| !is_reached(path));
    let mut findings: Vec<_> = dead.map(|path| finding(path, 0, "no `mod` declares this file")).collect();
    let is_package = |root: &str| root.ends_with("/src/lib.rs") || root.ends_with("/src/main.rs");
    for (root, read) in crates.iter().filter(|(root, _)| is_package(root)) {
        findings.extend(cycle(&read.uses()));
        if root.starts_with("crates/") {
            findings.extend(spread_impls(read));
        }
    }
    findings
}

/// Paths at which cargo finds the targets of a package.
static TARGETS: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"^(build\.rs|src/(lib|main)\.rs|(src/bin|tests|examples|benches)/[^/]+(\.rs|/main\.rs))$")
});

/// Returns `true` if a file is the root of a target. Several crates use the files in `examples/` of the repository.
fn is_root(tree: &Tree, path: &str) -> bool {
    path.starts_with("examples/")
        || tree.files().filter(|(own, _)| own.ends_with("Cargo.toml")).any(|(own, manifest)| {
            let Some(inside) = path.strip_prefix(own.trim_end_matches("Cargo.toml")) else { return false };
            let is_target =
                TARGETS.is_match(inside) || manifest.text.contains(&format!("path = \"{inside}\""));
            is_target && manifest.text.contains("[package]")
        })
}

/// Returns a finding for the shortest import cycle of a crate, with its imports.
fn cycle(uses: &Uses<'_>) -> Option<String> {
    let files = uses.keys().filter_map(|start| shortest_cycle(uses, start)).min_by_key(Vec::len)?;
    let steps = files.iter().zip(files.iter().cycle().skip(1));
    let steps = steps.map(|(from, to)| {
        let items: Vec<_> = uses[from][to].iter().copied().collect();
        format!("\n    {from} uses {} of {to}", items.join(", "))
    });
    let message = format!("{} files import each other:{}", files.len(), steps.collect::<String>());
    Some(finding(files[0], 0, message))
}

/// Returns the files of the shortest cycle through `start`, if there is one.
fn shortest_cycle<'a>(uses: &Uses<'a>, start: &'a str) -> Option<Vec<&'a str>> {
    let mut seen = BTreeSet::new();
    let mut next = VecDeque::from([vec![start]]);
    while let Some(files) = next.pop_front() {
        for &to in uses.get(files.last()?).into_iter().flat_map(BTreeMap::keys) {
            if to == start {
                return Some(files);
            }
            if seen.insert(to) {
                next.push_back([&files[..], &[to]].concat());
            }
        }
    }
    None
}

fn spread_impls(read: &Crate<'_>) -> Vec<String> {
    let mut found = read.impl_files();
    found.retain(|_, files| files.len() > IMPL_FILES_MAX);
    let message = |name: &str, files: &[&str]| {
        let count = files.len();
        format!("`impl {name}` is in {count} files (at most {IMPL_FILES_MAX}): {}", files.join(", "))
    };
    let found = found.into_iter().map(|((_, name), files)| (name, Vec::from_iter(files)));
    found.map(|(name, files)| finding(files[0], 0, message(name, &files))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(files: &[(&str, &str)]) -> Vec<String> {
        let manifest = "[package]\nname = \"a\"\n[[bin]]\nname = \"b\"\npath = \"targets/b.rs\"";
        check(&Tree::of(&[files, &[("crates/a/Cargo.toml", manifest)]].concat()))
    }

    #[test]
    fn file_without_mod_declaration_is_found() {
        let own = ("crates/a/src/b.rs", "");
        let found = finds(&[("crates/a/src/lib.rs", "mod b;"), own, ("crates/a/src/c.rs", "")]);
        assert_eq!(found, ["crates/a/src/c.rs: no `mod` declares this file"]);
        for root in ["// mod b;", "mod b {}"] {
            assert_eq!(finds(&[("crates/a/src/lib.rs", root), own]).len(), 1);
        }
        assert_eq!(finds(&[("crates/a/src/lib.rs", ""), ("crates/a/tests/it/more.rs", "")]).len(), 1);
    }

    #[test]
    fn every_kind_of_module_declaration_is_followed() {
        let files = [
            ("crates/a/src/main.rs", "mod one; mod two { mod three; } #[cfg(test)] mod tests;"),
            ("crates/a/src/one/mod.rs", "pub(crate) mod four; #[path = \"odd.rs\"] mod even;"),
            ("crates/a/src/one/odd.rs", ""),
            ("crates/a/src/one/four.rs", "mod five;"),
            ("crates/a/src/one/four/five.rs", ""),
            ("crates/a/src/two/three.rs", ""),
            ("crates/a/src/tests.rs", ""),
            ("crates/a/build.rs", ""),
            ("crates/a/targets/b.rs", "mod c;"),
            ("crates/a/targets/c.rs", ""),
            ("crates/a/examples/d.rs", ""),
            ("crates/a/tests/it/main.rs", "mod e;"),
            ("crates/a/tests/it/e.rs", ""),
        ];
        assert_eq!(finds(&files), [""; 0]);
    }

    /// Returns the findings in a crate with the files `one.rs` and `two.rs`.
    fn cycles(root: &str, one: &str, two: &str) -> Vec<String> {
        finds(&[("crates/a/src/lib.rs", root), ("crates/a/src/one.rs", one), ("crates/a/src/two.rs", two)])
    }

    #[test]
    fn mutual_imports_are_a_cycle() {
        let (root, one) = ("mod one; mod two;", "use crate::two::B; pub struct A;");
        let found = cycles(root, one, "pub struct B; fn b() { super::one::A; }");
        assert_eq!(
            found,
            ["crates/a/src/one.rs: 2 files import each other:\
             \n    crates/a/src/one.rs uses B of crates/a/src/two.rs\
             \n    crates/a/src/two.rs uses A of crates/a/src/one.rs"]
        );
        // A re-export counts as an import of the file that defines the item: `C` is `A` of the first file.
        let root = "mod one; mod two; pub use one::{A as C, D}; pub use two::*;";
        assert_eq!(cycles(root, "use crate::B; pub struct A;", "use crate::C; pub struct B;").len(), 1);
    }

    #[test]
    fn one_way_imports_tests_and_other_crates_are_no_cycle() {
        let (root, one) = ("mod one; mod two;", "use crate::two::B; pub struct A;");
        let two = "use one::A; pub struct B; #[cfg(test)] mod tests { use crate::one::A; }";
        assert_eq!(cycles(root, one, two), [""; 0]);
    }

    #[test]
    fn module_and_child_are_a_cycle_only_if_both_use_each_other() {
        let finds = |contents| {
            let child = ("crates/a/src/one/two.rs", "use super::A; pub struct B;");
            finds(&[("crates/a/src/lib.rs", "mod one;"), ("crates/a/src/one/mod.rs", contents), child]).len()
        };
        assert_eq!(finds("mod two; pub use two::B; pub struct A;"), 0);
        assert_eq!(finds("mod two; pub struct A(two::B);"), 1);
        assert_eq!(finds("mod two; use two::B; pub struct A;"), 1);
    }

    #[test]
    fn type_with_impls_in_four_files_is_found() {
        let own = "pub struct A<T>(T); impl<T: Into<u8>> A<T> where T: Copy { }";
        let other = "use crate::a::A; impl A<u8> { fn a() -> impl Fn() { } }";
        let finds = |last| {
            let files = [("lib", "mod a; mod b; mod c; mod d;"), ("a", own), ("b", other), ("c", other)];
            let files = files.map(|(name, text)| (format!("crates/a/src/{name}.rs"), text));
            let files = files.each_ref().map(|(path, text)| (path.as_str(), *text));
            finds(&[&files[..], &[("crates/a/src/d.rs", last)]].concat())
        };
        assert_eq!(finds("use crate::a::A; impl Clone for A<u8> { }"), [""; 0]);
        assert_eq!(finds("struct Another; impl Another { } mod b { struct A; impl A { } }"), [""; 0]);
        assert!(finds(other).concat().contains("`impl A` is in 4 files"));
    }
}
