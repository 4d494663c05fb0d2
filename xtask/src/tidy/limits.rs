//! Limits for `crates/` as a whole: small files, the files that implement one type, and thread-local
//! variables.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::Modules;
use super::source::Source;
use super::tree::{Finding, Tree};

/// Files with fewer lines are small.
const SMALL_LINES: usize = 60;

/// Maximum share of small files, in percent.
const SMALL_PERCENT_MAX: usize = 5;

/// Maximum number of files with inherent `impl` blocks of one type.
const IMPL_FILES_MAX: usize = 3;

/// Maximum number of lines of the development tools, `xtask/` and `suite/`, with their tests
/// (`docs/decisions/0071-the-size-of-the-development-tools.md`).
const TOOL_LINES_MAX: usize = 16_400;

/// Maximum number of `thread_local!` in `crates/`.
const THREAD_LOCALS_MAX: usize = 4;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let rules = [check_small_files, check_impls, check_thread_locals, check_tools];
    rules.iter().flat_map(|rule| rule(tree)).collect()
}

/// Returns the sources of the crates. Tests, and files that only list their contents, are left out.
fn sources(tree: &Tree) -> impl Iterator<Item = (&str, &Source)> {
    tree.sources().filter(|(path, source)| {
        let is_contents = ["/mod.rs", "/lib.rs", "/main.rs"].iter().any(|name| path.ends_with(name));
        let is_test = source.tokens.first().is_none_or(|token| token.is_test);
        path.starts_with("crates/") && path.contains("/src/") && !is_contents && !is_test
    })
}

fn check_small_files(tree: &Tree) -> Vec<Finding> {
    let count = sources(tree).count();
    let small: Vec<_> = sources(tree).filter(|(_, source)| source.line_count < SMALL_LINES).collect();
    if small.len() * 100 <= count * SMALL_PERCENT_MAX {
        return Vec::new();
    }
    let message = format!(
        "{} of {count} files in `crates/` have under {SMALL_LINES} lines, {SMALL_PERCENT_MAX} % are the most: merge files with one idea",
        small.len()
    );
    small.iter().map(|(path, _)| Finding::new(path, 0, &message)).collect()
}

fn check_impls(tree: &Tree) -> Vec<Finding> {
    let roots = tree.sources().map(|(path, _)| path);
    let roots = roots.filter(|path| path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs"));
    let crates: Vec<_> = roots.map(|root| (folder_of(root), Modules::read(tree, root))).collect();
    // By the file that defines the type, and its name.
    let mut files: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for (path, source) in tree.sources().filter(|(path, _)| path.starts_with("crates/")) {
        let Some((_, modules)) = crates.iter().find(|(folder, _)| path.starts_with(folder)) else { continue };
        for name in inherent_impls(source) {
            if let Some(defined) = modules.definition(path, name) {
                files.entry((defined, name)).or_default().insert(path);
            }
        }
    }
    let spread = files.iter().filter(|(_, files)| files.len() > IMPL_FILES_MAX);
    spread
        .map(|((_, implemented), files)| {
            let files: Vec<_> = files.iter().copied().collect();
            let message = format!(
                "`impl {implemented}` is in {} files, {IMPL_FILES_MAX} are the most: {}",
                files.len(),
                files.join(", ")
            );
            Finding::new(files[0], 0, message)
        })
        .collect()
}

/// Returns the folder of a file, with the slash at its end.
fn folder_of(path: &str) -> &str {
    path.rfind('/').map_or("", |slash| &path[..=slash])
}

/// Returns the types that have an inherent `impl` in a file, without the tests.
fn inherent_impls(source: &Source) -> Vec<&str> {
    let tokens = &source.tokens;
    let is_start =
        |at: usize| at == 0 || matches!(tokens[at - 1].text.as_str(), "}" | ";" | "]" | "unsafe" | "{");
    let starts =
        (0..tokens.len()).filter(|&at| tokens[at].text == "impl" && !tokens[at].is_test && is_start(at));
    starts.filter_map(|start| implemented_type(source, start)).collect()
}

/// Returns the type of the `impl` at `start`, or `None` if it implements a trait.
fn implemented_type(source: &Source, start: usize) -> Option<&str> {
    let mut depth = 0_i32;
    let mut name = None;
    let mut before = "";
    for token in &source.tokens[start + 1..] {
        match token.text.as_str() {
            "<" => depth += 1,
            ">" if before != "-" => depth -= 1,
            "for" if depth == 0 => return None,
            "{" | "where" if depth == 0 => return name,
            word if depth == 0 && token.is_word && !matches!(word, "const" | "dyn" | "mut") => {
                name = Some(word);
            }
            _ => {}
        }
        before = &token.text;
    }
    None
}

fn check_thread_locals(tree: &Tree) -> Vec<Finding> {
    let mut places = Vec::new();
    for (path, source) in tree.sources().filter(|(path, _)| path.starts_with("crates/")) {
        for (at, token) in source.tokens.iter().enumerate() {
            if token.text == "thread_local" && source.is_at(at + 1, &["!"]) {
                places.push((path, token.line));
            }
        }
    }
    if places.len() <= THREAD_LOCALS_MAX {
        return Vec::new();
    }
    let message =
        format!("{} `thread_local!`, {THREAD_LOCALS_MAX} are the most: pass the state", places.len());
    places.iter().map(|(path, line)| Finding::new(path, *line, &message)).collect()
}

fn check_tools(tree: &Tree) -> Vec<Finding> {
    let tools = tree.sources().filter(|(path, _)| path.starts_with("xtask/") || path.starts_with("suite/"));
    let lines: usize = tools.map(|(_, source)| source.line_count).sum();
    if lines <= TOOL_LINES_MAX {
        return Vec::new();
    }
    let message = format!("`xtask/` and `suite/` have {lines} lines, {TOOL_LINES_MAX} are the most");
    vec![Finding::new("xtask", 0, message)]
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;

    use super::*;

    #[test]
    fn tools_have_a_maximum_size() {
        let half = "const A: u8 = 0;\n".repeat(TOOL_LINES_MAX / 2);
        let files = [("xtask/src/a.rs", half.as_str()), ("suite/src/b.rs", half.as_str())];
        assert_eq!(found(check, &files), Vec::<String>::new());
        let more = [files[0], files[1], ("suite/src/c.rs", "struct C;")];
        assert_eq!(found(check, &more).len(), 1);
    }

    #[test]
    fn small_files_are_found_only_if_there_are_many() {
        let long = "const A: u8 = 0;\n".repeat(SMALL_LINES);
        let paths: Vec<String> = (0..20).map(|n| format!("crates/a/src/f{n}.rs")).collect();
        let mut files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), long.as_str())).collect();
        files[0].1 = "struct A;";
        files.push(("crates/a/src/lib.rs", "mod b;"));
        assert_eq!(found(check, &files), Vec::<String>::new());
        files[1].1 = "struct B;";
        assert_eq!(found(check, &files).len(), 2);
    }

    #[test]
    fn a_type_that_four_files_implement_is_found() {
        let root = "mod a; mod b; mod c; mod d; mod e; mod f;";
        let own = "pub struct A<T>(T); impl<T: Into<u8>> A<T> where T: Copy { }";
        let other = "use crate::a::A; impl A<u8> { fn a() -> impl Fn() { } }";
        let of_trait = "use crate::a::A; impl Clone for A<u8> { }";
        // Another type with the same name.
        let namesake = "struct A; impl A { }";
        let mut files = vec![
            ("crates/a/src/lib.rs", root),
            ("crates/a/src/a.rs", own),
            ("crates/a/src/b.rs", other),
            ("crates/a/src/c.rs", other),
            ("crates/a/src/d.rs", of_trait),
            ("crates/a/src/e.rs", namesake),
        ];
        let impls = |files: &[(&str, &str)]| found(check_impls, files);
        assert_eq!(impls(&files), Vec::<String>::new());
        files.push(("crates/a/src/f.rs", other));
        assert_eq!(impls(&files).len(), 1);
    }

    #[test]
    fn a_fifth_thread_local_is_found() {
        let four = "thread_local! { static A: u8 = 0; } ".repeat(THREAD_LOCALS_MAX);
        let five = format!("{four}std::thread_local! {{ static A: u8 = 0; }}");
        let locals = |text: &str| found(check_thread_locals, &[("crates/a/src/a.rs", text)]).len();
        assert_eq!(locals(&four), 0);
        assert_eq!(locals(&five), THREAD_LOCALS_MAX + 1);
    }
}
