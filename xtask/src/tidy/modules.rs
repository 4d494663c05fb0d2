//! The modules of a crate and their files. Resolves a path such as `crate::a::B` to the file that defines the
//! item.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, Token};
use super::tree::Tree;

/// Maximum number of imports that lead from a name to its definition.
const IMPORTS_MAX: usize = 16;

/// The modules of one crate.
#[derive(Default)]
pub(super) struct Crate<'a> {
    /// The files that `mod` declarations reach.
    pub(super) files: BTreeSet<&'a str>,
    modules: BTreeMap<Path<'a>, Module<'a>>,
    /// The file of each `macro_rules!`, because macros ignore modules.
    macros: BTreeMap<&'a str, &'a str>,
}

/// A path in code, or the names of modules from the root of the crate. The root is `[]`.
type Path<'a> = Vec<&'a str>;

#[derive(Default)]
struct Module<'a> {
    file: &'a str,
    items: BTreeSet<&'a str>,
    imports: Vec<Import<'a>>,
    /// The types that have an inherent `impl` in non-test code.
    impls: Vec<&'a str>,
}

/// A name that a file uses: a leaf of a `use` declaration, or a path inside code.
struct Import<'a> {
    path: Path<'a>,
    /// The name in the importing module, or `*`. Empty for a path inside code.
    name: &'a str,
    is_reexport: bool,
    is_test: bool,
}

/// The names of used items, by the file that uses them and the file that defines them.
pub(super) type Uses<'a> = BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<&'a str>>>;

impl<'a> Crate<'a> {
    /// Reads the crate with the root file `root`.
    pub(super) fn read(tree: &'a Tree, root: &str) -> Self {
        let mut read = Self::default();
        read.read_file(tree, root, folder_of(root), &[]);
        read
    }

    /// Reads a file and the files of the modules that it declares, which are in `folder`.
    fn read_file(&mut self, tree: &'a Tree, file: &str, folder: &str, path: &[&'a str]) {
        let Some((file, source)) = tree.source(file) else { return };
        self.files.insert(file);
        for (child, name) in self.read_modules(file, source, path) {
            let stem = format!("{folder}/{}", child[path.len()..].join("/"));
            let named = name.map(|name| format!("{}/{name}", folder_of(file)));
            for file in named.into_iter().chain([format!("{stem}.rs"), format!("{stem}/mod.rs")]) {
                self.read_file(tree, &file, &stem, &child);
            }
        }
    }

    /// Reads the module `path` and its inline modules. Returns the modules that have their own files. Each
    /// module has the file name from its `#[path]` attribute, if any.
    fn read_modules(
        &mut self,
        file: &'a str,
        source: &'a Source,
        path: &[&'a str],
    ) -> Vec<(Path<'a>, Option<&'a str>)> {
        let (mut children, mut named) = (Vec::new(), None);
        // The modules that contain the current token, each with the brace depth of its items.
        let mut around = vec![(0, path.to_vec())];
        let (mut depth, mut at) = (0, 0);
        while let Some(token) = source.tokens.get(at) {
            let (floor, path) = around.last().expect("a file is a module");
            let module =
                self.modules.entry(path.clone()).or_insert_with(|| Module { file, ..Module::default() });
            let is_item = depth == *floor;
            let import = |path, name, is_reexport| Import { path, name, is_reexport, is_test: token.is_test };
            match token.text.as_str() {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => {
                    depth -= 1;
                    around.pop_if(|(floor, _)| *floor > depth);
                }
                "path" if source.is_at(at + 1, &["="]) => {
                    named = Some(source.text(at + 2).trim_matches('"'));
                }
                "mod" if is_item && source.is_at(at + 2, &["{"]) => {
                    around.push((depth + 1, [path, &[source.text(at + 1)][..]].concat()));
                }
                "mod" if is_item && source.is_at(at + 2, &[";"]) => {
                    children.push(([path, &[source.text(at + 1)][..]].concat(), named.take()));
                }
                "macro_rules" if source.is_at(at + 1, &["!"]) => {
                    self.macros.insert(source.text(at + 2), file);
                    module.items.insert(source.text(at + 2));
                }
                "impl" if is_item && is_start(source, at) && !token.is_test => {
                    module.impls.extend(implemented_type(source.signature(at)));
                }
                "struct" | "enum" | "union" | "trait" | "fn" | "type" | "const" | "static" if is_item => {
                    let words = (at + 1..at + 4).map(|at| source.text(at));
                    module.items.extend(words.filter(|word| !["mut", "fn", "unsafe"].contains(word)).take(1));
                }
                "use" => {
                    let is_reexport = is_item && matches!(source.text(at.wrapping_sub(1)), "pub" | ")");
                    at = read_use(source, at + 1, &[], &mut |path, name| {
                        module.imports.push(import(path, name, is_reexport));
                    });
                    continue;
                }
                _ if token.is_word && source.is_at(at + 1, &["::"]) => {
                    let start = at;
                    while source.is_at(at + 1, &["::"]) && source.tokens[at + 2].is_word {
                        at += 2;
                    }
                    let path =
                        source.tokens[start..=at].iter().step_by(2).map(|token| &*token.text).collect();
                    module.imports.push(import(path, "", false));
                }
                _ => {}
            }
            at += 1;
        }
        children
    }

    /// Returns the uses of items of other files of the crate. Re-exports and uses in tests do not count.
    pub(super) fn uses(&self) -> Uses<'a> {
        let mut found = Uses::new();
        for (at, module) in &self.modules {
            for import in module.imports.iter().filter(|import| !import.is_reexport && !import.is_test) {
                let defined = self.resolve(at, &import.path, 0);
                if let Some((to, item)) = defined.filter(|(to, _)| *to != module.file) {
                    found.entry(module.file).or_default().entry(to).or_default().insert(item);
                }
            }
        }
        found
    }

    /// Returns the files with inherent `impl` blocks of each type. Each type has the file of its definition,
    /// because several types may have the same name.
    pub(super) fn impl_files(&self) -> BTreeMap<(&'a str, &'a str), BTreeSet<&'a str>> {
        let mut files = BTreeMap::<_, BTreeSet<_>>::new();
        for (at, module) in &self.modules {
            for defined in module.impls.iter().filter_map(|name| self.resolve(at, &[name], 0)) {
                files.entry(defined).or_default().insert(module.file);
            }
        }
        files
    }

    /// Resolves `path` from the module `at`. Returns the file that defines the item, and the name of the
    /// item. Returns `None` for modules and for items of other crates.
    fn resolve(&self, at: &[&'a str], path: &[&'a str], imports: usize) -> Option<(&'a str, &'a str)> {
        let mut module = at.to_vec();
        for (place, name) in path.iter().enumerate() {
            match *name {
                "crate" => module.clear(),
                "self" => {}
                "super" => drop(module.pop()?),
                name if self.modules.contains_key(&[&module[..], &[name]].concat()) => module.push(name),
                _ => return self.resolve_item(&module, &path[place..], place == 0, imports),
            }
        }
        None
    }

    /// Resolves a path inside `module`. The first segment of the path is not a module, but can be the name of
    /// another crate.
    fn resolve_item(
        &self,
        module: &[&'a str],
        path: &[&'a str],
        is_bare: bool,
        imports: usize,
    ) -> Option<(&'a str, &'a str)> {
        let found = self.modules.get(module)?;
        let (name, rest) = path.split_first()?;
        if found.items.contains(name) {
            return Some((found.file, name));
        }
        if imports < IMPORTS_MAX {
            let follow = |import: &Import<'a>, rest: &[&'a str]| {
                self.resolve(module, &[&import.path, rest].concat(), imports + 1)
            };
            if let Some(import) = found.imports.iter().find(|import| import.name == *name) {
                return follow(import, rest);
            }
            let mut globs = found.imports.iter().filter(|import| import.name == "*" && import.is_reexport);
            let defined = globs.find_map(|import| follow(import, path));
            if is_bare || defined.is_some() {
                return defined;
            }
        }
        // A macro may generate the item. In most cases, the macro call is in this file.
        Some((self.macros.get(name).copied().unwrap_or(found.file), name))
    }
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns `true` if an item can begin at a token. If not, an `impl` at this token is part of a type.
fn is_start(source: &Source, at: usize) -> bool {
    matches!(source.text(at.wrapping_sub(1)), "" | "}" | ";" | "]" | "unsafe" | "{")
}

/// Returns the type of an `impl`, or `None` if it implements a trait.
fn implemented_type(signature: &[Token]) -> Option<&str> {
    let mut depth = 0_i32;
    let mut name = None;
    for token in signature {
        match token.text.as_str() {
            "<" => depth += 1,
            ">" => depth -= 1,
            _ if depth > 0 => {}
            "for" => return None,
            "where" => break,
            word if token.is_word && !matches!(word, "impl" | "const" | "dyn" | "mut") => name = Some(word),
            _ => {}
        }
    }
    name
}

/// Reads the `use` tree that begins at `at`, and returns the index after it. Calls `found` with the path and
/// the name of each leaf.
fn read_use<'a>(
    source: &'a Source,
    mut at: usize,
    prefix: &[&'a str],
    found: &mut impl FnMut(Path<'a>, &'a str),
) -> usize {
    let mut path = prefix.to_vec();
    while source.is_at(at + 1, &["::"]) {
        path.push(source.text(at));
        at += 2;
    }
    if source.is_at(at, &["{"]) {
        at += 1;
        while !source.is_at(at, &["}"]) {
            at = read_use(source, at, &path, found);
            at += usize::from(source.is_at(at, &[","]));
        }
        return at + 1;
    }
    let mut name = source.text(at);
    match name {
        "*" => {}
        "self" => name = path.last().copied().unwrap_or("self"),
        name => path.push(name),
    }
    if source.is_at(at + 1, &["as"]) {
        at += 2;
        name = source.text(at);
    }
    found(path, name);
    at + 1
}
