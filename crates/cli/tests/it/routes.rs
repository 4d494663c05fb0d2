//! Tests of routes and their actions.

use std::fs;

use crate::client::{Client, get};
use crate::process::Thruway;

#[test]
fn server_listens_on_ipv4_ipv6_and_unix_sockets() {
    let directory = tempfile::tempdir().unwrap();
    let config = r#"
        [[listeners]]
        address = "127.0.0.1:0"
        [[listeners]]
        address = "[::1]:0"
        [[listeners]]
        address = "unix:socket"
        [[routes]]
        path = "/"
        respond = { body = "here" }
    "#;
    let mut thruway = Thruway::serve(directory.path(), config);
    let addresses: Vec<String> = (0..3).map(|_| thruway.address()).collect();
    assert!(addresses[0].starts_with("http://127.0.0.1:") && addresses[1].starts_with("http://[::1]:"));
    assert_eq!(addresses[2], "unix:socket");
    for address in &addresses[..2] {
        assert_eq!(get(address, "/").text(), "here");
    }
    let socket = directory.path().join("socket");
    assert_eq!(get(&format!("unix:{}", socket.display()), "/").text(), "here");
    assert_eq!(thruway.terminate().code, Some(0));
    assert!(!socket.exists(), "the server removes its socket");
}

#[test]
fn listen_option_replaces_listeners_of_the_config() {
    let directory = tempfile::tempdir().unwrap();
    let config = "listeners = [{ address = \"unix:socket\" }]\nroutes = [{ path = \"/\", demo = true }]\n";
    fs::write(directory.path().join("thruway.toml"), config).unwrap();
    let args = ["serve", "thruway.toml", "--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"];
    let mut thruway = Thruway::start_in(directory.path(), &args);
    let (first, second) = (thruway.address(), thruway.address());
    assert_ne!(first, second);
    assert_eq!(get(&first, "/ok").text(), "ok");
    assert_eq!(get(&second, "/ok").text(), "ok");
    assert!(!directory.path().join("socket").exists());
}

/// Only `respond` once protected its path. Below a `redirect`, other spellings of the path reached the
/// upstream of `/`.
#[test]
fn ambiguous_path_below_a_local_action_gets_400() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("public")).unwrap();
    let (_server, backend) = Thruway::answering(directory.path(), "of the upstream");
    for action in [
        "redirect = { to = \"/login\" }",
        "respond = { status = 403 }",
        "files = { root = \"public\" }",
        "demo = true",
        "demo = \"mcp\"",
    ] {
        let config = format!(
            "[[listeners]]\naddress = \"127.0.0.1:0\"\n[upstreams.backend]\nservers = [\"{backend}\"]\n\
             [[routes]]\npath = \"/\"\nupstream = \"backend\"\n[[routes]]\npath = \"/internal\"\n{action}\n"
        );
        let mut thruway = Thruway::serve(directory.path(), &config);
        let mut client = Client::connect(&thruway.address());
        assert_eq!(client.get("/other;a/x%2Fy").text(), "of the upstream");
        for path in [
            "/internal;a/x",
            "/internal%2Fx",
            "/internal%2fx",
            "/internal%5Cx",
            "/internal;a%2Fx",
            "/internal%3Ba",
            "/x/;/../../internal",
        ] {
            let response = client.get(path);
            assert_eq!(response.status(), "400", "{action} {path}: {}", response.text());
        }
    }
}

#[test]
fn most_specific_route_wins() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("public/sub")).unwrap();
    fs::write(directory.path().join("public/index.html"), "index").unwrap();
    fs::write(directory.path().join("public/a.txt"), "text").unwrap();
    fs::write(directory.path().join("public/sub/b.txt"), "below").unwrap();
    fs::write(directory.path().join("public/.hidden"), "hidden").unwrap();
    let config = r#"
        [[listeners]]
        address = "127.0.0.1:0"
        [[routes]]
        path = "/"
        files = { root = "public", cache_control = "max-age=1" }
        [[routes]]
        path_exact = "/"
        respond = { body = "exact" }
        [[routes]]
        path = "/sub/"
        respond = { body = "prefix" }
        [[routes]]
        path_exact = "/sub/b.txt"
        respond = { status = 404, body = "gone", content_type = "text/html" }
        [[routes]]
        path = "/demo"
        demo = true
    "#;
    let mut thruway = Thruway::serve(directory.path(), config);
    let mut client = Client::connect(&thruway.address());
    for (target, status, content) in [
        ("/", "200", "exact"),
        ("/?query", "200", "exact"),
        ("/index.html", "200", "index"),
        ("/a.txt", "200", "text"),
        ("/.hidden", "404", ""),
        ("/sub", "200", "prefix"),
        ("/sub/", "200", "prefix"),
        ("/sub/c", "200", "prefix"),
        ("/sub/b.txt", "404", "gone"),
        ("/subway", "404", ""),
        ("/demo/plaintext", "200", "Hello, World!"),
        ("/plaintext", "404", ""),
    ] {
        let response = client.get(target);
        assert_eq!(response.status(), status, "{target}");
        assert!(content.is_empty() || response.text() == content, "{target}: {}", response.text());
    }
    assert!(client.get("/a.txt").has("cache-control: max-age=1"));
    assert!(client.get("/sub/b.txt").has("content-type: text/html"));
}

#[test]
fn fixed_responses_are_sent_as_configured() {
    let directory = tempfile::tempdir().unwrap();
    let config = r#"
        [[listeners]]
        address = "127.0.0.1:0"
        [[routes]]
        path_exact = "/text"
        respond = { body = "grüß" }
        [[routes]]
        path_exact = "/empty"
        respond = { status = 204 }
        [[routes]]
        path = "/old"
        [routes.respond]
        status = 308
        headers = [{ name = "Location", value = "/new" }, { name = "Vary", value = "a" }, { name = "Vary", value = "b" }]
    "#;
    let mut thruway = Thruway::serve(directory.path(), config);
    let mut client = Client::connect(&thruway.address());
    let text = client.get("/text");
    assert!(text.has("content-type: text/plain; charset=utf-8") && text.has("content-length: 6"));
    assert_eq!(text.text(), "grüß");
    let head = client.request("HEAD /text", "");
    assert!(head.has("content-length: 6"), "{}", head.head);
    assert_eq!(client.request("DELETE /text", "").text(), "grüß");
    let empty = client.get("/empty");
    assert!(empty.status() == "204" && !empty.head.contains("content-"), "{}", empty.head);
    let old = client.get("/old/a");
    assert_eq!(old.status(), "308");
    assert!(
        old.has("location: /new") && old.has("vary: a") && old.has("vary: b") && old.has("content-length: 0")
    );
    assert_eq!(old.head.matches("date: ").count(), 1);
    assert_eq!(client.get("/texts").status(), "404");
}

#[test]
fn routes_match_by_host_pattern_method_header_and_query() {
    let directory = tempfile::tempdir().unwrap();
    let config = r#"
        [[listeners]]
        address = "127.0.0.1:0"
        [[routes]]
        path = "/"
        respond = { body = "any" }
        [[routes]]
        host = "*.example.com"
        path = "/"
        respond = { body = "below" }
        [[routes]]
        host = "www.example.com"
        path_pattern = "/users/{id}"
        methods = ["GET"]
        respond = { body = "user" }
        [[routes]]
        host = "www.example.com"
        path_pattern = "/users/{id}"
        headers = { X-Canary = "yes" }
        query = { preview = true }
        respond = { body = "canary" }
    "#;
    let mut thruway = Thruway::serve(directory.path(), config);
    let mut client = Client::connect(&thruway.address());
    let mut ask = |line: &str, fields: &str| {
        client.send(&format!("{line} HTTP/1.1\r\n{fields}\r\n"));
        client.response(false).text().to_owned()
    };
    assert_eq!(ask("GET /users/5", "Host: other.example\r\n"), "any");
    assert_eq!(ask("GET /users/5", "Host: api.example.com:80\r\n"), "below");
    assert_eq!(ask("GET /users/5", "Host: WWW.example.com\r\n"), "user");
    assert_eq!(ask("PUT /users/5", "Host: www.example.com\r\n"), "below");
    assert_eq!(ask("GET /users/5?preview", "Host: www.example.com\r\nx-canary: yes\r\n"), "canary");
    assert_eq!(ask("GET /users/5", "Host: www.example.com\r\nx-canary: yes\r\n"), "user");
}

#[test]
fn redirect_builds_location_from_placeholders() {
    let directory = tempfile::tempdir().unwrap();
    let config = r#"
        [[listeners]]
        address = "127.0.0.1:0"
        [[routes]]
        path = "/"
        redirect = { to = "https://{host}{path}{query}" }
        [[routes]]
        path = "/old"
        redirect = { to = "/new{rest}", status = 302 }
    "#;
    let mut thruway = Thruway::serve(directory.path(), config);
    let mut client = Client::connect(&thruway.address());
    let everywhere = client.get("/a?b=c");
    assert!(
        everywhere.status() == "308" && everywhere.has("location: https://a/a?b=c"),
        "{}",
        everywhere.head
    );
    let old = client.get("/old/a?b");
    assert!(
        old.status() == "302" && old.has("location: /new/a") && old.has("content-length: 0"),
        "{}",
        old.head
    );
}

#[test]
fn mcp_endpoint_accepts_only_the_host_of_its_route() {
    let directory = tempfile::tempdir().unwrap();
    let config = r#"
        [[listeners]]
        address = "127.0.0.1:0"
        [[routes]]
        host = "mcp.example"
        path_exact = "/"
        demo = "mcp"
        [[routes]]
        path = "/tools"
        demo = "mcp"
    "#;
    let mut thruway = Thruway::serve(directory.path(), config);
    let mut client = Client::connect(&thruway.address());
    let mut list = |path: &str, host: &str| {
        let content = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{
            "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
        client.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: tools/list\r\nContent-Length: {}\r\n\r\n{content}",
            content.len()
        ));
        client.response(false)
    };
    assert!(list("/", "mcp.example").text().contains("\"tools\""));
    assert!(list("/tools", "localhost").text().contains("\"tools\""));
    assert_eq!(list("/tools", "mcp.example").status(), "403");
}
