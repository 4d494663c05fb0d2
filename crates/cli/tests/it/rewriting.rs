//! Tests of gateways that rewrite, split or mirror requests.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;

use crate::client::Client;
use crate::process::{TIMEOUT, Thruway};

const REWRITING: &str = include_str!("../../../daemon/examples/rewriting.toml");
const CANARY: &str = include_str!("../../../daemon/examples/canary.toml");

#[test]
fn rewriting_example_rewrites_as_documented() {
    let directory = tempfile::tempdir().unwrap();
    // The `Location` of the redirect shows the request that the upstream server received.
    let backend = "[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/\"\n\
                   redirect = { to = \"https://{host}{path}{query}\" }\n[[routes]]\npath = \"/moved\"\nredirect = { to = \"/users/6\" }\n";
    std::fs::create_dir(directory.path().join("backend")).unwrap();
    let mut server = Thruway::serve(&directory.path().join("backend"), backend);
    let config =
        REWRITING.replace("127.0.0.1:8080", "127.0.0.1:0").replace("127.0.0.1:9001", &server.authority());
    let mut gateway = Thruway::serve(directory.path(), &config);
    let mut client = Client::connect(&gateway.address());
    for (target, location) in [
        ("/api/users/5?a=%20", "https://backend.example/users/5?a=%20"),
        ("/api", "https://backend.example/"),
        ("/people/5%2f.json?b", "https://backend.example/v2/users/5%2f?b"),
        ("/api/moved", "/api/users/6"),
    ] {
        let answer = client.get(target);
        assert!(answer.has(&format!("location: {location}")), "{target}: {}", answer.head);
        let is_of_api = target.starts_with("/api");
        assert_eq!(answer.has("strict-transport-security: max-age=31536000"), is_of_api, "{target}");
    }
    assert_eq!(client.get("/api/x/%2e%2e").status(), "400");
    assert_eq!(client.get("/none").status(), "404");
}

#[test]
fn canary_example_keeps_each_user_on_one_upstream() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = CANARY
        .replace("127.0.0.1:8080", "127.0.0.1:0")
        .replace("stable = 95, canary = 5", "stable = 50, canary = 50");
    let mut servers = Vec::new();
    for (address, name) in
        [("127.0.0.1:9001", "stable"), ("127.0.0.1:9002", "canary"), ("127.0.0.1:9003", "next")]
    {
        let (server, own) = Thruway::answering(directory.path(), name);
        config = config.replace(address, &own);
        servers.push(server);
    }
    let mut gateway = Thruway::serve(directory.path(), &config);
    let mut client = Client::connect(&gateway.address());
    let mut sides: BTreeMap<usize, String> = BTreeMap::new();
    for turn in 0..60 {
        let user = turn % 20;
        let side = client.request("GET /a", &format!("Cookie: user={user}\r\n")).text().to_owned();
        assert_eq!(
            *sides.entry(user).or_insert_with(|| side.clone()),
            side,
            "the user {user} has changed upstreams"
        );
    }
    for name in ["stable", "canary"] {
        assert!(sides.values().any(|side| side == name), "{sides:?}");
    }
    assert!(sides.values().all(|side| side != "next"), "the response of a mirror is discarded");
}

/// Mirrors once received the credentials of all clients, and no setting could remove them.
#[test]
fn mirror_does_not_receive_removed_headers() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, server) = Thruway::answering(directory.path(), "original");
    let mirror = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/\"\nupstream = \"a\"\n\
         rewrite.request = {{ set = {{ X-Key = \"sesame\" }}, add = {{ X-Tag = \"b\" }} }}\n\
         mirror = {{ upstream = \"b\", remove = [\"authorization\", \"Cookie\", \"X-Key\"] }}\n\
         [upstreams.a]\nservers = [\"{server}\"]\n[upstreams.b]\nservers = [\"{}\"]\n",
        mirror.local_addr().unwrap()
    );
    let mut gateway = Thruway::serve(directory.path(), &config);
    let mut client = Client::connect(&gateway.address());
    let sent = "Authorization: Bearer sesame\r\nCookie: a=sesame\r\nX_Key: sesame\r\nX-Other: c\r\n";
    assert_eq!(client.request("GET /", sent).text(), "original");
    let (copy, _) = mirror.accept().unwrap();
    copy.set_read_timeout(Some(TIMEOUT)).unwrap();
    let lines = BufReader::new(copy).lines().map(Result::unwrap).take_while(|line| !line.is_empty());
    let head = lines.collect::<Vec<_>>().join("\n");
    assert!(!head.contains("sesame"), "{head}");
    assert!(head.contains("X-Other: c") && head.contains("X-Tag: b"), "{head}");
}
