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
//! The handler writes nothing, and keeps no files open or in memory between requests.

// lookup of files
mod path;
mod open;
mod walk;
mod fallbacks;

// metadata of files
mod content_type;
mod representation;

// request headers
mod entity_tag;
mod conditions;
mod ranges;

// response
mod respond;
mod listing;
mod multipart;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use thruway_message::{FieldValue, Method};

use crate::content_coding::{ContentCoding, accepted};
use crate::handler::{Answer, Handler};
use crate::request::Request;
use crate::response::Response;
pub use content_type::of_path as content_type_of_path;
use fallbacks::FileCandidate;
pub use fallbacks::InvalidFileCandidate;
use open::{Found, OpenFile, Root};
use representation::{Representation, is_fresh};
use respond::Policy;

/// Serves the files of a directory to GET and HEAD requests. The [path below the mount
/// prefix](Request::mounted_path) selects the file.
///
/// - **Access** is limited to files below the directory. A request cannot leave the directory by `..`, by
///   encoded slashes, by symbolic links, or by a file that is replaced during the lookup. Only regular files
///   are served. A request for a hidden or forbidden path gets 404, like a request for a missing file. A
///   request for a file that the process may not read gets 403.
/// - **Directories**: a request for a directory gets the [index](Self::index) file. If the path has no slash
///   at its end, the request is first redirected (301) to the path with the slash. Without an index file, the
///   request gets 404, or a [list](Self::listing) of the files.
/// - **Conditions** (`If-Match`, `If-None-Match`, `If-Modified-Since`, `If-Unmodified-Since`, `If-Range`)
///   follow RFC 9110 §13. The entity tag consists of the modification time and the size. If a file changes
///   but keeps its time and size, it also keeps its tag. This can happen if a packaging tool gives all files
///   the same time.
/// - **Ranges** follow RFC 9110 §14. Overlapping ranges are merged. A request for more than 64 ranges gets
///   the whole file, and so does a request for several ranges of an encoded file.
/// - **Encoded files**: see [`precompressed`](Self::precompressed).
/// - `Content-Type` depends on the extension of the file name. Text types have the charset UTF-8, except XML.
///   `X-Content-Type-Options: nosniff` prevents browsers from guessing another type, for example for uploaded
///   files.
///
/// The worker reads a file of up to 32 KiB and sends it together with the response head. It sends larger
/// files with `sendfile`. Both happen on the thread of the worker, so a slow disk delays the other
/// connections of the worker.
///
/// [`new`](Self::new) opens the directory once. If the path later refers to another directory, for example
/// because a symbolic link was changed, this handler still serves the old directory. To serve the new
/// directory, create a new `Files`.
#[derive(Debug)]
pub struct Files {
    root: Root,
    index: String,
    serves_hidden: bool,
    is_encoded_above: bool,
    policy: Policy,
    lists_directories: bool,
    /// The files to try, in this order. Empty to try only the path of the request.
    candidates: Vec<FileCandidate>,
    /// Values of `Content-Type` by file extension in lower case. They take precedence over the known types.
    types: BTreeMap<String, String>,
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
            lists_directories: false,
            candidates: Vec::new(),
            types: BTreeMap::new(),
        })
    }

    /// Sets the name of the file to send if a request names a directory. Default `index.html`.
    #[must_use]
    pub fn index(mut self, name: impl Into<String>) -> Self {
        self.index = name.into();
        self
    }

    /// If `true`, sends `NAME.br`, `NAME.zst` or `NAME.gz` instead of the file `NAME` to clients that accept
    /// the coding (`Accept-Encoding`). Default `true`. Ignores an encoded file that is older than its
    /// original. A client that accepts neither an available coding nor the original gets 406.
    ///
    /// If `false`, the handler ignores `Accept-Encoding`, and responses have no `Vary: Accept-Encoding`.
    #[must_use]
    pub const fn precompressed(mut self, is_looked_for: bool) -> Self {
        self.policy.is_negotiated = is_looked_for;
        self
    }

    /// Tells this handler that an outer [compression layer](crate::layers::Compression) compresses files that
    /// have no encoded version. Default `false`. If `true`, this handler does not respond 406 to a client
    /// that accepts only encoded responses. Instead, it returns the file, and the outer layer encodes it.
    #[must_use]
    pub const fn encoded_above(mut self, is_encoded: bool) -> Self {
        self.is_encoded_above = is_encoded;
        self
    }

    /// Sets whether files and directories with names that begin with a dot are served. Default `false`. To
    /// serve only `/.well-known` (RFC 8615), mount a separate `Files` there.
    #[must_use]
    pub const fn hidden_files(mut self, are_served: bool) -> Self {
        self.serves_hidden = are_served;
        self
    }

    /// Sets whether the handler follows symbolic links to files within the directory. Default `true`. It
    /// never follows links that leave the directory, and treats each absolute link as such a link.
    #[must_use]
    pub const fn symlinks(mut self, are_followed: bool) -> Self {
        self.root.follows_symlinks = are_followed;
        self
    }

    /// Sets whether a request for a directory without an [index](Self::index) file gets an HTML page with the
    /// names, sizes and times of the files. Default `false`. The page omits [hidden files](Self::hidden_files),
    /// devices, sockets, names with a backslash, and symbolic links that the handler [does not follow](Self::symlinks).
    /// It writes characters without a visible form as `\u{202e}`. It has at most 5000 names.
    #[must_use]
    pub const fn listing(mut self, is_sent: bool) -> Self {
        self.lists_directories = is_sent;
        self
    }

    /// Sets the files to try, in this order. The first existing file is the response. If no file exists, the
    /// request gets 404. Default: only `{path}`. Call it after [`hidden_files`](Self::hidden_files).
    ///
    /// - `{path}` is the path of the request. It also stands for a directory with an index file, or any
    ///   directory with a [listing](Self::listing).
    /// - `{path}.html` is the path of the request with a suffix. A suffix without a slash at its start does
    ///   not apply to paths that end with a slash.
    /// - `/index.html` is this file for all requests. It also applies to requests with a path that cannot name
    ///   a file, such as `/a%2Fb`.
    ///
    /// # Errors
    /// An entry begins with neither `/` nor `{path}`, has a `.` or `..` segment, or names a hidden file.
    pub fn try_files<'t>(
        mut self,
        files: impl IntoIterator<Item = &'t str>,
    ) -> Result<Self, InvalidFileCandidate> {
        let parse = |text| FileCandidate::parse(text, self.serves_hidden);
        self.candidates = files.into_iter().map(parse).collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// Checks an entry of [`try_files`](Self::try_files).
    ///
    /// # Errors
    /// The same errors as for [`try_files`](Self::try_files).
    pub fn check_candidate(file: &str, hidden_files: bool) -> Result<(), InvalidFileCandidate> {
        FileCandidate::parse(file, hidden_files).map(|_| ())
    }

    /// Sets the value of `Content-Type` for files with this extension. The case of the extension does not
    /// matter.
    ///
    /// # Panics
    /// `content_type` is not a [`FieldValue`].
    #[must_use]
    pub fn content_type(mut self, extension: &str, content_type: impl Into<String>) -> Self {
        let value = content_type.into();
        assert!(FieldValue::new(value.as_bytes()).is_ok(), "invalid header value `{}`", value.escape_debug());
        self.types.insert(extension.to_ascii_lowercase(), value);
        self
    }

    /// Sets the value of `Cache-Control`. Default: none. Without this header, a cache uses `Last-Modified` to
    /// choose how long it keeps a file (RFC 9111 §4.2.2).
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
        let path = path::below_root(request.mounted_path(), self.serves_hidden);
        if !self.candidates.is_empty() {
            return self.respond_with_first(request, path.as_deref());
        }
        let Some(path) = path else { return respond::not_found() };
        self.respond_at(request, path).unwrap_or_else(respond::unopened)
    }

    /// Responds with the file or directory at `path`, which is the path of the request below the root.
    ///
    /// # Errors
    /// The file or directory cannot be opened, or it is missing.
    fn respond_at(&self, request: &Request<'_>, mut path: Vec<u8>) -> Result<Response, Errno> {
        // Checks the whole path, because the mounted path is `/` for `/prefix` and also for `/prefix/`.
        let is_of_directory = request.path().ends_with('/');
        let length = path.len();
        if is_of_directory {
            append_name(&mut path, &self.index);
        }
        match self.root.find(name_of(&path)) {
            Ok(Found::File(file)) => Ok(self.respond_with(request, path, file)),
            Ok(Found::Directory(_)) if !is_of_directory => Ok(respond::to_directory(request)),
            Ok(Found::Directory(_) | Found::Other) => Err(Errno::NOENT),
            Err(Errno::NOENT) if is_of_directory && self.lists_directories => {
                self.list(request, &path[..length])
            }
            Err(error) => Err(error),
        }
    }

    /// Responds with a list of the directory at `path`.
    fn list(&self, request: &Request<'_>, path: &[u8]) -> Result<Response, Errno> {
        match self.root.find(name_of(path))? {
            Found::Directory(directory) => {
                let served =
                    listing::Served { hidden: self.serves_hidden, symlinks: self.root.follows_symlinks };
                Ok(listing::respond(request, &directory, path.is_empty(), served))
            }
            Found::File(_) | Found::Other => Err(Errno::NOENT),
        }
    }

    /// Responds with the first of the candidates that exists. `path` is the path of the request below the
    /// root, if it is a valid file path.
    fn respond_with_first(&self, request: &Request<'_>, path: Option<&[u8]>) -> Response {
        let is_of_directory = request.path().ends_with('/');
        for candidate in &self.candidates {
            let response = match (candidate, path) {
                (FileCandidate::Path, Some(path)) if self.is_servable(path, is_of_directory) => {
                    self.respond_at(request, path.to_vec())
                }
                (candidate, path) => {
                    let Some(file) = candidate.file(path, is_of_directory) else { continue };
                    match self.root.find(&file) {
                        Ok(Found::File(found)) => Ok(self.respond_with(request, file, found)),
                        Ok(Found::Directory(_) | Found::Other) => Err(Errno::NOENT),
                        Err(error) => Err(error),
                    }
                }
            };
            match response {
                Ok(response) => return response,
                Err(error) if respond::is_missing(error) => {}
                Err(error) => return respond::unopened(error),
            }
        }
        respond::not_found()
    }

    /// Returns `false` if `path` is a directory that would get a redirect to a missing page: a directory
    /// without an index file and without a list. The handler then tries the next candidate.
    fn is_servable(&self, path: &[u8], is_of_directory: bool) -> bool {
        if is_of_directory || self.lists_directories {
            return true;
        }
        let is_directory = matches!(self.root.find(name_of(path)), Ok(Found::Directory(_)));
        let mut index = path.to_vec();
        append_name(&mut index, &self.index);
        !is_directory || matches!(self.root.find(&index), Ok(Found::File(_)))
    }

    /// Returns the value of `Content-Type` for the file at `path`.
    fn content_type_of(&self, path: &[u8]) -> Cow<'static, str> {
        if !self.types.is_empty() {
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let extension = name.rsplit(|byte| *byte == b'.').next().filter(|found| found.len() < name.len());
            let extension = extension.and_then(|extension| str::from_utf8(extension).ok());
            let own = extension.and_then(|extension| self.types.get(&extension.to_ascii_lowercase()));
            if let Some(own) = own {
                return own.clone().into();
            }
        }
        content_type::of_path(path)
    }

    /// Responds with the file `original` at `path`, or with an encoded version of it.
    fn respond_with(&self, request: &Request<'_>, path: Vec<u8>, original: OpenFile) -> Response {
        let content_type = self.content_type_of(&path);
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

    /// Returns the file or the encoded version that the client prefers. `None` if the client accepts no
    /// available version.
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

    /// Returns the encoded version of the file at `path` for `coding`. Returns `None` if this version is
    /// missing, outdated or not readable.
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
            // If an encoded version cannot be used, the caller tries other codings or the original.
            Ok(_) | Err(_) => Ok(None),
        }
    }
}

/// Returns the name to open for a path below the root. The empty path is the root.
const fn name_of(path: &[u8]) -> &[u8] {
    if path.is_empty() { b"." } else { path }
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
