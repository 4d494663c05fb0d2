use serde_json::json;

use crate::programs::axum_mounted::app;
use crate::site::Site;

#[test]
fn axum_extractors_state_and_middleware_work() {
    let site = Site::start(app());
    let ours = site.get("/");
    assert_eq!((ours.text(), ours.field("X-Answered-By")), ("axum answers below /api\n", None));

    let missing = site.get("/api/counters/visits");
    assert_eq!((missing.status, missing.field("X-Answered-By")), (404, Some("axum")));
    let created = site.json("POST", "/api/counters/visits", r#"{"by": 2}"#);
    assert_eq!((created.status, created.json()), (201, json!({ "visits": 2 })));
    site.json("POST", "/api/counters/visits", r#"{"by": 40}"#);
    assert_eq!(site.get("/api/counters/visits").json(), json!({ "visits": 42 }));
    assert_eq!(site.get("/api/counters/a%20b").status, 404);

    assert_eq!(site.json("POST", "/api/counters/visits", "{").status, 400);
    assert_eq!(site.json("POST", "/api/counters/visits", "{}").status, 422);
    assert_eq!(site.request("POST", "/api/counters/visits", "", br#"{"by": 1}"#).status, 415);
    assert_eq!(site.request("DELETE", "/api/counters/visits", "", b"").status, 405);
    assert_eq!(site.get("/api/elsewhere").status, 404);
    assert_eq!(site.get("/counters/visits").status, 404);
}

#[test]
fn head_response_has_content_length_but_no_body() {
    let site = Site::start(app());
    site.json("POST", "/api/counters/visits", r#"{"by": 2}"#);
    let head = site.request("HEAD", "/api/counters/visits", "", b"");
    assert_eq!((head.status, head.field("Content-Length"), head.text()), (200, Some("12"), ""));
}

#[test]
fn request_and_response_bodies_are_streamed() {
    let site = Site::start(app());
    let mut connection = site.connect();
    connection.send(
        "POST /api/upper HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    connection.send("6\r\nfirst \r\n");
    connection.read_until("FIRST ");
    connection.send("6\r\nsecond\r\n0\r\n\r\n");
    let reply = connection.into_reply();
    assert_eq!((reply.text(), reply.field("X-Answered-By")), ("FIRST SECOND", Some("axum")));
}

#[test]
fn axum_handler_sees_client_address() {
    let site = Site::start(app());
    let mut connection = site.connect();
    let client = connection.stream.local_addr().unwrap();
    connection.send("GET /api/client HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(connection.into_reply().text(), client.to_string());
}
