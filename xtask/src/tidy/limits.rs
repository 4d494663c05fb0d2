//! Checks limits over many files: small files, thread-local variables, and lines of the development tools.

use super::tree::{Tree, finding};

/// A file with fewer lines counts as small.
const SMALL_LINES: usize = 60;

/// Maximum share of small files, in percent.
const SMALL_PERCENT_MAX: usize = 5;

/// Maximum number of lines of the development tools, `xtask/` and `suite/`, with their tests
/// (`docs/decisions/0071-the-size-of-the-development-tools.md`).
const TOOL_LINES_MAX: usize = 13_560;

/// Maximum number of lines of the command-line program, and of its load generator commands.
const CLI_LINES_MAX: [(&str, usize); 2] = [("crates/cli/src/", 5_125), ("crates/cli/src/bench/", 1_560)];

/// Maximum number of `thread_local!` in `crates/`.
const THREAD_LOCALS_MAX: usize = 4;

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let mut findings = [check_small_files(tree), check_thread_locals(tree)].concat();
    findings.extend(check_lines(tree, &["xtask/", "suite/"], TOOL_LINES_MAX));
    findings
        .extend(CLI_LINES_MAX.into_iter().filter_map(|(folder, most)| check_lines(tree, &[folder], most)));
    findings
}

/// Returns a finding if the folders together have more than `most` lines.
fn check_lines(tree: &Tree, folders: &[&str], most: usize) -> Option<String> {
    let sources = tree.sources().filter(|(path, _)| folders.iter().any(|folder| path.starts_with(folder)));
    let lines: usize = sources.map(|(_, source)| source.line_count).sum();
    let message = || format!("{} have {lines} lines; the maximum is {most}", folders.join(" and "));
    (lines > most).then(|| finding(folders[0], 0, message()))
}

/// Checks the share of small files. Test files and files such as `mod.rs` may be small.
fn check_small_files(tree: &Tree) -> Vec<String> {
    let sources = tree.sources().filter(|(path, source)| {
        let is_contents = ["/mod.rs", "/lib.rs", "/main.rs"].iter().any(|name| path.ends_with(name));
        path.starts_with("crates/") && path.contains("/src/") && !is_contents && !source.is_test()
    });
    let (small, large): (Vec<_>, Vec<_>) = sources.partition(|(_, source)| source.line_count < SMALL_LINES);
    let most = (small.len() + large.len()) * SMALL_PERCENT_MAX / 100;
    let places: Vec<_> = small.iter().map(|(path, _)| (*path, 0)).collect();
    excess(&places, most, &format!("files with under {SMALL_LINES} lines: merge related files"))
}

fn check_thread_locals(tree: &Tree) -> Vec<String> {
    let mut places = Vec::new();
    for (path, source) in tree.sources().filter(|(path, _)| path.starts_with("crates/")) {
        let locals = (0..source.tokens.len()).filter(|at| source.is_at(*at, &["thread_local", "!"]));
        places.extend(locals.map(|at| (path, source.tokens[at].line)));
    }
    excess(&places, THREAD_LOCALS_MAX, "`thread_local!`: pass the state as an argument")
}

/// Returns a finding for each place if there are more than `most` places.
fn excess(places: &[(&str, usize)], most: usize, what: &str) -> Vec<String> {
    let message = format!("at most {most} are allowed, but `crates/` has {} {what}", places.len());
    let found = places.iter().filter(|_| places.len() > most);
    found.map(|(path, line)| finding(path, *line, &message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "const A: u8 = 0;\n";

    #[test]
    fn tools_have_a_maximum_size() {
        let half = LINE.repeat(TOOL_LINES_MAX / 2);
        let mut files = vec![("xtask/src/a.rs", half.as_str()), ("suite/src/b.rs", half.as_str())];
        assert_eq!(check(&Tree::of(&files)).len(), 0);
        files.push(("suite/src/c.rs", LINE));
        assert_eq!(check(&Tree::of(&files)).len(), 1);
    }

    #[test]
    fn command_line_program_has_a_maximum_size() {
        let most = LINE.repeat(CLI_LINES_MAX[1].1);
        let mut files = vec![("crates/cli/src/bench/a.rs", most.as_str())];
        assert_eq!(check(&Tree::of(&files)).len(), 0);
        files.push(("crates/cli/src/bench/mod.rs", LINE));
        assert_eq!(check(&Tree::of(&files)).len(), 1);
    }

    #[test]
    fn small_files_are_found_only_above_the_maximum_share() {
        let long = LINE.repeat(SMALL_LINES);
        let paths: Vec<String> = (0..20).map(|n| format!("crates/a/src/f{n}.rs")).collect();
        let mut files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), long.as_str())).collect();
        files[0].1 = LINE;
        files.push(("crates/a/src/lib.rs", "mod b;"));
        assert_eq!(check(&Tree::of(&files)).len(), 0);
        files[1].1 = LINE;
        assert_eq!(check(&Tree::of(&files)).len(), 2);
    }

    #[test]
    fn too_many_thread_locals_are_found() {
        let four = "thread_local! { static A: u8 = 0; } ".repeat(THREAD_LOCALS_MAX);
        let five = format!("{four}std::thread_local! {{ static A: u8 = 0; }}");
        let finds = |text: &str| check(&Tree::of(&[("crates/a/src/lib.rs", text)])).len();
        assert_eq!((finds(&four), finds(&five)), (0, THREAD_LOCALS_MAX + 1));
    }
}
