//! Extractors, layers from functions, and the error responses of both.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use thruway_server::extractors::{
    Cookies, Extension, Extraction, Form, FromRef, FromRequestParts, Path, Query, State,
};
use thruway_server::layers::{Layered, Next, from_fn, from_fn_with_state, from_sync_fn};
use thruway_server::{
    Answer, Json, OwnedRequest, OwnedRequestHead, Rejection, Request, RequestContent, Response, Router,
    StatusCode,
};
use thruway_testkit::test_server::TestServer;

#[derive(Clone)]
struct App {
    name: Arc<str>,
}

impl FromRef<App> for Arc<str> {
    fn from_ref(app: &App) -> Self {
        app.name.clone()
    }
}

#[derive(Deserialize)]
struct Note {
    title: String,
    pages: u8,
}

#[derive(Deserialize)]
struct NotePath {
    user: String,
    note: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Color {
    Red,
    Blue,
}

#[derive(Clone)]
struct User(String);

fn app() -> Router {
    Router::new()
        .with_state(App { name: "library".into() })
        .get("/", async || "async without arguments")
        .get("/name", |State(name): State<Arc<str>>| name.to_string())
        .get("/id/{id}", |Path(id): Path<u64>| format!("{id}"))
        .get("/color/{color}", |Path(color): Path<Color>| match color {
            Color::Red => "red",
            Color::Blue => "blue",
        })
        .get("/pair/{a}/{b}", async |Path((a, b)): Path<(char, Option<f64>)>| format!("{a} {b:?}"))
        .get("/users/{user}/notes/{note}", |Path(path): Path<NotePath>| {
            format!("{} {}", path.user, path.note)
        })
        .get("/map/{a}/{b}", |Path(map): Path<BTreeMap<String, String>>| format!("{map:?}"))
        .get("/list/{a}/{b}", |Path(list): Path<Vec<String>>| format!("{list:?}"))
        .get("/bug/{a}", |Path(_): Path<(String, String)>| "not reached")
        .get("/bug/of/struct", |Path(_): Path<NotePath>| "not reached")
        .get("/query", |Query(note): Query<Note>| format!("{} {}", note.title, note.pages))
        .get("/cookie", |cookies: Cookies| format!("{:?} of {}", cookies.value("b"), cookies.iter().count()))
        .get("/head", |head: OwnedRequestHead| head.as_head().target.to_string())
        .get("/lenient", |query: Result<Query<Note>, Rejection>| match query {
            Ok(_) => "a note".to_owned(),
            Err(error) => format!("no note: {}", error.status().as_u16()),
        })
        .post("/json/{user}", json)
        .post("/later/{user}", json_later)
        .post("/form", |Form(note): Form<Note>| format!("{} {}", note.title, note.pages))
        .post("/text", |text: String| text)
        .post("/bytes", |bytes: Bytes| format!("{}", bytes.len()))
        .post("/stream", async |State(app): State<App>, mut content: RequestContent| {
            content.collect(100).await.map_or(0, |content| content.len()).to_string() + &app.name
        })
        .post("/waits/{user}", async |_: Wait, Path(user): Path<String>, request: OwnedRequest| {
            let (kept, length) = (request.extensions().get::<User>().is_some(), request.path().len());
            format!("{user} {kept} {length}")
        })
        .post("/waits/{user}/json", async |_: Wait, Json(note): Json<Note>| note.title)
        .get("/plain", |request: &Request| request.path().to_owned())
        .get("/owned", async |request: OwnedRequest| request.path().to_owned())
        .into_router()
}

fn json(State(app): State<App>, Path(user): Path<String>, Json(note): Json<Note>) -> String {
    format!("{} {user} {} {}", app.name, note.title, note.pages)
}

async fn json_later(app: State<App>, user: Path<String>, note: Json<Note>) -> (StatusCode, String) {
    (StatusCode::CREATED, json(app, user, note))
}

/// An argument that is available after the first poll.
struct Wait;

impl<S> FromRequestParts<S> for Wait {
    type Rejection = Rejection;

    fn from_request_parts(request: &mut Request<'_>, _: &S) -> Extraction<Self, Rejection> {
        request.extensions_mut().insert(User("ada".to_owned()));
        let is_refused = request.field("X-Refuse").is_some();
        Extraction::later(async move {
            tokio::task::yield_now().await;
            if is_refused { Err(Rejection::new(StatusCode::CONFLICT, "refused")) } else { Ok(Self) }
        })
    }
}

/// Sends a request in one piece. Returns the status and the body.
fn send(server: &TestServer, method: &str, path: &str, fields: &str, body: &str) -> (u16, String) {
    let mut client = server.connect();
    let length = body.len();
    client.send(format!(
        "{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{fields}\r\n{body}"
    ));
    parts(&client.received())
}

fn parts(response: &str) -> (u16, String) {
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

fn get(server: &TestServer, path: &str) -> (u16, String) {
    send(server, "GET", path, "", "")
}

#[test]
fn arguments_come_from_path_query_state_and_cookies() {
    let server = TestServer::new(app());
    for (path, expected) in [
        ("/", "async without arguments"),
        ("/name", "library"),
        ("/id/42", "42"),
        ("/color/blue", "blue"),
        ("/pair/%C3%A9/0.5", "é Some(0.5)"),
        ("/users/a%20b/notes/7", "a b 7"),
        ("/map/1/2", r#"{"a": "1", "b": "2"}"#),
        ("/list/x/y%2Fz", r#"["x", "y/z"]"#),
        ("/query?title=a+b&pages=3", "a b 3"),
        ("/head?x", "/head?x"),
        ("/lenient?title=a&pages=1", "a note"),
        ("/lenient", "no note: 400"),
        ("/plain", "/plain"),
        ("/owned", "/owned"),
    ] {
        assert_eq!(get(&server, path), (200, expected.to_owned()), "{path}");
    }
    let cookies = send(&server, "GET", "/cookie", "Cookie: a=1; b=two\r\nCookie: c=3\r\n", "");
    assert_eq!(cookies.1, "Some(\"two\") of 3");
}

#[test]
fn invalid_path_or_query_gets_400_with_reason() {
    let server = TestServer::new(app());
    for (path, reason) in [
        ("/id/-1", "invalid path parameter `id`: expected `u64`"),
        ("/id/%FF", "invalid path parameter `id`: expected UTF-8"),
        ("/color/green", "invalid path parameter `color`: unknown variant `green`, expected `red` or `blue`"),
        ("/pair/ab/1", "invalid path parameter `a`: expected `char`"),
        ("/users/a/notes/b", "invalid path parameter `note`: expected `u32`"),
        ("/query?title=a", "invalid query: missing field `pages`"),
        ("/query?title=a&pages=256", "invalid query: number too large to fit in target type"),
    ] {
        assert_eq!(get(&server, path), (400, reason.to_owned()), "{path}");
    }
}

/// A route without the parameters that a handler needs is a bug of the program, not of the client.
#[test]
fn route_without_needed_parameters_gets_500() {
    let server = TestServer::new(app());
    assert_eq!(get(&server, "/bug/1"), (500, String::new()));
    assert_eq!(get(&server, "/bug/of/struct"), (500, String::new()));
}

const JSON: &str = "Content-Type: application/json\r\n";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

#[test]
fn body_becomes_the_last_argument() {
    let server = TestServer::new(app());
    let note = r#"{"title": "t", "pages": 2}"#;
    let expected = "library ada t 2".to_owned();
    assert_eq!(send(&server, "POST", "/json/ada", JSON, note), (200, expected.clone()));
    assert_eq!(send(&server, "POST", "/later/ada", JSON, note), (201, expected.clone()));
    assert_eq!(send(&server, "POST", "/form", FORM, "title=a%26b&pages=1").1, "a&b 1");
    assert_eq!(send(&server, "POST", "/text", "", "héllo").1, "héllo");
    assert_eq!(send(&server, "POST", "/bytes", "", "12345").1, "5");
    assert_eq!(send(&server, "POST", "/stream", "", "12345").1, "5library");

    // The body arrives after the head.
    for (path, status) in [("/json/ada", 200), ("/later/ada", 201)] {
        let mut client = server.connect();
        let length = note.len();
        client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{JSON}\r\n"));
        client.send(&note[..7]);
        assert_eq!(client.received(), "");
        client.send(&note[7..]);
        assert_eq!(parts(&client.received()), (status, expected.clone()));
    }
}

#[test]
fn invalid_body_gets_400_413_415_or_422() {
    let server = TestServer::new(app());
    let status = |path: &str, fields: &str, body: &str| send(&server, "POST", path, fields, body).0;
    for path in ["/json/ada", "/later/ada", "/waits/ada/json"] {
        assert_eq!(status(path, "", "{}"), 415, "{path}");
        assert_eq!(status(path, JSON, "{"), 400, "{path}");
        assert_eq!(status(path, JSON, r#"{"title": "t"}"#), 422, "{path}");
    }
    assert_eq!(status("/form", JSON, "title=a"), 415);
    assert_eq!(status("/form", FORM, "title=a"), 422);
    let mut client = server.connect();
    client.send("POST /text HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n").send([0xFF]);
    assert_eq!(parts(&client.received()), (400, "the body is not UTF-8".to_owned()));
    for path in ["/json/ada", "/form", "/text", "/bytes"] {
        let mut client = server.connect();
        client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n{JSON}\r\n"));
        assert_eq!(client.received().get(9..12), Some("413"), "{path}");
    }
}

/// The arguments after an argument that waits are read from a copy of the request.
#[test]
fn later_arguments_see_the_same_request() {
    let server = TestServer::new(app());
    assert_eq!(send(&server, "POST", "/waits/a%20b", "", "x"), (200, "a b true 12".to_owned()));
    let note = r#"{"title": "t", "pages": 2}"#;
    assert_eq!(send(&server, "POST", "/waits/a/json", JSON, note), (200, "t".to_owned()));
    assert_eq!(send(&server, "POST", "/waits/a", "X-Refuse: 1\r\n", "x"), (409, "refused".to_owned()));
    let mut client = server.connect();
    let length = note.len();
    client.send(format!("POST /waits/a/json HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{JSON}\r\n"));
    assert_eq!(client.received(), "");
    client.send(note);
    assert_eq!(parts(&client.received()), (200, "t".to_owned()));
}

async fn sign_in(State(name): State<&'static str>, mut request: OwnedRequest, next: Next) -> Response {
    let Some(user) = request.field("X-User").and_then(|value| value.as_str()).map(str::to_owned) else {
        return Response::text("sign in first").with_status(StatusCode::UNAUTHORIZED);
    };
    request.extensions_mut().insert(User(user));
    next.run(request).await.with_field("X-Layer", name)
}

#[test]
fn layer_from_function_passes_values_to_handlers() {
    let me = |Extension(User(name)): Extension<User>| name;
    let echo = async |Extension(user): Extension<User>, text: String| user.0 + &text;
    let router = || Router::new().get("/", me).post("/", echo);
    let sync = from_sync_fn(|request, next| {
        let user = request.field("X-User").and_then(|value| value.as_str()).map(str::to_owned);
        let Some(user) = user else { return Answer::Now(Response::new(StatusCode::UNAUTHORIZED)) };
        request.extensions_mut().insert(User(user));
        next.handle(request).map(|response| response.with_field("X-Layer", "sync"))
    });
    let layered = [
        ("sync", router().layer(sync)),
        ("async", router().layer(from_fn_with_state("async", sign_in))),
        ("fixed", router().layer(Extension(User("ada".to_owned())))),
    ];
    for (name, handler) in layered {
        let server = TestServer::new(handler);
        assert_eq!(send(&server, "GET", "/", "X-User: ada\r\n", ""), (200, "ada".to_owned()), "{name}");
        assert_eq!(send(&server, "POST", "/", "X-User: ada\r\n", " is here").1, "ada is here", "{name}");
        if name != "fixed" {
            assert_eq!(get(&server, "/").0, 401);
        }
        // A body that arrives in parts reaches the handler too.
        let mut client = server.connect();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nX-User: ada\r\nContent-Length: 3\r\n\r\n").send("abc");
        assert_eq!(parts(&client.received()), (200, "adaabc".to_owned()), "{name}");
    }
}

#[test]
fn inner_layer_from_function_changes_response() {
    let shout = from_fn(async |request: OwnedRequest, next: Next| {
        let mut response = next.run(request).await;
        response.set_content("changed");
        response
    });
    let server = TestServer::new(Layered::new(|| "original").layer(shout));
    assert_eq!(get(&server, "/"), (200, "changed".to_owned()));
}

#[test]
fn missing_extension_gets_500_unless_optional() {
    let router = Router::new()
        .get("/", |Extension(User(name)): Extension<User>| name)
        .get("/optional", |user: Option<Extension<User>>| format!("{}", user.is_some()));
    let server = TestServer::new(router);
    assert_eq!(get(&server, "/"), (500, String::new()));
    assert_eq!(get(&server, "/optional"), (200, "false".to_owned()));
}

#[cfg(feature = "axum-extractors")]
#[test]
fn extractors_of_axum_work() {
    use axum::extract::{Json as AxumJson, RawQuery};
    use thruway_server::extractors::Axum;

    let router = Router::new()
        .get("/{id}", async |Axum(RawQuery(query)): Axum<RawQuery>, Path(id): Path<u8>| {
            format!("{id} {query:?}")
        })
        .post("/", async |user: Option<Extension<User>>, Axum(AxumJson(note)): Axum<AxumJson<Note>>| {
            format!("{} {}", note.title, user.is_some())
        });
    let server = TestServer::new(router.layer(Extension(User("ada".to_owned()))));
    assert_eq!(get(&server, "/7?a=b"), (200, "7 Some(\"a=b\")".to_owned()));
    assert_eq!(get(&server, "/x?a=b").0, 400);
    let note = r#"{"title": "t", "pages": 2}"#;
    assert_eq!(send(&server, "POST", "/", JSON, note), (200, "t true".to_owned()));
    assert_eq!(send(&server, "POST", "/", "", note).0, 415);
    assert_eq!(send(&server, "POST", "/", JSON, "{}").0, 422);
}
