//! Routes, layers and extractors.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thruway_server::extractors::{Path, State};
use thruway_server::layers::{Cors, Layer, Layered, RequestId, Timeout, from_sync_fn};
use thruway_server::{
    Answer, Handler, IntoHandler, Json, OwnedRequest, Rejection, Request, Response, Router, with_state,
};
use thruway_testkit::test_server::TestServer;

fn send(scene: &TestServer, request: &str) -> String {
    let mut client = scene.connect();
    client.send(request);
    client.received()
}

fn get(scene: &TestServer, path: &str) -> String {
    send(scene, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
}

#[test]
fn most_specific_route_wins_and_parameters_are_decoded() {
    let router = Router::new()
        .get("/users/{id}", |request: &Request| {
            Response::text(format_args!("user {}", request.parameter("id")))
        })
        .get("/users/me", || "me")
        .get("/{a}/{b}/{c}/{d}", |request: &Request| {
            let all: Vec<&str> = request.parameters().iter().map(|(_, value)| value).collect();
            all.join("+")
        })
        .get("/files/{*path}", |request: &Request| request.parameter("path").into_owned())
        .get("/later/{id}", async |request: OwnedRequest| request.parameter("id").into_owned());
    let scene = TestServer::new(router);
    for (path, expected) in [
        ("/users/me", "me"),
        ("/users/42", "user 42"),
        ("/users/a%20b?x", "user a b"),
        ("/1/2/3/4", "1+2+3+4"),
        ("/files/a/b/c", "a/b/c"),
        ("/later/caf%C3%A9", "café"),
    ] {
        assert!(get(&scene, path).ends_with(&format!("\r\n\r\n{expected}")), "{path}");
    }
    assert!(get(&scene, "/users").starts_with("HTTP/1.1 404 "));
    assert!(get(&scene, "/users/").starts_with("HTTP/1.1 404 "));
}

/// Returns a layer that adds `name` to the header `X-Order` of each response.
fn mark(name: &'static str) -> impl Layer {
    from_sync_fn(move |request, next| {
        next.handle(request).map(move |response| response.with_field("X-Order", name))
    })
}

#[test]
fn layers_of_a_route_a_router_and_all_routes_apply_in_order() {
    let admin = Router::new().get("/users", || "users").layer(mark("router"));
    let app = Router::new()
        .get("/", || "home")
        .get("/marked", Layered::new(|| "marked").layer(mark("route")))
        .mount("/admin", admin)
        .layer(mark("inner"))
        .layer(mark("outer"));
    let scene = TestServer::new(app);
    for (path, status, order) in [
        ("/", "200", "inner outer"),
        ("/marked", "200", "route inner outer"),
        ("/admin/users", "200", "router inner outer"),
        ("/admin/missing", "404", "router inner outer"),
        ("/missing", "404", "inner outer"),
    ] {
        let reply = get(&scene, path);
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {reply}");
        let marks: Vec<_> = reply.lines().filter_map(|line| line.strip_prefix("X-Order: ")).collect();
        assert_eq!(marks.join(" "), order, "{path}");
    }
}

#[test]
fn merged_router_has_the_routes_of_both() {
    let files = Router::new().get("/{*path}", |request: &Request| request.mounted_path().to_owned());
    let other = Router::new()
        .with_state("state")
        .get("/users/{id}", |State(state): State<&'static str>, Path(id): Path<u32>| format!("{state} {id}"))
        .post("/", || "posted")
        .mount("/files", files)
        .fallback(|| "ignored");
    let router = Router::new().get("/", || "home").merge(other).fallback(|| "fallback");
    let scene = TestServer::new(router);
    for (path, expected) in
        [("/", "home"), ("/users/7", "state 7"), ("/files/a/b", "/a/b"), ("/other", "fallback")]
    {
        assert!(get(&scene, path).ends_with(&format!("\r\n\r\n{expected}")), "{path}");
    }
    let refused = send(&scene, "DELETE / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(refused.contains("405 ") && refused.contains("Allow: GET, POST, HEAD, OPTIONS\r\n"), "{refused}");
}

#[test]
fn routers_with_the_same_route_cannot_be_merged() {
    let router = || Router::new().get("/a", || "a").any("/b", || "b").mount("/c", Router::new());
    let merge = |other: Router| router().try_merge(other).map_err(|error| error.to_string());
    assert_eq!(merge(Router::new().post("/a", || "a").get("/b", || "b")), Ok(()));
    for (other, path) in [
        (Router::new().get("/a", || "a"), "/a"),
        (Router::new().any("/b", || "b"), "/b"),
        (Router::new().mount("/c", Router::new()), "/c"),
    ] {
        let error = merge(other).unwrap_err();
        assert!(error.starts_with(&format!("route `{path}` cannot be added: ")), "{error}");
    }
}

/// Passes each request to a handler that lives only for this call. Then it reports the state of the request
/// body in the field `Left`.
struct Forwarding;

impl Handler for Forwarding {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let taking =
            async |mut request: OwnedRequest| request.content().collect(100).await.unwrap().len().to_string();
        let is_taken = request.path() == "/taken";
        let handler = if is_taken { taking.into_handler() } else { (|| "none").into_handler() };
        let answer = request.forward_to(&*handler);
        let (left, is_whole) = (request.content().len(), request.has_whole_content());
        answer.map(move |response| response.with_field("Left", format!("{left} {is_whole}")))
    }
}

#[test]
fn request_can_be_forwarded_to_short_lived_handler() {
    let scene = TestServer::new(Router::new().mount("/", Forwarding));
    // The cases differ in the time at which the body arrives, and in whether the inner handler takes it.
    for (path, pieces, left, content) in [
        ("/taken", ["abc", ""], "3 true", "3"),
        ("/left", ["abc", ""], "3 true", "none"),
        ("/taken", ["", "abc"], "0 true", "3"),
        ("/left", ["", "abc"], "0 false", "none"),
    ] {
        let mut client = scene.connect();
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n");
        client.send(head + pieces[0]);
        client.send(pieces[1]);
        let response = client.received();
        assert!(response.contains(&format!("\r\nLeft: {left}\r\n")), "{path}: {response}");
        assert!(response.ends_with(&format!("\r\n\r\n{content}")), "{path}: {response}");
    }
}

#[test]
fn handlers_share_state() {
    let names = Arc::new(Mutex::new(Vec::new()));
    let add = |names: &Mutex<Vec<String>>, request: &Request| {
        names.lock().unwrap().push(request.parameter("name").into_owned());
    };
    let list = |names: &Mutex<Vec<String>>, _: &Request| names.lock().unwrap().join(" ");
    let count =
        async |names: Arc<Mutex<Vec<String>>>, _: OwnedRequest| names.lock().unwrap().len().to_string();
    let router = Router::new()
        .post("/names/{name}", with_state(&names, add))
        .get("/names", with_state(&names, list))
        .get("/count", with_state(&names, count));
    let scene = TestServer::new(router);
    for name in ["ada", "grace"] {
        let answer = send(&scene, &format!("POST /names/{name} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
    }
    assert!(get(&scene, "/names").ends_with("\r\n\r\nada grace"));
    assert!(get(&scene, "/count").ends_with("\r\n\r\n2"));
}

#[test]
fn unsupported_method_gets_405_with_allow_header() {
    let scene = TestServer::new(Router::new().get("/x", || "got").post("/x", || "posted").on(
        "PURGE",
        "/x",
        || "purged",
    ));
    let answer = send(&scene, "DELETE /x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    assert!(answer.contains("\r\nAllow: GET, POST, PURGE, HEAD, OPTIONS\r\n"), "{answer}");
    let answer = send(&scene, "OPTIONS /x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 204 ") && answer.contains("\r\nAllow: GET, POST, "), "{answer}");
    assert!(send(&scene, "PURGE /x HTTP/1.1\r\nHost: a\r\n\r\n").ends_with("purged"));
    assert!(send(&scene, "purge /x HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 405 "));
    let answer = send(&scene, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 204 ") && answer.contains("\r\nAllow: "), "{answer}");
}

#[test]
fn absolute_and_origin_form_targets_match_routes() {
    let scene = TestServer::new(Router::new().get("/a/{b}", |request: &Request| {
        let authority = request.head().authority().map(|authority| authority.to_string());
        format!("{} {:?} {:?}", request.parameter("b"), request.query_string(), authority)
    }));
    let answer = send(&scene, "GET http://x.example:81/a/1?q HTTP/1.1\r\nHost: ignored\r\n\r\n");
    assert!(answer.ends_with("1 Some(\"q\") Some(\"x.example:81\")"), "{answer}");
    assert!(get(&scene, "/a/1").ends_with("1 None Some(\"a\")"));
}

#[test]
fn mounted_router_matches_path_below_prefix() {
    let inner = Router::new()
        .get("/", |request: &Request| Response::text(format!("root of {}", request.path())))
        .get("/x/{id}", |request: &Request| Response::text(format!("x {}", request.parameter("id"))))
        .fallback(|request: &Request| Response::text(format!("no {}", request.mounted_path())));
    let scene = TestServer::new(Router::new().get("/api/fixed", || "fixed").mount("/api", inner));
    assert!(get(&scene, "/api").ends_with("root of /api"));
    assert!(get(&scene, "/api/").ends_with("root of /api/"));
    assert!(get(&scene, "/api/x/5").ends_with("x 5"));
    assert!(get(&scene, "/api/y").ends_with("no /y"));
    assert!(get(&scene, "/api/fixed").ends_with("fixed"));
    assert!(get(&scene, "/apix").starts_with("HTTP/1.1 404 "));
}

#[test]
fn conflicting_or_invalid_routes_are_rejected() {
    let mut router = Router::new().get("/a/{x}", || "x");
    assert!(router.try_on("GET", "/a/{y}", || "y").is_err());
    assert!(router.try_on("GET", "/a/{x}", || "again").is_err());
    assert!(router.try_on("POST", "/a/{x}", || "another method").is_ok());
    assert!(router.try_on("G T", "/b", || "no method").is_err());
    assert!(router.try_on("GET", "/c/{*rest}/d", || "no path").is_err());
    let error = router.try_on("GET", "/a/{y}", || "y").unwrap_err().to_string();
    assert!(error.starts_with("route `/a/{y}` cannot be added: "), "{error}");
}

#[derive(Deserialize, Serialize)]
struct Point {
    x: i32,
    y: i32,
}

#[test]
fn queries_forms_and_json_are_parsed_or_rejected() {
    let router = Router::new()
        .get("/query", |request: &Request| request.query().map(|Point { x, y }| (x + y).to_string()))
        .post("/form", |request: &Request| request.form().map(|Point { x, y }| (x + y).to_string()))
        .post("/json", |request: &Request| request.json().map(|Point { x, y }| Json(Point { x: y, y: x })))
        .post("/later", async |mut request: OwnedRequest| -> Result<String, Rejection> {
            let Point { x, y } = request.json().await?;
            Ok((x * y).to_string())
        });
    let scene = TestServer::new(router);
    assert!(get(&scene, "/query?x=1&y=2").ends_with("\r\n\r\n3"));
    assert!(get(&scene, "/query?x=1").starts_with("HTTP/1.1 400 "));
    let post = |path: &str, content_type: &str, content: &str| {
        let length = content.len();
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\n");
        send(&scene, &format!("{head}Content-Length: {length}\r\n\r\n{content}"))
    };
    let form = "application/x-www-form-urlencoded";
    assert!(post("/form", form, "x=20&y=+22").starts_with("HTTP/1.1 422 "));
    assert!(post("/form", form, "x=20&y=22").ends_with("\r\n\r\n42"));
    assert!(post("/form", "text/plain", "x=20&y=22").starts_with("HTTP/1.1 415 "));
    assert!(
        post("/json", "application/json; charset=utf-8", r#"{"x":1,"y":2}"#).ends_with(r#"{"x":2,"y":1}"#)
    );
    assert!(post("/json", "application/vnd.a+json", r#"{"x":1,"y":2}"#).ends_with(r#"{"x":2,"y":1}"#));
    assert!(post("/json", "application/json", r#"{"x":1}"#).starts_with("HTTP/1.1 422 "));
    assert!(post("/json", "application/json", "{").starts_with("HTTP/1.1 400 "));
    assert!(post("/json", "text/html", "{}").starts_with("HTTP/1.1 415 "));
    assert!(post("/later", "application/json", r#"{"x":6,"y":7}"#).ends_with("\r\n\r\n42"));
}

#[test]
fn timeout_layer_answers_for_slow_handler() {
    let slow = async |_: OwnedRequest| std::future::pending::<&str>().await;
    let router = Router::new().get("/slow", slow).get("/fast", || "ok").layer(Timeout::new(Duration::ZERO));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let scene = TestServer::new(router);
    runtime.block_on(async {
        let mut client = scene.connect();
        client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
        while client.received().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(get(&scene, "/fast").ends_with("ok"));
    });
}

#[test]
fn each_response_has_a_request_id() {
    let scene = TestServer::new(Router::new().get("/", || "ok").layer(RequestId::new()));
    let given = send(&scene, "GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\n\r\n");
    assert!(given.contains("\r\nX-Request-Id: mine\r\n"));
    let ids: std::collections::HashSet<String> = (0..10)
        .map(|_| get(&scene, "/").split("X-Request-Id: ").nth(1).unwrap().lines().next().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 10);
    let odd = send(&scene, "GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: a b\r\n\r\n");
    assert!(!odd.contains("a b"));
}

#[test]
fn cors_layer_allows_only_configured_origins() {
    let cors = Cors::origins(["https://good.example"]).with_credentials().response_fields(&["X-Total"]);
    let scene = TestServer::new(Router::new().get("/", || "ok").layer(cors));
    let preflight = |origin: &str| {
        send(
            &scene,
            &format!(
                "OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: PUT\r\n\r\n"
            ),
        )
    };
    let good = preflight("https://good.example");
    assert!(
        good.starts_with("HTTP/1.1 204 ") && good.contains("Access-Control-Allow-Methods: GET, "),
        "{good}"
    );
    assert!(good.contains("Access-Control-Allow-Origin: https://good.example\r\n"));
    assert!(good.contains("Access-Control-Allow-Credentials: true\r\n"));
    assert!(!preflight("https://evil.example").contains("Access-Control-Allow-Origin"));
    let answer = send(&scene, "GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://good.example\r\n\r\n");
    assert!(
        answer.contains("Access-Control-Expose-Headers: X-Total\r\n") && answer.contains("Vary: Origin\r\n")
    );
    assert!(get(&scene, "/").contains("Vary: Origin\r\n"));
    let any = TestServer::new(Router::new().get("/", || "ok").layer(Cors::any_origin().with_credentials()));
    let answer = send(&any, "GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://x.example\r\n\r\n");
    assert!(
        answer.contains("Access-Control-Allow-Origin: *\r\n") && !answer.contains("Credentials"),
        "{answer}"
    );
}

/// HEAD once did not use the GET handler of a path on which something else was mounted.
#[test]
fn head_request_uses_get_route() {
    let router = Router::new().get("/docs", || "page").mount("/docs", Router::new().fallback(|| "mounted"));
    let scene = TestServer::new(router);
    let mut client = scene.connect();
    client.send("HEAD /docs HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = client.received();
    assert!(answer.contains("\r\nContent-Length: 4\r\n"), "{answer}");
}

/// The length of the mounted prefix was once taken from the pattern and not from the path. So a mount below a
/// parameter is now an error.
#[test]
fn mount_below_parameter_is_an_error() {
    let error = Router::new().try_mount("/users/{id}", Router::new()).unwrap_err();
    assert!(error.to_string().contains("below a parameter"), "{error}");
}
