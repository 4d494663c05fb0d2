//! Timeouts for slow clients, in virtual time.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use thruway_server::{
    BoxError, Content, ContentStream, OwnedRequest, Piece, Request, RequestContent, Response,
};
use thruway_testkit::test_server::{TestClient, TestServer};

use crate::gate::Gates;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

pub(crate) async fn collect(mut request: OwnedRequest) -> Response {
    match request.content().collect(usize::MAX).await {
        Ok(content) => Response::text(content.len().to_string()),
        Err(error) => Response::text(error.to_string()).with_status(error.status()),
    }
}

#[test]
fn slow_header_section_gets_408() {
    let scene = TestServer::new(|| "ok");
    let mut client = scene.connect();
    client.send("GET / HTTP/1.1\r\n");
    for n in 0..9 {
        scene.advance_time(Duration::from_secs(1));
        client.send(format!("X-{n}: drip\r\n"));
        assert!(!client.is_finished(), "after {n} seconds");
    }
    scene.advance_time(Duration::from_millis(1300));
    assert!(client.received().starts_with("HTTP/1.1 408 Request Timeout\r\n"));
    assert!(client.is_finished());
}

#[test]
fn idle_connection_is_closed_without_response() {
    let scene = TestServer::new(|| "ok");
    let mut fresh = scene.connect();
    let mut used = scene.connect();
    scene.advance_time(Duration::from_secs(30));
    used.send(GET);
    assert!(used.received().ends_with("ok"));
    scene.advance_time(Duration::from_secs(31));
    assert!(fresh.is_closed() && fresh.received().is_empty());
    assert!(!used.is_closed());
    scene.advance_time(Duration::from_secs(31));
    assert!(used.is_closed() && used.received().is_empty());
}

#[test]
fn slow_handler_has_no_timeout() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |request: OwnedRequest| handler.clone().answer(request));
    let mut client = scene.connect();
    client.send(GET);
    scene.advance_time(Duration::from_mins(10));
    assert!(!client.is_closed());
    gates.open("/");
    assert!(client.received().ends_with("\r\n\r\n/"));
}

#[test]
fn slow_body_gets_408() {
    let scene = TestServer::new(collect);
    let mut client = scene.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    for _ in 0..19 {
        scene.advance_time(Duration::from_secs(1));
        client.send("x");
    }
    assert!(!client.is_finished());
    scene.advance_time(Duration::from_secs(2));
    let answer = client.received();
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("Connection: close"), "{answer}");
    // The server does not close yet: more data from the client would then cause a reset, and the client would
    // lose the response.
    assert!(client.is_finished() && !client.is_closed());
    client.send("x").finish();
    assert!(client.is_closed());
}

#[test]
fn fast_enough_upload_may_take_longer_than_body_timeout() {
    let scene = TestServer::new(collect);
    let mut client = scene.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n");
    for _ in 0..60 {
        scene.advance_time(Duration::from_secs(1));
        client.send(vec![b'x'; 1000]);
    }
    assert!(client.received().ends_with("\r\n\r\n60000"));
}

/// Returns a connection that has sent 4 MiB of a body at once. The last 10 bytes are missing.
fn nearly_complete(scene: &TestServer) -> TestClient {
    let mut client = scene.connect();
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 4 << 20));
    client.send(vec![b'x'; (4 << 20) - 10]);
    client
}

/// Each byte once extended the timeout according to the minimum rate, without a limit. After 4 MiB, a client
/// could be silent for more than two hours, and the server kept its data.
#[test]
fn fast_upload_that_stalls_gets_408() {
    let scene = TestServer::new(collect);
    let mut client = nearly_complete(&scene);
    scene.advance_time(Duration::from_secs(19));
    assert!(!client.is_finished());
    scene.advance_time(Duration::from_secs(2));
    assert!(client.received().starts_with("HTTP/1.1 408 "));
    assert!(client.is_finished());
}

/// A client could once use up the same time by sending single bytes.
#[test]
fn fast_upload_that_slows_to_single_bytes_gets_408() {
    let scene = TestServer::new(collect);
    let mut client = nearly_complete(&scene);
    for _ in 0..4 {
        assert!(!client.is_finished());
        scene.advance_time(Duration::from_secs(5));
        client.send("x");
    }
    scene.advance_time(Duration::from_secs(1));
    assert!(client.received().starts_with("HTTP/1.1 408 "));
}

#[test]
fn upload_with_pauses_below_timeout_succeeds() {
    let scene = TestServer::new(collect);
    let mut client = scene.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
    for _ in 0..10 {
        scene.advance_time(Duration::from_secs(19));
        client.send(vec![b'x'; 10_000]);
    }
    assert!(client.received().ends_with("\r\n\r\n100000"));
}

#[test]
fn body_timeout_pauses_while_handler_does_not_read() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |request: OwnedRequest| {
        let gates = handler.clone();
        async move {
            gates.pass("read").await;
            collect(request).await
        }
    });
    let mut client = scene.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n").send(vec![b'x'; 150_000]);
    scene.advance_time(Duration::from_hours(1));
    assert!(!client.is_finished());
    gates.open("read");
    client.run();
    scene.advance_time(Duration::from_secs(10));
    client.send(vec![b'x'; 50_000]);
    assert!(client.received().ends_with("\r\n\r\n200000"));
}

#[test]
fn body_timeout_starts_after_100_continue() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |request: OwnedRequest| {
        let gates = handler.clone();
        async move {
            gates.pass("read").await;
            collect(request).await
        }
    });
    let mut client = scene.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    scene.advance_time(Duration::from_mins(5));
    gates.open("read");
    assert_eq!(client.received(), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("ok");
    assert!(client.received().ends_with("\r\n\r\n2"));
}

#[test]
fn client_that_stops_reading_is_disconnected() {
    let scene = TestServer::new(|_: &Request| "x".repeat(1 << 20));
    let mut client = scene.connect();
    client.set_receive_capacity(1000).send(GET);
    scene.advance_time(Duration::from_secs(20));
    client.add_receive_capacity(1000);
    scene.advance_time(Duration::from_secs(20));
    assert!(!client.is_closed(), "the client reads slowly");
    scene.advance_time(Duration::from_secs(31));
    assert!(client.is_closed());
    assert!(client.is_unsent_discarded(), "otherwise the kernel keeps the unsent data");
}

/// A response body of `pieces_left` pieces. Meanwhile it reads the request body and counts its bytes.
struct ReadWhileResponding {
    request: RequestContent,
    pieces_left: usize,
    taken: Arc<AtomicUsize>,
}

impl ContentStream for ReadWhileResponding {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BoxError>>> {
        self.as_mut().poll_meanwhile(cx)?;
        let Some(left) = self.pieces_left.checked_sub(1) else { return Poll::Ready(None) };
        self.pieces_left = left;
        Poll::Ready(Some(Ok(Piece::Data(Bytes::from(vec![b'y'; 10_000])))))
    }

    fn poll_meanwhile(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Result<(), BoxError> {
        while let Poll::Ready(Some(piece)) = self.request.poll_next(cx) {
            self.taken.fetch_add(piece?.len(), Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Returns a server with a response of a million bytes. While it responds, it reads the request body and
/// counts its bytes.
pub(crate) fn reading_while_responding() -> (TestServer, Arc<AtomicUsize>) {
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = taken.clone();
    let scene = TestServer::new(move |mut request: OwnedRequest| {
        let (request, taken) = (request.take_content(), counted.clone());
        async move {
            let body = ReadWhileResponding { request, pieces_left: 100, taken };
            Response::text(Content::from_content_stream(body))
        }
    });
    (scene, taken)
}

/// If the client did not read the response, the server once stopped reading the request body. It then cut the
/// client off in the middle of its upload.
#[test]
fn client_may_send_whole_body_before_reading_response() {
    for framing in ["Content-Length: 100000", "Transfer-Encoding: chunked"] {
        let (scene, taken) = reading_while_responding();
        let mut client = scene.connect();
        client.set_receive_capacity(1000).send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"));
        for n in 1..=100 {
            scene.advance_time(Duration::from_secs(1));
            let piece = "x".repeat(1000);
            let is_chunked = framing.ends_with("chunked");
            client.send(if is_chunked { format!("3e8\r\n{piece}\r\n") } else { piece });
            assert_eq!(taken.load(Ordering::Relaxed), n * 1000, "{framing}");
        }
        client.send(if framing.ends_with("chunked") { "0\r\n\r\n" } else { "" });
        assert!(!client.is_closed());
        client.add_receive_capacity(usize::MAX);
        let answer = client.received();
        assert!(answer.ends_with("0\r\n\r\n"), "the response is complete");
        assert!(answer.len() > 1_000_000);
    }
}

#[test]
fn body_timeout_applies_while_client_does_not_read_response() {
    let (scene, taken) = reading_while_responding();
    let mut client = scene.connect();
    client
        .set_receive_capacity(1000)
        .send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nslowly");
    // Within the time that a client has to read the response.
    scene.advance_time(Duration::from_secs(25));
    client.add_receive_capacity(usize::MAX);
    assert!(client.received().len() < 1_000_000, "the response is incomplete");
    assert!(client.is_finished());
    assert_eq!(taken.load(Ordering::Relaxed), "slowly".len());
}

#[test]
fn write_stall_timeout_applies_after_client_sent_whole_body() {
    let (scene, taken) = reading_while_responding();
    let mut client = scene.connect();
    client.set_receive_capacity(1000).send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    scene.advance_time(Duration::from_secs(10));
    client.send("x".repeat(1000));
    scene.advance_time(Duration::from_secs(29));
    assert!(!client.is_closed());
    scene.advance_time(Duration::from_secs(2));
    assert!(client.is_closed());
    assert_eq!(taken.load(Ordering::Relaxed), 1000);
}

#[test]
fn lingering_close_has_time_limit() {
    let scene = TestServer::new(|| "ok");
    let mut client = scene.connect();
    client.send("BROKEN\r\n\r\n");
    scene.advance_time(Duration::from_secs(1));
    client.send("x");
    assert!(!client.is_closed());
    scene.advance_time(Duration::from_millis(1300));
    assert!(client.is_closed());
}

#[test]
fn half_closed_client_gets_fast_response() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |request: OwnedRequest| handler.clone().answer(request));
    let mut client = scene.connect();
    client.send(GET).finish();
    scene.advance_time(Duration::from_millis(700));
    assert!(!client.is_closed());
    gates.open("/");
    assert!(client.received().ends_with("\r\n\r\n/"));
    assert!(client.is_closed());
}

#[test]
fn half_closed_client_is_disconnected_if_response_is_late() {
    let gates = Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |request: OwnedRequest| handler.clone().answer(request));
    let mut client = scene.connect();
    client.send(GET).finish();
    assert_eq!(gates.waiting(), 1);
    scene.advance_time(Duration::from_millis(1300));
    assert!(client.is_closed() && client.received().is_empty());
    assert_eq!(gates.waiting(), 0, "the handler is dropped");
}

/// A body that ends with the connection once looked complete to a client that had closed its sending side but
/// still read.
#[test]
fn cut_off_http10_response_does_not_look_complete() {
    for (version, is_broken_off) in [("1.0", true), ("1.1", false)] {
        let gates = Gates::default();
        let handler = gates.clone();
        let scene = TestServer::new(move || {
            let gates = handler.clone();
            Content::written_by(async move |mut writer| {
                writer.write("half").await;
                gates.pass("the rest").await;
                Ok(())
            })
        });
        let mut client = scene.connect();
        client.send(format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n")).finish();
        scene.advance_time(Duration::from_millis(1300));
        assert!(client.is_closed() && client.received().contains("half"), "{version}");
        assert_eq!(client.is_unsent_discarded(), is_broken_off, "HTTP/{version}");
    }
}
