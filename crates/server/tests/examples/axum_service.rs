use serde_json::json;
use thruway_server::Tower;

use crate::programs::{axum_service, axum_service_original};
use crate::site::Site;

/// The same requests get the same responses from the axum service and from its form for Thruway.
#[test]
fn axum_service_and_its_original_give_the_same_responses() {
    let sites = [Site::start(Tower::new(axum_service_original::app())), Site::start(axum_service::app())];
    let ada = "Authorization: Bearer token-of-ada\r\n";
    let (agent, bob) = (format!("{ada}User-Agent: a/1\r\n"), "Authorization: Bearer token-of-bob\r\n");
    let typed = format!("{agent}Content-Type: application/json\r\n");
    let (milk, bread) = (json!({"title": "milk"}).to_string(), json!({"title": "bread"}).to_string());
    let requests = [
        ("GET", "/health", "", "", 200, "healthy"),
        ("GET", "/notes", "", "", 401, ""),
        ("GET", "/notes", ada, "", 200, "[]"),
        ("POST", "/notes", &typed, &milk, 201, "created by a/1"),
        ("POST", "/notes", &typed, &bread, 201, "created by a/1"),
        ("GET", "/notes", ada, "", 200, r#"[{"title":"milk"},{"title":"bread"}]"#),
        ("GET", "/notes?contains=ea", ada, "", 200, r#"[{"title":"bread"}]"#),
        ("GET", "/notes/1", ada, "", 200, r#"{"title":"bread"}"#),
        ("GET", "/notes/1", bob, "", 404, ""),
        ("GET", "/other", ada, "", 404, ""),
    ];
    for (method, path, fields, body, status, text) in requests {
        let [original, ours] =
            sites.each_ref().map(|site| site.request(method, path, fields, body.as_bytes()));
        for reply in [&original, &ours] {
            assert_eq!(reply.status, status, "{method} {path}");
            assert!(reply.text() == text || text.is_empty(), "{method} {path}: {}", reply.text());
        }
        for name in ["Location", "WWW-Authenticate"] {
            assert_eq!(original.field(name), ours.field(name), "{method} {path}");
        }
    }
    // The texts of errors differ, but not their statuses.
    for (fields, body, status) in [(&typed, "{}", 422), (&typed, "{", 400), (&agent, "{}", 415)] {
        for site in &sites {
            assert_eq!(site.request("POST", "/notes", fields, body.as_bytes()).status, status, "{body}");
        }
    }
}
