//! The key `include`: further files of a config. This module finds and reads the files, and adds their tables
//! to the table of the config.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, mem};

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::environment::fill_in;
use super::failure::Source;
use super::{Failure, Span};

/// Reads the files that the key `include` of a config file names, and adds their texts to `source`.
///
/// # Errors
/// Returns an error if a pattern is invalid or a file cannot be read. A config file that is not valid TOML is
/// no error here, because the parser reports it.
pub(super) fn read_included(source: &mut Source) -> Result<(), Failure> {
    let patterns = patterns_of(source)?;
    let directory = source.path.parent().unwrap_or(Path::new(""));
    // The patterns never include the config file itself, and include no file twice.
    let mut known = BTreeSet::from([identity_of(&source.path)]);
    let (mut files, mut failures) = (Vec::new(), Vec::new());
    for (span, pattern) in &patterns {
        match matching_files(directory, pattern) {
            Ok(found) => {
                let new = found.into_iter().filter(|path| known.insert(identity_of(path)));
                files.extend(new.map(|path| (span, path)));
            }
            Err((message, hint)) => failures.push(source.failure(span.clone(), message).with_hint(hint)),
        }
    }
    if let Some((span, _)) = files.get(FILES_MAX) {
        let message = format!("`include` names more than {FILES_MAX} files");
        return Err(source.failure((*span).clone(), message).with_hint("join some of the files"));
    }
    let mut texts = Vec::new();
    for (span, path) in files {
        match fs::read_to_string(&path) {
            Ok(text) => texts.push((path, text)),
            Err(error) => {
                let message = format!("cannot read `{}`: {error}", path.display());
                failures.push(source.failure(span.clone(), message).with_hint(READ_HINT));
            }
        }
    }
    for (path, text) in texts {
        source.include(path, &text);
    }
    Failure::all(failures).map_or(Ok(()), Err)
}

/// Returns the patterns of the key `include`, with the values of environment variables. Returns no pattern if
/// the key has a wrong type, because the parser reports this.
fn patterns_of(source: &Source) -> Result<Vec<(Span, String)>, Failure> {
    let Ok(table) = DeTable::parse(&source.text) else { return Ok(Vec::new()) };
    let is_include = |(key, _): &(Spanned<DeString<'_>>, _)| key.get_ref() == KEY;
    let mut include: DeTable<'_> = table.into_inner().into_iter().filter(is_include).collect();
    fill_in(&mut include, source)?;
    let patterns =
        include.iter().filter_map(|(_, value)| value.get_ref().as_array()).flat_map(|all| all.iter());
    Ok(patterns
        .filter_map(|pattern| Some((pattern.span(), pattern.get_ref().as_str()?.to_owned())))
        .collect())
}

/// Returns the files that match `pattern`, sorted by name. A file without a wildcard need not exist.
///
/// # Errors
/// Returns a message and a hint.
fn matching_files(directory: &Path, pattern: &str) -> Result<Vec<PathBuf>, (String, &'static str)> {
    let path = directory.join(pattern);
    let (Some(folder), Some(name)) = (path.parent(), Path::new(pattern).file_name()) else {
        return Err((format!("`{}` is not the name of a file", pattern.escape_debug()), PATTERN_HINT));
    };
    let has_wildcard = |path: &Path| path.as_os_str().as_bytes().contains(&b'*');
    if Path::new(pattern).parent().is_some_and(has_wildcard) {
        let message = "`*` is only possible in the name of the file, not in the name of a directory";
        return Err((message.to_owned(), "write a pattern for each directory"));
    }
    if !has_wildcard(Path::new(name)) {
        return Ok(vec![path]);
    }
    let unreadable = |error| {
        let message = format!("cannot read the directory `{}`: {error}", folder.display());
        (message, "create the directory, or remove the pattern")
    };
    let folder_or_here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder_or_here).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.file_name();
        let path = folder.join(&file);
        if matches(name.as_bytes(), file.as_bytes()) && !path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns `true` if the file name `name` matches `pattern`. In `pattern`, `*` stands for any bytes. As in a
/// shell, a pattern that begins with `*` does not match hidden files.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.starts_with(b".") && !pattern.starts_with(b".") {
        return false;
    }
    let mut parts = pattern.split(|byte| *byte == b'*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    // Each part between two `*` may match as early as possible.
    for part in parts.filter(|part| !part.is_empty()) {
        let Some(at) = rest.windows(part.len()).position(|window| window == part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Returns a path that is the same for all names of a file.
fn identity_of(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Parses the config file and the included files of `source`, and returns a single table.
///
/// # Errors
/// Returns the errors of all files. `refusal` converts an error of the TOML parser. Its last argument is the
/// position of the file in the text of `source`.
pub(super) fn parse_files(
    source: &Source,
    refusal: impl Fn(&toml::de::Error, usize) -> Failure,
) -> Result<Spanned<DeTable<'_>>, Failure> {
    let (mut config, mut failures) = (None, Vec::new());
    for (_, span) in source.files() {
        let parsed = DeTable::parse(&source.text[span.clone()]);
        match (parsed.map_err(|error| refusal(&error, span.start)), &mut config) {
            (Err(failure), _) => failures.push(failure),
            (Ok(table), None) => config = Some(table),
            (Ok(mut table), Some(config)) => {
                move_keys(table.get_mut(), span.start);
                merge(config.get_mut(), table.into_inner(), Level::File, source, &mut failures);
            }
        }
    }
    match (config, Failure::all(failures)) {
        (Some(config), None) => Ok(config),
        (_, failure) => Err(failure.unwrap_or_else(|| Failure::joined(Vec::new()))),
    }
}

/// Moves the positions of all keys and values by `by` bytes, because the text of the file begins at this
/// position of the whole text.
fn move_keys(table: &mut DeTable<'_>, by: usize) {
    for (key, mut value) in mem::take(table) {
        move_value(&mut value, by);
        table.insert(Spanned::new(moved(&key.span(), by), key.into_inner()), value);
    }
}

fn move_value(value: &mut Spanned<DeValue<'_>>, by: usize) {
    match value.get_mut() {
        DeValue::Array(values) => values.iter_mut().for_each(|value| move_value(value, by)),
        DeValue::Table(table) => move_keys(table, by),
        _ => {}
    }
    let span = moved(&value.span(), by);
    let inner = mem::replace(value.get_mut(), DeValue::Boolean(false));
    *value = Spanned::new(span, inner);
}

const fn moved(span: &Span, by: usize) -> Span {
    span.start + by..span.end + by
}

/// The tables of several files that form one table.
#[derive(Clone, Copy)]
enum Level {
    /// Whole files.
    File,
    /// The section `mcp`.
    Mcp,
    /// A table of named objects of this kind, such as `upstream`.
    Names(&'static str),
}

impl Level {
    /// Returns the level of the table `key`. Returns `None` for keys that only one file may contain.
    fn below(self, key: &str) -> Option<Self> {
        match (self, key) {
            (Self::File, "mcp") => Some(Self::Mcp),
            (Self::File, "upstreams") => Some(Self::Names("upstream")),
            (Self::File, "policies") => Some(Self::Names("policy")),
            (Self::Mcp, "endpoints") => Some(Self::Names("MCP endpoint")),
            (Self::Mcp, "issuers") => Some(Self::Names("issuer")),
            (Self::Mcp, "servers") => Some(Self::Names("MCP server")),
            _ => None,
        }
    }
}

/// Adds the keys of `file` to `config`. Appends the items of lists of tables, and adds the entries of tables
/// with named objects.
fn merge<'f>(
    config: &mut DeTable<'f>,
    file: DeTable<'f>,
    level: Level,
    source: &Source,
    failures: &mut Vec<Failure>,
) {
    for (key, value) in file {
        let name = key.get_ref().as_ref();
        if matches!(level, Level::File) && name == KEY {
            let failure = source.failure(key.span(), "an included file cannot include other files");
            let hint = format!("add the pattern to `include` of `{}`", source.path.display());
            failures.push(failure.with_hint(hint));
            continue;
        }
        let Some((other, known)) = config.iter_mut().find(|(other, _)| other.get_ref() == key.get_ref())
        else {
            config.insert(key, value);
            continue;
        };
        let is_list = matches!(level, Level::File) && LISTS.contains(&name);
        match (known.get_mut(), value.into_inner(), level.below(name)) {
            (DeValue::Array(all), DeValue::Array(more), _) if is_list => {
                more.into_iter().for_each(|item| all.push(item));
            }
            (DeValue::Table(known), DeValue::Table(table), Some(below)) => {
                merge(known, table, below, source, failures);
            }
            _ if is_list => {
                let message =
                    format!("`{name}` is an array of tables in one file, but not in the other file");
                let failure = source.failure_between(&key.span(), &message, &other.span(), "the other file");
                failures.push(failure.with_hint(format!("write `[[{name}]]` in both files")));
            }
            _ => failures.push(repeated(source, &key, &other.span(), level)),
        }
    }
}

/// Returns the error for a key that two files contain. `other` is the position of the key in the other file.
fn repeated(source: &Source, key: &Spanned<DeString<'_>>, other: &Span, level: Level) -> Failure {
    let name = key.get_ref().escape_debug();
    let (message, hint) = match level {
        Level::Names(kind) => {
            (format!("another file has the {kind} `{name}`"), format!("give each {kind} its own name"))
        }
        Level::File | Level::Mcp => {
            (format!("another file also sets `{name}`"), format!("set `{name}` in one file only"))
        }
    };
    source.failure_between(&key.span(), &message, other, "the other file").with_hint(hint)
}

const KEY: &str = "include";

/// Lists of tables that several files can contain.
const LISTS: [&str; 2] = ["listeners", "routes"];

/// Maximum number of included files.
const FILES_MAX: usize = 1000;

const PATTERN_HINT: &str = "write the path of a file, or a pattern such as `conf.d/*.toml`";
const READ_HINT: &str = "paths are relative to the directory of the config file";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_bytes_of_a_file_name() {
        for (pattern, name) in [
            ("*", "a"),
            ("*.toml", "a.toml"),
            ("*.toml", "b.c.toml"),
            ("a*", "a"),
            ("a*b*c", "abc"),
            ("a*b*c", "a-b-b-c"),
            ("**", "a"),
            ("*ab", "aab"),
            (".*", ".a"),
            ("a", "a"),
        ] {
            assert!(matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("*.toml", "a.toml~"),
            ("*.toml", ".toml"),
            ("*", ".a"),
            ("a*b*c", "acb"),
            ("ab*b", "ab"),
            ("a*a", "a"),
            ("a*ba*a", "aba"),
            ("a", "ab"),
        ] {
            assert!(!matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
    }
}
