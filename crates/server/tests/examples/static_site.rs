use std::fs;

use tempfile::TempDir;

use crate::programs::static_site::app;
use crate::site::{Reply, Site};

/// Starts a site, with a secret file outside its root.
fn site() -> (TempDir, Site) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("public");
    fs::create_dir_all(root.join("assets")).unwrap();
    fs::write(directory.path().join("secret.txt"), "secret").unwrap();
    fs::write(root.join("index.html"), "<h1>Hello</h1>").unwrap();
    fs::write(root.join("index.html.gz"), "compressed").unwrap();
    fs::write(root.join("assets/app.1a2b.js"), "run()").unwrap();
    fs::write(root.join(".env"), "hidden").unwrap();
    let site = Site::start(app(&root).unwrap());
    (directory, site)
}

fn get_with(site: &Site, path: &str, field: &str) -> Reply {
    site.request("GET", path, &format!("{field}\r\n"), b"")
}

#[test]
fn only_public_files_are_served() {
    let (_directory, site) = site();
    let index = site.get("/");
    assert_eq!((index.status, index.text()), (200, "<h1>Hello</h1>"));
    assert_eq!(index.field("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(index.field("Cache-Control"), Some("no-cache"));

    let asset = site.get("/assets/app.1a2b.js");
    assert_eq!((asset.status, asset.text()), (200, "run()"));
    assert_eq!(asset.field("Cache-Control"), Some("max-age=31536000, immutable"));

    assert_eq!(site.get("/healthz").text(), "ok\n");
    for path in ["/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "/.env", "/nothing"] {
        let reply = site.get(path);
        assert!(matches!(reply.status, 400 | 404), "{path}: {}", reply.status);
        assert!(!reply.text().contains("secret") && !reply.text().contains("hidden"), "{path}");
    }
    assert_eq!(site.request("POST", "/", "", b"x").status, 405);
}

#[test]
fn conditional_range_head_and_gzip_requests_save_bytes() {
    let (_directory, site) = site();
    let tag = site.get("/").field("ETag").unwrap().to_owned();
    let unchanged = get_with(&site, "/", &format!("If-None-Match: {tag}"));
    assert_eq!((unchanged.status, unchanged.text()), (304, ""));

    let part = get_with(&site, "/", "Range: bytes=0-3");
    assert_eq!((part.status, part.text(), part.field("Content-Range")), (206, "<h1>", Some("bytes 0-3/14")));

    let head = site.request("HEAD", "/", "", b"");
    assert_eq!((head.status, head.field("Content-Length"), head.text()), (200, Some("14"), ""));

    let compressed = get_with(&site, "/", "Accept-Encoding: gzip");
    assert_eq!((compressed.text(), compressed.field("Content-Encoding")), ("compressed", Some("gzip")));
    assert_eq!(compressed.field("Content-Type"), Some("text/html; charset=utf-8"));
}
