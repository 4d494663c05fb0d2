//! Tests of response compression in a config.

use std::fs;

use crate::client::{Client, Response};
use crate::process::Thruway;

const EXAMPLE: &str = include_str!("../../../daemon/examples/compression.toml");

/// A server with the example config and the demo as its upstream server.
struct Served {
    address: String,
    /// Address of a listener that compresses only where a route enables it.
    plain: String,
    _gateway: Thruway,
    _backend: Thruway,
    _directory: tempfile::TempDir,
}

impl Served {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let public = directory.path().join("public");
        fs::create_dir(&public).unwrap();
        fs::write(public.join("app.js"), "let a = 1;\n".repeat(200)).unwrap();
        fs::write(public.join("packed.js"), "let a = 1;\n".repeat(200)).unwrap();
        fs::write(public.join("packed.js.br"), "packed before").unwrap();
        let mut backend = Thruway::demo(&[]);
        let config = EXAMPLE
            .replace("127.0.0.1:8080", "127.0.0.1:0")
            .replace("127.0.0.1:8081", "127.0.0.1:0")
            .replace("127.0.0.1:9001", &backend.authority());
        let mut gateway = Thruway::serve(directory.path(), &config);
        let (address, plain) = (gateway.address(), gateway.address());
        Self { address, plain, _gateway: gateway, _backend: backend, _directory: directory }
    }

    fn get(&self, target: &str, accept: &str) -> Response {
        get(&self.address, target, accept)
    }
}

fn get(address: &str, target: &str, accept: &str) -> Response {
    Client::connect(address).request(&format!("GET {target}"), &format!("Accept-Encoding: {accept}\r\n"))
}

#[test]
fn listener_setting_turns_compression_on_or_off() {
    let served = Served::start();
    for (target, coding) in [("/", None), ("/static/app.js", None), ("/static/packed.js", Some("br"))] {
        let response = get(&served.plain, target, "br");
        let expected = coding.map(|coding| format!("\r\ncontent-encoding: {coding}\r\n"));
        assert_eq!(
            response.head.contains("content-encoding"),
            expected.is_some(),
            "{target}: {}",
            response.head
        );
        assert!(
            expected.is_none_or(|expected| response.head.contains(&expected)),
            "{target}: {}",
            response.head
        );
    }
    // The setting of the route takes precedence: the gateway compresses events. This stream does not end. A
    // stream of a single event would make the test unreliable: on a busy machine the gateway may receive the
    // whole response at once, and then it is too small to compress.
    let mut client = Client::connect(&served.plain);
    client.send("GET /events HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let head = client.head();
    assert!(head.contains("\r\ncontent-encoding: gzip\r\n"), "{head}");

    let directory = tempfile::tempdir().unwrap();
    let config = "[[listeners]]\naddress = \"127.0.0.1:0\"\ncompression = { codings = [\"gzip\"] }\n\
        [[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/\"\ndemo = true\n";
    let mut thruway = Thruway::serve(directory.path(), config);
    let (packed, plain) = (thruway.address(), thruway.address());
    assert!(get(&packed, "/", "br, gzip").head.contains("\r\ncontent-encoding: gzip\r\n"));
    assert!(!get(&plain, "/", "br, gzip").head.contains("content-encoding"));
}

#[test]
fn compression_example_compresses_as_documented() {
    let served = Served::start();
    for (target, accept, coding) in [
        ("/", "gzip, br, zstd", "zstd"),
        ("/", "gzip, br", "br"),
        ("/", "gzip", "gzip"),
        ("/static/app.js", "zstd, gzip;q=0.5", "zstd"),
        ("/static/app.js", "gzip, identity;q=0", "gzip"),
        ("/static/packed.js", "br, zstd", "br"),
    ] {
        let response = served.get(target, accept);
        assert!(response.head.contains(&format!("\r\ncontent-encoding: {coding}\r\n")), "{}", response.head);
        assert!(response.head.contains("\r\nvary: accept-encoding\r\n"), "{}", response.head);
    }
    assert_eq!(served.get("/static/packed.js", "br").content, b"packed before");
    for (target, varies) in
        [("/", true), ("/static/app.js", true), ("/account", false), ("/plaintext", false)]
    {
        let response = served.get(target, "identity");
        assert!(!response.head.contains("content-encoding"), "{target}: {}", response.head);
        assert_eq!(response.head.contains("vary: accept-encoding"), varies, "{target}: {}", response.head);
    }
}
