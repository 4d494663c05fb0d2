use serde_json::json;

use crate::programs::sign_in::app;
use crate::site::Site;

const ADA: &str = "Authorization: Bearer ada-token\r\n";
const BOB: &str = "Authorization: Bearer bob-token\r\n";

#[test]
fn handlers_get_user_from_layer_and_values_from_request() {
    let site = Site::start(app());
    let json = format!("{ADA}Content-Type: application/json\r\n");
    for (title, location) in [("milk", "/tasks/0"), ("bread", "/tasks/1")] {
        let task = json!({ "title": title }).to_string();
        let created = site.request("POST", "/tasks", &json, task.as_bytes());
        assert_eq!((created.status, created.field("Location")), (201, Some(location)));
    }
    let get = |path: &str, user: &str| site.request("GET", path, user, b"");
    assert_eq!(get("/tasks", ADA).json(), json!([{ "title": "milk" }, { "title": "bread" }]));
    assert_eq!(get("/tasks?contains=ea", ADA).json(), json!([{ "title": "bread" }]));
    assert_eq!(get("/tasks/1", ADA).json(), json!({ "title": "bread" }));
    assert_eq!((get("/tasks/1", BOB).status, get("/tasks", BOB).json()), (404, json!([])));

    let invalid = get("/tasks/x", ADA);
    assert_eq!((invalid.status, invalid.text()), (400, "invalid path parameter `index`: expected `u64`"));
    assert_eq!(site.request("POST", "/tasks", &json, b"{}").status, 422);
    assert_eq!(site.request("POST", "/tasks", ADA, b"{}").status, 415);
}

#[test]
fn request_without_valid_token_gets_401() {
    let site = Site::start(app());
    for fields in ["", "Authorization: Bearer eve-token\r\n", "Authorization: Basic YWRhOng=\r\n"] {
        let reply = site.request("GET", "/tasks", fields, b"");
        assert_eq!((reply.status, reply.field("WWW-Authenticate")), (401, Some("Bearer")), "{fields}");
    }
}
