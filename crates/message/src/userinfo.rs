//! Masks credentials in URLs (RFC 3986 §3.2.1), so that logs and errors do not contain them.

use alloc::borrow::Cow;
use alloc::string::String;
use core::ops::Range;

/// Replaces the userinfo of each URL in `text` with stars. Use this function for errors, logs and HTML pages
/// (RFC 3986 §7.5).
///
/// The URLs need not be valid. If the authority contains an `@`, or is not a host with an optional port, the
/// function masks everything from the start of the authority to the last `@` of the URL. The reason is that a
/// password may contain an unescaped `/` or `@`. If the authority is valid and has no userinfo, a later `@`
/// belongs to the path, so the function does not mask the URL. A URL ends at whitespace, a double quote or a
/// backquote. Each byte of the userinfo becomes one star, so positions in the text stay valid.
///
/// ```
/// use thruway_message::mask_userinfo;
///
/// assert_eq!(mask_userinfo("http://bob:key@a.example/"), "http://*******@a.example/");
/// ```
pub fn mask_userinfo(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let mut masked = String::with_capacity(text.len());
    let mut end_of_last = 0;
    while let Some(Range { start, end }) = userinfo(text, end_of_last) {
        masked.push_str(&text[end_of_last..start]);
        masked.extend((start..end).map(|_| '*'));
        end_of_last = end;
    }
    masked.push_str(&text[end_of_last..]);
    Cow::Owned(masked)
}

/// Returns the position of the first userinfo that begins at or after the index `from`.
fn userinfo(text: &str, mut from: usize) -> Option<Range<usize>> {
    loop {
        let start = from + text[from..].find("://")? + 3;
        let rest = &text[start..];
        let url =
            rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '`')).map_or(rest, |end| &rest[..end]);
        if let Some(length) = url.rfind('@')
            && !begins_with_host(url)
        {
            return Some(start..start + length);
        }
        from = start;
    }
}

/// Returns `true` if the authority is a host with an optional port and without userinfo, such as
/// `a.example`, `a.example:80` or `[::1]:80`.
fn begins_with_host(url: &str) -> bool {
    let authority = url.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (authority, ""),
    };
    let is_host = !host.contains([':', '@']) || (host.starts_with('[') && host.ends_with(']'));
    is_host && port.bytes().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_credentials_are_masked_with_stars_of_equal_length() {
        for (text, masked) in [
            ("http://bob:sesame@a.example/b", "http://**********@a.example/b"),
            ("`https://sesame@a` and \"redis://:pä@b:1/\"", "`https://******@a` and \"redis://****@b:1/\""),
            ("error in http://u:p/?#@q@a.example", "error in http://********@a.example"),
            ("http://@a", "http://@a"),
            ("http://a http://u@b", "http://a http://*@b"),
            ("http://u:p/w@a", "http://*****@a"),
            ("http://u:p@a:80/b@2", "http://**********@2"),
        ] {
            assert_eq!(mask_userinfo(text), masked);
            assert_eq!(masked.len(), text.len(), "{text}");
        }
    }

    #[test]
    fn text_without_credentials_is_unchanged() {
        for text in [
            "",
            "://",
            "a@b",
            "mailto:bob@a.example",
            "http://a.example/b?c",
            "see http://a, ask bob@a",
            "http://a.example:80/b@2",
            "http://[::1]:80/@b",
            "http://[::1]/@b",
        ] {
            assert_eq!(mask_userinfo(text), text);
        }
    }
}
