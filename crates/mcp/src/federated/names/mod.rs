//! The public names of the tools and prompts of several members.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use super::filter::{CompiledFilter, NAME_CHARS_MAX};
use super::items::ListKind;
use super::uris::UriRewriter;

/// The name of a member: 1 to 24 lowercase ASCII letters, digits and hyphens.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MemberName(Arc<str>);

/// The error for a text that is not a [`MemberName`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidMemberName(pub String);

/// The form of public names.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum NameStyle {
    /// `member__name`. The names of different members never clash.
    #[default]
    Prefixed,
    /// The member's own name. If several members have the same name, the endpoint offers the one of the
    /// preferred member. Without a preferred member, the endpoint offers none of them.
    Plain,
}

/// The reason why an endpoint does not offer an item of a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Withheld {
    /// The operator has hidden the tool.
    Hidden,
    /// The public name has more than 128 characters.
    TooLong,
    /// The item has an empty name, or the item is not valid JSON with one name.
    Invalid,
    /// The operator has given the name of this tool to another tool of the same member.
    NameReused,
    /// The member lists this name or URI twice. The endpoint offers the first item.
    Duplicate,
    /// Another member has a tool or prompt with the same plain name. Contains the indexes of all these
    /// members.
    Clash(Box<[usize]>),
    /// Another member comes first in the operator's order and has the same plain name, or the same URI.
    /// Contains the index of that member.
    OtherMember(usize),
    /// The endpoint itself has a tool with this name.
    Reserved,
    /// The member's list has more items than the endpoint accepts.
    TooMany,
}

/// The rules of an endpoint for public names. All rules depend only on the configuration.
#[derive(Debug)]
pub struct EndpointNames {
    style: NameStyle,
    members: Box<[Member]>,
    /// The public names of the endpoint's own tools.
    reserved: &'static [&'static str],
}

#[derive(Debug)]
struct Member {
    name: MemberName,
    filter: CompiledFilter,
    /// The position of the member in the operator's order of preference.
    preference: Option<usize>,
    /// `None` if clients use the member's own URIs.
    uris: Option<UriRewriter>,
}

impl MemberName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for MemberName {
    type Error = InvalidMemberName;

    fn try_from(name: &str) -> Result<Self, InvalidMemberName> {
        let is_name_byte = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_valid = (1..=MEMBER_NAME_MAX).contains(&name.len()) && name.bytes().all(is_name_byte);
        if is_valid { Ok(Self(name.into())) } else { Err(InvalidMemberName(name.into())) }
    }
}

impl EndpointNames {
    /// Creates the rules. The index of a member in `members` identifies the member. `preferred` contains the
    /// indexes of members, the most preferred member first.
    pub fn new(
        style: NameStyle,
        members: impl IntoIterator<Item = (MemberName, CompiledFilter)>,
        preferred: &[usize],
    ) -> Self {
        let members = members.into_iter().enumerate().map(|(index, (name, filter))| Member {
            name,
            filter,
            preference: preferred.iter().position(|preferred| *preferred == index),
            uris: None,
        });
        Self { style, members: members.collect(), reserved: &[] }
    }

    /// Reserves names for tools of the endpoint itself. The endpoint withholds tools of members with such a
    /// public name.
    #[must_use]
    pub const fn with_reserved_tools(mut self, reserved: &'static [&'static str]) -> Self {
        self.reserved = reserved;
        self
    }

    /// Sets the mapping of the URIs of a member.
    ///
    /// # Panics
    /// Panics if there is no member with this index.
    pub fn rewrite_uris(&mut self, member: usize, uris: UriRewriter) {
        self.members[member].uris = Some(uris);
    }

    /// Returns the form of the public names.
    pub const fn style(&self) -> NameStyle {
        self.style
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// `true` if there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the name of a member.
    ///
    /// # Panics
    /// Panics if there is no member with this index.
    pub fn member_name(&self, member: usize) -> &MemberName {
        &self.members[member].name
    }

    /// Returns the member with this name.
    pub fn member(&self, name: &str) -> Option<usize> {
        self.members.iter().position(|member| member.name.as_str() == name)
    }

    /// Returns the public name of a member's tool or prompt.
    ///
    /// # Errors
    /// Returns the reason if the endpoint does not offer the item.
    ///
    /// # Panics
    /// Panics if there is no member with this index.
    pub fn public<'a>(
        &'a self,
        member: usize,
        kind: ListKind,
        own: &'a str,
    ) -> Result<Cow<'a, str>, Withheld> {
        let Member { name, filter, .. } = &self.members[member];
        if own.is_empty() {
            return Err(Withheld::Invalid);
        }
        let new = match kind {
            ListKind::Tools if filter.hides(own) => return Err(Withheld::Hidden),
            ListKind::Tools => filter.new_name(own).ok_or(Withheld::NameReused)?,
            _ => own,
        };
        let public = match self.style {
            NameStyle::Prefixed => Cow::Owned(format!("{}{SEPARATOR}{new}", name.as_str())),
            NameStyle::Plain => Cow::Borrowed(new),
        };
        if kind == ListKind::Tools && self.reserved.contains(&&*public) {
            return Err(Withheld::Reserved);
        }
        if public.chars().nth(NAME_CHARS_MAX).is_some() { Err(Withheld::TooLong) } else { Ok(public) }
    }

    /// Returns the mapping of the URIs of a member. Returns `None` if clients use the member's own URIs.
    ///
    /// # Panics
    /// Panics if there is no member with this index.
    pub fn uris_of(&self, member: usize) -> Option<&UriRewriter> {
        self.members[member].uris.as_ref()
    }

    /// Returns the public form of the URI or URI template `own` of a member.
    ///
    /// # Errors
    /// The public URIs of another member begin with the same text.
    ///
    /// # Panics
    /// Panics if there is no member with this index.
    pub fn public_uri<'a>(&self, member: usize, own: &'a str) -> Result<Cow<'a, str>, Withheld> {
        match (self.uris_of(member), self.owner_by_prefix(own)) {
            (Some(uris), _) => Ok(Cow::Owned(uris.public(own))),
            (None, Some(other)) => Err(Withheld::OtherMember(other)),
            (None, None) => Ok(Cow::Borrowed(own)),
        }
    }

    /// Returns the member whose rewritten URIs begin like `public`, if any.
    pub fn owner_by_prefix(&self, public: &str) -> Option<usize> {
        let is_owner = |member: &Member| member.uris.as_ref().is_some_and(|uris| uris.own(public).is_some());
        self.members.iter().position(is_owner)
    }

    /// Returns the text with which the keys of all items of a member begin. Empty for plain names and for URIs.
    ///
    /// # Panics
    /// Panics if there is no member with this index.
    pub fn prefix(&self, kind: ListKind, member: usize) -> String {
        match self.style {
            NameStyle::Prefixed if kind.has_names() => {
                format!("{}{SEPARATOR}", self.members[member].name.as_str())
            }
            _ => String::new(),
        }
    }

    /// Returns `true` if the operator hides or renames tools of this member, and `kind` is the list of tools.
    ///
    /// # Panics
    /// Panics if there is no member with this index.
    pub fn hides_some(&self, kind: ListKind, member: usize) -> bool {
        kind == ListKind::Tools && !self.members[member].filter.is_empty()
    }

    /// Returns `true` if the plain names of `member` belong to this member even if `other` has the same names.
    ///
    /// # Panics
    /// Panics if there is no member with one of these indexes.
    pub fn is_preferred(&self, member: usize, other: usize) -> bool {
        member == other || self.preferred(&[member, other]) == Some(member)
    }

    /// Returns the members that may own the tool or prompt with the public name `public`, in configuration
    /// order, with their own names for it. A prefixed name has at most one such member. This method does not
    /// know whether the members have the tool or prompt.
    pub fn candidates<'a>(
        &'a self,
        kind: ListKind,
        public: &'a str,
    ) -> impl Iterator<Item = (usize, &'a str)> + 'a {
        let (members, name) = match self.style {
            NameStyle::Plain => (0..self.len(), public),
            NameStyle::Prefixed => self.split(public).unwrap_or((0..0, "")),
        };
        members.filter_map(move |member| Some((member, self.own(member, kind, name, public)?)))
    }

    fn split<'a>(&self, public: &'a str) -> Option<(core::ops::Range<usize>, &'a str)> {
        let (member, name) = public.split_once(SEPARATOR)?;
        let member = self.member(member)?;
        Some((member..member + 1, name))
    }

    /// Returns the own name of the item that is called `new` after renaming. The comparison with the public
    /// name ensures that clients can call exactly the names that the endpoint can list.
    fn own<'a>(&'a self, member: usize, kind: ListKind, new: &'a str, public: &str) -> Option<&'a str> {
        let own = match kind {
            ListKind::Tools => self.members[member].filter.own_name(new)?,
            _ => new,
        };
        self.public(member, kind, own).is_ok_and(|listed| listed == public).then_some(own)
    }

    /// Returns the owner of a plain name that several members claim: the most preferred one.
    pub(super) fn preferred(&self, claimants: &[usize]) -> Option<usize> {
        let preferred = claimants.iter().filter(|member| self.members[**member].preference.is_some());
        preferred.min_by_key(|member| self.members[**member].preference).copied()
    }
}

impl fmt::Display for MemberName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for InvalidMemberName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invalid server name `{}`: expected 1 to {MEMBER_NAME_MAX} lowercase letters, digits and hyphens",
            self.0
        )
    }
}

impl core::error::Error for InvalidMemberName {}

/// Separates the name of the member from the name of the tool. A member name contains no underscore, so the
/// first separator in a public name is always the one that the endpoint has inserted.
const SEPARATOR: &str = "__";

/// Maximum length of the name of a member, in bytes.
const MEMBER_NAME_MAX: usize = 24;

#[cfg(test)]
mod tests;
