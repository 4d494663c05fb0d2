//! Tests of `thruway check --explain` and `--schema`.

use std::fs;
use std::path::Path;

use crate::process::{Ended, Thruway};

const CONFIG: &str = r#"[[listeners]]
address = "127.0.0.1:0"

[[routes]]
path = "/"
respond = { body = "any" }

[[routes]]
host = "*.example.com"
path_pattern = "/users/{id}"
redirect = { to = "/" }

[[routes]]
host = "www.example.com"
path = "/users/"
methods = ["GET"]
headers = { X-Canary = "yes" }
demo = true

[[routes]]
path_exact = "/only"
methods = ["PUT"]
demo = true
"#;

fn explain(args: &[&str]) -> Ended {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.toml"), CONFIG).unwrap();
    let all: Vec<&str> = ["check", "a.toml", "--explain"].iter().chain(args).copied().collect();
    Thruway::start_in(directory.path(), &all).end()
}

#[test]
fn explain_lists_candidate_routes_in_evaluation_order() {
    let ended = explain(&["GET http://www.example.com/users/5?a"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    assert_eq!(
        ended.stdout,
        "\
GET http://www.example.com/users/5?a: redirects to / with 308

routes for the host and path of the request, in the order of their evaluation:
  a.toml:13: www.example.com/users/ and below (GET, with header X-Canary=yes)
    this host, a prefix of 6 bytes, 2 conditions: skipped, because it has no header X-Canary=yes
  a.toml:8: *.example.com/users/{id}
    hosts below example.com, a pattern: takes the request
  a.toml:4: / and below
    any host, any path: would match, but an earlier route takes the request
"
    );
    let with_header = explain(&["http://www.example.com/users/5", "-H", "x-canary: yes"]).stdout;
    assert!(with_header.starts_with("GET http://www.example.com/users/5: the demo\n"), "{with_header}");
    let with_host = explain(&["POST /users/5", "-H", "Host: api.example.com"]).stdout;
    assert!(with_host.starts_with("POST /users/5: redirects to / with 308\n"), "{with_host}");
}

#[test]
fn explain_shows_unmatched_requests() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.toml"), CONFIG.replace("path = \"/\"", "path = \"/any\"")).unwrap();
    let ask = |request| {
        Thruway::start_in(directory.path(), &["check", "a.toml", "--explain", request]).end().stdout
    };
    assert_eq!(
        ask("GET /none"),
        "GET /none: answered 404\n\nno route for this host matches the path `/none`; the paths of its routes: \
         `/any and below`, `/only`\n"
    );
    for (request, reason) in [
        ("PUT /Only", "the case of the path matters: a route has the path `/only`, not `/Only`"),
        ("PUT /only/", "`path_exact` matches only `/only`, not `/only/`: the slash at the end matters"),
        ("GET /only", "only the method does not match: the routes for this request allow PUT"),
    ] {
        let shown = ask(request);
        assert!(shown.contains(reason), "{shown}");
    }
    let put = ask("GET /only");
    assert!(
        put.starts_with("GET /only: answered 405\n\nonly the method")
            && put.contains("because its method is not PUT\n"),
        "{put}"
    );
}

#[test]
fn explain_shows_the_normalized_path() {
    let ended = explain(&["PUT /x/..//%6fnly"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    let expected = "PUT /x/..//%6fnly: the demo\n\nThruway compares routes with `/only`, but forwards the path of the request without changes\n\nroutes";
    assert!(ended.stdout.starts_with(expected), "{}", ended.stdout);
    let ended = explain(&["GET /x/../../only"]).stdout;
    assert_eq!(ended, "GET /x/../../only: answered 400\n\nthe path goes above the root with `..`\n");
}

#[test]
fn explain_rejects_invalid_requests() {
    for request in ["G@T /", "GET a b", "GET nowhere", "GET /a\r\nb"] {
        let ended = explain(&[request]);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{request}");
        assert!(ended.stderr.starts_with("error: cannot explain the request: "), "{}", ended.stderr);
        assert!(ended.stderr.contains("hint: write `--explain "), "{}", ended.stderr);
    }
}

#[test]
fn schema_is_printed_without_a_config() {
    let ended = Thruway::start_in(Path::new("."), &["check", "--schema"]).end();
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    let schema: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(schema["title"], "A config of `thruway serve`");
    assert!(schema["properties"]["routes"].is_object());
}

#[test]
fn explain_shows_rewrites_and_splits() {
    let directory = tempfile::tempdir().unwrap();
    for (example, request, shown) in [
        (
            include_str!("../../../daemon/examples/rewriting.toml"),
            "GET /people/5.json",
            "GET /people/5.json: forwarded to backend, path /v2/users/{id}\n",
        ),
        (
            include_str!("../../../daemon/examples/canary.toml"),
            "GET /",
            "GET /: forwarded: 5 of 100 to canary, 95 of 100 to stable, by cookie:user, 10% mirrored to next \
             without Authorization, Cookie\n",
        ),
    ] {
        fs::write(directory.path().join("a.toml"), example).unwrap();
        let ended = Thruway::start_in(directory.path(), &["check", "a.toml", "--explain", request]).end();
        assert!(ended.stdout.starts_with(shown), "{}", ended.stdout);
    }
}

#[test]
fn explain_names_hosts_and_conditions_that_do_not_match() {
    let directory = tempfile::tempdir().unwrap();
    let config = "[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\nhost = \"a.example\"\npath = \"/\"\n\
                  headers = { X = true }\ndemo = true\n";
    fs::write(directory.path().join("a.toml"), config).unwrap();
    for (request, reason) in [
        (
            "GET http://b.example/",
            "no route matches the host `b.example`; the hosts of the routes: `a.example`\n",
        ),
        ("GET http://a.example/", "but the request does not meet their other conditions\n"),
    ] {
        let ended = Thruway::start_in(directory.path(), &["check", "a.toml", "--explain", request]).end();
        assert!(ended.stdout.contains("answered 404\n") && ended.stdout.contains(reason), "{}", ended.stdout);
    }
}
