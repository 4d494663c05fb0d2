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
use super::path::is_name;
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

/// Settings that exclude names from the page, because the server does not serve them.
#[derive(Clone, Copy)]
pub(super) struct Served {
    /// `true` if the server serves names that begin with a dot.
    pub(super) hidden: bool,
    /// `true` if the server follows symbolic links.
    pub(super) symlinks: bool,
}

/// Returns a page with the names in the open directory `directory`. `is_root` is `true` if the directory is
/// the root of the handler. The page has only names that the server can serve.
pub(super) fn respond(request: &Request<'_>, directory: &File, is_root: bool, served: Served) -> Response {
    let now = request.worker().clock().time_of_day();
    match entries(directory, served, now) {
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
fn entries(directory: &File, served: Served, now: SystemTime) -> Result<(Vec<Entry>, bool), Errno> {
    let mut entries = Vec::new();
    for (count, found) in Dir::read_from(directory)?.enumerate() {
        if count == NAMES_READ_MAX {
            entries.sort();
            return Ok((entries, false));
        }
        let found = found?;
        let name = found.file_name().to_bytes();
        if !is_name(name, served.hidden) {
            continue;
        }
        if entries.len() == ENTRIES_MAX {
            entries.sort();
            return Ok((entries, false));
        }
        entries.extend(entry(directory, name, served, now));
    }
    entries.sort();
    Ok((entries, true))
}

/// Returns the entry for `name`. Returns `None` if the server cannot serve it, or if it has disappeared.
fn entry(directory: &File, name: &[u8], served: Served, now: SystemTime) -> Option<Entry> {
    let metadata = statat(directory, std::ffi::OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let kind = FileType::from_raw_mode(metadata.st_mode);
    match kind {
        FileType::Directory | FileType::RegularFile => {}
        FileType::Symlink if served.symlinks => {}
        _ => return None,
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
            "<tr><td><a href=\"./{href}{slash}\"><bdi>{name}</bdi>{slash}</a></td><td>{bytes}</td><td>{modified}</td></tr>"
        );
    }
    page.push_str("</tbody>\n</table>\n");
    if !is_complete {
        let _ = writeln!(page, "<p>This list has only a part of the names of the directory.</p>");
    }
    page.push_str("</body>\n</html>\n");
    page
}

/// Escapes `text` for HTML. Writes characters without a visible form as `\u{…}`, because they could make a name look
/// like another name.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if is_invisible(c) => escaped.extend(c.escape_unicode()),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Returns `true` for control characters, and for characters that change the direction of text, break lines, or have
/// no width.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
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
