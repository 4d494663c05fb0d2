//! Tests of paths that have another form than the path of the route.

use super::*;

/// Regression test: a client could bypass the route `/admin`. The path `/%61dmin` matched the catch-all
/// route, and the upstream server read it as `/admin`.
#[test]
fn every_spelling_of_a_path_matches_the_same_route() {
    let routes = routes(&[at("/"), at("/admin"), at("/exact$"), at("/users/{id}"), at("/@me")]);
    for (path, route) in [
        ("/%61dmin", 1),
        ("/x/../admin", 1),
        ("/x/%2e%2E/admin/a", 1),
        ("//admin", 1),
        ("/.//admin//", 1),
        ("http://h//%61dmin?a", 1),
        ("/e%78act", 2),
        ("/./exact", 2),
        ("//users//5", 3),
        ("/users/a%2Fb", 3),
        ("/%40me", 4),
        ("/admin/../x", 0),
        ("/admin%2Fa", 0),
        ("/%2Fadmin", 0),
        ("/admin;a", 0),
    ] {
        assert_eq!(find_at(&routes, "h", path), Some(route), "{path}");
    }
}

#[test]
fn handler_gets_the_path_as_sent() {
    let scene = TestServer::new(routes(&[at("/"), at("/a"), at("/p/{x}")]));
    for (path, expected) in [
        ("//x/./%61", "0 //x/./%61"),
        ("//%61//b%2fc", "1 //b%2fc"),
        ("/b/../a/%62", "1 /%62"),
        ("/a/b/../c", "1 /b/../c"),
        ("/b/../a", "1 /"),
        ("//p/%71", "2 //p/%71"),
    ] {
        let response = ask(&scene, &format!("GET {path}"));
        assert!(response.ends_with(&format!("\r\n\r\n{expected}")), "{path}: {response}");
    }
}

#[test]
fn ambiguous_path_gets_400() {
    for given in [&[at("/")][..], &[at("/"), at("/a")]] {
        let scene = TestServer::new(routes(given));
        for path in ["/..", "/a/../../b", "/a//../b", "/a/..;/b", "/a/..%2fb", "/%", "http://h/../a"] {
            assert!(ask(&scene, &format!("GET {path}")).starts_with("HTTP/1.1 400 "), "{path}");
        }
        for path in ["/a%00", "/x/..%00/a", "/a%0A", "/%7fa", "/a%1f/b", "/a;%09", "http://h/a%00"] {
            let response = ask(&scene, &format!("GET {path}"));
            assert!(response.starts_with("HTTP/1.1 400 "), "{path}: {response}");
            assert!(response.ends_with("the path has an encoded control character\n"), "{path}: {response}");
        }
        assert!(
            ask(&scene, "GET /?a=%00").starts_with("HTTP/1.1 200 "),
            "a query may contain encoded control characters"
        );
        assert!(ask(&scene, "GET /a/../b").ends_with("0 /a/../b"));
    }
}
