//! Tests that limits and timeouts in a config apply to connections.

use crate::client::{Client, get};
use crate::process::Thruway;

fn serve(directory: &tempfile::TempDir, config: &str) -> Thruway {
    let rest = "\n[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/\"\ndemo = true\n";
    Thruway::serve(directory.path(), &format!("{config}{rest}"))
}

#[test]
fn limits_of_the_config_are_enforced() {
    let directory = tempfile::tempdir().unwrap();
    let config = "[limits]\nrequest_target_bytes = 64\nheader_bytes = 256\nheaders = 4\n\
                  body_bytes = 10\nrequests_per_connection = 2";
    let mut thruway = serve(&directory, config);
    let address = thruway.address();
    let long = "a".repeat(300);
    for (line, fields, status) in [
        ("GET /ok", "", "200"),
        (&*format!("GET /{long}"), "", "414"),
        ("GET /ok", &format!("X: {long}\r\n"), "431"),
        ("GET /ok", "A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n", "431"),
        ("POST /echo", "Content-Length: 11\r\n", "413"),
    ] {
        assert_eq!(Client::connect(&address).request(line, fields).status(), status, "{line} {fields}");
    }
    let mut client = Client::connect(&address);
    assert!(!client.get("/ok").has("connection: close"));
    assert!(client.get("/ok").has("connection: close") && client.is_closed());
}

#[test]
fn timeouts_of_the_config_are_enforced() {
    let directory = tempfile::tempdir().unwrap();
    let config = "[timeouts]\nheader = \"500ms\"\nbody = \"500ms\"\nidle = \"1s\"";
    let mut thruway = serve(&directory, config);
    let address = thruway.address();
    let mut slow_head = Client::connect(&address);
    slow_head.send("GET /ok HTTP/1.1\r\n");
    let mut idle = Client::connect(&address);
    let mut slow_body = Client::connect(&address);
    slow_body.send("GET /headers HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na");
    assert_eq!(idle.get("/ok").status(), "200");
    assert_eq!(slow_head.response(false).status(), "408");
    assert_eq!(slow_body.response(false).status(), "408");
    assert!(idle.is_closed());
}

#[test]
fn connections_beyond_the_limit_get_503_with_retry_after() {
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = serve(&directory, "connections_max = 1\nworkers = 2");
    let address = thruway.address();
    let mut first = Client::connect(&address);
    assert_eq!(first.get("/ok").status(), "200");
    let refused = get(&address, "/ok");
    assert!(refused.status() == "503" && refused.head.contains("retry-after: "), "{}", refused.head);
    assert_eq!(first.get("/ok").status(), "200");
}
