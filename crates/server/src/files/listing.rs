//! HTML page with the names in a directory.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;
use thruway_message::{FieldLinesBuf, Method};

use super::conditions::last_modified;
use super::respond;
use crate::request::Request;
use crate::response::{Content, Response};

/// A file or directory in the list. The order is: directories before files, and then by name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    is_not_directory: bool,
    name: Vec<u8>,
    /// Size in bytes. `None` for directories and symbolic links.
    bytes: Option<u64>,
    /// Modification time. `None` for symbolic links.
    modified: Option<SystemTime>,
}

/// Returns a page with the names in the open directory `directory`. `is_root` is `true` if the directory is
/// the root of the handler. If `shows_hidden` is `false`, the page has no names that begin with a dot.
pub(super) fn respond(
    request: &Request<'_>,
    directory: &File,
    is_root: bool,
    shows_hidden: bool,
) -> Response {
    let now = request.worker().clock().time_of_day();
    match entries(directory, shows_hidden, now) {
        Ok((entries, is_complete)) => {
            let page = page(request.path(), &entries, is_root, is_complete);
            let content = match request.method() {
                Method::Head => Content::left_out(Some(page.len() as u64)),
                _ => page.into(),
            };
            Response::ok(FIELDS, content)
        }
        Err(error) => respond::unopened(error),
    }
}

/// Returns the sorted entries of a directory. The flag is `false` if the directory has more than
/// [`ENTRIES_MAX`] entries or [`NAMES_READ_MAX`] names.
fn entries(directory: &File, shows_hidden: bool, now: SystemTime) -> Result<(Vec<Entry>, bool), Errno> {
    let mut entries = Vec::new();
    for (count, found) in Dir::read_from(directory)?.enumerate() {
        if count == NAMES_READ_MAX {
            entries.sort();
            return Ok((entries, false));
        }
        let found = found?;
        let name = found.file_name().to_bytes();
        if matches!(name, b"." | b"..") || (!shows_hidden && name.starts_with(b".")) {
            continue;
        }
        if entries.len() == ENTRIES_MAX {
            entries.sort();
            return Ok((entries, false));
        }
        entries.extend(entry(directory, name, now));
    }
    entries.sort();
    Ok((entries, true))
}

/// Returns the entry for `name`. Returns `None` if the server cannot serve it, or if it has disappeared.
fn entry(directory: &File, name: &[u8], now: SystemTime) -> Option<Entry> {
    let metadata = statat(directory, std::ffi::OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let kind = FileType::from_raw_mode(metadata.st_mode);
    if !matches!(kind, FileType::Directory | FileType::RegularFile | FileType::Symlink) {
        return None;
    }
    let seconds = u64::try_from(metadata.st_mtime).ok();
    let modified =
        seconds.and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    Some(Entry {
        is_not_directory: kind != FileType::Directory,
        name: name.to_vec(),
        bytes: if kind == FileType::RegularFile { u64::try_from(metadata.st_size).ok() } else { None },
        modified: modified
            .filter(|_| kind != FileType::Symlink)
            .and_then(|modified| last_modified(modified, now)),
    })
}

/// Returns the page. `path` is the path of the request.
fn page(path: &str, entries: &[Entry], is_root: bool, is_complete: bool) -> String {
    let title = escape(&percent_decode_str(path).decode_utf8_lossy());
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Index of {title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>Index of {title}</h1>\n<table>\n\
         <thead><tr><th>Name</th><th>Bytes</th><th>Modified</th></tr></thead>\n<tbody>\n"
    );
    if !is_root {
        page.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
    for entry in entries {
        let slash = if entry.is_not_directory { "" } else { "/" };
        let (href, name) =
            (percent_encode(&entry.name, ENCODED_IN_LINKS), escape(&String::from_utf8_lossy(&entry.name)));
        let bytes = entry.bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        let modified = entry.modified.map(httpdate::fmt_http_date).unwrap_or_default();
        // The link begins with `./`, so that a browser does not read a name such as `a:b` as a scheme.
        let _ = writeln!(
            page,
            "<tr><td><a href=\"./{href}{slash}\">{name}{slash}</a></td><td>{bytes}</td><td>{modified}</td></tr>"
        );
    }
    page.push_str("</tbody>\n</table>\n");
    if !is_complete {
        let _ = writeln!(page, "<p>This list has only a part of the names of the directory.</p>");
    }
    page.push_str("</body>\n</html>\n");
    page
}

/// Escapes `text` for HTML.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            c => escaped.push(c),
        }
    }
    escaped
}

const ENCODED_IN_LINKS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Maximum number of names in a page.
const ENTRIES_MAX: usize = 5000;

/// Maximum number of names that the worker reads, with hidden files and devices. The limit bounds the time in which
/// the worker reads a directory.
const NAMES_READ_MAX: usize = 20_000;

const STYLE: &str = "body{font-family:sans-serif}td,th{text-align:left;padding-right:2em}";

/// Headers of the page. The page needs no scripts, so its policy forbids all content except its styles.
const FIELDS: FieldLinesBuf = FieldLinesBuf::from_static(
    "Content-Type: text/html; charset=utf-8\r\nCache-Control: no-cache\r\nX-Content-Type-Options: nosniff\r\n\
     Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n",
);
