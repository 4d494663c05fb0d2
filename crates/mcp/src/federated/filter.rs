//! The operator's selection of a member's tools, and new names for them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::names::NAME_CHARS_MAX;

/// Selects the tools of a member that clients can see and call, and renames them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ToolFilter {
    /// Globs for the own names of the offered tools. In a glob, `*` matches any characters, also none. Default:
    /// empty, which offers all tools.
    pub allow: Vec<String>,
    /// Globs for the own names of the hidden tools. A tool that matches `allow` and `deny` is hidden. Default:
    /// empty.
    pub deny: Vec<String>,
    /// New names of tools, by own name. `allow` and `deny` apply to the own name.
    pub rename: BTreeMap<String, String>,
}

/// The error for a [`ToolFilter`] that has an invalid entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InvalidFilter {
    /// A glob is empty, or is longer than the longest tool name.
    Glob(String),
    /// The new name has no character or more than 128 characters, or contains a character other than ASCII
    /// letters, digits, `_`, `-`, `.` and `/`.
    NewName(String),
    /// Two tools have the same new name.
    DuplicateNewName(String),
}

/// A checked [`ToolFilter`]. Each new name belongs to at most one own name.
#[derive(Clone, Default, Debug)]
pub struct CompiledFilter {
    allow: Box<[String]>,
    deny: Box<[String]>,
    /// New names, by own name.
    new_names: BTreeMap<String, String>,
    /// Own names, by new name.
    own_names: BTreeMap<String, String>,
}

impl ToolFilter {
    /// Checks the filter.
    ///
    /// # Errors
    /// Returns an error for an invalid glob, and for an invalid or duplicate new name.
    pub fn compile(&self) -> Result<CompiledFilter, InvalidFilter> {
        for glob in self.allow.iter().chain(&self.deny) {
            check_glob(glob)?;
        }
        let mut own_names = BTreeMap::new();
        for (own, new) in &self.rename {
            check_new_name(new)?;
            if own_names.insert(new.clone(), own.clone()).is_some() {
                return Err(InvalidFilter::DuplicateNewName(new.clone()));
            }
        }
        Ok(CompiledFilter {
            allow: self.allow.as_slice().into(),
            deny: self.deny.as_slice().into(),
            new_names: self.rename.clone(),
            own_names,
        })
    }
}

impl CompiledFilter {
    /// Returns `true` if clients must not see and call the tool `own`.
    pub fn hides(&self, own: &str) -> bool {
        let is_allowed = self.allow.is_empty() || self.allow.iter().any(|glob| matches(glob, own));
        !is_allowed || self.deny.iter().any(|glob| matches(glob, own))
    }

    /// Returns the name of the tool `own` after renaming. Returns `None` if another tool has received this
    /// name.
    pub fn new_name<'a>(&'a self, own: &'a str) -> Option<&'a str> {
        match self.new_names.get(own) {
            Some(new) => Some(new),
            None => (!self.own_names.contains_key(own)).then_some(own),
        }
    }

    /// Returns the own name of the tool that is called `new` after renaming. Returns `None` if the tool of
    /// this name has received another name.
    pub fn own_name<'a>(&'a self, new: &'a str) -> Option<&'a str> {
        match self.own_names.get(new) {
            Some(own) => Some(own),
            None => (!self.new_names.contains_key(new)).then_some(new),
        }
    }
}

fn check_glob(glob: &str) -> Result<(), InvalidFilter> {
    let is_valid = !glob.is_empty() && glob.len() <= GLOB_BYTES_MAX;
    if is_valid { Ok(()) } else { Err(InvalidFilter::Glob(glob.into())) }
}

fn check_new_name(name: &str) -> Result<(), InvalidFilter> {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    let is_valid = (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(is_name_byte);
    if is_valid { Ok(()) } else { Err(InvalidFilter::NewName(name.into())) }
}

/// Returns `true` if `glob` matches the whole `name`. Needs at most `glob.len() * name.len()` steps.
fn matches(glob: &str, name: &str) -> bool {
    let mut parts = glob.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

impl fmt::Display for InvalidFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Glob(glob) => write!(f, "invalid glob `{glob}`: expected 1 to {GLOB_BYTES_MAX} bytes"),
            Self::NewName(name) => write!(
                f,
                "invalid new name `{name}`: expected 1 to {NAME_CHARS_MAX} ASCII letters, digits, `_`, `-`, \
                 `.` and `/`"
            ),
            Self::DuplicateNewName(name) => write!(f, "two tools have the new name `{name}`"),
        }
    }
}

impl core::error::Error for InvalidFilter {}

/// Maximum length of a glob, in bytes.
const GLOB_BYTES_MAX: usize = 256;
