//! Tests of the setups in `examples/`, which replace setups of nginx, HAProxy, Caddy and k6.

use std::path::{Path, PathBuf};

use crate::client::{Client, Response};
use crate::process::Thruway;

/// Returns the directory of a setup.
fn setup(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// Starts the config of a setup with these variables.
fn start(name: &str, variables: &[(&str, &str)]) -> Thruway {
    Thruway::start_with(&setup(name), &["serve", "thruway.toml"], variables)
}

/// Starts a server with these routes.
fn backend(directory: &Path, routes: &str) -> (Thruway, String) {
    let config = format!("workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n{routes}");
    let mut server = Thruway::serve(directory, &config);
    let authority = server.authority();
    (server, authority)
}

/// Sends a request without a body for `host` on a new connection.
fn fetch(address: &str, host: &str, line: &str, fields: &str) -> Response {
    let mut client = Client::connect(address);
    client.send(&format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n"));
    client.response(line.starts_with("HEAD "))
}

/// Asserts that the response has this status, these headers and this text in its body.
#[track_caller]
fn assert_response(response: &Response, status: u16, fields: &[&str], text: &str) {
    let head = &response.head;
    assert!(head.starts_with(&format!("http/1.1 {status} ")), "{head}");
    for field in fields {
        assert!(head.contains(&format!("\r\n{field}\r\n")), "{field} is missing: {head}");
    }
    let content = String::from_utf8_lossy(&response.content);
    assert!(content.contains(text), "{text} is missing: {content}");
}

#[test]
fn nginx_site_has_all_of_its_directives() {
    let directory = tempfile::tempdir().unwrap();
    let routes = "[[routes]]\npath_exact = \"/items\"\n\
                  headers = { X-Client = \"127.0.0.1\", X-Forwarded-Host = \"www.example.com\" }\nrespond.body = \"items\"\n\
                  [[routes]]\npath_exact = \"/upload\"\nmethods = [\"POST\"]\nrespond.body = \"stored\"\n";
    let (server, main) = backend(directory.path(), routes);
    let (backup_server, backup) = backend(directory.path(), routes);
    let variables = [("SITE_ADDRESS", "127.0.0.1:0"), ("BACKEND", &*main), ("BACKUP", &*backup)];
    let mut site = start("nginx-site", &variables);
    let address = site.address();
    let get = |path: &str, fields: &str| fetch(&address, "www.example.com", &format!("GET {path}"), fields);
    let always = ["x-content-type-options: nosniff", "content-security-policy: default-src 'self'"];

    assert_response(&get("/", ""), 200, &always, "<p>home</p>");
    assert_response(&get("/docs/", ""), 200, &always, "<p>docs</p>");
    assert_response(&get("/about", ""), 200, &always, "<p>about</p>");
    assert_response(&get("/docs/notes.md", ""), 200, &["content-type: text/markdown"], "# Notes");
    assert_response(&get("/app/a/b", ""), 200, &always, "<p>app</p>");
    assert_response(&get("/missing", ""), 404, &always, "page not found");
    assert_response(&get("/old", ""), 301, &["location: /docs/"], "");
    let compressed = get("/assets/site.css", "Accept-Encoding: gzip\r\n");
    assert_response(&compressed, 200, &["content-encoding: gzip", "cache-control: max-age=2592000"], "");
    let missing = get("/assets/none.css", "");
    assert_response(&missing, 404, &always, "page not found");
    assert!(!missing.head.contains("cache-control"), "{}", missing.head);
    assert_response(&fetch(&address, "example.com", "GET /", ""), 200, &always, "<p>home</p>");
    assert!(fetch(&address, "other.example", "GET /", "").head.starts_with("http/1.1 404 "));

    assert_response(&get("/api/items", ""), 200, &always, "items");
    let upload = |bytes: u32| {
        let fields = format!("Content-Length: {bytes}\r\nExpect: 100-continue\r\n");
        fetch(&address, "www.example.com", "POST /api/upload", &fields).head
    };
    assert!(upload(1 << 20).starts_with("http/1.1 100 "));
    assert!(upload((1 << 20) + 1).starts_with("http/1.1 413 "));
    let statuses = (0..1000).map(|_| get("/api/items", "").head);
    assert!(statuses.into_iter().any(|head| head.starts_with("http/1.1 429 ")), "the rate has no limit");

    drop(server);
    let within_limit = || {
        std::iter::repeat_with(|| get("/api/items", ""))
            .find(|response| !response.head.contains(" 429 "))
            .unwrap()
    };
    assert_response(&within_limit(), 200, &always, "items");
    drop(backup_server);
    let failed =
        std::iter::repeat_with(|| get("/api/items", "")).find(|response| !response.head.contains(" 429 "));
    assert_response(&failed.unwrap(), 502, &always, "try again later");
    let log = site.terminate().stdout;
    assert!(log.contains("\"GET /about HTTP/1.1\" 200 "), "{log}");
}

#[test]
fn haproxy_setup_has_all_of_its_directives() {
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [(one, first), (_two, second), (_spare, spare)] = std::array::from_fn(|place| {
        let name = ["one", "two", "spare"][place];
        let routes = format!(
            "[[routes]]\npath = \"/\"\nheaders = {{ X-Forwarded-For = true }}\nrespond.body = \"{name}\"\n\
             [[routes]]\npath_exact = \"/items\"\nrespond.body = \"items of {name}\"\n\
             [[routes]]\npath_exact = \"/healthz\"\nrespond.status = 200\n"
        );
        backend(directories[place].path(), &routes)
    });
    let variables = [
        ("ADDRESS", "127.0.0.1:0"),
        ("ADMIN", "127.0.0.1:0"),
        ("ONE", &*first),
        ("TWO", &*second),
        ("SPARE", &*spare),
    ];
    let mut balancer = start("haproxy", &variables);
    let (address, admin) = (balancer.address(), balancer.admin_address());
    let get = |path: &str, fields: &str| fetch(&address, "a", &format!("GET {path}"), fields);

    let first_visit = get("/", "");
    assert_response(&first_visit, 200, &["x-frame-options: deny"], "");
    let name = String::from_utf8(first_visit.content).unwrap();
    let cookie = first_visit.head.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap().to_owned();
    assert!(cookie.starts_with("srv="), "{cookie}");
    let cookie = cookie.replacen("srv=", "SRV=", 1);
    for _ in 0..4 {
        assert_response(&get("/", &format!("Cookie: {cookie}\r\n")), 200, &[], &name);
    }
    assert_response(&get("/internal/x", ""), 403, &["x-frame-options: deny"], "");
    assert_response(&get("/api/items", ""), 200, &[], "items of ");
    assert_response(&get("/api/items", "X-Canary: yes\r\n"), 200, &[], "spare");

    let status = fetch(&admin, &admin.replace("http://", ""), "GET /status", "");
    let status = String::from_utf8(status.content).unwrap();
    assert!(status.contains("\"site\"") && status.contains(&first), "{status}");
    drop(one);
    for _ in 0..4 {
        assert_response(&get("/", ""), 200, &[], "two");
    }
    let log = balancer.terminate().stdout;
    assert!(log.contains("\"/internal/x\""), "{log}");
}

#[test]
fn caddy_site_has_all_of_its_directives() {
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let routes = "[[routes]]\npath_exact = \"/items\"\nheaders = { X-User = \"ada\", X-Client = \"127.0.0.1\" }\n\
                  respond = { status = 200, body = \"items of ada\", \
                  headers = [{ name = \"X-Powered-By\", value = \"b\" }] }\n\
                  [[routes]]\npath_exact = \"/healthz\"\nrespond.status = 200\n";
    let (one_server, one) = backend(directories[0].path(), routes);
    let (two_server, two) = backend(directories[1].path(), routes);
    let routes = "[[routes]]\npath_exact = \"/verify\"\nheaders = { Cookie = \"session=1\" }\n\
                  respond = { status = 200, headers = [{ name = \"X-User\", value = \"ada\" }] }\n\
                  [[routes]]\npath = \"/\"\nrespond.status = 401\n";
    let (_login, login) = backend(directories[1].path(), routes);
    let variables = [("ADDRESS", "127.0.0.1:0"), ("ONE", &*one), ("TWO", &*two), ("LOGIN", &*login)];
    let mut site = start("caddy", &variables);
    let address = site.address();
    let get = |path: &str, fields: &str| fetch(&address, "a", &format!("GET {path}"), fields);
    let always = ["x-content-type-options: nosniff"];

    assert_response(&get("/", ""), 200, &always, "<p>home</p>");
    assert_response(&get("/about", ""), 200, &always, "<p>about</p>");
    assert_response(&get("/a/b", ""), 200, &always, "<p>home</p>");
    assert_response(&get("/healthz", ""), 200, &always, "healthy");
    assert_response(&get("/docs", ""), 301, &["location: https://docs.example.com/"], "");
    assert_response(&get("/api/items", ""), 401, &always, "");
    let items = get("/api/items", "Cookie: session=1\r\nX-User: mallory\r\n");
    assert_response(&items, 200, &always, "items of ada");
    assert!(!items.head.contains("x-powered-by"), "{}", items.head);
    drop((one_server, two_server));
    assert_response(&get("/api/items", "Cookie: session=1\r\n"), 502, &always, "try again later");
    let log = site.terminate().stdout;
    assert!(log.contains("\"/api/items\""), "{log}");
}

#[test]
fn k6_load_has_its_steps_and_thresholds() {
    let mut server = Thruway::demo(&[]);
    let url = server.address();
    let load = ["bench", "scenario", "shop.toml", "--url", &url, "-c", "4", "-n", "20"];
    let run = |thresholds: &[&str]| {
        let thresholds = thresholds.iter().flat_map(|threshold| ["--fail-if", threshold]);
        Thruway::start_in(&setup("k6"), &load.into_iter().chain(thresholds).collect::<Vec<_>>()).end()
    };
    let ended = run(&["step login: p99 > 1h", "errors > 1%"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("20 completed, 0 failed"), "{}", ended.stdout);
    let violated = run(&["step login: p99 > 1us"]);
    assert_eq!(violated.code, Some(3), "{}", violated.stderr);
}
