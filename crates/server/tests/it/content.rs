//! Request bodies: complete, streamed and abandoned ones, and `Expect: 100-continue`.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thruway_server::{
    Config, Content, IntoResponse, OwnedRequest, Request, RequestContent, Response, Router, StatusCode, Tower,
};
use thruway_testkit::test_server::TestServer;
use tracing_subscriber::filter::LevelFilter;

use crate::gate::Gates;

fn length_of(request: &Request) -> Response {
    Response::text(format!("{} bytes", request.content().len()))
}

async fn echo(mut request: OwnedRequest) -> Content {
    request.take_content().into()
}

async fn collect(mut request: OwnedRequest) -> Response {
    match request.content().collect(1 << 20).await {
        Ok(content) => Response::text(format!("{} bytes", content.len())),
        Err(error) => Response::text(error.to_string()).with_status(error.status()),
    }
}

fn post(length: usize) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n")
}

#[test]
fn plain_handler_is_called_after_whole_body_arrived() {
    let scene = TestServer::new(length_of);
    let mut client = scene.connect();
    client.send(post(10)).send("hello");
    assert_eq!(client.received(), "");
    client.send("world");
    assert!(client.received().ends_with("\r\n\r\n10 bytes"));
}

#[test]
fn plain_handler_gets_decoded_chunked_body() {
    let scene = TestServer::new(|request: &Request| request.content().to_vec());
    let mut client = scene.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel");
    client.send("lo\r\n6;x=y\r\n world\r\n0\r\nTrailer-Field: 1\r\n\r\n");
    assert!(client.received().ends_with("\r\n\r\nhello world"));
}

#[test]
fn body_over_plain_handler_limit_gets_413() {
    let scene = TestServer::new(thruway_server::with_whole_content(8, length_of));
    let mut client = scene.connect();
    client.send(post(9)).send("123456789");
    assert!(client.received().starts_with("HTTP/1.1 413 "));
    client.send(post(8)).send("12345678");
    assert!(client.received().ends_with("8 bytes"));
}

#[test]
fn body_is_streamed_back_as_it_arrives() {
    let scene = TestServer::new(echo);
    let mut client = scene.connect();
    client.send(post(6)).send("abc");
    assert!(client.received().ends_with("Content-Length: 6\r\n\r\nabc"));
    client.send("def");
    assert_eq!(client.received(), "def");
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nghi\r\n");
    assert!(client.received().ends_with("Transfer-Encoding: chunked\r\n\r\n3\r\nghi\r\n"));
    client.send("0\r\n\r\n");
    assert_eq!(client.received(), "0\r\n\r\n");
}

#[test]
fn server_stops_reading_while_handler_does_not_read_body() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |mut request: OwnedRequest| {
        let gates = handler.clone();
        async move {
            gates.pass("read").await;
            request
                .content()
                .collect(usize::MAX)
                .await
                .map(|content| content.len().to_string())
                .map_err(|_| "failed")
        }
    });
    let mut client = scene.connect();
    client.send(post(1 << 20)).send(vec![b'x'; 1 << 20]);
    let read = (1 << 20) - client.unread();
    assert!(read <= 130 << 10, "{read} bytes were read for a handler that reads none");
    gates.open("read");
    assert!(client.received().ends_with("\r\n\r\n1048576"));
}

#[test]
fn small_unread_body_is_discarded_and_connection_kept() {
    let scene = TestServer::new(|| StatusCode::FORBIDDEN);
    let mut client = scene.connect();
    client.send(post(1000));
    let answer = client.received();
    assert!(answer.starts_with("HTTP/1.1 403 ") && !answer.contains("close"), "{answer}");
    client.send(vec![b'x'; 1000]).send(post(0));
    assert!(client.received().starts_with("HTTP/1.1 403 "));
}

#[test]
fn large_unread_body_closes_the_connection() {
    let scene = TestServer::new(|| StatusCode::FORBIDDEN);
    let mut client = scene.connect();
    client.send(post(1 << 20));
    assert!(client.received().contains("\r\nConnection: close\r\n"));
    assert!(client.is_finished() && !client.is_closed(), "the client has time to read the answer");
    client.send(vec![b'x'; 1000]).finish();
    assert!(client.is_closed());
}

#[test]
fn unread_chunked_body_is_discarded_up_to_a_limit() {
    let scene = TestServer::new(|| StatusCode::FORBIDDEN);
    let mut client = scene.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert!(!client.received().contains("close"));
    for _ in 0..20 {
        client.send("4000\r\n").send(vec![b'x'; 0x4000]).send("\r\n");
    }
    assert!(client.is_finished());
    assert_eq!(client.received(), "");
}

#[test]
fn incomplete_request_body_gives_400() {
    for (request, name) in [
        (post(10) + "hello", "a length"),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n".to_owned(),
            "chunks",
        ),
    ] {
        let scene = TestServer::new(collect);
        let mut client = scene.connect();
        client.send(&request).finish();
        let answer = client.received();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{name}: {answer}");
        assert!(answer.ends_with("the connection ended before the end of the body"));
        assert!(client.is_closed());
    }
}

#[test]
fn echo_of_incomplete_body_is_incomplete() {
    let scene = TestServer::new(echo);
    let mut client = scene.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n").finish();
    let answer = client.received();
    assert!(answer.ends_with("5\r\nhello\r\n") && !answer.contains("0\r\n\r\n"), "{answer}");
    assert!(client.is_closed());
}

#[test]
fn broken_chunks_are_a_handler_error_and_close_the_connection() {
    let scene = TestServer::new(collect);
    let mut client = scene.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX");
    let answer = client.received();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("\r\nConnection: close\r\n"), "{answer}");
    assert!(client.is_finished());
}

#[test]
fn client_gets_100_continue_when_handler_needs_body() {
    let expecting = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    let scene = TestServer::new(Router::new().any("/", length_of));
    let mut client = scene.connect();
    client.send(expecting);
    assert_eq!(client.received(), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello");
    assert!(client.received().ends_with("5 bytes"));
    client.send(expecting.to_owned() + "hello");
    let answer = client.received();
    assert!(answer.starts_with("HTTP/1.1 200 "), "the client has already sent the body: {answer}");
}

#[test]
fn rejected_client_gets_no_100_continue_and_is_disconnected() {
    // The client may still send the body or may skip it. The server cannot tell a body from a new request, so
    // it closes the connection.
    let scene = TestServer::new(|| StatusCode::UNAUTHORIZED);
    let mut client = scene.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    let answer = client.received();
    assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("\r\nConnection: close\r\n"), "{answer}");
}

#[test]
fn streaming_response_sends_100_continue_before_its_head() {
    let scene = TestServer::new(echo);
    let mut client = scene.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert!(client.received().starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"));
    client.send("ok");
    assert_eq!(client.received(), "ok");
}

#[test]
fn handler_can_read_body_as_stream_with_trailers() {
    let scene = TestServer::new(|mut request: OwnedRequest| async move {
        let mut content: RequestContent = request.take_content();
        let mut pieces = 0;
        while let Some(Ok(_)) = content.next().await {
            pieces += 1;
        }
        let trailers = content.take_trailers().unwrap_or_default();
        let value = trailers.field("x-sum").map(|value| value.to_string());
        format!("{pieces} {value:?}").into_response()
    });
    let mut client = scene.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send("1\r\na\r\n").send("1\r\nb\r\n").send("0\r\nX-Sum: 7\r\n\r\n");
    assert!(client.received().ends_with("2 Some(\"7\")"));
}

#[test]
fn announced_body_over_server_limit_gets_413_at_once() {
    let mut config = Config::default();
    config.limits.content_bytes = 10;
    let scene = TestServer::with_config(length_of, config);
    let mut client = scene.connect();
    client.send(post(11));
    let answer = client.received();
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("Connection: close"), "{answer}");
}

/// Each byte was once kept as a separate piece, which took fifty times the memory of the window.
#[test]
fn unread_tiny_chunks_are_joined_in_memory() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |mut request: OwnedRequest| {
        let gates = handler.clone();
        async move {
            gates.pass("read").await;
            let mut pieces = 0;
            while let Some(Ok(_)) = request.content().next().await {
                pieces += 1;
            }
            pieces.to_string()
        }
    });
    let mut client = scene.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send("1\r\na\r\n".repeat(10_000) + "0\r\n\r\n");
    gates.open("read");
    assert!(client.received().ends_with("\r\n\r\n1"));
}

/// Limits the body before another handler reads it.
struct Limited(Arc<dyn thruway_server::Handler>);

impl thruway_server::Handler for Limited {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> thruway_server::Answer {
        request.limit_content(8);
        // A second call cannot raise the limit.
        request.limit_content(9);
        self.0.handle(request)
    }
}

#[test]
fn body_over_handler_limit_gets_413_and_limit_cannot_be_raised() {
    let scene = TestServer::new(Limited(thruway_server::IntoHandler::into_handler(collect)));
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut client = scene.connect();
    client.send(head).send("5\r\nhello\r\n").send("3\r\nwor\r\n").send("0\r\n\r\n");
    assert!(client.received().ends_with("8 bytes"));
    client.send(head).send("5\r\nhello\r\n").send("4\r\nworl\r\n");
    assert!(client.received().starts_with("HTTP/1.1 413 "));
}

/// Runs `act` and returns the lines that it logs at level `info` or above.
fn logged(act: impl FnOnce()) -> String {
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::INFO)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, act);
    String::from_utf8(log.0.lock().unwrap().clone()).unwrap()
}

/// A request body that stalled during the response once caused a log line at level `error`. So a client could
/// fill the log. The framework had wrapped the body error, and the server did not recognize it.
#[test]
fn stalled_or_malformed_request_body_is_not_logged() {
    let echo = |body: axum::body::Body| async move { body };
    let app = || Tower::new(axum::Router::new().route("/", axum::routing::post(echo)));
    let lines = logged(|| {
        for _ in 0..20 {
            let scene = TestServer::new(app());
            let (mut stalled, mut malformed) = (scene.connect(), scene.connect());
            stalled.send(post(10)).send("hello");
            malformed.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
            for client in [&mut stalled, &mut malformed] {
                assert!(client.received().starts_with("HTTP/1.1 200 "));
            }
            malformed.send("no length\r\n");
            // First the timeout of the body passes, then the time in which the client may read the response.
            for _ in 0..2 {
                scene.advance_time(Config::default().timeouts.content + Duration::from_mins(1));
                stalled.run();
                malformed.run();
            }
            assert!(stalled.is_closed() && malformed.is_closed());
        }
    });
    assert_eq!(lines, "");
}
