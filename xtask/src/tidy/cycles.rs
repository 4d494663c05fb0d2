//! Import cycles between the files of a crate.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::modules::{Dependency, Modules};
use super::tree::{Finding, Tree};

/// Finds each group of files that import each other, and names one cycle in it with its imports.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let roots = tree.sources().map(|(path, _)| path);
    let roots = roots.filter(|path| path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs"));
    roots.flat_map(|root| check_crate(&Modules::read(tree, root).dependencies())).collect()
}

fn check_crate(dependencies: &BTreeSet<Dependency<'_>>) -> Vec<Finding> {
    let mut imports: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for dependency in dependencies {
        imports.entry(dependency.from).or_default().entry(dependency.to).or_default().push(dependency.item);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|file| (*file, reachable(&imports, file))).collect();
    let is_path = |from: &str, to: &str| reached.get(from).is_some_and(|files| files.contains(to));

    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for file in imports.keys().filter(|file| is_path(file, file)) {
        if seen.contains(file) {
            continue;
        }
        let group: BTreeSet<&str> =
            imports.keys().copied().filter(|other| is_path(file, other) && is_path(other, file)).collect();
        let steps = shortest_cycle(&imports, &group);
        let named: Vec<String> = steps
            .iter()
            .map(|(from, to)| format!("\n    {from} uses {} of {to}", imports[from][to].join(", ")))
            .collect();
        let message =
            format!("{} files import each other; the shortest cycle: {}", group.len(), named.concat());
        findings.push(Finding::new(steps.first().map_or(file, |(from, _)| from), 0, message));
        seen.extend(group);
    }
    findings
}

/// Returns the files that `start` imports, directly or through other files.
fn reachable<'a>(
    imports: &BTreeMap<&'a str, BTreeMap<&'a str, Vec<&str>>>,
    start: &str,
) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut next = vec![start];
    while let Some(file) = next.pop() {
        for &to in imports.get(file).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(to) {
                next.push(to);
            }
        }
    }
    found
}

/// Returns the imports of the shortest cycle inside `group`.
fn shortest_cycle<'a>(
    imports: &BTreeMap<&'a str, BTreeMap<&'a str, Vec<&str>>>,
    group: &BTreeSet<&'a str>,
) -> Vec<(&'a str, &'a str)> {
    let cycles = group.iter().filter_map(|&start| {
        let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut next = VecDeque::from([start]);
        while let Some(file) = next.pop_front() {
            for &to in imports.get(file).into_iter().flat_map(BTreeMap::keys) {
                if to == start {
                    let mut steps = vec![(file, start)];
                    while let Some(&from) = came_from.get(steps[steps.len() - 1].0) {
                        steps.push((from, steps[steps.len() - 1].0));
                    }
                    steps.reverse();
                    return Some(steps);
                }
                if group.contains(to) && !came_from.contains_key(to) {
                    came_from.insert(to, file);
                    next.push_back(to);
                }
            }
        }
        None
    });
    cycles.min_by_key(Vec::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    fn cycles(files: &[(&str, &str)]) -> Vec<String> {
        found(check, files)
    }

    #[test]
    fn two_files_that_import_each_other_are_a_cycle() {
        let files = [
            ("a/src/lib.rs", "mod one; mod two;"),
            ("a/src/one.rs", "use crate::two::B; pub struct A;"),
            ("a/src/two.rs", "pub struct B; fn b() { super::one::A; }"),
        ];
        let found = cycles(&files);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("2 files import each other"), "{found:?}");
        assert!(found[0].contains("a/src/one.rs uses B of a/src/two.rs"), "{found:?}");
        assert!(found[0].contains("a/src/two.rs uses A of a/src/one.rs"), "{found:?}");
    }

    #[test]
    fn one_direction_is_no_cycle() {
        let files = [
            ("a/src/lib.rs", "mod one; mod two;"),
            ("a/src/one.rs", "use crate::two::B; pub struct A;"),
            ("a/src/two.rs", "pub struct B;"),
        ];
        assert_eq!(cycles(&files), Vec::<String>::new());
    }

    #[test]
    fn an_import_counts_for_the_file_that_defines_the_item() {
        // `two` imports through the re-export of the root, from `one`, which imports `two`.
        let files = [
            ("a/src/lib.rs", "mod one; mod two; pub use one::{A as C, D}; pub use two::*;"),
            ("a/src/one/mod.rs", "use crate::B; pub struct A; pub struct D;"),
            ("a/src/two.rs", "use crate::C; pub struct B;"),
        ];
        assert_eq!(cycles(&files).len(), 1);
    }

    #[test]
    fn a_folder_and_its_child_are_a_cycle_only_if_both_use_each_other() {
        let root = ("a/src/lib.rs", "mod one;");
        let child = ("a/src/one/two.rs", "use super::A; pub struct B;");
        let contents = ("a/src/one/mod.rs", "mod two; pub use two::B; pub struct A;");
        assert_eq!(cycles(&[root, contents, child]), Vec::<String>::new());
        for user in ["mod two; pub struct A(two::B);", "mod two; use two::B; pub struct A;"] {
            assert_eq!(cycles(&[root, ("a/src/one/mod.rs", user), child]).len(), 1, "{user}");
        }
    }

    #[test]
    fn tests_and_other_crates_make_no_cycle() {
        let files = [
            ("a/src/lib.rs", "mod one; mod two;"),
            ("a/src/one.rs", "use crate::two::B; pub struct A;"),
            ("a/src/two.rs", "use one::A; pub struct B; #[cfg(test)] mod tests { use crate::one::A; }"),
        ];
        assert_eq!(cycles(&files), Vec::<String>::new());
    }
}
