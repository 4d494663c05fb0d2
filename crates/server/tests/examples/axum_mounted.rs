use serde_json::json;

use crate::programs::axum_mounted::app;
use crate::site::Site;

#[test]
fn extractors_state_and_middleware_work() {
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
    assert_eq!(site.ask("POST", "/api/counters/visits", "", br#"{"by": 1}"#).status, 415);
    assert_eq!(site.ask("DELETE", "/api/counters/visits", "", b"").status, 405);
    assert_eq!(site.get("/api/elsewhere").status, 404);
    assert_eq!(site.get("/counters/visits").status, 404);
}

#[test]
fn head_has_the_length_and_not_the_content() {
    let site = Site::start(app());
    site.json("POST", "/api/counters/visits", r#"{"by": 2}"#);
    let head = site.ask("HEAD", "/api/counters/visits", "", b"");
    assert_eq!((head.status, head.field("Content-Length"), head.text()), (200, Some("12"), ""));
}

#[test]
fn content_streams_through_in_both_directions() {
    let site = Site::start(app());
    let mut conversation = site.connect();
    conversation.send(
        "POST /api/upper HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    conversation.send("6\r\nfirst \r\n");
    conversation.read_until("FIRST ");
    conversation.send("6\r\nsecond\r\n0\r\n\r\n");
    let reply = conversation.into_reply();
    assert_eq!((reply.text(), reply.field("X-Answered-By")), ("FIRST SECOND", Some("axum")));
}

#[test]
fn the_client_is_known() {
    let site = Site::start(app());
    let mut conversation = site.connect();
    let client = conversation.stream.local_addr().unwrap();
    conversation.send("GET /api/client HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(conversation.into_reply().text(), client.to_string());
}
