//! Tests of public names.

use alloc::borrow::ToOwned as _;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::federated::filter::ToolFilter;

const TOOLS: ListKind = ListKind::Tools;

fn names(style: NameStyle, members: &[&str], preferred: &[usize]) -> EndpointNames {
    let members =
        members.iter().map(|name| (MemberName::try_from(*name).unwrap(), CompiledFilter::default()));
    EndpointNames::new(style, members, preferred)
}

#[test]
fn member_names_are_short_and_have_no_underscore() {
    for name in ["a", "0", "-", "git-hub2", "abcdefghijklmnopqrstuvwx"] {
        assert_eq!(MemberName::try_from(name).unwrap().as_str(), name);
    }
    for name in ["", "A", "a_b", "a b", "ä", "a.b", "abcdefghijklmnopqrstuvwxy"] {
        assert_eq!(MemberName::try_from(name), Err(InvalidMemberName(name.into())));
    }
}

#[test]
fn prefixed_name_is_split_at_the_first_separator() {
    let names = names(NameStyle::Prefixed, &["a", "a-b"], &[]);
    for (member, own, public) in
        [(0, "x", "a__x"), (1, "x", "a-b__x"), (0, "_x", "a___x"), (0, "b__x", "a__b__x"), (0, "__", "a____")]
    {
        assert_eq!(names.public(member, TOOLS, own).unwrap(), public);
        assert_eq!(names.candidates(TOOLS, public).collect::<Vec<_>>(), [(member, own)]);
    }
}

#[test]
fn other_spellings_of_a_prefixed_name_are_unknown() {
    let names = names(NameStyle::Prefixed, &["a"], &[]);
    for public in ["x", "a_x", "a__", "A__x", "b__x", " a__x", "__x", "", "a"] {
        assert_eq!(names.candidates(TOOLS, public).count(), 0, "{public}");
    }
}

#[test]
fn plain_name_can_belong_to_every_member() {
    let names = names(NameStyle::Plain, &["a", "b"], &[]);
    assert_eq!(names.public(1, TOOLS, "x").unwrap(), "x");
    assert_eq!(names.candidates(TOOLS, "x").collect::<Vec<_>>(), [(0, "x"), (1, "x")]);
}

#[test]
fn names_over_128_characters_are_withheld_and_unknown() {
    for (style, prefix) in [(NameStyle::Prefixed, "a__"), (NameStyle::Plain, "")] {
        let names = names(style, &["a"], &[]);
        let longest = "ä".repeat(NAME_CHARS_MAX - prefix.len());
        assert!(names.public(0, TOOLS, &longest).is_ok());
        assert_eq!(names.candidates(TOOLS, &format!("{prefix}{longest}")).count(), 1);
        let too_long = format!("{longest}x");
        assert_eq!(names.public(0, TOOLS, &too_long), Err(Withheld::TooLong));
        assert_eq!(names.candidates(TOOLS, &format!("{prefix}{too_long}")).count(), 0);
    }
}

#[test]
fn filter_applies_only_to_tools() {
    let filter = ToolFilter { deny: vec!["*".into()], ..ToolFilter::default() }.compile().unwrap();
    let names = EndpointNames::new(NameStyle::Prefixed, [(MemberName::try_from("a").unwrap(), filter)], &[]);
    assert_eq!(names.public(0, TOOLS, "x"), Err(Withheld::Hidden));
    assert_eq!(names.public(0, ListKind::Prompts, "x").unwrap(), "a__x");
    assert_eq!(names.candidates(ListKind::Prompts, "a__x").count(), 1);
}

#[test]
fn most_preferred_claimant_wins() {
    let names = names(NameStyle::Plain, &["a", "b", "c"], &[2, 0]);
    assert_eq!(names.preferred(&[0, 1, 2]), Some(2));
    assert_eq!(names.preferred(&[0, 1]), Some(0));
    assert_eq!(names.preferred(&[1]), None);
}

/// Reproducible random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    /// Returns a text of few different characters, so that names often contain each other.
    fn text(&mut self, alphabet: &[char], length_max: usize) -> String {
        let length = 1 + self.below(length_max);
        (0..length).map(|_| alphabet[self.below(alphabet.len())]).collect()
    }

    fn own_name(&mut self) -> String {
        if self.one_in(10) {
            return "x".repeat(NAME_CHARS_MAX - 8 + self.below(10));
        }
        self.text(&['a', 'b', '_', '-', 'A', 'ä'], 5)
    }

    fn filter(&mut self) -> CompiledFilter {
        loop {
            let globs =
                |random: &mut Self, count| (0..count).map(|_| random.text(&['a', '_', '*'], 3)).collect();
            let (allowed, denied) = (self.below(3), self.below(2));
            let (allow, deny) = (globs(self, allowed), globs(self, denied));
            let rename =
                (0..self.below(4)).map(|_| (self.own_name(), self.text(&['a', 'b', '_'], 3))).collect();
            if let Ok(filter) = (ToolFilter { allow, deny, rename }).compile() {
                return filter;
            }
        }
    }

    fn endpoint(&mut self) -> EndpointNames {
        let style = if self.one_in(2) { NameStyle::Plain } else { NameStyle::Prefixed };
        let members: BTreeSet<_> = (0..4).map(|_| self.text(&['a', 'b', '-'], 3)).collect();
        let members = members.iter().map(|name| MemberName::try_from(&**name).unwrap());
        let members: Vec<_> = members.map(|name| (name, self.filter())).collect();
        EndpointNames::new(style, members, &[])
    }
}

/// For random endpoints and 20,000 random pairs of member and tool: the public name leads back to exactly
/// this pair. Two tools of one member never have the same public name.
#[test]
fn public_name_leads_back_to_its_member_and_tool() {
    let mut random = Random(1);
    let mut offered = 0;
    for _ in 0..200 {
        let names = random.endpoint();
        let mut known = BTreeMap::new();
        for _ in 0..100 {
            let (member, own) = (random.below(names.len()), random.own_name());
            let Ok(public) = names.public(member, TOOLS, &own) else { continue };
            offered += 1;
            let candidates: Vec<_> = names.candidates(TOOLS, &public).collect();
            assert!(candidates.contains(&(member, &own)), "{public}: {candidates:?}");
            let of_member = candidates.iter().filter(|(candidate, _)| *candidate == member);
            assert_eq!(of_member.count(), 1);
            if names.style() == NameStyle::Prefixed {
                assert_eq!(candidates.len(), 1);
            }
            let other = known.insert((member, public.to_string()), own.clone());
            assert!(other.is_none_or(|other| other == own), "two tools are called {public}");
        }
    }
    assert!(offered > 5000, "{offered}");
}

/// For random endpoints and 20,000 random pairs: a tool that the endpoint does not list cannot be called, in
/// any spelling.
#[test]
fn withheld_tool_has_no_callable_name() {
    let mut random = Random(2);
    let mut withheld = 0;
    for _ in 0..200 {
        let names = random.endpoint();
        for _ in 0..100 {
            let (member, own) = (random.below(names.len()), random.own_name());
            if names.public(member, TOOLS, &own).is_ok() {
                continue;
            }
            withheld += 1;
            let name = names.member_name(member);
            let spellings =
                [own.clone(), format!("{name}__{own}"), format!("{name}___{own}"), random.own_name()];
            let new_names = names.members[member].filter.new_name(&own).map(|new| format!("{name}__{new}"));
            for public in spellings.iter().chain(&new_names) {
                let found = names.candidates(TOOLS, public).any(|candidate| candidate == (member, &own));
                assert!(!found, "{public} reaches the withheld tool {own} of {name}");
            }
        }
    }
    assert!(withheld > 5000, "{withheld}");
}

/// The opposite direction: each callable name is the listed name of its tool.
#[test]
fn callable_name_is_the_listed_name() {
    let mut random = Random(3);
    for _ in 0..200 {
        let names = random.endpoint();
        for _ in 0..100 {
            let own = random.own_name();
            let public = if random.one_in(2) {
                own
            } else {
                format!("{}__{own}", names.member_name(random.below(names.len())))
            };
            for (member, own) in names.candidates(TOOLS, &public) {
                assert_eq!(names.public(member, TOOLS, own).unwrap(), public);
            }
        }
    }
}

#[test]
fn reserved_public_name_belongs_to_no_member() {
    let rename = BTreeMap::from([("find".to_owned(), "find_tool".to_owned())]);
    let filter = ToolFilter { rename, ..ToolFilter::default() }.compile().unwrap();
    for (style, is_reserved) in [(NameStyle::Plain, true), (NameStyle::Prefixed, false)] {
        let member = (MemberName::try_from("a").unwrap(), filter.clone());
        let names = EndpointNames::new(style, [member], &[]).with_reserved_tools(&["find_tool"]);
        let expected = if is_reserved { Err(Withheld::Reserved) } else { Ok("a__find_tool".into()) };
        assert_eq!(names.public(0, TOOLS, "find"), expected);
        assert_eq!(names.candidates(TOOLS, "find_tool").count(), 0);
        assert!(names.public(0, ListKind::Prompts, "find_tool").is_ok());
    }
}
