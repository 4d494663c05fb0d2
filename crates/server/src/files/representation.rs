//! A file as a representation of a resource: its bytes and their metadata (RFC 9110 §8).

use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::SystemTime;

use thruway_net::PooledBuffer;

use super::conditions::{Validators, last_modified};
use super::open::OpenFile;
use super::ranges::ByteRange;
use crate::content_coding::ContentCoding;
use crate::response::Content;

/// The representation to send, if the preconditions allow it.
#[derive(Debug)]
pub(super) struct Representation {
    pub(super) file: File,
    pub(super) length: u64,
    pub(super) content_type: Cow<'static, str>,
    pub(super) coding: Option<ContentCoding>,
    pub(super) validators: Validators,
}

impl Representation {
    /// Creates the representation of a file with the type `content_type` and the coding `coding`. `now` is
    /// the current time.
    pub(super) fn new(
        OpenFile { file, metadata }: OpenFile,
        content_type: Cow<'static, str>,
        coding: Option<ContentCoding>,
        now: SystemTime,
    ) -> Self {
        let validators = Validators {
            entity_tag: entity_tag(&metadata, coding),
            last_modified: metadata.modified().ok().and_then(|modified| last_modified(modified, now)),
        };
        Self { file, length: metadata.len(), content_type, coding, validators }
    }

    /// Returns a body with the whole file.
    ///
    /// # Errors
    /// The same errors as for [`into_part`](Self::into_part).
    pub(super) fn into_content(self) -> io::Result<Content> {
        let length = self.length;
        content(self.file, 0, length)
    }

    /// Returns a body with the part `range` of the file.
    ///
    /// # Errors
    /// The file cannot be read, or another process has shortened it since it was opened.
    pub(super) fn into_part(self, range: ByteRange) -> io::Result<Content> {
        content(self.file, range.first, range.length())
    }
}

/// Returns a body with `length` bytes of `file` from `offset` on. Reads a small part into memory, so that one
/// write sends it together with the response head. The kernel sends a large part directly from the file.
fn content(file: File, offset: u64, length: u64) -> io::Result<Content> {
    match usize::try_from(length) {
        Ok(length) if length <= READ_BYTES_MAX => {
            let mut buffer = PooledBuffer::take();
            buffer.resize(length, 0);
            file.read_exact_at(&mut buffer, offset)?;
            Ok(buffer.into())
        }
        _ => Ok(Content::file(file, offset, length)),
    }
}

/// Returns a strong entity tag, made from the modification time, the size and the coding of a file. A change
/// of a file changes its modification time, and usually also its size. The modification time has the
/// precision of a clock tick of the kernel. A file in another coding is another representation, and needs
/// another tag (RFC 9110 §8.8.3.3).
fn entity_tag(metadata: &Metadata, coding: Option<ContentCoding>) -> String {
    let (seconds, nanoseconds, length) = (metadata.mtime(), metadata.mtime_nsec(), metadata.len());
    match coding {
        None => format!("\"{seconds:x}-{nanoseconds:x}-{length:x}\""),
        Some(coding) => format!("\"{seconds:x}-{nanoseconds:x}-{length:x}-{}\"", coding.name()),
    }
}

/// Returns `true` if `encoded` is not older than `original`, so that it was made from the current content.
/// Compression tools copy the modification time of the original. Some tools copy only whole seconds, so a
/// time without a fraction is compared in seconds.
pub(super) fn is_fresh(encoded: &Metadata, original: &Metadata) -> bool {
    match encoded.mtime_nsec() {
        0 => encoded.mtime() >= original.mtime(),
        nanoseconds => (encoded.mtime(), nanoseconds) >= (original.mtime(), original.mtime_nsec()),
    }
}

/// Maximum size of a body that is read into memory. Up to this size, a copy is cheaper than a separate system
/// call and packet.
const READ_BYTES_MAX: usize = 32 << 10;
