//! Tests of request bodies: bodies in several parts, long bodies, and incomplete bodies.

use std::io::{Read, Write};
use std::net::Shutdown;

use serde_json::{Value, json};

use super::scene::{Post, Scene, fast, read_head, slow};
use crate::client::{address_of, connect};

/// Returns parameters with a text of `bytes` bytes in the arguments.
fn with_text(mut params: Value, bytes: usize) -> Value {
    params["arguments"] = json!({"text": "x".repeat(bytes)});
    params
}

#[test]
fn body_that_arrives_after_its_head_is_relayed() {
    let scene = Scene::start("");
    for params in [fast("web__hello"), with_text(fast("web__hello"), 100_000)] {
        let relayed = scene.relayed().len();
        let later = Post { is_whole: false, ..Post::new(params) };
        let (status, response) = scene.post(&later);
        assert_eq!((status.as_str(), &response["result"]["content"][0]["text"]), ("200", &json!("hello")));
        assert_eq!(scene.relayed().len(), relayed + 1);
    }
    // The endpoint checks the body of such a request too.
    let other = Post { is_whole: false, name: "web__large", ..Post::new(fast("web__hello")) };
    let (status, response) = scene.post(&other);
    assert_eq!((status.as_str(), &response["error"]["code"]), ("400", &json!(-32020)), "{response}");
    assert_eq!(scene.relayed().len(), 2);
    scene.end();
}

#[test]
fn body_in_chunks_is_relayed() {
    let scene = Scene::start("");
    let post = Post { is_whole: false, ..Post::new(fast("web__hello")) };
    let mut stream = connect(&address_of(&scene.daemon));
    stream.write_all(post.head("Transfer-Encoding: chunked\r\n").as_bytes()).unwrap();
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 100 "));
    for part in post.content().as_bytes().chunks(7) {
        stream.write_all(format!("{:x}\r\n", part.len()).as_bytes()).unwrap();
        stream.write_all(part).unwrap();
        stream.write_all(b"\r\n").unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 ") && response.contains("hello"), "{response}");
    assert_eq!(scene.relayed().len(), 1);
    scene.end();
}

#[test]
fn long_bodies_are_relayed_up_to_the_limit_of_the_fast_path() {
    let scene = Scene::start("");
    for (bytes, is_relayed) in [(20_000, true), (250_000, true), (270_000, false), (3_000_000, false)] {
        let relayed = scene.relayed().len();
        for is_whole in [true, false] {
            let params = with_text(fast("web__hello"), bytes);
            let (status, response) = scene.post(&Post { is_whole, ..Post::new(params) });
            assert_eq!(response["result"]["content"][0]["text"], "hello", "{bytes} {status} {response}");
        }
        assert_eq!(scene.relayed().len(), relayed + 2 * usize::from(is_relayed), "{bytes}");
    }
    scene.end();
}

#[test]
fn too_long_body_gets_the_same_response_on_both_paths() {
    let scene = Scene::start("");
    let post = |params: Value| scene.post(&Post { is_whole: false, ..Post::new(params) });
    let of_fast = post(with_text(fast("web__hello"), 5_000_000));
    assert_eq!(of_fast.0, "413");
    assert_eq!(of_fast, post(with_text(slow("web__hello"), 5_000_000)));
    assert_eq!(scene.relayed(), [""; 0]);
    scene.end();
}

#[test]
fn incomplete_body_is_not_relayed() {
    let scene = Scene::start("");
    let post = Post { is_whole: false, ..Post::new(fast("web__hello")) };
    let content = post.content();
    let mut stream = connect(&address_of(&scene.daemon));
    stream.write_all(post.head(&format!("Content-Length: {}\r\n", content.len() + 1)).as_bytes()).unwrap();
    read_head(&mut stream);
    stream.write_all(content.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.is_empty() || response.starts_with("HTTP/1.1 400 "), "{response}");
    assert_eq!(scene.relayed(), [""; 0]);
    scene.end();
}

#[test]
fn body_that_never_ends_gets_408_after_the_timeout_of_the_server() {
    let scene = Scene::start("[timeouts]\nbody = \"200ms\"\n");
    let post = Post { is_whole: false, ..Post::new(fast("web__hello")) };
    let mut stream = connect(&address_of(&scene.daemon));
    stream.write_all(post.head("Content-Length: 1000\r\n").as_bytes()).unwrap();
    read_head(&mut stream);
    stream.write_all(b"{\"jsonrpc\"").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
    assert_eq!(scene.relayed(), [""; 0]);
    scene.end();
}
