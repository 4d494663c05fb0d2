//! Tests of the keys that select the requests of a route. The configs are the examples of the user guide.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;

use tempfile::TempDir;
use thruway_daemon::{Config, Daemon, Route, check, explain};
use thruway_gateway::RouteMatch;
use thruway_server::{ListenAddr, Response};

use crate::client::{address_of, connect, end, everything, get};

const GUIDE: &str = include_str!("../../../../docs/guide/gateway.md");

/// Writes the config of the guide that contains `part` to a file. Its listeners get free ports.
fn config_of_guide(part: &str) -> (PathBuf, TempDir) {
    let mut blocks = GUIDE.split("```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let block = blocks.find(|block| block.contains(part)).unwrap();
    let lines = block.lines().map(|line| {
        let line = if line.starts_with("address = ") { "address = \"127.0.0.1:0\"" } else { line };
        format!("{line}\n")
    });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("site.toml");
    fs::write(&path, format!("workers = 1\n{}", lines.collect::<String>())).unwrap();
    (path, directory)
}

/// Returns the response to a GET for `target` at `host`.
fn ask(address: &ListenAddr, host: &str, target: &str) -> String {
    let mut stream = connect(address);
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn route_with_several_hosts_gets_the_requests_of_each_host() {
    let (path, _directory) = config_of_guide("host = [\"example.com\"");
    let daemon = Daemon::from_file(&path).unwrap();
    let address = address_of(&daemon);
    for (host, expected) in [
        ("example.com", "the site"),
        ("WWW.example.com:80", "the site"),
        ("a.example.com", "Location: https://example.com/x"),
        ("a.example.org", "Location: https://example.com/x"),
        ("example.org", "HTTP/1.1 404 "),
    ] {
        let response = ask(&address, host, "/x");
        assert!(response.contains(expected), "{host}: {response}");
    }
    end(daemon);
}

#[test]
fn explain_shows_the_host_of_a_list_that_matches() {
    let (path, _directory) = config_of_guide("host = [\"example.com\"");
    let text = explain(&path, "GET http://www.example.com/x", &[]).unwrap();
    for expected in [
        "(example.com, www.example.com)/ and below\n    this host, any path: takes the request\n",
        "(*.example.com, *.example.org)/ and below\n    hosts below example.com, any path: would match",
    ] {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn name_of_a_route_replaces_its_description() {
    let (path, directory) = config_of_guide("name = \"site\"");
    let daemon = Daemon::from_file(&path).unwrap();
    assert_eq!(get(&address_of(&daemon), "/x"), ("200".to_owned(), "the site\n".to_owned()));
    assert_eq!(get(&address_of(&daemon), "/old").0, "308");
    let metrics = get(&daemon.admin_addresses()[0], "/metrics").1;
    let status = get(&daemon.admin_addresses()[0], "/status").1;
    end(daemon);
    let count = |route: &str| {
        let line = metrics.lines().find(|line| {
            line.starts_with("http_server_request_duration_seconds_count")
                && line.contains(&format!("http_route=\"{route}\""))
        });
        line.unwrap_or_else(|| panic!("no {route} in {metrics}")).ends_with(" 1")
    };
    assert!(count("site") && count("/old"), "{metrics}");
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["routes"][0]["name"], "site");
    assert_eq!(status["routes"][0]["requests"], "/ and below");
    assert_eq!(status["routes"][1].get("name"), None);
    let log = fs::read_to_string(directory.path().join("access.log")).unwrap();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["url.path"], &lines[0]["http.route"]), (&"/x".into(), &"site".into()));
    assert_eq!((&lines[1]["url.path"], lines[1].get("http.route")), (&"/old".into(), None));
    let checked = check(&path, true).unwrap().description;
    assert!(checked.contains("\nsite: / and below: answers 200\n"), "{checked}");
    let explained = explain(&path, "/x", &[]).unwrap();
    assert!(explained.contains("site.toml:5: site: / and below\n"), "{explained}");
}

/// Returns the message and the hint about a config with routes of these names.
fn failure_of_names(names: &[&str]) -> String {
    let route = |name: &&str| Route::handler(everything(), || Response::text("")).named(*name);
    let config = Config::default().listen("127.0.0.1:0").unwrap();
    let config = names.iter().map(route).fold(config, Config::route);
    Daemon::from_config(config).unwrap_err().to_string()
}

#[test]
fn invalid_names_of_routes_in_code_are_errors() {
    let failure = failure_of_names(&["a b"]);
    assert!(failure.contains("`a b` is not a valid name of a route"), "{failure}");
    assert!(failure.contains("hint: a name has 1 to 64 characters"), "{failure}");
    let failure = failure_of_names(&["a", "a"]);
    assert!(failure.contains("two routes have the name `a`"), "{failure}");
}

#[test]
fn reload_keeps_the_counters_of_a_named_route() {
    let (path, _directory) = config_of_guide("name = \"site\"");
    let daemon = Daemon::from_file(&path).unwrap();
    assert_eq!(get(&address_of(&daemon), "/a").0, "200");
    let text = fs::read_to_string(&path).unwrap().replace("path = \"/\"", "path = \"/a\"");
    fs::write(&path, text).unwrap();
    daemon.reload().unwrap();
    let status: serde_json::Value =
        serde_json::from_str(&get(&daemon.admin_addresses()[0], "/status").1).unwrap();
    assert_eq!(status["routes"][0]["requests"], "/a and below");
    assert_eq!(status["routes"][0]["requests_total"], 1);
    end(daemon);
}

/// Returns the response to a GET for `/reports` on a listener.
fn reports_at(daemon: &Daemon, listener: usize) -> String {
    get(&daemon.listeners()[listener].address, "/reports").1
}

#[test]
fn route_matches_only_requests_of_its_listeners() {
    let (path, _directory) = config_of_guide("listeners = [\"internal\"]");
    let daemon = Daemon::from_file(&path).unwrap();
    assert_eq!([reports_at(&daemon, 0), reports_at(&daemon, 1)], ["the site\n", "the reports\n"]);
    end(daemon);
    let explained = explain(&path, "GET /reports", &[]).unwrap();
    let (of_named, of_others) = explained.split_once("\non all other listeners:\n").unwrap();
    assert!(of_named.starts_with("on the listener `internal`:\nGET /reports: answers 200\n"), "{explained}");
    assert!(of_named.contains("/reports and below on listener internal\n"), "{explained}");
    assert!(of_named.contains("a prefix of 8 bytes, one condition: takes the request"), "{explained}");
    assert!(!of_others.contains("internal") && of_others.contains("takes the request"), "{explained}");
}

/// An open connection keeps the name of its listener. With the position of the listener in place of its name,
/// a client of the public listener would reach the routes of the internal listener after this reload.
#[test]
fn reload_does_not_change_the_listener_of_an_open_connection() {
    let (path, _directory) = config_of_guide("listeners = [\"internal\"]");
    let daemon = Daemon::from_file(&path).unwrap();
    let mut public = connect(&daemon.listeners()[0].address);
    let mut ask_again = || {
        write!(public, "GET /reports HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut response = vec![0; 4096];
        let mut length = 0;
        while !response[..length].ends_with(b"the site\n") && !response[..length].ends_with(b"the reports\n")
        {
            let read = public.read(&mut response[length..]).unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&response[..length]));
            length += read;
        }
        String::from_utf8_lossy(&response[..length]).contains("the site\n")
    };
    assert!(ask_again());
    let text = fs::read_to_string(&path).unwrap();
    let (public_name, internal_name) = ("name = \"public\"", "name = \"internal\"");
    let text = text.replace(public_name, "name = \"x\"").replace(internal_name, public_name);
    fs::write(&path, text.replace("name = \"x\"", internal_name)).unwrap();
    daemon.reload().unwrap();
    assert!(ask_again());
    end(daemon);
}

#[test]
fn routes_in_code_name_their_listeners() {
    let at = |listeners: &[&str]| RouteMatch {
        listeners: listeners.iter().map(|&name| name.to_owned()).collect(),
        ..everything()
    };
    let config = |listener: &str, route: &str| {
        let config = Config::default().listen("127.0.0.1:0").unwrap().listener_name(listener);
        config.route(Route::handler(at(&[route]), || Response::text("named")))
    };
    let daemon = Daemon::from_config(config("a", "a").listen("127.0.0.1:0").unwrap()).unwrap();
    let response = |listener: usize| get(&daemon.listeners()[listener].address, "/");
    assert_eq!((response(0).1.as_str(), response(1).0.as_str()), ("named", "404"));
    end(daemon);
    let failure = Daemon::from_config(config("a", "b")).unwrap_err().to_string();
    assert!(failure.contains("names the unknown listener `b`"), "{failure}");
    let failure = Daemon::from_config(config("a b", "a b")).unwrap_err().to_string();
    assert!(failure.contains("`a b` is not a valid name of a listener"), "{failure}");
}

#[test]
fn expressions_select_routes_and_fill_templates() {
    let (path, _directory) = config_of_guide("path_regex = '^/(?<lang>");
    let daemon = Daemon::from_file(&path).unwrap();
    let address = address_of(&daemon);
    for (target, expected) in [
        ("/de/articles/15.html", "\r\nLocation: /articles?lang=de&id=15\r\n"),
        ("/d%65/x/../articles/%315.html", "\r\nLocation: /articles?lang=d%65&id=%315\r\n"),
        ("/fr/articles/15.html", "the site"),
        ("/internal/a.php", "the site"),
        // No server listens at the address of the upstream.
        ("/a.php", "HTTP/1.1 502 "),
        ("/users/5/photo", "HTTP/1.1 502 "),
        ("/users/x/photo", "the site"),
    ] {
        let response = ask(&address, "a", target);
        assert!(response.contains(expected), "{target}: {response}");
    }
    end(daemon);
}

#[test]
fn explain_shows_expressions_and_negated_conditions() {
    let (path, _directory) = config_of_guide("path_regex = '^/(?<lang>");
    let text = explain(&path, "GET /a.php", &["User-Agent: GoogleBot".to_owned()]).unwrap();
    for expected in [
        "skipped, because it has the header User-Agent matching (?i)bot|crawler\n",
        "skipped, because its path does not match ^/(?<lang>de|en)/articles/([0-9]+)\\.html$\n",
        "any host, any path, 3 conditions: skipped",
        "any host, any path: takes the request",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}
