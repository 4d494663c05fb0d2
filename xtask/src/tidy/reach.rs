//! Files that no build sees: a `.rs` that no `mod` leads to.

use std::collections::BTreeSet;

use super::source::Source;
use super::tree::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<String> = roots(tree);
    while let Some(path) = next.pop() {
        let Some(source) = tree.source(&path).filter(|_| reached.insert(path.clone())) else { continue };
        next.extend(modules(&path, source, is_root(tree, &path)));
    }
    let dead = tree.sources().filter(|(path, _)| !reached.contains(*path));
    dead.map(|(path, _)| Finding::new(path, 0, "no `mod` leads to this file")).collect()
}

/// The files at which builds begin.
fn roots(tree: &Tree) -> Vec<String> {
    tree.sources().map(|(path, _)| path.to_owned()).filter(|path| is_root(tree, path)).collect()
}

fn is_root(tree: &Tree, path: &str) -> bool {
    tree.manifests().filter(|(_, manifest)| manifest.package.is_some()).any(|(own, manifest)| {
        let Some(inside) = path.strip_prefix(own.trim_end_matches("Cargo.toml")) else { return false };
        matches!(inside, "build.rs" | "src/lib.rs" | "src/main.rs")
            || FOLDERS.iter().any(|folder| inside.strip_prefix(folder).is_some_and(is_found))
            || manifest.bin.iter().any(|binary| binary.path.as_deref() == Some(inside))
    })
}

/// Folders in which cargo finds targets.
const FOLDERS: [&str; 4] = ["src/bin/", "tests/", "examples/", "benches/"];

/// `name.rs` or `name/main.rs`.
fn is_found(inside: &str) -> bool {
    matches!(inside.split('/').collect::<Vec<_>>()[..], [_] | [_, "main.rs"])
}

/// Returns the possible files of the modules that a file declares.
fn modules(path: &str, source: &Source, is_root: bool) -> Vec<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.trim_end_matches(".rs");
    let own_folder = if is_root || stem == "mod" { folder.to_owned() } else { format!("{folder}/{stem}") };
    let mut found = Vec::new();
    // The modules around a declaration, each with the depth of its brace.
    let mut inside: Vec<(usize, &str)> = Vec::new();
    let mut depth = 0;
    for (at, token) in source.tokens.iter().enumerate() {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                inside.pop_if(|(around, _)| *around == depth);
            }
            "mod" if source.is_at(at + 2, &["{"]) => inside.push((depth, &source.tokens[at + 1].text)),
            "mod" if source.is_at(at + 2, &[";"]) => {
                let around = inside.iter().map(|(_, name)| *name);
                let names = [own_folder.as_str()]
                    .into_iter()
                    .chain(around)
                    .chain([source.tokens[at + 1].text.as_str()]);
                let module = names.collect::<Vec<_>>().join("/");
                found.extend([format!("{module}.rs"), format!("{module}/mod.rs")]);
            }
            "path" if source.is_at(at + 1, &["="]) => {
                let file = source.tokens.get(at + 2).map_or("", |token| token.text.trim_matches('"'));
                found.push(format!("{folder}/{file}"));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    fn dead(files: &[(&str, &str)]) -> Vec<String> {
        let manifest = "[package]\nname = \"a\"\n[[bin]]\nname = \"b\"\npath = \"targets/b.rs\"";
        found(check, &[files, &[("a/Cargo.toml", manifest)]].concat())
    }

    #[test]
    fn a_file_without_a_declaration_is_dead() {
        let found = dead(&[("a/src/lib.rs", "mod b;"), ("a/src/b.rs", ""), ("a/src/c.rs", "")]);
        assert_eq!(found, ["a/src/c.rs: no `mod` leads to this file"]);
        assert_eq!(dead(&[("a/src/lib.rs", "// mod b;"), ("a/src/b.rs", "")]).len(), 1);
        assert_eq!(dead(&[("a/src/lib.rs", "mod b {}"), ("a/src/b.rs", "")]).len(), 1);
        assert_eq!(dead(&[("a/src/lib.rs", ""), ("a/tests/it/more.rs", "")]).len(), 1);
    }

    #[test]
    fn every_way_to_declare_a_module_reaches_its_file() {
        let files = [
            ("a/src/main.rs", "mod one; mod two { mod three; } #[cfg(test)] mod tests;"),
            ("a/src/one/mod.rs", "pub(crate) mod four; #[path = \"odd.rs\"] mod even;"),
            ("a/src/one/odd.rs", ""),
            ("a/src/one/four.rs", "mod five;"),
            ("a/src/one/four/five.rs", ""),
            ("a/src/two/three.rs", ""),
            ("a/src/tests.rs", ""),
            ("a/build.rs", ""),
            ("a/targets/b.rs", "mod c;"),
            ("a/targets/c.rs", ""),
            ("a/examples/d.rs", ""),
            ("a/tests/it/main.rs", "mod e;"),
            ("a/tests/it/e.rs", ""),
        ];
        assert!(dead(&files).is_empty());
    }
}
