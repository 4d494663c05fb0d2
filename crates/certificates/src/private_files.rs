//! Files in PEM that only their owner can read, for keys and certificates.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Creates `directory` with mode 0700 if it is missing.
pub(crate) fn create_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Replaces the file `path` with `content`. The replacement is atomic, even if the machine crashes.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    put_in_place(&write_beside(path, content)?, path)
}

/// Writes a file next to `path`, and flushes the file to disk.
pub(crate) fn write_beside(path: &Path, content: &[u8]) -> io::Result<PathBuf> {
    let beside = path.with_added_extension("new");
    // Removes a leftover file of an earlier process, because other users may have permission to read that
    // file.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = private().create_new(true).open(&beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    Ok(beside)
}

/// Replaces `path` with the file `beside`. The replacement is atomic, even if the machine crashes.
pub(crate) fn put_in_place(beside: &Path, path: &Path) -> io::Result<()> {
    fs::rename(beside, path)?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// Returns options for writing a file with mode 0600.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Returns `der` in PEM with the label `label`, such as `CERTIFICATE`.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let mut pem = format!("-----BEGIN {label}-----\n");
    // RFC 7468 §2 requires lines of 64 characters.
    for line in STANDARD.encode(der).as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem + &format!("-----END {label}-----\n")
}
