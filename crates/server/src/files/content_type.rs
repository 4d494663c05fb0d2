//! The media type of a file, from the extension of its name.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Returns the value of `Content-Type` for the file at `path`. For text types, the value contains the charset
/// UTF-8. XML and JSON files need no charset, because their formats define the encoding.
pub fn of_path(path: &[u8]) -> Cow<'static, str> {
    match mime_guess::from_path(OsStr::from_bytes(path)).first_raw() {
        None => UNKNOWN.into(),
        // JavaScript modules have the same type as scripts, and `application/javascript` is obsolete (RFC
        // 9239 §6).
        Some("application/javascript" | "text/javascript") => SCRIPT.into(),
        // A charset here would take precedence over the declaration in the document (RFC 7303 §3.2).
        Some(xml @ "text/xml") => xml.into(),
        Some(text) if text.starts_with("text/") => format!("{text}; charset=utf-8").into(),
        Some(other) => other.into(),
    }
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const UNKNOWN: &str = "application/octet-stream";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_extension_determines_content_type() {
        for (path, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("a/INDEX.HTM", "text/html; charset=utf-8"),
            ("a.css", "text/css; charset=utf-8"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.mjs", "text/javascript; charset=utf-8"),
            ("a.txt", "text/plain; charset=utf-8"),
            ("a.json", "application/json"),
            ("a.xml", "text/xml"),
            ("a.svg", "image/svg+xml"),
            ("a.wasm", "application/wasm"),
            ("a.woff2", "font/woff2"),
            ("a.tar.gz", "application/gzip"),
            ("a.png", "image/png"),
            ("html", "application/octet-stream"),
            ("a.b/c", "application/octet-stream"),
            ("a.unheard-of", "application/octet-stream"),
            ("", "application/octet-stream"),
        ] {
            assert_eq!(of_path(path.as_bytes()), expected, "{path}");
        }
        assert_eq!(of_path(b"\xff.png"), "image/png");
    }
}
