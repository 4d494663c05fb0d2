//! Transfer of files to clients: whole, in ranges, pipelined, over narrow connections, and files that change
//! meanwhile.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::sync::LazyLock;
use std::time::Duration;

use tempfile::TempDir;
use thruway_server::{Files, Router, Server};
use thruway_testkit::test_server::{TestClient, TestServer};

/// Several times the size of one write, and not a multiple of it.
const LARGE_BYTES: usize = 3_000_001;

/// A repeating pattern of 251 bytes, so that no buffer size is a multiple of it.
static LARGE: LazyLock<Vec<u8>> = LazyLock::new(|| (0..=250).cycle().take(LARGE_BYTES).collect());

/// Creates a directory with `small.txt` and `large.bin`.
fn site() -> TempDir {
    let site = TempDir::new().unwrap();
    fs::write(site.path().join("small.txt"), "0123456789").unwrap();
    fs::write(site.path().join("large.bin"), &*LARGE).unwrap();
    site
}

fn scene_of(site: &TempDir) -> TestServer {
    TestServer::new(Router::new().mount("/", Files::new(site.path()).unwrap()))
}

fn request(method: &str, target: &str, lines: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
}

fn get(target: &str) -> String {
    request("GET", target, "")
}

/// Splits `bytes` after the first head.
fn split_head(bytes: &[u8]) -> (String, &[u8]) {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head should be there") + 4;
    (String::from_utf8(bytes[..end].to_vec()).unwrap(), &bytes[end..])
}

/// Returns the value of a field in `head`, or an empty string if the field is missing.
fn field<'a>(head: &'a str, name: &str) -> &'a str {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default()
}

fn length_in(head: &str) -> usize {
    field(head, "Content-Length").parse().unwrap()
}

/// Returns everything that arrives while the client reads at most `bytes` bytes at a time.
fn take_by(client: &mut TestClient, bytes: usize) -> Vec<u8> {
    let mut taken = client.received_bytes();
    loop {
        let more = client.add_receive_capacity(bytes).received_bytes();
        if more.is_empty() {
            return taken;
        }
        taken.extend(more);
    }
}

#[test]
fn pipelined_file_requests_of_all_kinds_are_answered_in_order() {
    let site = site();
    let mut client = scene_of(&site).connect();
    client.send(get("/small.txt"));
    let first = client.received();
    let tag = format!("If-None-Match: {}\r\n", field(&first, "ETag"));
    client.send(
        [
            request("HEAD", "/small.txt", "Range: bytes=0-1\r\n"),
            request("GET", "/small.txt", &tag),
            request("GET", "/small.txt", "Range: bytes=2-4\r\n"),
            request("HEAD", "/large.bin", ""),
            request("GET", "/small.txt", "Range: bytes=10-\r\n"),
            request("GET", "/small.txt", "If-Match: \"other\"\r\n"),
            request("OPTIONS", "/small.txt", ""),
            request("DELETE", "/small.txt", ""),
            get("/small.txt"),
        ]
        .concat(),
    );
    let received = client.received_bytes();
    let mut rest = &received[..];
    for (status, length, content) in [
        ("200 OK", "10", ""),
        ("304 Not Modified", "", ""),
        ("206 Partial Content", "3", "234"),
        ("200 OK", "3000001", ""),
        ("416 Range Not Satisfiable", "0", ""),
        ("412 Precondition Failed", "0", ""),
        ("204 No Content", "", ""),
        ("405 Method Not Allowed", "0", ""),
        ("200 OK", "10", "0123456789"),
    ] {
        let (head, after) = split_head(rest);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{status}: {head}");
        assert_eq!(field(&head, "Content-Length"), length, "{head}");
        rest = after.strip_prefix(content.as_bytes()).unwrap_or_else(|| panic!("{content} after {head}"));
    }
    assert_eq!(rest, b"");
}

#[test]
fn head_response_has_headers_of_get() {
    let site = site();
    let mut client = scene_of(&site).connect();
    for target in ["/small.txt", "/large.bin", "/none"] {
        let by_get = client.send(get(target)).received_bytes();
        let by_head = client.send(request("HEAD", target, "")).received_bytes();
        let ((get_head, _), (head, after)) = (split_head(&by_get), split_head(&by_head));
        assert_eq!((head, after), (get_head, &b""[..]), "{target}");
    }
}

#[test]
fn large_file_is_complete_for_any_write_size() {
    let site = site();
    for bytes in [100_003, 8 << 10, 65_537, 1_500_000] {
        let mut client = scene_of(&site).connect();
        // The first write ends in the middle of the head.
        client.limit_read_size(7).set_receive_capacity(100).send(get("/large.bin"));
        let received = take_by(&mut client, bytes);
        let (head, content) = split_head(&received);
        assert_eq!(length_in(&head), LARGE_BYTES);
        assert!(content == *LARGE, "by {bytes}");
        assert!(!client.is_closed());
    }
}

#[test]
fn large_ranges_are_complete_and_connection_stays_usable() {
    let site = site();
    let mut client = scene_of(&site).connect();
    client.set_receive_capacity(50).send(
        request("GET", "/large.bin", "Range: bytes=100-1000000,1000010-2000000,-1\r\n")
            + &request("GET", "/large.bin", "Range: bytes=1000-2999999\r\n"),
    );
    let received = take_by(&mut client, 100_000);
    let (head, content) = split_head(&received);
    let (multipart, rest) = content.split_at(length_in(&head));
    let boundary = field(&head, "Content-Type").strip_prefix("multipart/byteranges; boundary=").unwrap();
    let mut expected = Vec::new();
    for (first, last) in [(100, 1_000_000), (1_000_010, 2_000_000), (3_000_000, 3_000_000)] {
        let line_end = if expected.is_empty() { "" } else { "\r\n" };
        write!(
            expected,
            "{line_end}--{boundary}\r\nContent-Type: application/octet-stream\r\n\
             Content-Range: bytes {first}-{last}/{LARGE_BYTES}\r\n\r\n"
        )
        .unwrap();
        expected.extend(&LARGE[first..=last]);
    }
    write!(expected, "\r\n--{boundary}--\r\n").unwrap();
    assert!(multipart == expected);
    let (head, content) = split_head(rest);
    assert_eq!(field(&head, "Content-Range"), "bytes 1000-2999999/3000001");
    assert!(content == &LARGE[1000..3_000_000]);
}

/// The server cannot send the announced length. It must not fill the gap with bytes of another response.
#[test]
fn file_truncated_during_transfer_closes_connection() {
    for lines in ["", "Range: bytes=0-1499999,1600000-\r\n"] {
        let site = site();
        let mut client = scene_of(&site).connect();
        client
            .set_receive_capacity(300_000)
            .send(request("GET", "/large.bin", lines))
            .send(get("/small.txt"));
        File::options().write(true).open(site.path().join("large.bin")).unwrap().set_len(1_000_000).unwrap();
        let received = take_by(&mut client, 100_000);
        let (head, content) = split_head(&received);
        assert!(content.len() < length_in(&head) && content.len() <= 1_200_000, "{} bytes", content.len());
        assert!(!content.windows(5).any(|five| five == b"HTTP/"), "nothing follows");
        assert!(client.is_finished());
        client.finish();
        assert!(client.is_closed());
    }
}

#[test]
fn data_appended_during_transfer_is_not_sent() {
    let site = site();
    let mut client = scene_of(&site).connect();
    client.set_receive_capacity(1000).send(get("/large.bin") + &get("/small.txt"));
    File::options().append(true).open(site.path().join("large.bin")).unwrap().write_all(b"more").unwrap();
    let received = take_by(&mut client, 1_000_000);
    let (head, content) = split_head(&received);
    let (content, rest) = content.split_at(length_in(&head));
    assert!(content == *LARGE);
    assert!(rest.starts_with(b"HTTP/1.1 200 OK\r\n") && rest.ends_with(b"\r\n\r\n0123456789"));
}

#[test]
fn file_replaced_during_transfer_is_sent_unchanged() {
    let site = site();
    let mut client = scene_of(&site).connect();
    client.set_receive_capacity(1000).send(get("/large.bin"));
    fs::write(site.path().join("new"), "new").unwrap();
    fs::rename(site.path().join("new"), site.path().join("large.bin")).unwrap();
    let received = take_by(&mut client, 1_000_000);
    assert!(split_head(&received).1 == *LARGE);
    client.send(get("/large.bin"));
    assert!(client.received().ends_with("\r\n\r\nnew"));
}

#[test]
fn request_paths_cannot_leave_directory() {
    let site = site();
    fs::create_dir(site.path().join("public")).unwrap();
    fs::write(site.path().join("public/.hidden"), "").unwrap();
    symlink("../small.txt", site.path().join("public/link")).unwrap();
    let scene =
        TestServer::new(Router::new().mount("/static", Files::new(site.path().join("public")).unwrap()));
    let mut client = scene.connect();
    for target in [
        "/static/../small.txt",
        "/static/%2e%2e/small.txt",
        "/static/..%2fsmall.txt",
        "/static/..%5csmall.txt",
        "/static/%c0%ae%c0%ae/small.txt",
        "/static/link",
        "/static/.hidden",
        "/static/%00",
        "http://a/static/../small.txt",
    ] {
        client.send(get(target));
        assert!(client.received().starts_with("HTTP/1.1 404 "), "{target}");
    }
}

#[test]
fn directory_redirect_never_points_to_another_host() {
    let site = site();
    fs::create_dir_all(site.path().join("evil.example")).unwrap();
    let mut client = scene_of(&site).connect();
    for target in ["/evil.example?q", "//evil.example?q", "http://a//evil.example?q"] {
        client.send(get(target));
        let answer = client.received();
        assert!(answer.starts_with("HTTP/1.1 301 "), "{target}: {answer}");
        assert_eq!(field(&answer, "Location"), "/evil.example/?q", "{target}");
    }
}

/// On real sockets, the kernel sends the file.
#[test]
fn large_file_is_complete_over_real_socket() {
    let site = site();
    let server = Server::new(Files::new(site.path()).unwrap()).workers(1).listen("127.0.0.1:0").unwrap();
    let server = server.start().unwrap();
    let mut client = TcpStream::connect(server.addresses()[0].to_string()).unwrap();
    client.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    client
        .write_all((get("/large.bin") + &request("GET", "/small.txt", "Connection: close\r\n")).as_bytes())
        .unwrap();
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    let (head, content) = split_head(&received);
    let (content, rest) = content.split_at(length_in(&head));
    assert!(content == *LARGE);
    assert!(rest.ends_with(b"\r\n\r\n0123456789"));
    server.drain();
    server.join();
}

/// Returns everything that arrives while the client reads 10 kB per second. Each pause is half of the stall
/// timeout.
fn take_slowly(scene: &TestServer, client: &mut TestClient) -> Vec<u8> {
    let mut taken = Vec::new();
    for _ in 0..=LARGE_BYTES / 150_000 {
        scene.advance_time(Duration::from_secs(15));
        taken.extend(client.add_receive_capacity(150_000).received_bytes());
    }
    taken
}

#[test]
fn slow_client_gets_the_whole_file() {
    let site = site();
    let scene = scene_of(&site);
    let mut client = scene.connect();
    client.set_receive_capacity(1000).send(get("/large.bin"));
    assert!(split_head(&take_slowly(&scene, &mut client)).1 == *LARGE);
}

#[test]
fn slow_client_gets_whole_file_as_last_response() {
    let site = site();
    let scene = scene_of(&site);
    let mut client = scene.connect();
    client.set_receive_capacity(1000).send(request("GET", "/large.bin", "Connection: close\r\n"));
    assert!(split_head(&take_slowly(&scene, &mut client)).1 == *LARGE);
    assert!(client.is_closed());
}

#[test]
fn client_that_stops_reading_is_disconnected() {
    let site = site();
    let scene = scene_of(&site);
    let mut client = scene.connect();
    client.set_receive_capacity(1000).send(get("/large.bin"));
    scene.advance_time(Duration::from_secs(31));
    assert!(client.is_closed());
}
