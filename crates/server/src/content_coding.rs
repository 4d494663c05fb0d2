//! Content codings, and the choice between them by `Accept-Encoding` (RFC 9110 §12.5.3).

use std::cmp::Reverse;

use thruway_message::FieldLines;
use thruway_message::list::members;
use thruway_message::token::trim_whitespace;

/// A content coding that the server supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContentCoding {
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstandard,
    /// RFC 9110 §8.4.1.3.
    Gzip,
}

impl ContentCoding {
    /// Returns the coding with this registered name, which must be in lower case.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Brotli, Self::Zstandard, Self::Gzip].into_iter().find(|coding| coding.name() == name)
    }

    /// Returns the registered name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstandard => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// Returns the suffix of the names of encoded files.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Zstandard => ".zst",
            Self::Gzip => ".gz",
        }
    }

    /// Returns `true` if `name` names this coding. `x-gzip` is another name of gzip (RFC 9110 §8.4.1.3).
    fn is_named(self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(self.name().as_bytes())
            || self == Self::Gzip && name.eq_ignore_ascii_case(b"x-gzip")
    }
}

/// Returns the codings that the client accepts, in the order of their weights, highest first. `None` stands
/// for `identity`, which is unencoded content. Codings of equal weight have the order br, zstd, gzip,
/// identity.
pub(crate) fn accepted(fields: FieldLines<'_>) -> impl Iterator<Item = Option<ContentCoding>> {
    let mut weighted = CANDIDATES.map(|coding| (coding, weight_of(coding, fields)));
    weighted.sort_by_key(|(_, weight)| Reverse(*weight));
    weighted.into_iter().filter_map(|(coding, weight)| weight.map(|_| coding))
}

/// Returns the coding of `candidates` to which the client gives the highest weight. Of several such codings,
/// returns the first one. Returns `None` if the client accepts no candidate, or gives a higher weight to
/// unencoded content.
pub(crate) fn choose(
    candidates: impl IntoIterator<Item = ContentCoding>,
    fields: FieldLines<'_>,
) -> Option<ContentCoding> {
    let weighted = |coding| Some((coding, weight_of(Some(coding), fields)?));
    let weighted = candidates.into_iter().filter_map(weighted);
    let (coding, weight) = weighted.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    (weight_of(None, fields) <= Some(weight)).then_some(coding)
}

/// Returns the weight that the client gives to `coding`, or to `identity` if `coding` is `None`. Returns
/// `None` if the client does not accept the coding. Without `Accept-Encoding`, the client accepts only
/// `identity`, although the standard would allow any coding. `identity` has weight 0 if the client does not
/// mention it, so all accepted codings take precedence.
fn weight_of(coding: Option<ContentCoding>, fields: FieldLines<'_>) -> Option<u16> {
    let is_named = |name: &[u8]| match coding {
        Some(coding) => coding.is_named(name),
        None => name.eq_ignore_ascii_case(b"identity"),
    };
    let named = find_weight(fields, is_named).or_else(|| find_weight(fields, |name| name == b"*"));
    match named {
        Some(weight) => Some(weight).filter(|weight| *weight > 0),
        None => coding.is_none().then_some(0),
    }
}

/// Returns the weight of the first list member whose name satisfies `is_named`. Skips members with invalid
/// syntax.
fn find_weight(fields: FieldLines<'_>, is_named: impl Fn(&[u8]) -> bool) -> Option<u16> {
    fields
        .all("accept-encoding")
        .flat_map(|value| members(value.as_bytes()))
        .filter_map(parse_member)
        .find(|(name, _)| is_named(name))
        .map(|(_, weight)| weight)
}

/// Parses `codings [ weight ]`. The weight is in thousandths (RFC 9110 §12.4.2).
fn parse_member(member: &[u8]) -> Option<(&[u8], u16)> {
    let Some(semicolon) = member.iter().position(|byte| *byte == b';') else {
        return Some((member, MOST));
    };
    let (name, parameter) =
        (trim_whitespace(&member[..semicolon]), trim_whitespace(&member[semicolon + 1..]));
    match parameter {
        [b'q' | b'Q', b'=', value @ ..] => Some((name, parse_weight(value)?)),
        _ => None,
    }
}

/// Parses a `qvalue`: 0 to 1 with at most three digits after the point (RFC 9110 §12.4.2).
fn parse_weight(value: &[u8]) -> Option<u16> {
    let (whole, digits) = match value {
        [whole] | [whole, b'.'] => (whole, &[][..]),
        [whole, b'.', digits @ ..] if digits.len() <= 3 => (whole, digits),
        _ => return None,
    };
    if !matches!(whole, b'0' | b'1') || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let thousandths = |digits: &[u8]| {
        (0..3).fold(0, |sum, place| sum * 10 + u16::from(digits.get(place).map_or(0, |digit| digit - b'0')))
    };
    Some(u16::from(whole - b'0') * MOST + thousandths(digits)).filter(|weight| *weight <= MOST)
}

const CANDIDATES: [Option<ContentCoding>; 4] =
    [Some(ContentCoding::Brotli), Some(ContentCoding::Zstandard), Some(ContentCoding::Gzip), None];

/// A weight of 1.
const MOST: u16 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::with_fields;

    fn order(values: &[&str]) -> String {
        let lines: Vec<(&str, &str)> = values.iter().map(|value| ("Accept-Encoding", *value)).collect();
        with_fields(&lines, |fields| {
            let names: Vec<_> =
                accepted(fields).map(|coding| coding.map_or("identity", ContentCoding::name)).collect();
            names.join(" ")
        })
    }

    #[test]
    fn accepted_codings_are_ordered_by_weight_without_rejected_ones() {
        for (value, expected) in [
            ("", "identity"),
            ("gzip", "gzip identity"),
            ("gzip, br", "br gzip identity"),
            ("gzip, deflate, br, zstd", "br zstd gzip identity"),
            ("GZIP;Q=0.5, Br;q=0.4", "gzip br identity"),
            ("x-gzip", "gzip identity"),
            ("*", "br zstd gzip identity"),
            ("*;q=0.1, gzip", "gzip br zstd identity"),
            ("br;q=0, *", "zstd gzip identity"),
            ("gzip;q=0", "identity"),
            ("gzip;q=0.000, identity;q=0", ""),
            ("identity;q=0", ""),
            ("*;q=0", ""),
            ("*;q=0, gzip", "gzip"),
            ("identity;q=0, gzip;q=0.001", "gzip"),
            ("identity, gzip;q=0.5", "identity gzip"),
            ("identity;q=0.5, gzip;q=0.5", "gzip identity"),
            ("br;q=0.8, gzip;q=0.801", "gzip br identity"),
            ("gzip ; q=1.000 , br ;\tq=0.999", "gzip br identity"),
            ("gzip;q=0, gzip;q=1", "identity"),
            ("deflate, compress", "identity"),
        ] {
            assert_eq!(order(&[value]), expected, "{value}");
        }
    }

    #[test]
    fn missing_accept_encoding_accepts_only_identity() {
        assert_eq!(order(&[]), "identity");
    }

    #[test]
    fn several_accept_encoding_lines_form_one_list() {
        assert_eq!(order(&["gzip;q=0.5", "br;q=0.4", "identity;q=0"]), "gzip br");
    }

    #[test]
    fn first_candidate_wins_between_equal_weights() {
        let candidates = [ContentCoding::Zstandard, ContentCoding::Brotli, ContentCoding::Gzip];
        for (value, expected) in [
            ("gzip, br, zstd", "zstd"),
            ("gzip, br;q=0.9", "gzip"),
            ("*", "zstd"),
            ("*, zstd;q=0", "br"),
            ("identity, gzip", "gzip"),
            ("identity, gzip;q=0.9", ""),
            ("identity;q=0, gzip;q=0.1", "gzip"),
            ("identity;q=0", ""),
            ("gzip;q=0", ""),
            ("deflate", ""),
            ("", ""),
        ] {
            let chosen = with_fields(&[("Accept-Encoding", value)], |fields| choose(candidates, fields));
            assert_eq!(chosen.map_or("", ContentCoding::name), expected, "{value}");
        }
        assert_eq!(with_fields(&[], |fields| choose(candidates, fields)), None);
        assert_eq!(with_fields(&[("Accept-Encoding", "*")], |fields| choose([], fields)), None);
    }

    #[test]
    fn codings_with_invalid_weights_are_ignored() {
        for weight in
            ["q=2", "q=1.001", "q=0.0000", "q=.5", "q=", "q=-1", "q=0,5", "q = 1", "level=9", "q=1;x"]
        {
            assert_eq!(order(&[&format!("gzip;{weight}")]), "identity", "{weight}");
        }
        assert_eq!(order(&["gzip;q=1., br;q=0."]), "gzip identity");
    }
}
