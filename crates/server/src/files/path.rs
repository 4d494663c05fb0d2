//! Converts the path of a request to a file path below the root. Does not access the file system.

use percent_encoding::percent_decode_str;

/// Returns the file path for `mounted_path`, relative to the root. Decodes percent-encoding once. Ignores
/// empty segments, as nginx does.
///
/// Returns `None` if a segment is `.` or `..` after decoding. Clients resolve such segments before they send
/// a request (RFC 3986 §5.2.4). Also returns `None` if percent-encoding is invalid, or if a decoded segment
/// contains a slash, a backslash or NUL. If `serves_hidden` is `false`, also returns `None` if a segment
/// begins with a dot.
pub(super) fn below_root(mounted_path: &str, serves_hidden: bool) -> Option<Vec<u8>> {
    let mut path = Vec::with_capacity(mounted_path.len() + INDEX_AND_SUFFIX_BYTES);
    for segment in mounted_path.split('/').filter(|segment| !segment.is_empty()) {
        if !path.is_empty() {
            path.push(b'/');
        }
        let start = path.len();
        append_decoded(&mut path, segment)?;
        if !is_name(&path[start..], serves_hidden) {
            return None;
        }
    }
    Some(path)
}

/// Decodes percent-encoding once (RFC 3986 §2.1), and appends the result to `path`. Does not decode the
/// result again, even if it looks encoded.
fn append_decoded(path: &mut Vec<u8>, segment: &str) -> Option<()> {
    let is_encoded =
        |after: &str| after.as_bytes().get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
    if !segment.split('%').skip(1).all(is_encoded) {
        return None;
    }
    path.extend(percent_decode_str(segment));
    Some(())
}

/// Returns `true` if a decoded segment can be the name of a file that the server serves.
pub(super) fn is_name(name: &[u8], serves_hidden: bool) -> bool {
    match name {
        b"" | b"." | b".." => false,
        [b'.', ..] if !serves_hidden => false,
        name => !name.iter().any(|byte| matches!(byte, b'/' | b'\\' | b'\0')),
    }
}

/// Extra capacity for the longest usual name that is appended to a path: `/index.html.zst`.
const INDEX_AND_SUFFIX_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_segments_are_percent_decoded_once() {
        for (path, name) in [
            ("/", ""),
            ("", ""),
            ("/a/b.txt", "a/b.txt"),
            ("/a/", "a"),
            ("//a///b", "a/b"),
            ("/%61%20b", "a b"),
            ("/%C3%A9", "é"),
            ("/%252e%252e/a", "%2e%2e/a"),
            ("/%25", "%"),
            ("/a..b/c...", "a..b/c..."),
            ("/a:b", "a:b"),
            ("/a%0Ab", "a\nb"),
        ] {
            assert_eq!(below_root(path, false).as_deref(), Some(name.as_bytes()), "{path}");
        }
    }

    #[test]
    fn file_name_need_not_be_utf8() {
        assert_eq!(below_root("/%ff%c0%ae", false).unwrap(), b"\xff\xc0\xae");
    }

    #[test]
    fn path_cannot_leave_root() {
        for path in [
            "/..",
            "/../etc/passwd",
            "/a/../../etc/passwd",
            "/%2e%2e/etc/passwd",
            "/.%2e/etc/passwd",
            "/%2E%2E%2Fetc/passwd",
            "/..%2fetc/passwd",
            "/..%5cetc/passwd",
            "/a%2fb",
            "/%2Fetc/passwd",
            "/%5cserver%5cshare",
            "/a\\b",
            "/a%00.html",
            "/%00",
            "/.",
            "/a/./b",
            "/%2e",
        ] {
            assert_eq!(below_root(path, true), None, "{path}");
        }
    }

    #[test]
    fn broken_percent_encoding_is_rejected() {
        for path in ["/%", "/%4", "/%4/1", "/%zz", "/a%%41", "/%+1"] {
            assert_eq!(below_root(path, true), None, "{path}");
        }
    }

    #[test]
    fn hidden_files_are_rejected_unless_allowed() {
        for path in ["/.htpasswd", "/.git/config", "/a/.env", "/%2egit/config", "/...", "/.well-known/x"] {
            assert_eq!(below_root(path, false), None, "{path}");
            assert!(below_root(path, true).is_some(), "{path}");
        }
    }
}
