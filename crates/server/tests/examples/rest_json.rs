use serde_json::json;

use crate::programs::rest_json::app;
use crate::site::Site;

#[test]
fn note_can_be_created_read_replaced_and_deleted() {
    let site = Site::start(app());
    assert_eq!(site.get("/notes").json(), json!([]));

    let created = site.json("POST", "/notes", r#"{"title": "milk", "text": "two litres"}"#);
    assert_eq!((created.status, created.field("Location")), (201, Some("/notes/1")));
    let milk = json!({ "id": 1, "title": "milk", "text": "two litres" });
    assert_eq!(created.json(), milk);
    assert_eq!(site.get("/notes/1").json(), milk);

    assert_eq!(site.json("POST", "/notes", r#"{"title": "bread"}"#).status, 201);
    let bread = json!({ "id": 2, "title": "bread", "text": "" });
    assert_eq!(site.get("/notes").json(), json!([milk, bread]));

    let replaced = site.json("PUT", "/notes/1", r#"{"title": "milk", "text": "three"}"#);
    assert_eq!(replaced.json(), json!({ "id": 1, "title": "milk", "text": "three" }));

    let deleted = site.request("DELETE", "/notes/1", "", b"");
    assert_eq!((deleted.status, deleted.text()), (204, ""));
    assert_eq!(site.get("/notes/1").status, 404);
    assert_eq!(site.get("/notes").json(), json!([bread]));
}

#[test]
fn invalid_requests_get_error_messages() {
    let site = Site::start(app());
    assert_eq!(site.json("POST", "/notes", r#"{"title": "milk"}"#).status, 201);
    assert_eq!(site.json("POST", "/notes", r#"{"title": "bread"}"#).status, 201);
    for (method, path, content, status, error) in [
        ("POST", "/notes", r#"{"title": "milk"}"#, 409, "a note with the title `milk` already exists"),
        ("PUT", "/notes/2", r#"{"title": "milk"}"#, 409, "a note with the title `milk` already exists"),
        ("POST", "/notes", r#"{"title": " "}"#, 422, "`title` is empty"),
        ("POST", "/notes", r#"{"text": "x"}"#, 422, "missing field `title`"),
        ("POST", "/notes", r#"{"title": "x", "colour": "red"}"#, 422, "unknown field `colour`"),
        ("POST", "/notes", r#"{"title": "#, 400, "EOF"),
        ("PUT", "/notes/3", r#"{"title": "x"}"#, 404, "not found"),
        ("GET", "/notes/x", "", 404, "not found"),
        ("DELETE", "/notes/3", "", 404, "not found"),
        ("GET", "/elsewhere", "", 404, "not found"),
    ] {
        let reply = site.json(method, path, content);
        let message = reply.json()["error"].to_string();
        assert_eq!(reply.status, status, "{method} {path} {content}: {message}");
        assert!(message.contains(error), "{method} {path} {content}: {message}");
    }
    let text = site.request("POST", "/notes", "Content-Type: text/plain\r\n", br#"{"title": "x"}"#);
    assert_eq!(
        (text.status, text.json()["error"].as_str()),
        (415, Some("`Content-Type` must be `application/json`"))
    );
    let patched = site.json("PATCH", "/notes/1", "{}");
    assert_eq!((patched.status, patched.field("Allow")), (405, Some("GET, PUT, DELETE, HEAD, OPTIONS")));
    assert_eq!(site.get("/notes").json().as_array().unwrap().len(), 2);
}
