//! Normalized paths: a common form for all paths that servers treat as equal (RFC 3986 §6.2.2). The gateway
//! uses this form only to compare paths. It forwards paths as the client sent them.

use std::fmt;
use std::ops::Range;

/// A path in normalized form. Bytes that are allowed in a path are not percent-encoded. All other bytes are
/// percent-encoded with capital hexadecimal digits. The path has no dot segments and no empty segments.
#[derive(Debug)]
pub(crate) struct NormalPath<'p> {
    sent: &'p [u8],
    /// The normalized path. `None` if the path in `sent` is already normalized.
    changed: Option<Changed>,
    /// `true` if the normalized path contains a percent sign or a semicolon. Some servers interpret such a
    /// path differently.
    is_ambiguous: bool,
}

#[derive(Default, Debug)]
struct Changed {
    bytes: Vec<u8>,
    /// For each byte of the normalized path, the position of its original form in `sent`.
    starts: Vec<usize>,
}

/// Reason why a path is ambiguous.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum UnclearPath {
    /// The path goes above the root with `..`.
    AboveRoot,
    /// `..` follows an empty segment. `..` then removes the empty segment (RFC 3986 §5.2.4). Other servers
    /// ignore the empty segment, so `..` removes the segment before it.
    DotsAfterEmpty,
    /// The path has an encoded control character. Some servers end the path at this character, others
    /// remove the character.
    ControlCharacter,
    /// The path has a segment that only some servers read as `.` or `..`. Servers differ: some read an
    /// encoded slash or a backslash as a slash, some ignore everything after a semicolon, and some remove
    /// spaces.
    HiddenDots,
    /// The path has an encoded slash, and the config [rejects](crate::AmbiguousPath::Reject) encoded
    /// slashes.
    EncodedSlash,
    /// Some servers read the path as a path of another route. That route has a policy that the selected route
    /// does not have.
    OtherRoute,
    /// The path has parameters after a semicolon, and the config [rejects](crate::AmbiguousPath::Reject)
    /// such parameters.
    Parameters,
    /// The path has a percent sign that is not followed by two hexadecimal digits.
    PercentEncoding,
}

/// Returns `path` in normalized form. [Routes](crate::Routes) compare paths in this form.
///
/// # Errors
/// Returns the reason if the path is ambiguous.
pub fn normalized_path(path: &str) -> Result<String, UnclearPath> {
    let normal = NormalPath::of(path.as_bytes())?;
    Ok(String::from_utf8_lossy(normal.bytes()).into_owned())
}

impl<'p> NormalPath<'p> {
    /// Normalizes `sent`, the path that the client sent. The path must begin with a slash.
    #[inline]
    pub(crate) fn of(sent: &'p [u8]) -> Result<Self, UnclearPath> {
        match properties(sent) {
            found if found & (ENCODED | EMPTY_OR_DOT_SEGMENT) == 0 => {
                Ok(Self { sent, changed: None, is_ambiguous: found & SEMICOLON != 0 })
            }
            _ => Self::changed(sent),
        }
    }

    /// Returns the normal form of a [plain](thruway_message::is_plain_path) path.
    #[inline]
    pub(crate) const fn plain(sent: &'p [u8]) -> Self {
        Self { sent, changed: None, is_ambiguous: false }
    }

    #[cold]
    fn changed(sent: &'p [u8]) -> Result<Self, UnclearPath> {
        let changed = Changed::of(sent)?;
        let is_ambiguous = changed.bytes.iter().any(|byte| matches!(byte, b'%' | b';'));
        Ok(Self { sent, changed: Some(changed), is_ambiguous })
    }

    /// Returns `true` if a server may interpret the path differently. Most paths are unambiguous.
    #[inline]
    pub(crate) const fn is_ambiguous(&self) -> bool {
        self.is_ambiguous
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.changed.as_ref().map_or(self.sent, |changed| &changed.bytes)
    }

    /// Returns the number of bytes in `sent` that correspond to the first `length` bytes of the normalized
    /// path.
    #[inline]
    pub(crate) fn sent_length(&self, length: usize) -> usize {
        match &self.changed {
            Some(changed) if length > 0 => changed.end_of(length - 1, self.sent),
            _ => length,
        }
    }

    /// Returns the part of `sent` that corresponds to `range` of the normalized path.
    pub(crate) fn as_sent(&self, range: Range<usize>) -> Option<&'p [u8]> {
        let Some(changed) = &self.changed else { return self.sent.get(range) };
        // In `sent`, removed dot segments may follow the last byte of the normalized path.
        let end = match range.end {
            end if end < changed.bytes.len() => self.sent_length(end),
            end if end == changed.bytes.len() => self.sent.len(),
            _ => return None,
        };
        let start = changed.starts.get(range.start).copied().unwrap_or(end);
        self.sent.get(start..end)
    }
}

/// Returns `true` if `path` is normalized and all servers read it in the same way.
#[inline]
pub(super) fn is_normal(path: &[u8]) -> bool {
    properties(path) & (ENCODED | EMPTY_OR_DOT_SEGMENT | SEMICOLON) == 0
}

/// Returns the properties of the bytes of a path, as bits. Reads each byte once, without a branch.
#[inline]
fn properties(path: &[u8]) -> u8 {
    let (mut found, mut pairs, mut before) = (0, 0, 0);
    for &byte in path {
        let property = PROPERTIES[usize::from(byte)];
        found |= property;
        // The shift moves `SLASH` to `SLASH_OR_DOT`.
        pairs |= (before << 1) & property;
        before = property;
    }
    if pairs & SLASH_OR_DOT == 0 { found } else { found | EMPTY_OR_DOT_SEGMENT }
}

const SLASH: u8 = 1;
const SLASH_OR_DOT: u8 = 1 << 1;
const SEMICOLON: u8 = 1 << 2;
/// The byte is a percent sign, or normalization replaces it by its percent-encoded form.
const ENCODED: u8 = 1 << 3;
/// A slash or a dot follows a slash.
const EMPTY_OR_DOT_SEGMENT: u8 = 1 << 4;

const PROPERTIES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        if !ALLOWED_IN_PATH[byte] {
            table[byte] = ENCODED;
        }
        byte += 1;
    }
    table[b'/' as usize] |= SLASH | SLASH_OR_DOT;
    table[b'.' as usize] |= SLASH_OR_DOT;
    table[b';' as usize] |= SEMICOLON;
    table
};

impl Changed {
    fn of(sent: &[u8]) -> Result<Self, UnclearPath> {
        let mut changed = Self::default();
        // The start of each segment in the normalized path. `None` for an empty segment.
        let mut segments = Vec::new();
        let mut slash = 0;
        while slash < sent.len() {
            let length = sent[slash + 1..].iter().position(|byte| *byte == b'/');
            let end = length.map_or(sent.len(), |length| slash + 1 + length);
            let start = changed.bytes.len();
            changed.push(b'/', slash);
            changed.push_segment(sent, slash + 1..end)?;
            let is_last = end == sent.len();
            let kept = match &changed.bytes[start + 1..] {
                b"" => {
                    segments.push(None);
                    start
                }
                b"." => start,
                b".." => match segments.pop() {
                    Some(Some(before)) if is_several_or_none(&changed.bytes[before..start]) => {
                        return Err(UnclearPath::HiddenDots);
                    }
                    Some(Some(start)) => start,
                    Some(None) => return Err(UnclearPath::DotsAfterEmpty),
                    None => return Err(UnclearPath::AboveRoot),
                },
                segment if has_dot_segment(segment) => return Err(UnclearPath::HiddenDots),
                _ => {
                    segments.push(Some(start));
                    changed.bytes.len()
                }
            };
            changed.truncate(kept);
            if is_last && kept <= start {
                changed.push(b'/', slash);
            }
            slash = end;
        }
        Ok(changed)
    }

    /// Appends the segment in `range` of `sent`, in normalized form.
    fn push_segment(&mut self, sent: &[u8], range: Range<usize>) -> Result<(), UnclearPath> {
        let mut at = range.start;
        while at < range.end {
            let (byte, length) = decoded(&sent[at..range.end])?;
            if ALLOWED_IN_PATH[byte as usize] && byte != b'/' {
                self.push(byte, at);
            } else {
                for part in [b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]] {
                    self.push(part, at);
                }
            }
            at += length;
        }
        Ok(())
    }

    fn push(&mut self, byte: u8, start: usize) {
        self.bytes.push(byte);
        self.starts.push(start);
    }

    fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
        self.starts.truncate(length);
    }

    /// Returns the end of the original form of a normalized byte, as a position in `sent`. `byte` is the
    /// index of the normalized byte.
    fn end_of(&self, byte: usize, sent: &[u8]) -> usize {
        let start = self.starts[byte];
        start + if sent[start] == b'%' { 3 } else { 1 }
    }
}

/// Decodes the first byte of `path`, which must not be empty. Returns the decoded byte, and the number of
/// bytes that encode it: 3 with percent-encoding (RFC 3986 §2.1), otherwise 1.
///
/// # Errors
/// Returns an error if the percent-encoding is invalid, or if the byte is a control character. Some servers
/// end the path at a control character, as C strings end at a zero byte. Other servers remove the character.
/// Both would read the path `/admin%00` as `/admin`.
#[inline]
fn decoded(path: &[u8]) -> Result<(u8, usize), UnclearPath> {
    let (byte, length) = match path[0] {
        b'%' => (encoded_byte(&path[1..]).ok_or(UnclearPath::PercentEncoding)?, 3),
        byte => (byte, 1),
    };
    if byte.is_ascii_control() { Err(UnclearPath::ControlCharacter) } else { Ok((byte, length)) }
}

/// Returns the byte that the two hexadecimal digits at the start of `digits` encode.
fn encoded_byte(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

/// Returns `true` if some servers read a segment of `path` as `.` or `..`. Servers differ: some decode the
/// path first, some read a backslash or an encoded slash as a slash, some ignore everything after a
/// semicolon, and some remove spaces. Also returns `true` if the path has an invalid percent-encoding or a
/// control character, because servers divide such a path in unknown ways.
pub(crate) fn has_dot_segment(path: &[u8]) -> bool {
    let mut dots = Dots::default();
    let mut at = 0;
    while at < path.len() {
        let Ok((byte, length)) = decoded(&path[at..]) else { return true };
        match byte {
            b'/' | b'\\' if dots.is_dot_segment() => return true,
            b'/' | b'\\' => dots = Dots::default(),
            byte => dots.push(byte),
        }
        at += length;
    }
    dots.is_dot_segment()
}

/// Counts the dots of one path segment while its decoded bytes are read.
#[derive(Default)]
struct Dots {
    count: usize,
    /// `true` if a space follows the dots.
    has_space_behind: bool,
    /// `true` if the segment contains other bytes than dots, and spaces before or after the dots.
    has_other_bytes: bool,
    /// `true` after the first semicolon.
    is_in_parameters: bool,
}

impl Dots {
    const fn push(&mut self, byte: u8) {
        match byte {
            _ if self.is_in_parameters => {}
            b';' => self.is_in_parameters = true,
            b' ' => self.has_space_behind = self.count > 0,
            b'.' if !self.has_space_behind => self.count += 1,
            _ => self.has_other_bytes = true,
        }
    }

    const fn is_dot_segment(&self) -> bool {
        !self.has_other_bytes && matches!(self.count, 1 | 2)
    }
}

/// Returns `true` if some servers read `segment` as several segments or as an empty segment. `segment` begins
/// with a slash. If `..` follows this segment, these servers and the gateway read different paths.
fn is_several_or_none(segment: &[u8]) -> bool {
    let mut rest = segment.get(1..).unwrap_or_default();
    while let Some(behind) = rest.strip_prefix(b"%20") {
        rest = behind;
    }
    matches!(rest.first(), None | Some(b';'))
        || segment.windows(3).any(|part| part == b"%2F" || part == b"%5C")
}

impl fmt::Display for UnclearPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AboveRoot => "the path goes above the root with `..`",
            Self::ControlCharacter => "the path has an encoded control character",
            Self::DotsAfterEmpty => "the path has `..` after an empty segment",
            Self::HiddenDots => "the path has `.` or `..` in a form that only some servers read as dots",
            Self::EncodedSlash => "the path has an encoded slash",
            Self::OtherRoute => "some servers read the path as a path of another route, with other policies",
            Self::Parameters => "the path has a semicolon",
            Self::PercentEncoding => "the path has `%` without two hexadecimal digits",
        })
    }
}

impl std::error::Error for UnclearPath {}

/// `true` for each byte that is allowed in a path, except the percent sign (RFC 3986 §3.3). The
/// percent-encoded form of such a byte counts as equal to the byte. For some bytes, the RFC lets each server
/// decide whether both forms are equal. Most servers treat both forms as equal.
const ALLOWED_IN_PATH: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric() || is_mark(byte);
        byte += 1;
    }
    table
};

const fn is_mark(byte: u8) -> bool {
    matches!(
        byte,
        b'-' | b'.'
            | b'_'
            | b'~'
            | b'/'
            | b':'
            | b'@'
            | b'!'
            | b'$'
            | b'&'
            | b'\''
            | b'('
            | b')'
            | b'*'
            | b'+'
            | b','
            | b';'
            | b'='
    )
}

const DIGITS: [u8; 16] = *b"0123456789ABCDEF";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_paths_have_one_normal_form() {
        for (sent, normal) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/%61dmin", "/admin"),
            ("/%7ea%2D%2e%5F", "/~a-._"),
            ("/x/../admin", "/admin"),
            ("/x/%2e%2E/admin", "/admin"),
            ("/./admin/.", "/admin/"),
            ("/a/b/..", "/a/"),
            ("/a/..", "/"),
            ("/.", "/"),
            ("//admin", "/admin"),
            ("///a//b//", "/a/b/"),
            ("/a%2fb%5cc", "/a%2Fb%5Cc"),
            ("/a\\b", "/a%5Cb"),
            ("/a%40b%3Bc", "/a@b;c"),
            ("/a%20b\"", "/a%20b%22"),
            ("/%252e%252e/a", "/%252e%252e/a"),
            ("/\u{e4}", "/%C3%A4"),
            ("/%c3%a4", "/%C3%A4"),
            ("/.../..a/a../.well-known", "/.../..a/a../.well-known"),
            ("/a;b/c;..", "/a;b/c;.."),
            ("/a;x/../b", "/b"),
            ("/%20a%20b%20", "/%20a%20b%20"),
            ("/a%20/../b", "/b"),
            ("/a;%20..", "/a;%20.."),
        ] {
            assert_eq!(normalized_path(sent).as_deref(), Ok(normal), "{sent}");
            // Normalizing a normalized path does not change it.
            assert_eq!(normalized_path(normal).as_deref(), Ok(normal), "{normal}");
        }
    }

    #[test]
    fn ambiguous_path_is_an_error() {
        for (sent, error) in [
            ("/..", UnclearPath::AboveRoot),
            ("/a/../../b", UnclearPath::AboveRoot),
            ("/%2e%2e/a", UnclearPath::AboveRoot),
            ("/a//../b", UnclearPath::DotsAfterEmpty),
            ("/a//./../b", UnclearPath::DotsAfterEmpty),
            ("/x//y/../../z", UnclearPath::DotsAfterEmpty),
            ("/x/..;/admin", UnclearPath::HiddenDots),
            ("/x/..%3b/admin", UnclearPath::HiddenDots),
            ("/x/..%2fadmin", UnclearPath::HiddenDots),
            ("/x%5c..%5cadmin", UnclearPath::HiddenDots),
            ("/x\\..", UnclearPath::HiddenDots),
            ("/a%2F%2e%2E", UnclearPath::HiddenDots),
            ("/a%2Fb/../c", UnclearPath::HiddenDots),
            ("/a/b\\c/../d", UnclearPath::HiddenDots),
            ("/a/;b/../c", UnclearPath::HiddenDots),
            ("/x/..%20/admin", UnclearPath::HiddenDots),
            ("/x/%20%2e./admin", UnclearPath::HiddenDots),
            ("/x/..%20;a/admin", UnclearPath::HiddenDots),
            ("/a/%20/../b", UnclearPath::HiddenDots),
            ("/a/%20%20;b/../c", UnclearPath::HiddenDots),
            ("/a%", UnclearPath::PercentEncoding),
            ("/a%4/b", UnclearPath::PercentEncoding),
            ("/%u0061", UnclearPath::PercentEncoding),
        ] {
            assert_eq!(normalized_path(sent), Err(error), "{sent}");
        }
    }

    /// Regression test: `/admin%00` and `/x/..%00/admin` matched the route `/`, without the policies of
    /// `/admin`. Some upstream servers end the path at a zero byte or remove control characters. They read
    /// both paths as `/admin`.
    #[test]
    fn path_with_encoded_control_character_is_an_error() {
        for byte in (0..0x20).chain([0x7f]) {
            for sent in [
                format!("/admin%{byte:02x}"),
                format!("/%{byte:02X}admin"),
                format!("/x/..%{byte:02X}/admin"),
            ] {
                assert_eq!(normalized_path(&sent), Err(UnclearPath::ControlCharacter), "{sent}");
                assert!(has_dot_segment(sent.as_bytes()), "{sent}");
            }
        }
        for sent in ["/admin%20", "/admin%21", "/admin%7E", "/admin%80", "/admin%C2%80", "/admin%2500"] {
            assert!(normalized_path(sent).is_ok(), "{sent}");
        }
    }

    #[test]
    fn dot_segments_are_detected_in_every_spelling() {
        for path in [
            "/..",
            "/a/../b",
            "/%2e%2E/b",
            "/.%2e",
            "/a/.",
            "/..%2fb",
            "/a%5c..",
            "/a\\..\\b",
            "/..;a/b",
            "/..%3b",
            "/..%3Ba/b",
            "/%2e%2e%3b",
            "/.%3b%2fb",
            "/./",
            "/a%2",
            "/..%20",
            "/%20.%20/a",
            "/ .. /a",
            "/%20..;a",
            "/a%5c..%20",
        ] {
            assert!(has_dot_segment(path.as_bytes()), "{path}");
        }
        for path in [
            "/",
            "/a",
            "/...",
            "/..a",
            "/a..",
            "/%2e%2ea",
            "/a/%252e%252e/",
            "/é/.a",
            "/;..",
            "/%3b..",
            "/.%20.",
            "/%20/a",
            "/a%20..",
            "/..%20a",
        ] {
            assert!(!has_dot_segment(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn normalized_path_maps_back_to_the_path_as_sent() {
        for (sent, prefix, rest) in [
            ("/api/x", 4, "/x"),
            ("//%61pi//x", 4, "//x"),
            ("/y/../api/x", 4, "/x"),
            ("/api/../api/x", 4, "/x"),
            ("/api/y/../x", 4, "/y/../x"),
            ("/api/.", 4, "/."),
            ("/y/../api", 4, ""),
            ("//x", 0, "//x"),
        ] {
            let normal = NormalPath::of(sent.as_bytes()).unwrap();
            assert_eq!(&sent[normal.sent_length(prefix)..], rest, "{sent}");
        }
        let normal = NormalPath::of(b"//a/%62%2fc/./d/.").unwrap();
        assert_eq!(normal.bytes(), b"/a/b%2Fc/d/");
        assert_eq!(normal.as_sent(3..8), Some(&b"%62%2fc"[..]));
        assert_eq!(normal.as_sent(9..11), Some(&b"d/."[..]));
        assert_eq!(normal.as_sent(11..11), Some(&b""[..]));
        assert_eq!(normal.as_sent(3..12), None);
    }

    /// The fast check of the sent path must agree with the slow normalization.
    #[test]
    fn path_skips_normalization_only_if_it_would_not_change() {
        for pair in 0..=u16::MAX {
            let [first, second] = pair.to_be_bytes();
            for start in ["/", "//", "/a"] {
                let path = [start.as_bytes(), &[first, second]].concat();
                let is_kept = properties(&path) & (ENCODED | EMPTY_OR_DOT_SEGMENT) == 0;
                // A segment that begins with a dot, such as `.a`, also takes the slow path.
                let has_dot = path.windows(2).any(|pair| pair == b"/.");
                let is_unchanged = Changed::of(&path).is_ok_and(|changed| changed.bytes == path);
                assert_eq!(is_kept, is_unchanged && !has_dot, "{path:?}");
                assert!(!thruway_message::is_plain_path(&path) || is_normal(&path), "{path:?}");
            }
        }
    }
}
