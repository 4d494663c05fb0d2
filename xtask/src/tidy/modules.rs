//! The modules of a crate and their files: resolves a path such as `crate::a::B` to the file that defines it.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, Token};
use super::tree::Tree;

/// Maximum number of re-exports that one name may pass through.
const REEXPORTS_MAX: usize = 16;

/// The modules of one crate, by their path from its root (`[]` is the root).
pub(super) struct Modules<'a> {
    modules: BTreeMap<Path<'a>, Module<'a>>,
    /// The file of each `macro_rules!`, because macros ignore modules.
    macros: BTreeMap<&'a str, &'a str>,
}

/// The names of the modules from the root of the crate.
type Path<'a> = Vec<&'a str>;

struct Module<'a> {
    file: &'a str,
    items: BTreeSet<&'a str>,
    imports: Vec<Import<'a>>,
}

/// One name that a file uses: a leaf of a `use` declaration, or a path inside code.
struct Import<'a> {
    path: Path<'a>,
    /// The name under which it is known in the importing module; `None` for `*` and for paths inside code.
    name: Option<&'a str>,
    is_glob: bool,
    is_reexport: bool,
    is_test: bool,
}

/// A use of an item of another file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Dependency<'a> {
    /// The file that uses the item.
    pub(super) from: &'a str,
    /// The file that defines the item.
    pub(super) to: &'a str,
    /// The name of the item.
    pub(super) item: &'a str,
}

impl<'a> Modules<'a> {
    /// Reads the crate with the root file `root`.
    pub(super) fn read(tree: &'a Tree, root: &'a str) -> Self {
        let mut modules = Self { modules: BTreeMap::new(), macros: BTreeMap::new() };
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        modules.read_file(tree, root, folder, &Vec::new());
        modules
    }

    /// Reads a file and the files of the modules that it declares, which are in `folder`.
    fn read_file(&mut self, tree: &'a Tree, file: &'a str, folder: &str, path: &Path<'a>) {
        let Some(source) = tree.source(file) else { return };
        let mut scan = Scan { modules: self, file, source, children: Vec::new() };
        scan.module(0, source.tokens.len(), path);
        let children = scan.children;
        for child in children {
            let inside = child[path.len()..].join("/");
            let stem = format!("{folder}/{inside}");
            for candidate in [format!("{stem}.rs"), format!("{stem}/mod.rs")] {
                if let Some(file) = tree.path(&candidate) {
                    self.read_file(tree, file, &stem, &child);
                }
            }
        }
    }

    /// Returns the uses of items of other files of the crate. Re-exports and tests are not uses.
    pub(super) fn dependencies(&self) -> BTreeSet<Dependency<'a>> {
        let mut found = BTreeSet::new();
        for (at, module) in &self.modules {
            for import in module.imports.iter().filter(|import| !import.is_reexport && !import.is_test) {
                let defined = self.resolve(at, &import.path, 0);
                if let Some((to, item)) = defined.filter(|(to, _)| *to != module.file) {
                    found.insert(Dependency { from: module.file, to, item });
                }
            }
        }
        found
    }

    /// Returns the file that defines `name`, as `file` knows it. `None` for items of other crates.
    pub(super) fn definition(&self, file: &str, name: &'a str) -> Option<&'a str> {
        let mut known = self.modules.iter().filter(|(_, module)| module.file == file);
        known.find_map(|(at, module)| {
            let here = module.items.contains(name).then_some(module.file);
            here.or_else(|| self.resolve(at, &[name], 0).map(|(defined, _)| defined))
        })
    }

    /// Returns the file that defines the item at `path`, seen from the module `at`, and the name of the item.
    /// `None` for items of other crates.
    fn resolve(&self, at: &[&'a str], path: &[&'a str], reexports: usize) -> Option<(&'a str, &'a str)> {
        let (mut module, mut rest): (Path<'a>, &[&'a str]) = match path.first()? {
            &"crate" => (Vec::new(), &path[1..]),
            &"self" => (at.to_vec(), &path[1..]),
            &"super" => (at[..at.len().checked_sub(1)?].to_vec(), &path[1..]),
            name => {
                let is_known = self.is_module(at, name) || self.imports_name(at, name);
                if !is_known {
                    return None;
                }
                (at.to_vec(), path)
            }
        };
        while let [first, after @ ..] = rest {
            if *first == "super" {
                module.pop()?;
            } else if self.is_module(&module, first) {
                module.push(first);
            } else {
                return self.resolve_item(&module, rest, reexports);
            }
            rest = after;
        }
        // A module itself: nothing of it is used yet, its items are used by paths of their own.
        None
    }

    /// Resolves a path inside `module`; its first segment is no module.
    fn resolve_item(
        &self,
        module: &Path<'a>,
        rest: &[&'a str],
        reexports: usize,
    ) -> Option<(&'a str, &'a str)> {
        let found = self.modules.get(module)?;
        let name = rest[0];
        if found.items.contains(name) {
            return Some((found.file, name));
        }
        if reexports < REEXPORTS_MAX {
            let named = found.imports.iter().find(|import| import.name == Some(name));
            if let Some(import) = named {
                let path: Path<'a> = import.path.iter().chain(&rest[1..]).copied().collect();
                return self.resolve(module, &path, reexports + 1);
            }
            let globs = found.imports.iter().filter(|import| import.is_glob && import.is_reexport);
            for import in globs {
                let path: Path<'a> = import.path.iter().chain(rest).copied().collect();
                let defined = self.resolve(module, &path, reexports + 1);
                if defined.is_some() {
                    return defined;
                }
            }
        }
        // Macros write items too, mostly for the file in which they are called.
        Some((self.macros.get(name).copied().unwrap_or(found.file), name))
    }

    fn is_module(&self, at: &[&'a str], name: &'a str) -> bool {
        self.modules.contains_key(&[at, &[name]].concat())
    }

    fn imports_name(&self, at: &[&'a str], name: &str) -> bool {
        let module = self.modules.get(at);
        module.is_some_and(|module| module.imports.iter().any(|import| import.name == Some(name)))
    }
}

/// Reads the tokens of one file.
struct Scan<'a, 'm> {
    modules: &'m mut Modules<'a>,
    file: &'a str,
    source: &'a Source,
    /// The paths of the modules that have files of their own.
    children: Vec<Path<'a>>,
}

impl<'a> Scan<'a, '_> {
    /// Reads the tokens from `start` to `end` as the module at `path`.
    fn module(&mut self, start: usize, end: usize, path: &Path<'a>) {
        let tokens: &'a [Token] = &self.source.tokens;
        let mut module = Module { file: self.file, items: BTreeSet::new(), imports: Vec::new() };
        let mut declared = Vec::new();
        let mut depth = 0_usize;
        let mut at = start;
        while at < end {
            let token = &tokens[at];
            match token.text.as_str() {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth = depth.saturating_sub(1),
                "use" => {
                    let is_reexport =
                        at > 0 && matches!(tokens[at - 1].text.as_str(), "pub" | ")") && depth == 0;
                    at = read_use(tokens, at + 1, &mut Vec::new(), &mut |path, name, is_glob| {
                        let is_test = token.is_test;
                        module.imports.push(Import { path, name, is_glob, is_reexport, is_test });
                    });
                    continue;
                }
                "mod" if depth == 0 && tokens.get(at + 1).is_some_and(|token| token.is_word) => {
                    let child: Path<'a> =
                        path.iter().copied().chain([tokens[at + 1].text.as_str()]).collect();
                    declared.push(tokens[at + 1].text.as_str());
                    if self.source.is_at(at + 2, &["{"]) {
                        let length = self.source.group(at + 2).len();
                        self.module(at + 3, at + 3 + length, &child);
                        at += 4 + length;
                        continue;
                    }
                    self.children.push(child);
                }
                "macro_rules" if self.source.is_at(at + 1, &["!"]) => {
                    if let Some(name) = tokens.get(at + 2) {
                        self.modules.macros.insert(&name.text, self.file);
                        module.items.insert(&name.text);
                    }
                }
                "struct" | "enum" | "union" | "trait" | "fn" | "type" | "const" | "static" if depth == 0 => {
                    let name = tokens[at + 1..end.min(at + 4)].iter();
                    let name = name.filter(|token| {
                        token.is_word && !matches!(token.text.as_str(), "mut" | "fn" | "unsafe")
                    });
                    module.items.extend(name.take(1).map(|token| token.text.as_str()));
                }
                first if token.is_word && is_path(self.source, at) => {
                    let is_relative = matches!(first, "crate" | "self" | "super");
                    let mut path = vec![first];
                    while is_path(self.source, at) {
                        at += 3;
                        path.push(&tokens[at].text);
                    }
                    if is_relative || path.len() > 1 {
                        let (name, is_glob, is_reexport) = (None, false, false);
                        module.imports.push(Import {
                            path,
                            name,
                            is_glob,
                            is_reexport,
                            is_test: token.is_test,
                        });
                    }
                }
                _ => {}
            }
            at += 1;
        }
        self.modules.modules.insert(path.clone(), module);
    }
}

/// Returns `true` if the word at `at` is followed by `::` and another word.
fn is_path(source: &Source, at: usize) -> bool {
    source.is_at(at + 1, &[":", ":"]) && source.tokens.get(at + 3).is_some_and(|token| token.is_word)
}

/// Reads one `use` tree that begins at `at`, and returns the place after it. `found` gets each leaf: its
/// path, its name, and `true` for `*`.
fn read_use<'a>(
    tokens: &'a [Token],
    mut at: usize,
    prefix: &mut Path<'a>,
    found: &mut impl FnMut(Path<'a>, Option<&'a str>, bool),
) -> usize {
    let outer = prefix.len();
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            ":" => at += 1,
            "*" => {
                found(prefix.clone(), None, true);
                at += 1;
                break;
            }
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token.text != "}") {
                    at = read_use(tokens, at, prefix, found);
                    at += usize::from(tokens.get(at).is_some_and(|token| token.text == ","));
                }
                at += 1;
                break;
            }
            word if token.is_word => {
                prefix.push(word);
                at += 1;
                if tokens.get(at).is_some_and(|token| token.text == ":") {
                    continue;
                }
                let mut name = word;
                if tokens.get(at).is_some_and(|token| token.text == "as") {
                    name = tokens.get(at + 1).map_or("_", |token| &token.text);
                    at += 2;
                }
                let mut path = prefix.clone();
                if word == "self" {
                    path.pop();
                    name = path.last().copied().unwrap_or("self");
                }
                found(path, Some(name), false);
                break;
            }
            _ => break,
        }
    }
    prefix.truncate(outer);
    at
}
