//! Merges the lists of several members into one list.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
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
    /// `true` if the merged list contains the items. `false` if the member is missing. The items then only
    /// reserve their names. Otherwise, the names of other members' items would depend on the availability of
    /// this member.
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

impl MergedList {
    /// Merges the lists of `members`, which must be in configuration order. If several members have the same
    /// URI, the first member gets it. `names` decides about names.
    pub fn merge(names: &EndpointNames, kind: ListKind, members: &[MemberItems<'_>]) -> Self {
        let mut claims = Claims { names, kind, by_key: BTreeMap::new(), withheld: Vec::new() };
        for member in members {
            for item in member.items {
                claims.add(member, item);
            }
        }
        claims.into_list()
    }

    /// Returns the items in the order of their public names or URIs. Omits items that only reserve their
    /// names.
    pub fn entries(&self) -> impl Iterator<Item = &MergedEntry> {
        self.entries.iter().filter(|entry| entry.is_listed())
    }

    /// Returns the item with this public name or URI. Includes items that only reserve their names.
    pub fn find(&self, key: &str) -> Option<&MergedEntry> {
        let index = self.entries.binary_search_by(|entry| (*entry.key).cmp(key)).ok()?;
        self.entries.get(index)
    }

    /// Returns the JSON text of an item of this list. The text is empty for an item that only reserves its
    /// name.
    pub fn json_of(&self, entry: &MergedEntry) -> &str {
        &self.text[entry.range.clone()]
    }

    /// Returns all items, including those that only reserve their names.
    pub fn all(&self) -> &[MergedEntry] {
        &self.entries
    }

    /// Returns the items that the endpoint does not offer.
    pub fn withheld(&self) -> &[WithheldItem] {
        &self.withheld
    }

    /// Returns a copy of the list with only the items that `is_kept` selects. The copy has no withheld items.
    #[must_use]
    pub fn filtered(&self, is_kept: impl Fn(&MergedEntry) -> bool) -> Self {
        let (mut entries, mut text) = (Vec::new(), String::new());
        for entry in self.entries().filter(|entry| is_kept(entry)) {
            if !text.is_empty() {
                text.push(',');
            }
            let start = text.len();
            text.push_str(&self.text[entry.range.clone()]);
            entries.push(MergedEntry { range: start..text.len(), ..entry.clone() });
        }
        Self { kind: self.kind, entries, text, withheld: Vec::new() }
    }

    /// Returns at most `entries_max` items after the position `cursor`, or from the start. `entries_max` must
    /// not be 0.
    ///
    /// # Errors
    /// The cursor does not belong to a list of this kind.
    pub fn page(&self, cursor: Option<&str>, entries_max: usize) -> Result<Page<'_>, InvalidCursor> {
        let start = match cursor {
            None => 0,
            Some(cursor) => {
                let last = Cursor::decode(self.kind, cursor)?.last;
                self.entries.partition_point(|entry| *entry.key <= *last)
            }
        };
        let mut rest = self.entries[start..].iter().filter(|entry| entry.is_listed());
        let (mut text, mut last) = (0..0, None);
        for entry in rest.by_ref().take(entries_max) {
            let text_start = if last.is_some() { text.start } else { entry.range.start };
            text = text_start..entry.range.end;
            last = Some(entry);
        }
        let has_more = rest.next().is_some();
        let next = last.filter(|_| has_more).map(|last| Cursor { kind: self.kind, last: (*last.key).into() });
        Ok(Page { kind: self.kind, items: &self.text[text], next })
    }
}

impl MergedEntry {
    /// `true` if the list contains the item, `false` if the item only reserves its name.
    pub fn is_listed(&self) -> bool {
        !self.range.is_empty()
    }
}

impl Page<'_> {
    /// Appends the page as members of a result, such as `"tools":[…],"nextCursor":"…"`. The items `first`
    /// come before the items of the page: JSON text with commas between the items, or an empty text.
    pub fn append_members(&self, output: &mut Vec<u8>, first: &str) {
        output.push(b'"');
        output.extend_from_slice(self.kind.result_member().as_bytes());
        output.extend_from_slice(b"\":[");
        output.extend_from_slice(first.as_bytes());
        if !first.is_empty() && !self.items.is_empty() {
            output.push(b',');
        }
        output.extend_from_slice(self.items.as_bytes());
        output.push(b']');
        if let Some(next) = &self.next {
            // The text of a cursor needs no escapes.
            append_member(output, "nextCursor", &format!("\"{}\"", next.encode()));
        }
    }
}

/// The items of all members by public name or URI.
struct Claims<'a> {
    names: &'a EndpointNames,
    kind: ListKind,
    by_key: BTreeMap<Cow<'a, str>, Vec<Claim<'a>>>,
    withheld: Vec<WithheldItem>,
}

/// The claim of a member to a public name or URI.
#[derive(Clone, Copy)]
struct Claim<'a> {
    member: usize,
    item: &'a ListItem,
    is_listed: bool,
}

impl<'a> Claims<'a> {
    fn add(&mut self, member: &MemberItems<'a>, item: &'a ListItem) {
        let &MemberItems { member, is_listed, .. } = member;
        let claim = Claim { member, item, is_listed };
        let key = if self.kind.has_names() {
            self.names.public(member, self.kind, item.key())
        } else {
            self.names.public_uri(member, item.key())
        };
        match key {
            Err(reason) => self.withhold(claim, reason),
            Ok(key) => {
                let claims = self.by_key.entry(key).or_default();
                if claims.iter().any(|claim| claim.member == member) {
                    self.withhold(claim, Withheld::Duplicate);
                } else {
                    claims.push(claim);
                }
            }
        }
    }

    fn withhold(&mut self, claim: Claim<'_>, reason: Withheld) {
        self.withheld.push(WithheldItem { member: claim.member, own: claim.item.key().into(), reason });
    }

    fn into_list(mut self) -> MergedList {
        let (mut entries, mut text) = (Vec::with_capacity(self.by_key.len()), String::new());
        for (key, claims) in core::mem::take(&mut self.by_key) {
            let Some(Claim { member, item, is_listed }) = self.settle(&claims) else { continue };
            if is_listed && !text.is_empty() {
                text.push(',');
            }
            let start = text.len();
            if is_listed {
                self.with_public_uris(member, item).append_with_key(&mut text, &key);
            }
            entries.push(MergedEntry {
                key: key.into(),
                member,
                own: item.key().into(),
                range: start..text.len(),
            });
        }
        MergedList { kind: self.kind, entries, text, withheld: self.withheld }
    }

    /// Returns the item with public URIs in its metadata. Only tools have such URIs.
    fn with_public_uris(&self, member: usize, item: &'a ListItem) -> Cow<'a, ListItem> {
        let uris = self.names.uris_of(member).filter(|_| self.kind == ListKind::Tools);
        let rewritten = uris.and_then(|uris| uris.rewrite_tool(item.json()));
        let rewritten = rewritten.and_then(|json| ListItem::parse(self.kind, &json).ok());
        rewritten.map_or(Cow::Borrowed(item), Cow::Owned)
    }

    /// Returns the claim that gets the name or URI, if any, and withholds the items of the other claims.
    fn settle(&mut self, claims: &[Claim<'a>]) -> Option<Claim<'a>> {
        if let [claim] = claims {
            return Some(*claim);
        }
        let members: Box<[usize]> = claims.iter().map(|claim| claim.member).collect();
        let owner =
            if self.kind.has_names() { self.names.preferred(&members) } else { members.first().copied() };
        for claim in claims.iter().filter(|claim| Some(claim.member) != owner) {
            let reason = owner.map_or_else(|| Withheld::Clash(members.clone()), Withheld::OtherMember);
            self.withhold(*claim, reason);
        }
        claims.iter().find(|claim| Some(claim.member) == owner).copied()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use serde_json::value::RawValue;

    use super::*;
    use crate::federated::filter::CompiledFilter;
    use crate::federated::names::{MemberName, NameStyle};

    fn endpoint(style: NameStyle, preferred: &[usize]) -> EndpointNames {
        let members =
            ["a", "b", "c"].map(|name| (MemberName::try_from(name).unwrap(), CompiledFilter::default()));
        EndpointNames::new(style, members, preferred)
    }

    fn items(kind: ListKind, keys: &[&str]) -> Vec<ListItem> {
        let items = keys.iter().map(|key| {
            let json = format!("{{\"{}\":\"{key}\"}}", kind.key_member());
            ListItem::parse(kind, &RawValue::from_string(json).unwrap()).unwrap()
        });
        items.collect()
    }

    fn merge(names: &EndpointNames, kind: ListKind, lists: &[(&[&str], bool)]) -> MergedList {
        let items: Vec<_> = lists.iter().map(|(keys, _)| items(kind, keys)).collect();
        let members = lists.iter().zip(&items).enumerate();
        let members = members.map(|(member, ((_, is_listed), items))| MemberItems {
            member,
            items,
            is_listed: *is_listed,
        });
        MergedList::merge(names, kind, &members.collect::<Vec<_>>())
    }

    fn keys(list: &MergedList) -> Vec<&str> {
        list.entries().map(|entry| &*entry.key).collect()
    }

    fn withheld(list: &MergedList) -> Vec<(usize, String, Withheld)> {
        let withheld = list.withheld().iter();
        withheld.map(|item| (item.member, item.own.to_string(), item.reason.clone())).collect()
    }

    /// Returns the text of all pages.
    fn pages(list: &MergedList, entries_max: usize) -> Vec<String> {
        let (mut pages, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let page = list.page(cursor.as_deref(), entries_max).unwrap();
            pages.push(page.items.to_string());
            match page.next {
                Some(next) => cursor = Some(next.encode()),
                None => return pages,
            }
        }
    }

    #[test]
    fn merged_list_is_sorted_by_public_name() {
        let list = merge(
            &endpoint(NameStyle::Prefixed, &[]),
            ListKind::Tools,
            &[(&["z", "x"], true), (&["y"], true)],
        );
        assert_eq!(keys(&list), ["a__x", "a__z", "b__y"]);
        assert_eq!(pages(&list, 9), [r#"{"name":"a__x"},{"name":"a__z"},{"name":"b__y"}"#]);
        let found = list.find("a__z").unwrap();
        assert_eq!((found.member, &*found.own), (0, "z"));
        assert!(list.find("z").is_none());
    }

    #[test]
    fn pages_contain_each_item_once() {
        let lists: [(&[&str], bool); 3] =
            [(&["1", "4", "7"], true), (&["2", "5"], false), (&["3", "6"], true)];
        let list = merge(&endpoint(NameStyle::Plain, &[]), ListKind::Tools, &lists);
        for (entries_max, count) in [(1, 5), (2, 3), (3, 2), (5, 1), (100, 1)] {
            let pages = pages(&list, entries_max);
            assert_eq!(pages.len(), count);
            let all = [1, 3, 4, 6, 7].map(|name| format!("{{\"name\":\"{name}\"}}")).join(",");
            assert_eq!(pages.join(","), all);
        }
    }

    #[test]
    fn cursor_survives_the_removal_of_its_item() {
        let names = endpoint(NameStyle::Plain, &[]);
        let before = merge(&names, ListKind::Tools, &[(&["1", "2", "3"], true)]);
        let next = before.page(None, 2).unwrap().next.unwrap().encode();
        let after = merge(&names, ListKind::Tools, &[(&["1", "3", "4"], true)]);
        assert_eq!(after.page(Some(&next), 9).unwrap().items, r#"{"name":"3"},{"name":"4"}"#);
        let end = merge(&names, ListKind::Tools, &[]);
        let page = end.page(Some(&next), 9).unwrap();
        assert_eq!((page.items, page.next), ("", None));
        assert!(before.page(Some("2"), 9).is_err());
    }

    #[test]
    fn plain_name_of_two_members_is_withheld() {
        let list = merge(
            &endpoint(NameStyle::Plain, &[]),
            ListKind::Prompts,
            &[(&["x", "y"], true), (&["x"], true), (&["x", "z"], true)],
        );
        assert_eq!(keys(&list), ["y", "z"]);
        let clash = Withheld::Clash([0, 1, 2].into());
        assert_eq!(withheld(&list), [0, 1, 2].map(|member| (member, "x".into(), clash.clone())));
        assert!(list.find("x").is_none());
    }

    #[test]
    fn preferred_member_gets_a_plain_name_of_two_members() {
        let names = endpoint(NameStyle::Plain, &[2, 1]);
        let list = merge(&names, ListKind::Tools, &[(&["x"], true), (&["x", "y"], true), (&["y"], true)]);
        assert_eq!(list.find("x").unwrap().member, 1);
        assert_eq!(list.find("y").unwrap().member, 2);
        assert_eq!(
            withheld(&list),
            [(0, "x".into(), Withheld::OtherMember(1)), (1, "y".into(), Withheld::OtherMember(2))]
        );
    }

    #[test]
    fn missing_member_keeps_its_names() {
        let lists: [(&[&str], bool); 2] = [(&["x", "y"], false), (&["x", "z"], true)];
        let list = merge(&endpoint(NameStyle::Plain, &[]), ListKind::Tools, &lists);
        assert_eq!(keys(&list), ["z"]);
        assert!(list.find("x").is_none());
        assert_eq!(list.find("y").map(|entry| (entry.member, entry.is_listed())), Some((0, false)));
        let list = merge(&endpoint(NameStyle::Plain, &[0]), ListKind::Tools, &lists);
        assert_eq!(list.find("x").map(|entry| (entry.member, entry.is_listed())), Some((0, false)));
    }

    #[test]
    fn filtered_list_has_only_the_selected_items() {
        let lists: [(&[&str], bool); 2] = [(&["1", "3"], true), (&["2", "4"], false)];
        let list = merge(&endpoint(NameStyle::Plain, &[]), ListKind::Tools, &lists);
        assert_eq!(keys(&list.filtered(|entry| *entry.key != *"1")), ["3"]);
        assert_eq!(pages(&list.filtered(|_| true), 1), pages(&list, 1));
        assert_eq!(pages(&list.filtered(|_| false), 9), [""]);
        assert_eq!(list.filtered(|_| true).find("2").map(|entry| entry.member), None);
    }

    #[test]
    fn first_member_gets_a_uri_of_two_members() {
        let names = endpoint(NameStyle::Prefixed, &[1]);
        let list = merge(&names, ListKind::Resources, &[(&["x:1"], true), (&["x:1", "x:2"], true)]);
        assert_eq!(list.find("x:1").unwrap().member, 0);
        assert_eq!(pages(&list, 9), [r#"{"uri":"x:1"},{"uri":"x:2"}"#]);
        assert_eq!(withheld(&list), [(1, "x:1".into(), Withheld::OtherMember(0))]);
    }

    #[test]
    fn second_item_with_the_same_name_is_withheld() {
        let list = merge(&endpoint(NameStyle::Prefixed, &[]), ListKind::Tools, &[(&["x", "x", ""], true)]);
        assert_eq!(keys(&list), ["a__x"]);
        assert_eq!(
            withheld(&list),
            [(0, "x".into(), Withheld::Duplicate), (0, String::new(), Withheld::Invalid)]
        );
    }

    #[test]
    fn page_is_written_as_members_of_a_result() {
        let list =
            merge(&endpoint(NameStyle::Plain, &[]), ListKind::ResourceTemplates, &[(&["a", "b"], true)]);
        let mut output = Vec::new();
        list.page(None, 1).unwrap().append_members(&mut output, "");
        let cursor = Cursor { kind: ListKind::ResourceTemplates, last: "a".into() }.encode();
        let expected = format!(r#""resourceTemplates":[{{"uriTemplate":"a"}}],"nextCursor":"{cursor}""#);
        assert_eq!(String::from_utf8(output).unwrap(), expected);
    }
}
