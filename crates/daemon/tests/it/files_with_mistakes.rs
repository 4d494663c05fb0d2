//! `Daemon::from_file` returns errors as values, with the file, the line and a hint.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use tempfile::TempDir;
use thruway_daemon::{Daemon, Finding, Severity};

use crate::client::file_answering;

/// Returns the findings about a file with this text, and the file.
fn findings_of(text: &str) -> (Vec<Finding>, PathBuf, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.toml");
    fs::write(&path, text).unwrap();
    let failure = Daemon::from_file(&path).unwrap_err();
    (failure.findings().to_vec(), path, directory)
}

/// Returns a listener of the test, and its address.
fn address_in_use() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[test]
fn missing_file_is_an_error_with_its_path_and_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("absent.toml");
    let failure = Daemon::from_file(&path).unwrap_err();
    let [finding] = failure.findings() else { panic!("{failure}") };
    assert_eq!(finding.severity(), Severity::Error);
    assert!(finding.message().contains(&*path.to_string_lossy()), "{failure}");
    assert!(finding.message().contains("cannot read"), "{failure}");
    assert_eq!(finding.file(), Some(&*path));
    assert_eq!(finding.hints().len(), 1);
}

#[test]
fn unreadable_file_is_an_error_with_its_path() {
    let directory = tempfile::tempdir().unwrap();
    // Root ignores permissions, so the path is a directory.
    let failure = Daemon::from_file(directory.path()).unwrap_err();
    let [finding] = failure.findings() else { panic!("{failure}") };
    assert!(finding.message().contains("cannot read"), "{failure}");
    assert_eq!(finding.file(), Some(directory.path()));
}

#[test]
fn text_that_is_not_utf8_is_an_error_with_its_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.toml");
    fs::write(&path, b"workers = 1\n# \xff\n").unwrap();
    let failure = Daemon::from_file(&path).unwrap_err();
    assert_eq!(failure.findings()[0].file(), Some(&*path));
}

#[test]
fn invalid_value_is_an_error_with_its_line() {
    let (findings, path, _directory) = findings_of(&file_answering("", "[timeouts]\nidle = \"soon\""));
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((finding.file(), finding.line()), (Some(&*path), Some(8)), "{finding}");
}

#[test]
fn half_written_file_is_an_error_with_its_line() {
    let (findings, path, _directory) = findings_of("workers = 1\n[[listeners]]\naddress = \"127.0.0.1:");
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((finding.file(), finding.line()), (Some(&*path), Some(3)), "{finding}");
}

#[test]
fn unknown_key_is_an_error_with_its_line_and_a_suggested_key() {
    let (findings, path, _directory) = findings_of(&format!("worker = 1\n{}", file_answering("", "")));
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((finding.file(), finding.line()), (Some(&*path), Some(1)), "{finding}");
    assert!(finding.to_string().contains("`workers`"), "{finding}");
}

#[test]
fn all_mistakes_of_a_file_are_reported_at_once() {
    let text = "connections_max = 0\nworkers = 0\n[[listeners]]\naddress = \"127.0.0.1:0\"\n";
    let (findings, ..) = findings_of(text);
    let mut lines: Vec<_> = findings.iter().filter_map(Finding::line).collect();
    lines.sort_unstable();
    assert!(lines.starts_with(&[1, 2]), "{findings:?}");
}

#[test]
fn address_in_use_is_an_error_with_a_hint() {
    let (_listener, address) = address_in_use();
    let text = file_answering("", "").replace("127.0.0.1:0", &address.to_string());
    let (findings, ..) = findings_of(&text);
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert!(finding.message().contains(&address.to_string()), "{finding}");
    assert!(!finding.hints().is_empty(), "{finding}");
}

/// Regression test: the server was already running when the admin listener failed to start. It accepted
/// connections, and the caller could not stop it.
#[test]
fn failed_admin_listener_stops_the_server_listeners() {
    let (_listener, admin) = address_in_use();
    let directory = tempfile::tempdir().unwrap();
    let (path, socket) = (directory.path().join("gateway.toml"), directory.path().join("socket"));
    let text = file_answering("", &format!("[admin]\naddress = \"{admin}\""));
    fs::write(&path, text.replace("127.0.0.1:0", &format!("unix:{}", socket.display()))).unwrap();
    let failure = Daemon::from_file(&path).unwrap_err();
    let [finding] = failure.findings() else { panic!("{failure}") };
    assert!(finding.message().contains(&admin.to_string()), "{finding}");
    assert!(std::os::unix::net::UnixStream::connect(&socket).is_err(), "the server was drained");
}
