//! Tests of the selection of the route for a request.

use thruway_http1::{HeadIndex, Limits, ServerConnection};
use thruway_server::IntoHandler;
use thruway_testkit::test_server::TestServer;

use super::*;

mod reading;
mod readings;
mod spelling;

/// Returns the match for `place`, which has the form `HOST,HOST/PATH`. The hosts and the path may be empty. A
/// path with `$` at its end matches exactly. A path with braces is a pattern.
fn at(place: &str) -> RouteMatch {
    let (host, path) = place.split_at(place.find('/').unwrap());
    let path = match path.strip_suffix('$') {
        Some(path) => PathMatch::Exact(path.to_owned()),
        None if path.contains('{') => PathMatch::Pattern(PathPattern::parse(path).unwrap()),
        None => PathMatch::Prefix(path.to_owned()),
    };
    let hosts = host.split(',').filter(|host| !host.is_empty()).map(|host| HostMatch::parse(host).unwrap());
    RouteMatch { hosts: hosts.collect(), ..RouteMatch::at(path) }
}

impl RouteMatch {
    fn methods(mut self, names: &[&str]) -> Self {
        self.conditions.methods = names.iter().map(|&name| name.to_owned()).collect();
        self
    }

    fn header(mut self, name: &str, value: Option<&str>) -> Self {
        let value = expected_value(value);
        self.conditions.headers.push(Expected { name: name.to_owned(), value });
        self
    }

    fn query(mut self, name: &str, value: Option<&str>) -> Self {
        let value = expected_value(value);
        self.conditions.query.push(Expected { name: name.to_owned(), value });
        self
    }
}

fn expected_value(value: Option<&str>) -> ExpectedValue {
    value.map_or(ExpectedValue::Any, |value| ExpectedValue::Text(value.to_owned()))
}

fn try_routes(given: &[RouteMatch]) -> Result<Routes, Vec<Unreachable>> {
    let answer = |place: usize| {
        (move |request: &Request| format!("{place} {}", request.mounted_path())).into_handler()
    };
    Routes::new(given.iter().cloned().enumerate().map(|(place, route)| (route, answer(place))).collect())
}

fn routes(given: &[RouteMatch]) -> Routes {
    try_routes(given).unwrap()
}

/// Calls `read` with the head of a request. `line` is the request line without the version; each line of
/// `fields` ends with CRLF.
fn with_head<R>(line: &str, fields: &str, read: impl FnOnce(&RequestHead<'_>) -> R) -> R {
    let bytes = format!("{line} HTTP/1.1\r\n{fields}\r\n");
    let mut index = HeadIndex::with_capacity(8);
    let mut connection = ServerConnection::new(Limits::default());
    let (event, used) = connection.handle_input(bytes.as_bytes(), &mut index).unwrap();
    assert!(event.is_some());
    read(&index.request_head(&bytes.as_bytes()[..used]))
}

fn find(routes: &Routes, line: &str, fields: &str) -> Option<usize> {
    with_head(line, fields, |head| routes.find(head))
}

fn find_at(routes: &Routes, host: &str, path: &str) -> Option<usize> {
    find(routes, &format!("GET {path}"), &format!("Host: {host}\r\n"))
}

#[test]
fn host_precedence_is_exact_then_longest_wildcard_then_any() {
    let routes = routes(&[
        at("/"),
        at("*.example.com/"),
        at("*.b.example.com/"),
        at("a.b.example.com/"),
        at("/exact$"),
    ]);
    for (host, route) in [
        ("a.b.example.com", 3),
        ("A.B.Example.COM.", 3),
        ("a.b.example.com:8080", 3),
        ("x.b.example.com", 2),
        ("b.example.com", 1),
        ("y.x.example.com", 1),
        ("example.com", 0),
        ("notexample.com", 0),
        ("", 0),
    ] {
        assert_eq!(find_at(&routes, host, "/a"), Some(route), "{host}");
    }
    // The host takes precedence over the path.
    assert_eq!(find_at(&routes, "b.example.com", "/exact"), Some(1));
    assert_eq!(find_at(&routes, "[::1]", "/exact"), Some(4));
    // A longer host is refused, so that it cannot bypass a route.
    assert_eq!(find_at(&routes, &format!("{}example.com", "a.".repeat(121)), "/"), Some(1));
}

#[test]
fn host_of_absolute_target_overrides_host_header() {
    let routes = routes(&[at("/"), at("example.com/")]);
    assert_eq!(find(&routes, "GET http://example.com/", "Host: other\r\n"), Some(1));
    assert_eq!(find(&routes, "GET http://other", "Host: other\r\n"), Some(0));
}

#[test]
fn path_precedence_is_exact_then_pattern_then_longest_prefix() {
    let routes = routes(&[at("/"), at("/a/"), at("/a/b/c"), at("/a/{x}"), at("/a/b$"), at("/a/b/{*rest}")]);
    for (path, route) in [
        ("/", 0),
        ("/ab", 0),
        ("/a", 1),
        ("/a/", 1),
        ("/a/x", 3),
        ("/a/b", 4),
        ("/a/b?c", 4),
        ("/a/b/", 1),
        ("/a/b/c", 5),
        ("/a/x/c", 1),
    ] {
        assert_eq!(find_at(&routes, "h", path), Some(route), "{path}");
    }
}

/// Regression test: CGI programs get header fields as variables, and do not distinguish `-` and `_` in names.
/// With `_`, a client bypassed the route that requires the field.
#[test]
fn header_condition_also_matches_underscore_spelling() {
    let routes =
        routes(&[at("/"), at("/").header("X-Role", Some("admin")), at("/").header("Tenant_Id", None)]);
    for (line, route) in [
        ("X-Role: admin", 1),
        ("X_Role: admin", 1),
        ("x_ROLE: admin", 1),
        ("X_Role: user\r\nX-Role: admin", 1),
        ("X_Role: user", 0),
        ("XRole: admin", 0),
        ("Tenant-Id: 5", 2),
        ("TENANT_ID: 5", 2),
    ] {
        assert_eq!(find(&routes, "GET /", &format!("Host: h\r\n{line}\r\n")), Some(route), "{line}");
    }
    let alike = [at("/").header("X-Role", None), at("/").header("x_role", None)];
    assert!(try_routes(&alike).is_err(), "the same requests match both");
}

#[test]
fn route_with_more_conditions_wins_then_config_order() {
    let routes = routes(&[
        at("/"),
        at("/").methods(&["POST"]),
        at("/").header("X-Canary", Some("1")).methods(&["GET"]),
        at("/").header("x-canary", None),
        at("/").query("v", Some("2 b")),
    ]);
    let canary = |value| format!("Host: h\r\nX-CANARY: {value}\r\n");
    assert_eq!(find(&routes, "GET /", &canary("1")), Some(2));
    assert_eq!(find(&routes, "HEAD /", &canary("1")), Some(2));
    assert_eq!(find(&routes, "POST /", &canary("1")), Some(1));
    assert_eq!(find(&routes, "GET /", &canary("2")), Some(3));
    assert_eq!(find(&routes, "GET /?v=2+b", &canary("2")), Some(3));
    assert_eq!(find(&routes, "GET /?a&v=2%20b", "Host: h\r\n"), Some(4));
    assert_eq!(find(&routes, "GET /?v=2+b+c", "Host: h\r\n"), Some(0));
    assert_eq!(find(&routes, "PUT /", "Host: h\r\n"), Some(0));
}

#[test]
fn route_with_unmet_conditions_is_skipped() {
    let routes = routes(&[
        at("/users/{id}").methods(&["GET"]),
        at("/{kind}/{id}").methods(&["PUT"]),
        at("/users").methods(&["DELETE"]),
        at("example.com/users/{id}").header("A", None),
    ]);
    let find = |method: &str, host: &str| find(&routes, &format!("{method} /users/1"), host);
    assert_eq!(find("GET", "Host: example.com\r\n"), Some(0));
    assert_eq!(find("GET", "Host: example.com\r\nA: b\r\n"), Some(3));
    assert_eq!(find("PUT", "Host: example.com\r\n"), Some(1));
    assert_eq!(find("DELETE", "Host: example.com\r\n"), Some(2));
    assert_eq!(find("POST", "Host: example.com\r\n"), None);
}

#[test]
fn candidates_are_listed_in_the_order_of_precedence() {
    let routes =
        routes(&[at("/"), at("/a").methods(&["POST"]), at("h/{x}").query("q", None), at("/b"), at("h/a$")]);
    let candidates = with_head("GET /a", "Host: h\r\n", |head| {
        let candidates = routes.candidates(head).into_iter();
        candidates
            .map(|one| (one.route, one.unfulfilled.map(|reason| reason.to_string())))
            .collect::<Vec<_>>()
    });
    let reason = |text: &str| Some(text.to_owned());
    assert_eq!(
        candidates,
        [(4, None), (2, reason("it has no query q")), (1, reason("its method is not POST")), (0, None)]
    );
}

#[test]
fn unreachable_route_is_an_error() {
    let unreachable = |given: &[RouteMatch]| {
        let found = try_routes(given).err().unwrap_or_default();
        found.into_iter().map(|one| (one.route, one.taken_by)).collect::<Vec<_>>()
    };
    assert_eq!(unreachable(&[at("/a"), at("/b"), at("/a/")]), [(2, 0)]);
    assert_eq!(unreachable(&[at("H/a"), at("h/a")]), [(1, 0)]);
    assert_eq!(unreachable(&[at("/{a}"), at("/{b}"), at("/{c}")]), [(1, 0), (2, 0)]);
    let get = at("/").methods(&["GET"]);
    assert_eq!(unreachable(&[get.clone(), at("/").methods(&["HEAD"])]), [(1, 0)]);
    assert_eq!(unreachable(&[at("/").methods(&["HEAD"]), get.clone()]), []);
    assert_eq!(unreachable(&[at("/").header("A", None), at("/").header("a", Some("1"))]), [(1, 0)]);
    assert_eq!(unreachable(&[at("/").header("A", Some("1")), at("/").header("a", None)]), []);
    assert_eq!(unreachable(&[at("/"), get, at("h/"), at("/$"), at("/{*a}"), at("*.h/")]), []);
}

#[test]
fn list_of_hosts_matches_each_host_with_its_own_precedence() {
    let routes = routes(&[at("*.h,h/"), at("a.h,b.h/"), at("/"), at("*.a.h/x"), at("[::1],c.h/x")]);
    for (host, path, route) in [
        ("h", "/", 0),
        ("c.h", "/", 0),
        ("c.h", "/x", 4),
        ("a.h", "/", 1),
        ("B.H.:80", "/", 1),
        ("a.a.h", "/", 0),
        ("a.a.h", "/x", 3),
        ("[0::1]", "/x", 4),
        ("[::1]", "/", 2),
        ("x", "/", 2),
    ] {
        assert_eq!(find_at(&routes, host, path), Some(route), "{host}{path}");
    }
}

#[test]
fn conflict_of_a_list_of_hosts_names_the_host() {
    let conflicts = |given: &[RouteMatch]| {
        let found = try_routes(given).err().unwrap_or_default();
        found.into_iter().map(|one| (one.route, one.host.to_string(), one.taken_by)).collect::<Vec<_>>()
    };
    let hosts = |given: &[(usize, &str, usize)]| {
        given.iter().map(|(route, host, by)| (*route, (*host).to_owned(), *by)).collect::<Vec<_>>()
    };
    assert_eq!(conflicts(&[at("a,b/"), at("b,c/")]), hosts(&[(1, "b", 0)]));
    assert_eq!(conflicts(&[at("a,*.b/"), at("*.b,a/")]), hosts(&[(1, "*.b", 0), (1, "a", 0)]));
    assert_eq!(conflicts(&[at("a,b/"), at("*.b,c/"), at("/")]), []);
    assert_eq!(conflicts(&[at("a,a/")]), []);
    let candidates = routes(&[at("*.h,a.h/")]);
    let count = with_head("GET /", "Host: a.h\r\n", |head| candidates.candidates(head).len());
    assert_eq!(count, 1);
}

#[test]
fn each_listener_has_its_own_routes() {
    let on = |place: &str, names: &[&str]| RouteMatch {
        listeners: names.iter().map(|&name| name.to_owned()).collect(),
        ..at(place)
    };
    let given = |routes: &[RouteMatch]| {
        let handler = || (|| "").into_handler();
        routes.iter().map(|route| (route.clone(), handler())).collect::<Vec<_>>()
    };
    let tables = |routes: &[RouteMatch]| ListenerRoutes::new(&given(routes));
    let routes = tables(&[at("/"), on("/", &["b", "a"]), on("/a", &["b"]), at("/a/c")]).unwrap();
    let found = routes.tables().map(|table| {
        let places =
            ["/", "/a", "/a/c"].map(|path| find_at(table.routes, "h", path).map(|at| table.places[at]));
        (table.name, places.map(Option::unwrap))
    });
    // With a list of listeners, a route is more specific than a route for all listeners.
    let expected = [(Some("a"), [1, 1, 3]), (Some("b"), [1, 2, 3]), (None, [0, 0, 3])];
    assert_eq!(found.collect::<Vec<_>>(), expected);

    let conflicts = |routes: &[RouteMatch]| {
        let found = tables(routes).err().unwrap_or_default();
        found.into_iter().map(|one| (one.route, one.listener, one.taken_by)).collect::<Vec<_>>()
    };
    assert_eq!(conflicts(&[on("/", &["a"]), on("/", &["b"])]), []);
    assert_eq!(conflicts(&[on("/", &["a", "c"]), on("/", &["b", "c"])]), [(1, Some("c".to_owned()), 0)]);
    assert_eq!(conflicts(&[at("/"), on("/x", &["a"]), at("/")]), [(2, None, 0)]);
}

fn ask(scene: &TestServer, line: &str) -> String {
    let mut client = scene.connect();
    client.send(format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n"));
    client.received()
}

#[test]
fn prefix_handler_gets_path_without_the_prefix() {
    let scene = TestServer::new(routes(&[at("/"), at("/a/"), at("/b/c$"), at("/p/{x}")]));
    for (path, expected) in [
        ("/x", "0 /x"),
        ("/a", "1 /"),
        ("/a/", "1 /"),
        ("/a/b?c", "1 /b"),
        ("/b/c", "2 /b/c"),
        ("/p/q", "3 /p/q"),
    ] {
        let response = ask(&scene, &format!("GET {path}"));
        assert!(response.ends_with(&format!("\r\n\r\n{expected}")), "{path}: {response}");
    }
}

#[test]
fn unmatched_request_gets_404_or_405_if_only_the_method_differs() {
    let given = [at("/a").methods(&["GET"]), at("/{x}").methods(&["PUT", "GET"]), at("/b").header("A", None)];
    let scene = TestServer::new(routes(&given));
    assert!(ask(&scene, "GET /").starts_with("HTTP/1.1 404 "));
    assert!(ask(&scene, "GET /b/c").starts_with("HTTP/1.1 404 "));
    let refused = ask(&scene, "DELETE /a");
    assert!(
        refused.starts_with("HTTP/1.1 405 ") && refused.contains("\r\nAllow: GET, HEAD, PUT\r\n"),
        "{refused}"
    );
}

#[test]
fn options_asterisk_and_connect_match_no_route() {
    for given in [&[at("/")][..], &[at("/"), at("/a")]] {
        let scene = TestServer::new(routes(given));
        assert!(ask(&scene, "OPTIONS *").starts_with("HTTP/1.1 204 "));
        assert!(ask(&scene, "CONNECT h:443").starts_with("HTTP/1.1 405 "));
        assert!(ask(&scene, "GET /b").ends_with("\r\n\r\n0 /b"));
    }
}

/// Returns a match for all paths with these special conditions.
fn special(path_regex: Option<&str>, extensions: &[&str], not: &[&str]) -> RouteMatch {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let negated = NegatedConditions { extensions: names(not), ..NegatedConditions::default() };
    let path_regex = path_regex.map(|text| RouteRegex::parse(text).unwrap());
    let special = SpecialConditions { path_regex, extensions: names(extensions), negated };
    let mut route = at("/");
    route.conditions.special = Some(Box::new(special));
    route
}

#[test]
fn expressions_and_extensions_of_paths_are_further_conditions() {
    let routes = routes(&[
        at("/"),
        special(Some("^/v[0-9]+/"), &[], &[]),
        special(Some("^/v[0-9]+/"), &["php"], &[]),
        special(None, &["php"], &[]),
        at("/app"),
    ]);
    for (path, route) in [
        ("/", 0),
        ("/v1/x", 1),
        ("/v1/x.php", 2),
        ("/%761/x.p%68p", 2),
        ("/a.php", 3),
        ("/a.php/b", 0),
        ("/v1", 0),
        // A longer path takes precedence over conditions.
        ("/app/a.php", 4),
    ] {
        assert_eq!(find_at(&routes, "a", path), Some(route), "{path}");
    }
    let unreachable = try_routes(&[special(None, &["a"], &[]), special(None, &["a"], &[])]).err().unwrap();
    assert_eq!((unreachable[0].route, unreachable[0].taken_by), (1, 0));
}

#[test]
fn request_must_not_meet_negated_conditions() {
    let mut route = special(None, &[], &["php"]).methods(&["GET"]);
    let expected =
        |name: &str, value: &str| Expected { name: name.to_owned(), value: expected_value(Some(value)) };
    let negated = &mut route.conditions.special.as_mut().unwrap().negated;
    negated.path_regex = Some(RouteRegex::parse("^/private").unwrap());
    negated.headers = vec![expected("X-Bot", "1")];
    negated.query = vec![expected("debug", "on")];
    let routes = routes(&[route]);
    for (line, fields, status) in [
        ("GET /", "", None),
        ("GET /?debug=off", "X-Bot: 2\r\n", None),
        ("GET /a.php", "", Some(404)),
        ("GET /%70rivate", "", Some(404)),
        ("GET /", "X_Bot: 1\r\n", Some(404)),
        ("GET /?debug=%6fn", "", Some(404)),
        ("POST /", "", Some(405)),
        ("POST /a.php", "", Some(404)),
    ] {
        let fields = format!("Host: a\r\n{fields}");
        let found = find(&routes, line, &fields);
        let refused = with_head(line, &fields, |head| routes.refuse(head).status().as_u16());
        assert_eq!(found.is_none().then_some(refused), status, "{line} {fields}");
    }
}

#[test]
fn header_and_query_conditions_can_be_expressions() {
    let mut route = at("/");
    let regex = |name: &str, text: &str| Expected {
        name: name.to_owned(),
        value: ExpectedValue::Regex(RouteRegex::parse(text).unwrap()),
    };
    route.conditions.headers = vec![regex("User-Agent", "(?i)bot")];
    route.conditions.query = vec![regex("v", "^a b[0-9]$")];
    let routes = routes(&[route]);
    let fields = "Host: a\r\nUser-Agent: x\r\nUser-Agent: GoogleBot/2\r\n";
    assert_eq!(find(&routes, "GET /?v=a%20b5", fields), Some(0));
    assert_eq!(find(&routes, "GET /?v=a+b5&v=x", fields), Some(0));
    assert_eq!(find(&routes, "GET /?v=a+bx", fields), None);
    assert_eq!(find(&routes, "GET /?v=a+b5", "Host: a\r\nUser-Agent: x\r\n"), None);
}

/// A server may ignore the text after a semicolon. Then it reads `/a;.php` as `/a`, and `/x.php;y` as
/// `/x.php`.
#[test]
fn ambiguous_path_cannot_bypass_a_guarded_expression() {
    let given = [at("/"), special(None, &["php"], &[])];
    let routes = routes(&given).guarding(PathReadings::default(), vec![vec![], vec!["auth".to_owned()]]);
    assert_eq!(find_at(&routes, "a", "/x.php"), Some(1));
    assert_eq!(find_at(&routes, "a", "/x.php;y"), None);
    assert_eq!(find_at(&routes, "a", "/x;y"), Some(0));
}

/// A server that decodes `%2F` or ignores the text after a semicolon reads a path that the route excludes.
#[test]
fn ambiguous_path_cannot_bypass_a_negated_condition() {
    let routes = routes(&[special(None, &[], &["bak"])]);
    assert_eq!(find_at(&routes, "a", "/x.bak"), None);
    assert_eq!(find_at(&routes, "a", "/x.bak;a"), None);
    assert_eq!(find_at(&routes, "a", "/x.txt;a"), Some(0));
}
