//! Content and its framing between clients and upstream servers of different versions.

use thruway_testkit::upstream::{self, AfterResponse, Upstream};

use super::{Client, Recorder, Script};
use crate::gateway::Gateway;

/// An upstream server that answers every request with `answer`.
fn answering(answer: &str) -> Upstream {
    Upstream { response: answer.into(), after_response: AfterResponse::KeepOpen, ok_responses_first: 0 }
}

#[test]
fn body_is_framed_for_the_http_version_of_the_client() {
    for upstream in [
        answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"),
        upstream::responds_with_http10(),
        upstream::responds_ok(),
    ] {
        let listening = upstream.listen();
        let gateway = Gateway::to(listening.address);
        let mut client = Client::new(gateway.address);
        for _ in 0..2 {
            let answer = client.ask("GET / HTTP/1.1", "");
            assert_eq!((answer.status, answer.text().as_str(), answer.is_cut_off), (200, "ok", false));
        }
        let answer = Client::new(gateway.address).ask("GET / HTTP/1.0", "");
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok"));
        assert_eq!(answer.field("transfer-encoding"), None);
    }
}

#[test]
fn http10_client_can_use_keep_alive() {
    let listening = upstream::responds_ok().listen();
    let gateway = Gateway::to(listening.address);
    let mut client = Client::new(gateway.address);
    for _ in 0..3 {
        let answer = client.ask("GET / HTTP/1.0", "Connection: keep-alive\r\n");
        assert_eq!((answer.text().as_str(), answer.field("connection")), ("ok", Some("keep-alive")));
    }
    assert_eq!(listening.connections(), 1);
}

#[test]
fn content_length_of_bodyless_response_is_kept() {
    for (request_line, answer, status, length) in [
        ("HEAD", "200 OK\r\nContent-Length: 5\r\n\r\n", 200, Some("5")),
        ("HEAD", "200 OK\r\nContent-Length: 0\r\n\r\n", 200, Some("0")),
        ("HEAD", "200 OK\r\n\r\n", 200, None),
        ("HEAD", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, None),
        ("HEAD", "404 Not Found\r\n\r\n", 404, None),
        ("GET", "204 No Content\r\n\r\n", 204, None),
        ("GET", "204 No Content\r\nContent-Length: 0\r\n\r\n", 204, None),
        ("GET", "304 Not Modified\r\n\r\n", 304, None),
        ("GET", "200 OK\r\nContent-Length: 0\r\n\r\n", 200, Some("0")),
        ("POST", "204 No Content\r\n\r\n", 204, None),
    ] {
        let listening = answering(&format!("HTTP/1.1 {answer}")).listen();
        let gateway = Gateway::to(listening.address);
        let mut client = Client::new(gateway.address);
        for _ in 0..2 {
            let found = client.ask(&format!("{request_line} / HTTP/1.1"), "");
            assert_eq!((found.status, found.field("content-length")), (status, length), "{answer:?}");
        }
        assert_eq!(listening.connections(), 1, "{answer:?}");
    }
}

#[test]
fn trailers_are_forwarded_in_both_directions() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX-Sum: 3\r\n\r\n",
    );
    let mut accepted = script.accept();
    assert!(accepted.head().contains("Transfer-Encoding: chunked\r\n"));
    assert_eq!(accepted.until("\r\n\r\n"), "2\r\nab\r\n0\r\nX-Sum: 3\r\n\r\n");
    accepted.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\ncd\r\n0\r\nX-Sum: 7\r\n\r\n");
    let answer = client.answer(false);
    assert_eq!((answer.text().as_str(), answer.trailers), ("cd", vec![("x-sum".into(), "7".into())]));
}

#[test]
fn removed_headers_are_also_removed_from_trailers() {
    let recorder = Recorder::start();
    let gateway = Gateway::to(recorder.address);
    for name in [
        "Connection",
        "Keep-Alive",
        "Upgrade",
        "Proxy-Connection",
        "TE",
        "X-Forwarded-For",
        "Forwarded",
        "Via",
        "Host",
    ] {
        let mut client = Client::new(gateway.address);
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.send(format!("{head}0\r\n{name}: x\r\nX-Sum: 3\r\n\r\n"));
        // Refusing the trailer fields is allowed too.
        if client.answer(false).status == 200 {
            assert_eq!(recorder.take_one().trailers, [("X-Sum".to_owned(), "3".to_owned())], "{name}");
        }
        assert!(recorder.take().is_empty());
    }
}

#[test]
fn http10_client_gets_no_trailers() {
    let listening =
        answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\ncd\r\n0\r\nX: 7\r\n\r\n");
    let listening = listening.listen();
    let gateway = Gateway::to(listening.address);
    assert_eq!(Client::new(gateway.address).ask("GET / HTTP/1.0", "").text(), "cd");
}

#[test]
fn client_that_expects_100_continue_gets_it() {
    let recorder = Recorder::start();
    let gateway = Gateway::to(recorder.address);
    let mut client = Client::new(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    assert_eq!(client.next_answer(false).unwrap().status, 100);
    client.send("four");
    assert_eq!(client.answer(false).text(), "POST / four");
    assert_eq!(recorder.take_one().count("expect"), 0);
}

#[test]
fn early_response_reaches_client_during_its_upload() {
    let listening = upstream::rejects_request_body().listen();
    let gateway = Gateway::to(listening.address);
    let mut client = Client::new(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\nfour");
    let answer = client.answer(false);
    assert_eq!(
        (answer.status, answer.text().as_str(), answer.field("connection")),
        (413, "no", Some("close"))
    );
}

#[test]
fn streamed_early_refusal_closes_the_client_connection() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\nfour");
    let mut accepted = script.accept();
    accepted.until("four");
    accepted.send("HTTP/1.1 413 Content Too Large\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n");
    // Once a response has begun, only its last chunk completes it.
    assert_eq!(client.take(12), "HTTP/1.1 413");
    accepted.send("0\r\n\r\n");
    let mut rest = Vec::new();
    client.read_rest(&mut rest);
    let rest = String::from_utf8(rest).unwrap();
    assert!(rest.contains("Connection: close\r\n") && rest.ends_with("2\r\nno\r\n0\r\n\r\n"), "{rest}");
}

#[test]
fn response_and_request_body_stream_at_the_same_time() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nfour");
    let mut accepted = script.accept();
    accepted.until("four");
    accepted.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nfour");
    assert_eq!(client.take(12), "HTTP/1.1 200");
    client.send("more");
    accepted.until("more");
    accepted.send("more");
    let mut rest = String::new();
    while !rest.ends_with("fourmore") {
        rest.push_str(&client.take(1));
    }
}

#[test]
fn interim_responses_are_forwarded_at_once() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    assert_eq!(client.next_answer(false).unwrap().status, 100);
    let mut accepted = script.accept();
    accepted.head();
    accepted.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: x-hop\r\nX-Hop: 1\r\n\r\n");
    let hint = client.next_answer(false).unwrap();
    assert_eq!((hint.status, hint.lines), (103, vec![("link".into(), "</a>".into())]));
    client.send("four");
    accepted.until("four");
    accepted
        .send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n");
    let statuses = [102, 204].map(|_| client.next_answer(false).unwrap().status);
    assert_eq!(statuses, [102, 204], "the client gets no second 100");
}

#[test]
fn http10_client_gets_no_interim_response() {
    let listening =
        answering("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").listen();
    let gateway = Gateway::to(listening.address);
    let mut client = Client::new(gateway.address);
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.next_answer(false).unwrap().status, 200);
}

/// Regression test: the connection was closed as if the content were complete.
#[test]
fn truncated_body_resets_the_connection_of_http10_client() {
    let script = Script::start();
    let gateway = Gateway::to(script.address);
    let mut client = Client::new(gateway.address);
    client.send("GET / HTTP/1.0\r\n\r\n");
    let mut accepted = script.accept();
    accepted.head();
    accepted.send("HTTP/1.1 200 OK\r\n\r\nhalf");
    assert!(client.take(12).starts_with("HTTP/1.1 200"));
    rustix::net::sockopt::set_socket_linger(&accepted.0, Some(std::time::Duration::ZERO)).unwrap();
    drop(accepted);
    let mut rest = Vec::new();
    let ended = std::io::Read::read_to_end(&mut client.socket(), &mut rest);
    assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}
