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
fn bandwidth_of_a_route_is_resolved_and_shown() {
    let shown = |keys: &str| {
        let config = resolved(&text_of(&[&format!("path_exact = \"/\"\nbandwidth = {keys}")])).unwrap();
        config.routes[0].to_string()
    };
    assert_eq!(shown("{ bytes_per_second = 2000 }"), "/: the demo; 2000 bytes per second");
    let after = shown("{ bytes_per_second = 2000, after_bytes = 500 }");
    assert_eq!(after, "/: the demo; 2000 bytes per second after 500 bytes");
    for (keys, message) in [
        ("{}", "missing field `bytes_per_second`"),
        ("{ bytes_per_second = 1023 }", "the value must be from 1024 to 1000000000000"),
        ("{ bytes_per_second = 2000, after_bytes = 1000000000001 }", "the value must be from 0 to"),
        ("{ bytes_per_second = 2000, burst = 5 }", "unknown key `burst`"),
    ] {
        let failure = failure_of(&[&format!("path = \"/\"\nbandwidth = {keys}")]);
        assert!(failure.contains(message) && failure.contains("serve.toml:5"), "{keys}: {failure}");
    }
}

#[test]
fn request_buffer_requires_a_forwarding_route() {
    let config = |action: &str, bytes: &str| {
        let keys = format!("path_exact = \"/\"\n{action}\nrequest_buffer_bytes_max = {bytes}");
        let upstream = "[upstreams.a]\nservers = [\"127.0.0.1:1\"]\n";
        resolved(&format!("[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\n{keys}\n{upstream}"))
            .map(|config| config.routes[0].to_string())
            .map_err(|failure| failure.to_string())
    };
    let shown = config("upstream = \"a\"", "5000").unwrap();
    assert_eq!(shown, "/: forwarded to a, bodies of up to 5000 bytes read first");
    let other = config("respond = {}", "5000").unwrap_err();
    assert!(other.contains("this key requires `split` or `upstream`"), "{other}");
    for bytes in ["0", "67108865"] {
        let failure = config("upstream = \"a\"", bytes).unwrap_err();
        assert!(failure.contains("the value must be from 1 to 67108864"), "{failure}");
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

/// Returns the error of a config with three listeners and a route with this key `listeners`.
fn failure_of_listeners(listeners: &str) -> String {
    let text = format!(
        "[[listeners]]\nname = \"public\"\naddress = \"127.0.0.1:1\"\n\
         [[listeners]]\nname = \"plain\"\naddress = \"127.0.0.1:2\"\nredirect_to_https = 443\n\
         [[routes]]\npath = \"/\"\ndemo = true\nlisteners = {listeners}\n"
    );
    resolved(&text).err().map(|failure| failure.to_string()).unwrap_or_default()
}

#[test]
fn check_shows_the_listeners_of_a_route() {
    let text = "[[listeners]]\nname = \"a\"\naddress = \"127.0.0.1:1\"\n[[listeners]]\nname = \"b\"\n\
                address = \"127.0.0.1:2\"\n[[routes]]\npath = \"/\"\nmethods = [\"GET\"]\nlisteners = [\"b\"]\n\
                demo = true\n[[routes]]\npath = \"/\"\nlisteners = [\"b\", \"a\"]\ndemo = true\n";
    let config = resolved(text).unwrap();
    assert_eq!(config.listeners[0].to_string(), "127.0.0.1:1 (a)");
    assert_eq!(config.routes[0].to_string(), "/ and below (GET) on listener b: the demo");
    assert_eq!(config.routes[1].label(), "/ and below on listeners b, a");
}

#[test]
fn invalid_listeners_of_a_route_are_errors() {
    for (listeners, message) in [
        ("\"public\"", "invalid type: string, expected an array"),
        ("[5]", "invalid type: integer `5`, expected a string"),
        ("[]", "hint: remove the key to match the requests of all listeners"),
        ("[\"publik\"]", "no listener has the name `publik`"),
        ("[\"publik\"]", "hint: did you mean `public`?"),
        ("[\"public\", \"public\"]", "the list contains the listener `public` twice"),
        ("[\"plain\"]", "the listener `plain` serves no routes"),
    ] {
        let failure = failure_of_listeners(listeners);
        assert!(failure.contains(message) && failure.contains("serve.toml:11"), "{listeners}: {failure}");
    }
    assert_eq!(failure_of_listeners("[\"public\"]"), "");
    let failure = failure_of(&["path = \"/\"\nlisteners = [\"a\"]"]);
    assert!(failure.contains("hint: give the listener this name: `name = …`"), "{failure}");
}

#[test]
fn invalid_and_repeated_names_of_listeners_are_errors() {
    let text = |name: &str, other: &str| {
        format!(
            "[[listeners]]\nname = \"{name}\"\naddress = \"127.0.0.1:1\"\n[[listeners]]\nname = \"{other}\"\n\
             address = \"127.0.0.1:2\"\n[[routes]]\npath = \"/\"\ndemo = true\n"
        )
    };
    let failure = resolved(&text("a", "a")).err().unwrap().to_string();
    assert!(
        failure.contains("another listener has the name `a`") && failure.contains("serve.toml:5"),
        "{failure}"
    );
    let failure = resolved(&text("a b", "a")).err().unwrap().to_string();
    assert!(failure.contains("`a b` is not a valid name") && failure.contains("serve.toml:2"), "{failure}");
}

#[test]
fn conflict_of_routes_on_one_listener_names_the_listener() {
    let text = "[[listeners]]\nname = \"a\"\naddress = \"127.0.0.1:1\"\n[[listeners]]\nname = \"b\"\n\
                address = \"127.0.0.1:2\"\n[[routes]]\npath = \"/\"\nlisteners = [\"a\", \"b\"]\ndemo = true\n\
                [[routes]]\npath = \"/\"\ndemo = true\n";
    let failure_with = |more: &str| {
        let config = resolved(&format!("{text}{more}")).unwrap_or_else(|failure| panic!("{failure}"));
        build(&config, &Parts::default()).err().map(|failure| failure.to_string()).unwrap_or_default()
    };
    assert_eq!(failure_with(""), "");
    let failure = failure_with("[[routes]]\npath = \"/\"\nlisteners = [\"b\"]\ndemo = true\n");
    assert!(
        failure.contains("no request reaches this route") && failure.contains("serve.toml:14"),
        "{failure}"
    );
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

#[test]
fn check_shows_expressions_and_negated_conditions() {
    let config = resolved(&text_of(&[
        "path_regex = '^/a$'\nextensions = [\"b\", \"c\"]\nheaders = { X = { regex = \"y\" } }\n\
         not = { path_regex = 'z$', headers = { H = true }, query = { q = \"1\" }, extensions = [\"d\"] }",
    ]))
    .unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(
        config.routes[0].label(),
        "/ and below (with header X matching y, path matching ^/a$, extension b or c, path not matching z$, \
         not extension d, without header H, without query q=1)"
    );
    assert_eq!(config.routes[0].matching.condition_count(), 7);
}

#[test]
fn invalid_expressions_and_extensions_are_errors() {
    for (keys, message) in [
        ("path_regex = '('", "the regular expression is invalid: unclosed group"),
        ("path_regex = '('", "hint: write the expression in single quotes"),
        ("path_regex = '(?=a)'", "look-around, including look-ahead and look-behind, is not supported"),
        ("path_regex = '(?:a{1000}){1000}'", "the regular expression is too large"),
        ("path_regex = 5", "invalid type: integer `5`, expected a string"),
        ("path_regex = '${'", "`${` is not closed"),
        ("extensions = []", "`extensions` is an empty list"),
        ("extensions = [\".php\"]", "hint: write `php`"),
        ("extensions = [\"*.php\"]", "hint: write `php`"),
        ("extensions = [\"\"]", "an extension has letters, digits, `-`, `_` and `~` only"),
        ("extensions = [\"tar.gz\"]", "hint: write an extension such as `php`, without a dot"),
        ("path = \"/\"\nheaders = { A = { regex = '(' } }", "the regular expression is invalid"),
        ("path = \"/\"\nquery = { A = { regexp = 'a' } }", "unknown key `regexp`"),
        (
            "path = \"/\"\nquery = { A = 5 }",
            "expected a string, `true` for any value, or a table with `regex`",
        ),
        ("path = \"/\"\nheaders = { A = false }", "write it in `[routes.not]`"),
        ("path = \"/\"\nnot = {}", "hint: add `path_regex`, `extensions`, `headers` or `query`"),
        ("path = \"/\"\nnot = { path_regex = '(' }", "the regular expression is invalid"),
        ("path = \"/\"\nnot = { headers = { \"a b\" = true } }", "a field name must be a token"),
        ("path = \"/\"\nnot = { methods = [\"GET\"] }", "unknown key `methods`"),
    ] {
        let failure = failure_of(&[keys]);
        assert!(failure.contains(message), "{keys}: {failure}");
        assert!(failure.contains("serve.toml:4") || failure.contains("serve.toml:5"), "{keys}: {failure}");
    }
}

#[test]
fn route_without_path_or_condition_on_the_path_is_an_error() {
    for keys in ["", "methods = [\"GET\"]", "not = { path_regex = 'a' }"] {
        let failure = failure_of(&[keys]);
        assert!(failure.contains("a route needs exactly one of `path`, `path_exact`"), "{keys}: {failure}");
        assert!(!violations(&text_of(&[keys])).is_empty(), "{keys}");
    }
    for keys in ["path_regex = 'a'", "extensions = [\"a\"]", "path = \"/\"\npath_regex = 'a'"] {
        assert_eq!(failure_of(&[keys]), "", "{keys}");
        assert_eq!(violations(&text_of(&[keys])), [""; 0], "{keys}");
    }
}

#[test]
fn unreachable_route_with_the_same_expression_is_an_error() {
    let same = "path_regex = 'a'\nextensions = [\"b\"]";
    assert!(failure_of(&[same, same]).contains("no request reaches this route"));
    assert_eq!(failure_of(&[same, "path_regex = 'c'\nextensions = [\"b\"]", "path = \"/\""]), "");
}

#[test]
fn unknown_group_is_an_error_with_the_groups_of_the_expression() {
    let text = |keys: &str| {
        format!(
            "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath_regex = '^/(?<id>.)/(.)'\n{keys}\n\
             [upstreams.a]\nservers = [\"127.0.0.1:1\"]\n"
        )
    };
    let groups = "groups of `path_regex`: `{id}`, `{2}`";
    for keys in [
        "upstream = \"a\"\nrewrite.path = \"/{3}\"",
        "upstream = \"a\"\nrewrite.request.set = { A = \"{name}\" }",
        "demo = true\nresponse_rules = [{ set = { A = \"{name}\" } }]",
        "redirect.to = \"/{name}\"",
    ] {
        let failure = resolved(&text(keys)).err().unwrap().to_string();
        assert!(failure.contains("unknown placeholder") && failure.contains(groups), "{keys}: {failure}");
    }
    let failure = resolved(&text("redirect.to = \"https://a.example{id}\"")).err().unwrap().to_string();
    assert!(failure.contains("a parameter or group must not become a part of the host"), "{failure}");
    assert!(resolved(&text("redirect.to = \"https://a.example/{id}/{1}\"")).is_ok());
}
