//! Merges the lists of several members into one list.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::members::append_member;

use super::cursor::{Cursor, InvalidCursor};
use super::items::{ListItem, ListKind};
use super::names::{EndpointNames, Withheld};

/// The items of one member.
#[derive(Clone, Copy, Debug)]
pub struct MemberItems<'a> {
    /// The index of the member in [`EndpointNames`].
    pub member: usize,
    /// The items in the order of the member.
    pub items: &'a [ListItem],
    /// `true` if the merged list contains the items. `false` if the member is missing, so that its items only
    /// reserve their names: the names of other members must not depend on the availability of this member.
    pub is_listed: bool,
}

/// The items of all members, sorted by public name or URI, with their JSON text.
#[derive(Debug)]
pub struct MergedList {
    kind: ListKind,
    entries: Vec<MergedEntry>,
    /// The JSON text of all items, separated by commas.
    text: String,
    withheld: Vec<WithheldItem>,
}

/// An item of a merged list.
#[derive(Clone, Debug)]
pub struct MergedEntry {
    /// The public name or the URI.
    pub key: Box<str>,
    /// The index of the member that owns the item.
    pub member: usize,
    /// The member's own name, or the URI.
    pub own: Box<str>,
    /// The position of the item in the text. Empty for an item that only reserves its name.
    range: Range<usize>,
}

/// An item that the endpoint does not offer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WithheldItem {
    /// The index of the member that owns the item.
    pub member: usize,
    /// The member's own name, or the URI.
    pub own: Box<str>,
    /// The reason why the endpoint does not offer the item.
    pub reason: Withheld,
}

/// A page of a merged list.
#[derive(Debug)]
pub struct Page<'a> {
    kind: ListKind,
    /// The items as JSON text, separated by commas.
    pub items: &'a str,
    /// The cursor of the next page, if any.
    pub next: Option<Cursor>,
}
