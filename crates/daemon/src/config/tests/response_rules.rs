//! Tests of the changes to response headers, of files to try, and of error pages.

use super::*;

/// Resolves a config with a route. `listener` and `route` are lines of the listener and of the route.
fn config(listener: &str, route: &str) -> Result<Config, String> {
    let text = format!("[[listeners]]\naddress = \"127.0.0.1:1\"\n{listener}\n[[routes]]\n{route}\n");
    resolved(&text).map_err(|failure| failure.to_string())
}

#[test]
fn check_shows_response_rules() {
    let rule = "response_rules = [{ set = { A = \"1\" }, remove = [\"B\"] }, { add = { C = \"2\" }, types = [\"image/*\"], statuses = [\"200-299\"] }]";
    let config = config(rule, &format!("path = \"/a\"\nrespond = {{}}\n{rule}")).unwrap();
    assert_eq!(config.listeners[0].to_string(), "127.0.0.1:1, response removes B, sets A, adds C");
    assert_eq!(config.routes[0].to_string(), "/a and below: answers 200; response removes B, sets A, adds C");
}

#[test]
fn invalid_response_rules_are_errors() {
    for (rule, message) in [
        ("{}", "hint: add `set`, `add` or `remove`"),
        ("{ types = [\"text/html\"] }", "this rule changes no header"),
        ("{ sets = {} }", "unknown key `sets`"),
        ("{ set = { Content-Length = \"1\" } }", "this field belongs to the connection"),
        ("{ set = { \"A b\" = \"1\" } }", "the field name is invalid"),
        ("{ set = { A = \"b\\r\\nC: d\" } }", "the field value is invalid"),
        ("{ add = { A = \"{request_id}\" } }", "hint: use `rewrite.response` of a route"),
        ("{ add = { A = \"{user}\" } }", "unknown placeholder"),
        ("{ add = { A = \"{rest}\" } }", "unknown placeholder"),
        ("{ remove = [\"A\"], types = [\"html\"] }", "hint: write `text/html`, `image/*` or `*+json`"),
        ("{ remove = [\"A\"], types = [] }", "`types` is empty"),
        ("{ remove = [\"A\"], statuses = [\"2xx\"] }", "write statuses as `204` or `200-399`"),
        ("{ remove = [\"A\"], statuses = [] }", "`statuses` is empty"),
    ] {
        let rules = format!("response_rules = [{rule}]");
        let of_route = config("", &format!("path_exact = \"/\"\nrespond = {{}}\n{rules}")).err().unwrap();
        assert!(of_route.contains(message) && of_route.contains("serve.toml:7"), "{of_route}");
        let of_listener = config(&rules, "path = \"/\"\nrespond = {}").err().unwrap();
        assert!(of_listener.contains(message) && of_listener.contains("serve.toml:3"), "{of_listener}");
    }
    let rule = "tcp = \"a\"\nresponse_rules = [{ remove = [\"A\"] }]";
    let of_tcp = config(rule, "path = \"/\"\nrespond = {}").err().unwrap();
    assert!(of_tcp.contains("hint: remove `response_rules`"), "{of_tcp}");
}

#[test]
fn invalid_file_settings_and_error_pages_are_errors() {
    for (keys, message) in [
        ("files = { root = \"a\", try_files = [] }", "`try_files` is empty"),
        ("files = { root = \"a\", try_files = [\"index.html\"] }", "hint: write `{path}`, `{path}.html`"),
        ("files = { root = \"a\", try_files = [\"/../b\"] }", "is not a file to try"),
        ("files = { root = \"a\", types = { \".md\" = \"text/plain\" } }", "this is not a file extension"),
        ("files = { root = \"a\", types = { md = \"a\\r\\nb: c\" } }", "serve.toml:6"),
        ("respond = {}\nerror_pages = { pages = {} }", "`error_pages` has no page"),
        ("respond = {}\nerror_pages = {}", "missing field `pages`"),
        ("respond = {}\nerror_pages.pages = { 200 = \"a.html\" }", "statuses from 400 to 599"),
        ("respond = {}\nerror_pages.pages = { 4xx = \"a.html\" }", "hint: write `404 = \"404.html\"`"),
        ("respond = {}\nerror_pages.pages = { 404 = \"missing.html\" }", "cannot read `missing.html`"),
        ("respond = {}\nerror_pages.pages = { 404 = \".\" }", "not a file"),
        ("respond = {}\nerror_pages.page = {}", "unknown key `page`"),
    ] {
        let failure = config("", &format!("path = \"/\"\n{keys}")).err().unwrap();
        assert!(failure.contains(message), "{failure}");
    }
}

#[test]
fn invalid_error_pages_of_a_listener_are_errors() {
    for (keys, message) in [
        ("error_pages = { pages = {} }", "`error_pages` has no page"),
        ("error_pages.pages = { 404 = \"missing.html\" }", "cannot read `missing.html`"),
        ("tcp = \"a\"\nerror_pages.pages = {}", "hint: remove `error_pages`"),
    ] {
        let failure = config(keys, "path = \"/\"\nrespond = {}").err().unwrap();
        assert!(failure.contains(message), "{failure}");
    }
}

#[test]
fn error_page_that_is_a_named_pipe_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("404.html");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let keys =
        format!("path = \"/\"\nrespond = {{}}\nerror_pages.pages = {{ 404 = \"{}\" }}", path.display());
    let failure = config("", &keys).err().unwrap();
    assert!(failure.contains("not a file"), "{failure}");
}
