//! Tests of the changes to response headers: on files, fixed responses, redirects, forwarded responses and errors.

use std::fs;

use thruway_daemon::Daemon;

use crate::client::{address_of, end, head};

/// Returns the values of the header `name` in `head`.
fn values<'h>(head: &'h str, name: &str) -> Vec<&'h str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

#[test]
fn rules_apply_to_all_kinds_of_responses() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("public")).unwrap();
    fs::write(directory.path().join("public/a.html"), "page").unwrap();
    fs::write(directory.path().join("public/a.css"), "style").unwrap();
    let path = directory.path().join("thruway.toml");
    fs::write(&path, CONFIG).unwrap();
    let daemon = Daemon::from_file(&path).unwrap();
    let address = address_of(&daemon);
    for (target, status, frame, cache) in [
        ("/files/a.html", "200", "DENY", "no-cache"),
        ("/files/a.css", "200", "DENY", "max-age=60"),
        ("/files/missing.css", "404", "DENY", ""),
        ("/fixed", "200", "SAMEORIGIN", ""),
        ("/moved", "308", "DENY", ""),
        ("/closed", "403", "DENY", ""),
        ("/down", "502", "DENY", "down-502"),
        ("/none", "404", "DENY", ""),
    ] {
        let head = head(&address, target);
        assert_eq!(head.split(' ').nth(1), Some(status), "{target}: {head}");
        assert_eq!(values(&head, "X-Frame-Options"), [frame], "{target}: {head}");
        assert_eq!(values(&head, "Cache-Control").concat(), cache, "{target}: {head}");
        assert_eq!(values(&head, "X-Path"), [target], "{target}: {head}");
    }
    end(daemon);
}

const CONFIG: &str = r#"
workers = 1
[[listeners]]
address = "127.0.0.1:0"
response_rules = [{ set = { X-Frame-Options = "DENY", X-Path = "{path}" } }]
[[routes]]
path = "/files"
files = { root = "public" }
[[routes.response_rules]]
set = { Cache-Control = "no-cache" }
types = ["text/html"]
[[routes.response_rules]]
set = { Cache-Control = "max-age=60" }
types = ["text/css"]
[[routes]]
path = "/fixed"
[routes.respond]
body = "fixed"
headers = [{ name = "X-Frame-Options", value = "NONE" }]
[[routes.response_rules]]
set = { X-Frame-Options = "SAMEORIGIN" }
[[routes]]
path = "/moved"
redirect = { to = "/fixed" }
[[routes]]
path = "/closed"
policies = ["nobody"]
respond = {}
[[routes]]
path = "/down"
upstream = "down"
[[routes.response_rules]]
set = { Cache-Control = "down-502" }
statuses = ["502"]
[[routes.response_rules]]
set = { Cache-Control = "down-200" }
statuses = ["200-299"]
[policies.nobody]
allow = ["192.0.2.1"]
[upstreams.down]
servers = ["unix:missing.sock"]
"#;
