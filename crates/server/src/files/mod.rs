//! Serves the files of a directory.
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! use thruway_server::{Files, Router};
//!
//! let router = Router::new().mount("/static", Files::new("public")?.cache_control("max-age=3600"));
//! # Ok(())
//! # }
//! ```
//!
//! The handler lists no directories, writes nothing, and keeps no files open or in memory between requests.

// from a path to a file
mod path;
mod open;
mod walk;

// from a file to a representation
mod content_type;
mod representation;

// parts of the request
mod entity_tag;
mod conditions;
mod ranges;

// response
mod respond;
mod multipart;

use std::io;
use std::path::Path;

use rustix::io::Errno;
use thruway_message::{FieldValue, Method};

use crate::content_coding::{ContentCoding, accepted};
use crate::handler::{Answer, Handler};
use crate::request::Request;
use crate::response::Response;
use open::{Found, OpenFile, Root};
use representation::{Representation, is_fresh};
use respond::Policy;

/// Serves the files of a directory to GET and HEAD, by the [path](Request::mounted_path) below its mount.
///
/// - **Access** ends at the directory: neither `..`, encoded slashes, symbolic links, nor files replaced
///   during the lookup lead out of it. Only regular files are served. Forbidden files get 404 like missing
///   ones; files that the process cannot read get 403.
/// - **Directories** get their [index](Self::index), after a redirect (301) to the path with a slash.
/// - **Conditions** (`If-Match`, `If-None-Match`, `If-Modified-Since`, `If-Unmodified-Since`, `If-Range`)
///   follow RFC 9110 §13. The entity tag consists of the modification time and the size. So it does not
///   change if both stay the same, for example if a packer gives all files the same time.
/// - **Ranges** follow RFC 9110 §14. Overlapping ranges are merged. The whole file is sent for more than 64
///   ranges, and for several ranges of an encoded file.
/// - **Encoded files**: see [`precompressed`](Self::precompressed).
/// - `Content-Type` depends on the extension. Text has the charset UTF-8, except XML.
///   `X-Content-Type-Options: nosniff` prevents browsers from guessing another type, for example for uploaded
///   files.
///
/// Files up to 32 KiB are read and sent together with the head, larger ones with `sendfile`. This happens on
/// the worker's thread: on a slow disk, the other connections of the worker wait.
///
/// The directory is opened once, in [`new`](Self::new). If the path later refers to another directory, for
/// example because a symbolic link was changed, the old directory is served until a new `Files` is created.
#[derive(Debug)]
pub struct Files {
    root: Root,
    index: String,
    serves_hidden: bool,
    is_encoded_above: bool,
    policy: Policy,
}

impl Files {
    /// Serves the files of the directory `root`, which may be a symbolic link.
    ///
    /// # Errors
    /// `root` is not a directory, or cannot be opened.
    pub fn new(root: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self {
            root: Root::open(root.as_ref())?,
            index: "index.html".to_owned(),
            serves_hidden: false,
            is_encoded_above: false,
            policy: Policy { cache_control: None, is_negotiated: true },
        })
    }

    /// Sets the name of the file that is served for its directory. Default `index.html`.
    #[must_use]
    pub fn index(mut self, name: impl Into<String>) -> Self {
        self.index = name.into();
        self
    }

    /// Sends `NAME.br`, `NAME.zst` or `NAME.gz` instead of the file `NAME` to clients that accept the coding
    /// (`Accept-Encoding`). Default `true`. Ignores an encoded file that is older than its original. A client
    /// that accepts neither the available codings nor the original gets 406.
    ///
    /// If `false`, `Accept-Encoding` is ignored, and responses do not vary by it.
    #[must_use]
    pub const fn precompressed(mut self, is_looked_for: bool) -> Self {
        self.policy.is_negotiated = is_looked_for;
        self
    }

    /// Tells that an outer layer [compresses](crate::layers::Compression) files without an encoded version.
    /// Default `false`. If `true`, clients that do not accept the unencoded file get the file instead of 406,
    /// because the layer encodes it.
    #[must_use]
    pub const fn encoded_above(mut self, is_encoded: bool) -> Self {
        self.is_encoded_above = is_encoded;
        self
    }

    /// Serves files and directories with names that begin with a dot. Default `false`. To serve only
    /// `/.well-known` (RFC 8615), mount a separate `Files` there.
    #[must_use]
    pub const fn hidden_files(mut self, are_served: bool) -> Self {
        self.serves_hidden = are_served;
        self
    }

    /// Follows symbolic links that stay within the directory. Default `true`. Links that leave the directory
    /// are never followed. Absolute links count as leaving it.
    #[must_use]
    pub const fn symlinks(mut self, are_followed: bool) -> Self {
        self.root.follows_symlinks = are_followed;
        self
    }

    /// Sets the value of `Cache-Control`. Default: none. Then a cache guesses from `Last-Modified` how long
    /// it may keep a file (RFC 9111 §4.2.2).
    ///
    /// # Panics
    /// `value` is not a [`FieldValue`].
    #[must_use]
    pub fn cache_control(mut self, value: impl Into<String>) -> Self {
        let value = value.into();
        assert!(FieldValue::new(value.as_bytes()).is_ok(), "invalid header value `{}`", value.escape_debug());
        self.policy.cache_control = Some(value);
        self
    }
}

impl Handler for Files {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let response = match request.method() {
            Method::Get | Method::Head => self.respond(request),
            method => respond::without_method(method),
        };
        Answer::Now(response)
    }
}

impl Files {
    fn respond(&self, request: &Request<'_>) -> Response {
        let Some(mut path) = path::below_root(request.mounted_path(), self.serves_hidden) else {
            return respond::not_found();
        };
        // Use the whole path: the mounted path does not show if the mount point itself was requested with a
        // slash.
        let is_of_directory = request.path().ends_with('/');
        if is_of_directory {
            append_name(&mut path, &self.index);
        }
        match self.root.find(if path.is_empty() { b"." } else { &path }) {
            Ok(Found::File(file)) => self.respond_with(request, path, file),
            Ok(Found::Directory) if !is_of_directory => respond::to_directory(request),
            Ok(Found::Directory | Found::Other) => respond::not_found(),
            Err(error) => respond::unopened(error),
        }
    }

    /// Responds with the file at `path`, encoded or not.
    fn respond_with(&self, request: &Request<'_>, path: Vec<u8>, original: OpenFile) -> Response {
        let content_type = content_type::of_path(&path);
        match self.choose(request, path, original) {
            Ok(Some((file, coding))) => {
                let now = request.worker().clock().time_of_day();
                let representation = Representation::new(file, content_type, coding, now);
                respond::respond(request, representation, &self.policy)
            }
            Ok(None) => respond::not_acceptable(),
            Err(error) => respond::unopened(error),
        }
    }

    /// Returns the file or encoded version that the client prefers. `None` if the client accepts none of
    /// them.
    fn choose(
        &self,
        request: &Request<'_>,
        mut path: Vec<u8>,
        original: OpenFile,
    ) -> Result<Option<(OpenFile, Option<ContentCoding>)>, Errno> {
        if !self.policy.is_negotiated {
            return Ok(Some((original, None)));
        }
        for coding in accepted(request.field_lines()) {
            let Some(coding) = coding else { return Ok(Some((original, None))) };
            if let Some(sibling) = self.find_sibling(&mut path, coding, &original)? {
                return Ok(Some((sibling, Some(coding))));
            }
        }
        Ok(self.is_encoded_above.then_some((original, None)))
    }

    /// Returns the version of the file at `path` with `coding`, if it exists and may be served.
    fn find_sibling(
        &self,
        path: &mut Vec<u8>,
        coding: ContentCoding,
        original: &OpenFile,
    ) -> Result<Option<OpenFile>, Errno> {
        let length = path.len();
        path.extend_from_slice(coding.suffix().as_bytes());
        let found = self.root.find(path);
        path.truncate(length);
        match found {
            Ok(Found::File(file)) if is_fresh(&file.metadata, &original.metadata) => Ok(Some(file)),
            Err(error @ (Errno::MFILE | Errno::NFILE)) => Err(error),
            // If an encoded version cannot be used, the original is served.
            Ok(_) | Err(_) => Ok(None),
        }
    }
}

fn append_name(path: &mut Vec<u8>, name: &str) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name.as_bytes());
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::with_fields;
