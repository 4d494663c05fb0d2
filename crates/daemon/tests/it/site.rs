//! Tests of a static site: files to try, directory lists, media types and error pages.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use tempfile::TempDir;
use thruway_daemon::Daemon;

use crate::client::{address_of, end, get, head};

/// Writes a site and its config with the lines `routes`, and starts it.
fn start(routes: &str) -> (TempDir, Daemon) {
    start_with("", routes)
}

/// Starts a site with the additional lines `keys` of the listener.
fn start_with(keys: &str, routes: &str) -> (TempDir, Daemon) {
    let directory = tempfile::tempdir().unwrap();
    let write = |path: &str, content: &str| fs::write(directory.path().join(path), content).unwrap();
    fs::create_dir_all(directory.path().join("public/plain")).unwrap();
    write("public/index.html", "app");
    write("public/about.html", "about");
    write("public/plain/a.note", "a note");
    write("404.html", "page 404");
    write("4xx.txt", "text 4xx");
    write("5xx.html", "page 5xx");
    let listener = "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n";
    let parts =
        "[upstreams.down]\nservers = [\"unix:missing.sock\"]\n[policies.closed]\nallow = [\"192.0.2.1\"]\n";
    write("thruway.toml", &format!("{listener}{keys}{routes}{parts}"));
    let daemon = Daemon::from_file(directory.path().join("thruway.toml")).unwrap();
    (directory, daemon)
}

fn reply(status: &str, body: &str) -> (String, String) {
    (status.to_owned(), body.to_owned())
}

#[test]
fn single_page_application_and_lists_are_served() {
    let (_directory, daemon) = start(
        r#"
[[routes]]
path = "/"
files = { root = "public", try_files = ["{path}", "{path}.html", "/index.html"] }
[[routes]]
path = "/plain"
files = { root = "public/plain", listing = true, types = { note = "text/x-note" } }
"#,
    );
    let address = address_of(&daemon);
    assert_eq!(get(&address, "/"), reply("200", "app"));
    assert_eq!(get(&address, "/about"), reply("200", "about"));
    assert_eq!(get(&address, "/users/5"), reply("200", "app"));
    assert!(get(&address, "/plain/").1.contains("<a href=\"./a.note\"><bdi>a.note</bdi></a>"));
    assert!(head(&address, "/plain/a.note").contains("Content-Type: text/x-note"));
    end(daemon);
}

#[test]
fn error_pages_replace_errors_of_thruway() {
    let pages = r#"error_pages.pages = { 404 = "404.html", "400-499" = "4xx.txt", "500-599" = "5xx.html" }"#;
    let (_directory, daemon) = start(&format!(
        r#"
[[routes]]
path = "/"
files = {{ root = "public" }}
{pages}
[[routes]]
path = "/closed"
policies = ["closed"]
respond = {{}}
{pages}
[[routes]]
path = "/gone"
respond = {{ status = 410, body = "no" }}
{pages}
[[routes]]
path = "/down"
upstream = "down"
{pages}
"#
    ));
    let address = address_of(&daemon);
    assert_eq!(get(&address, "/about.html"), reply("200", "about"));
    assert_eq!(get(&address, "/none"), reply("404", "page 404"));
    assert_eq!(get(&address, "/closed"), reply("403", "text 4xx"));
    assert_eq!(get(&address, "/gone"), reply("410", "text 4xx"));
    assert_eq!(get(&address, "/down"), reply("502", "page 5xx"));
    let head = head(&address, "/none");
    assert!(head.contains("Content-Type: text/html; charset=utf-8"), "{head}");
    assert_eq!(head.matches("Content-Type").count(), 1, "{head}");
    end(daemon);
}

#[test]
fn error_pages_of_a_listener_are_the_default_of_all_routes() {
    let (_directory, daemon) = start_with(
        r#"error_pages.pages = { 404 = "404.html", "400-499" = "4xx.txt", "500-599" = "5xx.html" }"#,
        r#"
[[routes]]
path = "/files"
files = { root = "public" }
[[routes]]
path = "/own"
respond = { status = 404, body = "own" }
error_pages.pages = { "500-599" = "5xx.html" }
[[routes]]
path = "/closed"
policies = ["closed"]
respond = {}
[[routes]]
path = "/posted"
methods = ["POST"]
respond = {}
[[routes]]
path = "/down"
upstream = "down"
"#,
    );
    let address = address_of(&daemon);
    assert_eq!(get(&address, "/files/about.html"), reply("200", "about"));
    assert_eq!(get(&address, "/files/none"), reply("404", "page 404"));
    assert_eq!(get(&address, "/own"), reply("404", "own"));
    assert_eq!(get(&address, "/closed"), reply("403", "text 4xx"));
    assert_eq!(get(&address, "/down"), reply("502", "page 5xx"));
    // These requests match no route.
    assert_eq!(get(&address, "/none"), reply("404", "page 404"));
    assert_eq!(get(&address, "/posted"), reply("405", "text 4xx"));
    assert!(head(&address, "/posted").contains("Allow: POST"));
    end(daemon);
}

/// Starts a server that responds to `requests` connections with 404 and an encoded body.
fn failing_server(requests: usize) -> (String, thread::JoinHandle<()>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    let serve = move || {
        for stream in server.incoming().take(requests) {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                stream.read_line(&mut line).unwrap();
            }
            let response = "HTTP/1.1 404 Not Found\r\nContent-Encoding: x\r\nETag: \"a\"\r\nSet-Cookie: a=b\r\n\
                            Content-Length: 4\r\nConnection: close\r\n\r\nbody";
            stream.get_mut().write_all(response.as_bytes()).unwrap();
        }
    };
    (address, thread::spawn(serve))
}

#[test]
fn error_pages_replace_errors_of_upstream_servers_only_if_intercepted() {
    let (server, thread) = failing_server(3);
    let (_directory, daemon) = start(&format!(
        r#"
[[routes]]
path = "/"
upstream = "up"
error_pages.pages = {{ 404 = "404.html" }}
[[routes]]
path = "/caught"
upstream = "up"
error_pages = {{ pages = {{ 404 = "404.html" }}, intercept = true }}
[upstreams.up]
servers = ["{server}"]
"#
    ));
    let address = address_of(&daemon);
    assert_eq!(get(&address, "/"), reply("404", "body"));
    assert_eq!(get(&address, "/caught"), reply("404", "page 404"));
    let head = head(&address, "/caught");
    assert!(head.contains("Set-Cookie: a=b") && head.contains("Content-Length: 8"), "{head}");
    assert!(!head.contains("Content-Encoding") && !head.contains("ETag"), "{head}");
    end(daemon);
    thread.join().unwrap();
}
