//! Tests of the dashboard: its page, history and events, and `thruway top`.

use std::path::Path;

use serde_json::Value;

use crate::admin::get_admin;
use crate::client::{Client, Response, get};
use crate::process::Thruway;

/// A gateway with an admin listener.
struct Gateway {
    thruway: Thruway,
    address: String,
    admin: String,
}

impl Gateway {
    /// Starts a gateway with these upstream servers. `rest` is added to the upstream.
    fn start(directory: &Path, servers: &[&str], rest: &str) -> Self {
        let config = format!(
            "workers = 1\n[admin]\naddress = \"127.0.0.1:0\"\n[[listeners]]\naddress = \"127.0.0.1:0\"\n\
             [[routes]]\npath = \"/hello\"\nrespond.body = \"hello\"\n\
             [[routes]]\npath = \"/\"\nupstream = \"backend\"\n[upstreams.backend]\nservers = {servers:?}\n{rest}"
        );
        let mut thruway = Thruway::serve(directory, &config);
        let (address, admin) = (thruway.address(), thruway.admin_address());
        Self { thruway, address, admin }
    }

    fn json(&self, target: &str) -> Value {
        serde_json::from_str(get_admin(&self.admin, target).text()).unwrap()
    }

    /// Opens an event stream. Returns the head of its response too.
    fn events(&self) -> (Events, String) {
        let mut client = Client::connect(&self.admin);
        client.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let head = client.head();
        (Events { client, unread: String::new() }, head)
    }
}

/// An open event stream.
struct Events {
    client: Client,
    unread: String,
}

impl Events {
    /// Returns the type and the JSON document of the next event.
    fn next(&mut self) -> (String, Value) {
        loop {
            while !self.unread.contains("\n\n") {
                self.unread += std::str::from_utf8(&self.client.chunk()).unwrap();
            }
            let (event, rest) = self.unread.split_once("\n\n").unwrap();
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
            let next = field("event: ").zip(field("data: "));
            let next = next.map(|(kind, data)| (kind.to_owned(), serde_json::from_str(data).unwrap()));
            self.unread = rest.to_owned();
            // Comments keep the connection alive and have no data.
            if let Some(next) = next {
                return next;
            }
        }
    }

    fn next_of(&mut self, kind: &str) -> Value {
        std::iter::repeat_with(|| self.next()).find(|(found, _)| found == kind).unwrap().1
    }
}

#[test]
fn page_is_small_and_may_load_nothing_from_other_hosts() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(directory.path(), &["127.0.0.1:9"], "");
    let page = |fields: &str| -> Response {
        let mut client = Client::connect(&gateway.admin);
        client.send(&format!("GET / HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
        client.response(false)
    };
    let compressed = page("Accept-Encoding: gzip, br\r\n");
    assert!(compressed.head.contains("\r\ncontent-encoding: gzip\r\n"), "{}", compressed.head);
    assert!(compressed.content.len() <= 60 << 10, "{}", compressed.content.len());
    let plain = page("");
    assert_eq!(plain.status(), "200");
    for part in [
        "content-security-policy: default-src 'none'; style-src 'sha256-",
        "connect-src 'self';",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "x-content-type-options: nosniff\r\n",
        "content-type: text/html; charset=utf-8\r\n",
    ] {
        assert!(plain.head.contains(part), "{part}\n{}", plain.head);
    }
    assert!(!plain.head.contains("unsafe-inline") && plain.text().starts_with("<!doctype html>"));
}

#[test]
fn history_shows_requests_from_before_the_page_was_opened() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(directory.path(), &["127.0.0.1:9"], "retries_max = 0");
    // The first sample ends the first second, so the requests of the following seconds are complete.
    std::iter::repeat_with(|| gateway.json("/history")).find(|history| sum(history, "cpu_percent").is_some());
    (0..5).for_each(|_| assert_eq!(get(&gateway.address, "/hello").status(), "200"));
    (0..2).for_each(|_| assert_eq!(get(&gateway.address, "/").status(), "502"));
    let complete = |history: &Value| sum(history, "requests") == Some(7.0);
    let history = std::iter::repeat_with(|| gateway.json("/history?seconds=600")).find(complete).unwrap();
    assert_eq!(sum(&history, "errors"), Some(2.0));
    assert!(sum(&history, "p99_us") > Some(0.0) && sum(&history, "memory_bytes") > Some(0.0));
    assert_eq!((&history["step_seconds"], history["requests"].as_array().unwrap().len()), (&1.into(), 600));
    let steps = gateway.json("/history?seconds=86400&step=3600");
    assert_eq!(steps["requests"].as_array().unwrap().len(), 24);
    assert_eq!(get_admin(&gateway.admin, "/history?seconds=x").status(), "400");
}

/// Returns the sum of a column. Returns `None` if it has no value.
fn sum(history: &Value, column: &str) -> Option<f64> {
    let values = history[column].as_array().unwrap().iter().filter_map(Value::as_f64);
    values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
}

#[test]
fn event_stream_sends_the_state_and_then_one_update_per_second() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(directory.path(), &["127.0.0.1:9"], "");
    let (mut events, head) = gateway.events();
    assert!(head.contains("\r\ncontent-type: text/event-stream\r\n"), "{head}");
    let (kind, access) = events.next();
    assert_eq!((kind.as_str(), &access["role"]), ("access", &"operator".into()));
    let (kind, status) = events.next();
    assert_eq!((kind.as_str(), &status["upstreams"][0]["name"]), ("status", &"backend".into()));
    assert_eq!(status["upstreams"][0]["queued_requests_max"], 1000);
    let end = |history: Value| {
        history["start"].as_u64().unwrap() + history["requests"].as_array().unwrap().len() as u64
    };
    let first = end(events.next_of("history"));
    let update = events.next_of("history");
    assert_eq!(update["start"], first, "an update begins after the previous one");
    assert!(events.next_of("status")["uptime_seconds"].as_u64() >= status["uptime_seconds"].as_u64());
}

#[test]
fn number_of_open_pages_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(directory.path(), &["127.0.0.1:9"], "");
    let mut open: Vec<_> = (0..16).map(|_| gateway.events()).collect();
    assert!(open.iter().all(|(_, head)| head.starts_with("http/1.1 200 ")));
    let refused = get_admin(&gateway.admin, "/events");
    assert_eq!((refused.status(), refused.text()), ("503", "too many dashboards are open\n"));
    assert_eq!(get_admin(&gateway.admin, "/health").text(), "alive\n");
    open.truncate(15);
    let accepted =
        std::iter::repeat_with(|| gateway.events().1).find(|head| head.starts_with("http/1.1 200 "));
    assert!(accepted.is_some());
}

#[test]
fn page_that_does_not_read_does_not_delay_other_pages() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(directory.path(), &["127.0.0.1:9"], "");
    let _unread: Vec<_> = (0..8).map(|_| gateway.events()).collect();
    let (mut events, _) = gateway.events();
    for _ in 0..3 {
        assert!(!events.next_of("history")["requests"].as_array().unwrap().is_empty());
    }
}

#[test]
fn status_shows_why_and_when_a_server_changed() {
    let directory = tempfile::tempdir().unwrap();
    let servers = ["127.0.0.1:9", "unix:missing.sock"];
    let mut gateway =
        Gateway::start(directory.path(), &servers, "retries_max = 0\nejection = { failures = 1 }");
    get(&gateway.address, "/");
    get(&gateway.address, "/");
    let status = gateway.json("/status");
    let servers = status["upstreams"][0]["servers"].as_array().unwrap();
    let ejected = servers.iter().find(|server| server["state"] == "ejected").unwrap();
    let reason = ejected["reason"].as_str().unwrap();
    assert!(reason.starts_with("ejected for 10 s; last failure: connect failed: "), "{reason}");
    assert!(ejected["changed_at"].as_str().unwrap().ends_with('Z'));
    let mut client = Client::connect(&gateway.admin);
    let target = "/upstreams/backend/servers/127.0.0.1:9/disable";
    client.send(&format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"));
    let disabled: Value = serde_json::from_str(client.response(false).text()).unwrap();
    assert_eq!(disabled["servers"][0]["reason"], "changed by the operator");
    let line = gateway.thruway.wait_for_log("admin change");
    assert!(line.contains("\"disable\"") && line.contains("\"upstreams/backend/servers/"), "{line}");
    let is_about = |changes: &Value, kind: &str, text: &str| {
        let mut changes = changes.as_array().unwrap().iter();
        changes.any(|change| change["kind"] == kind && change["text"].as_str().unwrap().contains(text))
    };
    assert!(is_about(
        &gateway.json("/status")["changes"],
        "admin_state",
        "127.0.0.1:9: disable by 127.0.0.1:"
    ));
}

/// The page shows all text as text. The listener sends documents with a type that browsers do not parse as HTML.
#[test]
fn names_in_documents_are_not_html() {
    const NAME: &str = "<img src=x onerror=alert(1)>";
    let directory = tempfile::tempdir().unwrap();
    let policies = "body_bytes_max = 1\n[policies.unused]\nbody_bytes_max = 1";
    let route = format!("[[routes]]\npath = \"/a\"\nrespond.status = 200\npolicies = [\"{NAME}\"]");
    let routes = format!("{route}\n[policies.\"{NAME}\"]\n{policies}");
    let gateway = Gateway::start(directory.path(), &["127.0.0.1:9"], &routes);
    for target in ["/status", "/config"] {
        let response = get_admin(&gateway.admin, target);
        assert!(response.head.contains("\r\ncontent-type: application/json\r\n"), "{}", response.head);
        assert!(response.head.contains("\r\nx-content-type-options: nosniff\r\n"), "{}", response.head);
        assert!(response.text().contains("img src=x"), "{}", response.text());
    }
    let config = gateway.json("/config");
    assert!(config["findings"].as_array().unwrap().iter().any(|finding| {
        finding["severity"] == "warning"
            && finding["message"].as_str().unwrap().contains("no route uses the policy")
    }));
    assert!(config["effective"].as_str().unwrap().contains("admin listener on 127.0.0.1:0"));
}

#[test]
fn top_prints_the_overview_of_a_gateway() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(directory.path(), &["127.0.0.1:9"], "");
    let top = |url: &str| Thruway::start_in(directory.path(), &["top", url, "--once"]).end();
    let printed = top(&gateway.admin);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    for part in ["requests/s", "p99", "memory", "upstream backend, 0 queued", "  127.0.0.1:9  up"] {
        assert!(printed.stdout.contains(part), "{part}\n{}", printed.stdout);
    }
    assert!(!printed.stdout.contains('\u{1b}'), "the output is not a terminal");
    for url in [gateway.address.as_str(), "unix:missing.sock", "nonsense"] {
        let failed = top(url);
        assert_eq!(failed.code, Some(2), "{url}: {}", failed.stdout);
        assert!(failed.stderr.contains(&format!("cannot read the state of `{url}`")), "{}", failed.stderr);
    }
}
