//! Interim responses (1xx).

use thruway_server::{OwnedRequest, Response, StatusCode, send_interim};
use thruway_testkit::test_server::TestServer;

use crate::gate::Gates;

const HINT: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";

fn hint(link: &str) -> Response {
    Response::new(StatusCode::EARLY_HINTS).with_field("Link", link)
}

/// Sends a hint at once, and responds after the gate of the path has been opened.
fn hinting(gates: &Gates) -> TestServer {
    let gates = gates.clone();
    TestServer::new(move |request: OwnedRequest| {
        let gates = gates.clone();
        async move {
            send_interim(&hint("</a.css>"));
            gates.answer(request).await
        }
    })
}

#[test]
fn interim_response_is_sent_at_once_before_final_response() {
    let gates = Gates::default();
    let scene = hinting(&gates);
    let mut client = scene.connect();
    client.send("GET /one HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.received(), HINT);
    gates.open("/one");
    assert!(client.received().starts_with("HTTP/1.1 200 OK\r\n"));
    // The hint comes first even if the response is ready at the same time.
    client.send("GET /one HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.received().starts_with(&format!("{HINT}HTTP/1.1 200 OK\r\n")));
}

#[test]
fn interim_response_waits_for_earlier_pipelined_responses() {
    let gates = Gates::default();
    let scene = hinting(&gates);
    let mut client = scene.connect();
    client.send("GET /one HTTP/1.1\r\nHost: a\r\n\r\nGET /two HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((client.received().as_str(), gates.waiting()), (HINT, 2));
    gates.open("/two");
    assert_eq!(client.received(), "");
    gates.open("/one");
    let answers = client.received();
    let second = answers.split_once("/one").unwrap().1;
    assert!(second.starts_with(&format!("{HINT}HTTP/1.1 200 OK\r\n")), "{answers}");
}

#[test]
fn http10_client_gets_no_interim_response() {
    let gates = Gates::default();
    let scene = hinting(&gates);
    let mut client = scene.connect();
    client.send("GET /one HTTP/1.0\r\n\r\n");
    assert_eq!(client.received(), "");
    gates.open("/one");
    assert!(client.received().starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn invalid_interim_responses_are_discarded() {
    send_interim(&hint("</nobody.css>"));
    let scene = TestServer::new(|_: OwnedRequest| async {
        send_interim(&Response::text("final"));
        send_interim(&Response::new(StatusCode::SWITCHING_PROTOCOLS));
        Response::text("answer")
    });
    let mut client = scene.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = client.received();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nanswer"), "{answer}");
}

#[test]
fn buffered_interim_responses_are_limited() {
    let scene = TestServer::new(|_: OwnedRequest| async {
        (0..10_000).for_each(|_| send_interim(&hint("</a.css>")));
        Response::text("answer")
    });
    let mut client = scene.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = client.received();
    assert!(answer.ends_with("\r\n\r\nanswer") && answer.len() < 17 << 10, "{} bytes", answer.len());
}
