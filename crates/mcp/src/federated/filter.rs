//! The operator's selection of a member's tools, and new names for them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::patterns::{Glob, InvalidGlob};

/// Selects the tools of a member that clients can see and call, and renames them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ToolFilter {
    /// Globs for the own names of the offered tools. In a glob, `*` matches any characters, also none.
    /// Default: empty, which offers all tools.
    pub allow: Vec<String>,
    /// Globs for the own names of the hidden tools. A tool that matches `allow` and `deny` is hidden. The case
    /// of ASCII letters does not matter here, because some servers ignore the case of names.
    /// Default: empty.
    pub deny: Vec<String>,
    /// New names of tools, by own name. `allow` and `deny` apply to the own name.
    pub rename: BTreeMap<String, String>,
}

/// The error for a [`ToolFilter`] that has an invalid entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InvalidFilter {
    /// A glob is empty or too long.
    Glob(InvalidGlob),
    /// The new name has no character or more than 128 characters, or contains a character other than ASCII
    /// letters, digits, `_`, `-`, `.` and `/`.
    NewName(String),
    /// Two tools have the same new name.
    DuplicateNewName(String),
}

/// A checked [`ToolFilter`]. Each new name belongs to at most one own name.
#[derive(Clone, Default, Debug)]
pub struct CompiledFilter {
    allow: Box<[Glob]>,
    deny: Box<[Glob]>,
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
        let mut own_names = BTreeMap::new();
        for (own, new) in &self.rename {
            check_new_name(new)?;
            if own_names.insert(new.clone(), own.clone()).is_some() {
                return Err(InvalidFilter::DuplicateNewName(new.clone()));
            }
        }
        Ok(CompiledFilter {
            allow: globs(&self.allow)?,
            deny: globs(&self.deny)?,
            new_names: self.rename.clone(),
            own_names,
        })
    }
}

impl CompiledFilter {
    /// `true` if the filter offers all tools under their own names.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty() && self.new_names.is_empty()
    }

    /// Returns `true` if clients must not see and call the tool `own`.
    pub fn hides(&self, own: &str) -> bool {
        let is_allowed = self.allow.is_empty() || self.allow.iter().any(|glob| glob.matches(own));
        !is_allowed || self.deny.iter().any(|glob| glob.matches_in_any_case(own))
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

fn globs(texts: &[String]) -> Result<Box<[Glob]>, InvalidFilter> {
    texts.iter().map(|text| Glob::try_from(&**text).map_err(InvalidFilter::Glob)).collect()
}

fn check_new_name(name: &str) -> Result<(), InvalidFilter> {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    let is_valid = (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(is_name_byte);
    if is_valid { Ok(()) } else { Err(InvalidFilter::NewName(name.into())) }
}

impl fmt::Display for InvalidFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Glob(error) => error.fmt(f),
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

/// Maximum length of a public name, in characters (MCP revision 2025-11-25, section Tool Names).
pub(super) const NAME_CHARS_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(
        allow: &[&str],
        deny: &[&str],
        rename: &[(&str, &str)],
    ) -> Result<CompiledFilter, InvalidFilter> {
        let texts = |globs: &[&str]| globs.iter().map(|glob| (*glob).into()).collect();
        let rename = rename.iter().map(|(own, new)| ((*own).into(), (*new).into())).collect();
        ToolFilter { allow: texts(allow), deny: texts(deny), rename }.compile()
    }

    #[test]
    fn deny_wins_over_allow() {
        let filter = filter(&["*issue*"], &["delete_*"], &[]).unwrap();
        assert!(!filter.hides("read_issue"));
        assert!(filter.hides("delete_issue"));
        assert!(filter.hides("read_file"));
    }

    #[test]
    fn empty_filter_offers_all_tools() {
        let filter = CompiledFilter::default();
        assert!(!filter.hides("a"));
        assert_eq!((filter.new_name("a"), filter.own_name("a")), (Some("a"), Some("a")));
    }

    #[test]
    fn two_tools_can_exchange_their_names() {
        let filter = filter(&[], &[], &[("a", "b"), ("b", "a")]).unwrap();
        assert_eq!((filter.new_name("a"), filter.own_name("b")), (Some("b"), Some("a")));
        assert_eq!((filter.new_name("b"), filter.own_name("a")), (Some("a"), Some("b")));
    }

    #[test]
    fn tool_loses_a_name_that_another_tool_has_received() {
        let filter = filter(&[], &[], &[("a", "b")]).unwrap();
        assert_eq!((filter.new_name("a"), filter.own_name("b")), (Some("b"), Some("a")));
        assert_eq!(filter.new_name("b"), None);
        assert_eq!(filter.own_name("a"), None);
    }

    #[test]
    fn rename_does_not_show_a_hidden_tool() {
        let filter = filter(&[], &["a"], &[("a", "b")]).unwrap();
        assert!(filter.hides("a"));
        assert!(!filter.hides("b"));
    }

    #[test]
    fn invalid_entries_are_errors() {
        let long = "x".repeat(NAME_CHARS_MAX + 1);
        for new in ["", "a b", "ä", "a\n", &long] {
            assert_eq!(filter(&[], &[], &[("a", new)]).err(), Some(InvalidFilter::NewName(new.into())));
        }
        assert_eq!(
            filter(&[], &[], &[("a", "c"), ("b", "c")]).err(),
            Some(InvalidFilter::DuplicateNewName("c".into()))
        );
        assert_eq!(filter(&[""], &[], &[]).err(), Some(InvalidFilter::Glob(InvalidGlob(String::new()))));
        assert_eq!(filter(&[], &[""], &[]).err(), Some(InvalidFilter::Glob(InvalidGlob(String::new()))));
    }
}
