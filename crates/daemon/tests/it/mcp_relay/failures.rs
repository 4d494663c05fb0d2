//! Tests of responses of the server that are no usual answers.

use serde_json::{Value, json};
use thruway_server::{Request, Server};

use super::scene::{Post, Scene, fast, slow};

/// A JSON-RPC error that answers the request.
const ERROR: &str = r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"m","data":{"a":[1]}}}"#;

/// A JSON-RPC error without an id.
const ERROR_WITHOUT_ID: &str = r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"m"}}"#;

/// Returns the responses on both paths, if the server answers in this way.
fn on_both_paths(scene: &Scene, status: u16, media_type: &str, body: &str) -> [(String, Value); 2] {
    [fast as fn(&str) -> Value, slow].map(|params| {
        let mut params = params("web__broken");
        params["arguments"] = json!({"status": status, "mediaType": media_type, "body": body});
        scene.call("web__broken", &params)
    })
}

#[test]
fn failure_of_the_server_gets_the_same_response_on_both_paths() {
    let scene = Scene::start("");
    let json = "application/json";
    let cases = [
        (500, json, r#"{"error":"broken"}"#, -32603),
        (500, json, "not JSON", -32603),
        (500, json, "", -32603),
        (500, json, r#"{"jsonrpc":"2.0","id":"other","error":{"code":-32602,"message":"m"}}"#, -32603),
        (503, json, "{}", -32603),
        (502, json, ERROR_WITHOUT_ID, -32603),
        (403, json, "{}", -32603),
        (404, "text/html", "<p>", -32603),
        (500, "text/event-stream", "data: {}\n\n", -32603),
        (200, "text/html", "<p>", -32603),
        (400, json, ERROR, -32602),
        (500, json, ERROR, -32602),
        (400, json, ERROR_WITHOUT_ID, -32602),
    ];
    for (status, media_type, body, code) in cases {
        let relayed = scene.relayed().len();
        let [of_fast, of_slow] = on_both_paths(&scene, status, media_type, body);
        assert_eq!(of_fast, of_slow, "{status} {media_type} {body}");
        let (_, message) = of_fast;
        assert_eq!((&message["error"]["code"], &message["id"]), (&json!(code), &json!(7)), "{message}");
        if code == -32603 {
            assert_eq!(message["error"]["data"]["server"], "web", "{message}");
        }
        assert_eq!(scene.relayed().len(), relayed + 1, "{status} {media_type} {body}");
    }
    scene.end();
}

#[test]
fn long_error_of_the_server_is_not_read() {
    let scene = Scene::start("");
    let body = ERROR.replace("\"m\"", &format!("\"{}\"", "m".repeat(100_000)));
    let [(_, message), _] = on_both_paths(&scene, 500, "application/json", &body);
    assert_eq!(message["error"]["code"], -32603, "{message}");
    assert_eq!(scene.relayed().len(), 1);
    scene.end();
}

/// Regression test: the client got the redirects and all headers of the server.
#[test]
fn server_cannot_redirect_clients() {
    let scene = Scene::start("");
    let post = Post { name: "web__redirect", ..Post::new(fast("web__redirect")) };
    let response = scene.response(&post);
    assert!(response.contains("-32603") && !response.contains("other.example"), "{response}");
    assert_eq!(scene.relayed().len(), 1);
    let response = scene.response(&Post::new(fast("web__hello")));
    assert!(response.starts_with("HTTP/1.1 200 ") && !response.contains("x-other"), "{response}");
    scene.end();
}

#[test]
fn relayed_call_of_a_missing_server_names_the_server() {
    let scene = Scene::start("");
    let Scene { daemon, server, heads, refused_token, directory } = scene;
    server.drain();
    server.join();
    // Takes the place of the ended server in the scene.
    let server = Server::new(|_: &Request| "").workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let scene = Scene { daemon, server, heads, refused_token, directory };
    let (status, response) = scene.call("web__hello", &fast("web__hello"));
    assert_eq!(status, "503", "{response}");
    assert_eq!((&response["error"]["code"], &response["id"]), (&json!(-32603), &json!(7)));
    assert_eq!(response["error"]["data"]["server"], "web");
    assert!(response["error"]["data"]["retryAfterMs"].is_u64(), "{response}");
    scene.end();
}
