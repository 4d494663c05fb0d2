use std::fs;
use std::net::Shutdown;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use crate::programs::multipart_upload::app;
use crate::site::{Reply, Site};

const FORM: &str = "Content-Type: multipart/form-data; boundary=parted\r\n";

fn site() -> (TempDir, Site) {
    let directory = tempfile::tempdir().unwrap();
    let site = Site::start(app(directory.path().to_owned()));
    (directory, site)
}

fn part(disposition: &str, content: &[u8]) -> Vec<u8> {
    let head = format!("--parted\r\nContent-Disposition: form-data; {disposition}\r\n\r\n");
    [head.as_bytes(), content, b"\r\n"].concat()
}

fn upload(site: &Site, parts: &[Vec<u8>]) -> Reply {
    site.request("POST", "/files", FORM, &[&parts.concat(), b"--parted--\r\n".as_slice()].concat())
}

fn file(name: &str, content: &[u8]) -> Vec<u8> {
    part(&format!("name=\"file\"; filename=\"{name}\""), content)
}

/// Returns all names in `directory`, including temporary files.
fn names_in(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn uploaded_files_are_stored_unchanged() {
    let (directory, site) = site();
    let large: Vec<u8> =
        (0..3 << 20_u32).map(|i: u32| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let reply =
        upload(&site, &[file("notes.txt", b"--parted\nis not the end\r\n"), file("large.bin", &large)]);
    assert_eq!((reply.status, reply.json()), (201, json!({ "kept": ["notes.txt", "large.bin"] })));
    assert_eq!(names_in(directory.path()), ["large.bin", "notes.txt"]);
    assert_eq!(fs::read(directory.path().join("notes.txt")).unwrap(), b"--parted\nis not the end\r\n");
    assert!(fs::read(directory.path().join("large.bin")).unwrap() == large);
}

#[test]
fn uploaded_file_names_cannot_leave_directory() {
    let (directory, site) = site();
    for (name, kept) in [
        ("../../etc/passwd", "passwd"),
        ("/etc/shadow", "shadow"),
        (r"C:\\Temp\\evil.exe", "evil.exe"),
        (".bashrc", "bashrc"),
        ("-rf *", "rf__"),
        ("caf\u{e9} \u{202e}txt.exe", "caf___txt.exe"),
    ] {
        let reply = upload(&site, &[file(name, b"x")]);
        assert_eq!((reply.status, reply.json()), (201, json!({ "kept": [kept] })), "{name}");
        assert!(directory.path().join(kept).is_file(), "{name}");
    }
    let long = upload(&site, &[file(&"n".repeat(1000), b"x")]);
    assert_eq!(long.json(), json!({ "kept": ["n".repeat(100)] }));
    let before = names_in(directory.path());
    for name in ["", ".", "..", "a/..", "/"] {
        assert_eq!(upload(&site, &[file(name, b"x")]).status, 422, "{name:?}");
    }
    assert_eq!(names_in(directory.path()), before);
}

#[test]
fn upload_never_overwrites_a_file() {
    let (directory, site) = site();
    assert_eq!(upload(&site, &[file("a.txt", b"first")]).status, 201);
    assert_eq!(upload(&site, &[file("a.txt", b"second")]).status, 409);
    assert_eq!(fs::read(directory.path().join("a.txt")).unwrap(), b"first");
    assert_eq!(names_in(directory.path()), ["a.txt"]);
}

#[test]
fn too_large_upload_is_rejected_and_not_stored() {
    let (directory, site) = site();
    let content = vec![0; 8 << 20];
    assert_eq!(upload(&site, &[file("just-fits", &content)]).status, 201);
    let reply = upload(&site, &[file("too-large", &[content.as_slice(), b"x"].concat())]);
    assert_eq!(reply.status, 413, "{}", reply.text());
    assert_eq!(names_in(directory.path()), ["just-fits"]);
}

#[test]
fn incomplete_upload_is_not_stored() {
    let (directory, site) = site();
    let mut connection = site.connect();
    connection.send(format!("POST /files HTTP/1.1\r\nHost: a\r\n{FORM}Content-Length: 100000\r\n\r\n"));
    connection.send(file("half", &b"half of it".repeat(5_000)));
    connection.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(connection.into_reply().status, 400);
    assert!(names_in(directory.path()).is_empty());
}

#[test]
fn malformed_upload_is_rejected() {
    let (directory, site) = site();
    assert_eq!(site.json("POST", "/files", "{}").status, 415);
    assert_eq!(site.request("POST", "/files", "", b"x").status, 415);
    assert_eq!(site.request("POST", "/files", FORM, b"--parted\r\nno parts").status, 400);
    assert_eq!(upload(&site, &[part("name=\"other\"; filename=\"x\"", b"x")]).status, 422);
    assert_eq!(upload(&site, &[part("name=\"file\"", b"x")]).status, 422);
    assert!(names_in(directory.path()).is_empty());
}
