//! Tests of the keys that select the requests of a route.

use super::*;

use crate::routes::{Parts, build};

/// Returns a config with these routes. Each route is a list of lines, without its action.
fn text_of(routes: &[&str]) -> String {
    let routes = routes.iter().map(|route| format!("[[routes]]\n{route}\ndemo = true\n"));
    format!("[[listeners]]\naddress = \"127.0.0.1:1\"\n{}", routes.collect::<String>())
}

/// Returns the error of a config with these routes.
fn failure_of(routes: &[&str]) -> String {
    let config = match resolved(&text_of(routes)) {
        Ok(config) => config,
        Err(failure) => return failure.to_string(),
    };
    build(&config, &Parts::default()).err().map(|failure| failure.to_string()).unwrap_or_default()
}

#[test]
fn check_shows_all_hosts_of_a_route() {
    let config = resolved(&text_of(&["host = [\"A.example\", \"*.b.example\"]\npath = \"/x\""])).unwrap();
    assert_eq!(config.routes[0].to_string(), "(a.example, *.b.example)/x and below: the demo");
    let config = resolved(&text_of(&["host = [\"a.example\"]\npath_exact = \"/\""])).unwrap();
    assert_eq!(config.routes[0].to_string(), "a.example/: the demo");
}

#[test]
fn invalid_lists_of_hosts_are_errors() {
    for (host, message) in [
        ("5", "invalid type: integer `5`, expected a string or an array of strings"),
        ("{ a = 1 }", "invalid type: table, expected a string or an array of strings"),
        ("[5]", "invalid type: integer `5`, expected a string"),
        ("[]", "`host` is an empty list"),
        ("[]", "hint: remove the key to match all hosts"),
        ("[\"a\", \"b\", \"A.\"]", "the list contains the host `a` twice"),
        ("[\"a\", \"b:80\"]", "a host must not have a port"),
        ("\"a b\"", "hint: write `example.com`, or `*.example.com` for all subdomains"),
    ] {
        let failure = failure_of(&[&format!("path = \"/\"\nhost = {host}")]);
        assert!(failure.contains(message) && failure.contains("serve.toml:5"), "{host}: {failure}");
    }
}

#[test]
fn check_shows_the_name_of_a_route() {
    let config = resolved(&text_of(&["name = \"api.v1_a-B\"\npath = \"/x\"", "path = \"/\""])).unwrap();
    assert_eq!(config.routes[0].to_string(), "api.v1_a-B: /x and below: the demo");
    let labels: Vec<_> = config.routes.iter().map(Route::label).collect();
    assert_eq!(labels, ["api.v1_a-B", "/ and below"]);
}

#[test]
fn invalid_and_repeated_names_are_errors() {
    let long = format!("\"{}\"", "a".repeat(65));
    for (name, message) in [
        ("5", "invalid type: integer `5`, expected a string"),
        ("[\"a\"]", "invalid type: array, expected a string"),
        ("\"\"", "`` is not a valid name"),
        ("\"a b\"", "`a b` is not a valid name"),
        ("\"a/b\"", "hint: a name has 1 to 64 characters"),
        ("\"a\\nb\"", "`a\\nb` is not a valid name"),
        (&long, "is not a valid name"),
    ] {
        let failure = failure_of(&[&format!("path = \"/\"\nname = {name}")]);
        assert!(failure.contains(message) && failure.contains("serve.toml:5"), "{name}: {failure}");
    }
    let failure = failure_of(&["path = \"/\"\nname = \"a\"", "path = \"/b\"\nname = \"a\""]);
    assert!(failure.contains("another route has the name `a`"), "{failure}");
    assert!(failure.contains("serve.toml:9") && failure.contains("5 | name = \"a\""), "{failure}");
    assert!(failure.contains("hint: give each route its own name"), "{failure}");
}

#[test]
fn conflict_of_routes_is_an_error_for_each_host() {
    let (one, two) = ("path = \"/\"\nhost = [\"a\", \"*.b\"]", "path = \"/\"\nhost = [\"c\", \"*.b\"]");
    let failure = failure_of(&[one, two]);
    assert!(failure.contains("no request for the host `*.b` reaches this route"), "{failure}");
    assert!(failure.contains("serve.toml:7") && failure.contains("3 | [[routes]]"), "{failure}");
    assert!(failure.contains("hint: remove the host from one of the two routes"), "{failure}");
    assert_eq!(failure_of(&[one, &format!("{two}\nmethods = [\"GET\"]")]), "");
    let failure =
        failure_of(&[&format!("{one}\nmethods = [\"GET\"]"), &format!("{one}\nmethods = [\"HEAD\"]")]);
    assert_eq!(failure.matches("no request for the host").count(), 2, "{failure}");
}
