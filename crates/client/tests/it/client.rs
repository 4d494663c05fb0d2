//! Tests of the high-level client.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use thruway_client::{
    Client, ClientConfig, ClientError, Config, ConnectError, Destination, Error, Resolve, Resolving, Side,
    Timeouts, UpstreamAddr,
};
use thruway_message::{FieldLinesBuf, Method};
use thruway_testkit::upstream::{self, RunningUpstream, Upstream};

use crate::sockets::run;

/// Starts a server that answers each request with the result of `answer`, which gets head and body. The
/// server runs until the process ends.
fn serve(answer: impl Fn(&str) -> String + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            thread::spawn(move || {
                while let Some(request) = read_request(&mut connection) {
                    connection.write_all(answer(&request).as_bytes()).unwrap();
                }
            });
        }
    });
    format!("http://{address}")
}

fn read_request(connection: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.push(0);
        connection.read_exact(bytes.last_mut().map(std::slice::from_mut)?).ok()?;
    }
    let head = String::from_utf8(bytes).unwrap();
    let length = head.split("Content-Length: ").nth(1).and_then(|rest| rest.lines().next());
    let mut content = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    connection.read_exact(&mut content).unwrap();
    Some(head + str::from_utf8(&content).unwrap())
}

fn ok(content: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nX-Kind: test\r\nContent-Length: {}\r\n\r\n{content}", content.len())
}

fn url(listening: &RunningUpstream) -> String {
    format!("http://{}/", listening.address)
}

fn with_timeouts(timeouts: Timeouts) -> Client {
    let exchange = Config { timeouts, ..Config::default() };
    Client::with_config(ClientConfig { exchange, ..ClientConfig::default() })
}

fn assert_send<T: Send>(_: &T) {}

#[test]
fn requests_are_sent_as_built() {
    run(async {
        let base = serve(ok);
        let host = base.trim_start_matches("http://").to_owned();
        let client = Client::new();
        let sending = client.get(&format!("{base}?q=1#fragment")).field("X-A", "b").send();
        assert_send(&sending);
        let response = sending.await.unwrap();
        assert_eq!(
            (response.status().as_u16(), response.field("x-kind").unwrap().as_bytes()),
            (200, &b"test"[..])
        );
        let echoed = response.collect(1000).await.unwrap();
        assert_eq!(echoed, format!("GET /?q=1 HTTP/1.1\r\nHost: {host}\r\nX-A: b\r\n\r\n"));
        let response = client.post(&format!("{base}/path")).content("hello").send().await.unwrap();
        let collecting = response.collect(1000);
        assert_send(&collecting);
        let echoed = collecting.await.unwrap();
        assert_eq!(echoed, format!("POST /path HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\n\r\nhello"));
        assert_send(&client.get(&base).send().await.unwrap().events().next());
        let deleted = client.request(Method::Delete, &base).send().await.unwrap();
        assert!(deleted.collect(1000).await.unwrap().starts_with(b"DELETE / "));
        assert_eq!(client.idle_connections(), 1);
    });
}

#[test]
fn destination_headers_precede_request_headers() {
    run(async {
        let url = serve(ok);
        let destination = Destination::parse(&format!("{url}?q")).unwrap().field("A", "1").unwrap();
        let lines = FieldLinesBuf::from_static("B: 2\r\nC: 3\r\n");
        let client = Client::new();
        for (request, expected) in [
            (client.request_to(Method::Get, &destination), ""),
            (client.request_to(Method::Get, &destination).field_lines(&lines), "B: 2\r\nC: 3\r\n"),
            (
                client.request_to(Method::Get, &destination).field_lines(&lines).field("D", "4"),
                "B: 2\r\nC: 3\r\nD: 4\r\n",
            ),
            (
                client.request_to(Method::Get, &destination).field("D", "4").field_lines(&lines),
                "D: 4\r\nB: 2\r\nC: 3\r\n",
            ),
        ] {
            let echoed = request.send().await.unwrap().collect(1000).await.unwrap();
            let host = url.strip_prefix("http://").unwrap();
            let expected = format!("GET /?q HTTP/1.1\r\nHost: {host}\r\nA: 1\r\n{expected}\r\n");
            assert_eq!(str::from_utf8(&echoed).unwrap(), expected);
        }
        assert_eq!(client.idle_connections(), 1);
    });
}

#[test]
fn invalid_requests_are_rejected_before_sending() {
    run(async {
        let client = Client::new();
        let framing = FieldLinesBuf::from_static("X: y\r\ntransfer-Encoding: chunked\r\n");
        for (request, expected) in [
            (client.get("nowhere"), ClientError::UrlInvalid),
            (client.get("ftp://a.example/"), ClientError::SchemeNotSupported),
            (
                client.get("http://a.example/a b"),
                ClientError::RequestInvalid(thruway_http1::Error::RequestTargetInvalid),
            ),
            (
                client.get("http://a/").field("X", "a\r\nEvil: 1"),
                ClientError::FieldInvalid(thruway_message::InvalidFieldLine::Value),
            ),
            (
                client.get("http://a/").field("content-LENGTH", "1").field("X", "y"),
                ClientError::FieldInvalid(thruway_message::InvalidFieldLine::Name),
            ),
            (
                client.get("http://a/").field_lines(&framing),
                ClientError::FieldInvalid(thruway_message::InvalidFieldLine::Name),
            ),
        ] {
            let error = request.send().await.unwrap_err();
            assert_eq!((&error, error.side()), (&expected, Side::Client));
        }
    });
}

#[test]
fn large_bodies_are_sent_and_received() {
    run(async {
        let base = serve(|request| ok(request.split_once("\r\n\r\n").unwrap().1));
        let content = "0123456789".repeat(500_000);
        let response = Client::new().post(&base).content(content.clone()).send().await.unwrap();
        assert!(response.collect(usize::MAX).await.unwrap() == content);
    });
}

#[test]
fn body_is_read_in_pieces_or_up_to_a_limit() {
    run(async {
        let base = serve(|_| ok("0123456789"));
        let client = Client::new();
        let mut response = client.get(&base).send().await.unwrap();
        let mut all = Vec::new();
        while let Some(piece) = response.next().await {
            all.extend_from_slice(&piece.unwrap());
        }
        assert_eq!(all, b"0123456789");
        assert!(response.next().await.is_none());
        let response = client.get(&base).send().await.unwrap();
        assert_eq!(response.collect(9).await, Err(ClientError::ContentTooLarge));
        assert_eq!(client.idle_connections(), 0, "a connection with unread data is not reused");
        let until_close = upstream::responds_with_http10().listen();
        let response = client.get(&url(&until_close)).send().await.unwrap();
        assert_eq!(response.collect(1).await, Err(ClientError::ContentTooLarge));
    });
}

#[test]
fn trailers_are_available_after_the_body() {
    run(async {
        let base = serve(|_| {
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nDigest: x\r\n\r\n".into()
        });
        let mut response = Client::new().get(&base).send().await.unwrap();
        while response.next().await.is_some() {}
        assert_eq!(response.trailers().field("digest").unwrap(), "x");
    });
}

#[test]
fn idempotent_request_is_retried_once_after_an_idle_close() {
    run(async {
        let listening = upstream::closes_on_second_request().listen();
        let client = Client::new();
        for _ in 0..3 {
            let response = client.get(&url(&listening)).send().await.unwrap();
            assert_eq!(response.collect(10).await.unwrap(), "ok");
        }
        assert_eq!((listening.connections(), listening.requests()), (3, 5));
    });
}

#[test]
fn non_idempotent_request_is_retried_only_if_the_caller_allows_it() {
    run(async {
        let listening = upstream::closes_on_second_request().listen();
        let client = Client::new();
        let post = || client.post(&url(&listening)).send();
        assert_eq!(post().await.unwrap().collect(10).await.unwrap(), "ok");
        assert_eq!(post().await.unwrap_err(), ClientError::Exchange(Error::ClosedBeforeResponse));
        assert_eq!((listening.connections(), listening.requests()), (1, 2));
        assert_eq!(post().await.unwrap().collect(10).await.unwrap(), "ok");
        let allowed = client.post(&url(&listening)).idempotent(true).send().await.unwrap();
        assert_eq!(allowed.collect(10).await.unwrap(), "ok");
        assert_eq!((listening.connections(), listening.requests()), (3, 5));
    });
}

#[test]
fn request_is_not_retried_if_a_new_connection_closes() {
    run(async {
        let listening = upstream::closes_without_response().listen();
        let error = Client::new().get(&url(&listening)).send().await.unwrap_err();
        assert_eq!((&error, error.side()), (&Error::ClosedBeforeResponse.into(), Side::Upstream));
        assert_eq!(listening.requests(), 1);
    });
}

/// Every failure on a reused connection was once retried, even after a timeout.
#[test]
fn timeout_on_a_reused_connection_is_not_retried() {
    run(async {
        let silent = Upstream { ok_responses_first: 1, ..upstream::accepts_without_response() }.listen();
        let client = with_timeouts(Timeouts { head: Duration::from_millis(20), ..Timeouts::default() });
        assert!(client.get(&url(&silent)).send().await.unwrap().collect(10).await.is_ok());
        assert_eq!(client.get(&url(&silent)).send().await.unwrap_err(), Error::HeadTimedOut.into());
        assert_eq!((silent.connections(), silent.requests()), (1, 2));
    });
}

/// A connection was once reused whose runtime had ended or was not running. Its response never arrived.
#[test]
fn runtimes_do_not_share_connections() {
    let listening = upstream::responds_ok().listen();
    let client = Client::new();
    let get = || async {
        let response = client.get(&url(&listening)).send().await.unwrap();
        assert_eq!(response.collect(10).await.unwrap(), "ok");
    };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (one, other) = (runtime(), runtime());
    let within = Duration::from_secs(20);
    for runtime in [&one, &other, &one, &other] {
        runtime
            .block_on(async { tokio::time::timeout(within, get()).await })
            .expect("the request gets a response");
    }
    assert_eq!((listening.connections(), client.idle_connections()), (2, 2));
}

#[test]
fn head_total_and_body_timeouts_are_enforced() {
    run(async {
        let short = Duration::from_millis(20);
        let silent = upstream::accepts_without_response().listen();
        let client = with_timeouts(Timeouts { head: short, ..Timeouts::default() });
        let error = client.get(&url(&silent)).send().await.unwrap_err();
        assert_eq!(error, Error::HeadTimedOut.into());
        assert_eq!(silent.requests(), 1);
        let total = Timeouts { total: Some(short), ..Timeouts::default() };
        let error = Client::new().get(&url(&silent)).timeouts(total).send().await.unwrap_err();
        assert_eq!(error, Error::TimedOut.into());

        let stalling = upstream::stalls_mid_body().listen();
        let client = with_timeouts(Timeouts { content_idle: short, ..Timeouts::default() });
        let mut response = client.get(&url(&stalling)).send().await.unwrap();
        assert_eq!(response.next().await, Some(Ok("four".into())));
        assert_eq!(response.next().await, Some(Err(Error::ContentTimedOut.into())));
    });
}

#[test]
fn connect_error_lists_every_address() {
    run(async {
        let refused = upstream::unused_address();
        let error = Client::new().get(&format!("http://{refused}/")).send().await.unwrap_err();
        let ClientError::Connect(failures) = &error else { panic!("{error}") };
        let failures: Vec<_> = failures.iter().collect();
        assert_eq!(failures, [(&UpstreamAddr::from(refused), ConnectError::Refused)]);
        // Without a reachable DNS server, the system cannot know that the name does not exist.
        let error = Client::new().get("http://name.invalid/").send().await.unwrap_err();
        assert!(error.to_string().contains("the host `name.invalid` "), "{error}");
    });
}

/// A resolver that fails with this kind of error.
#[derive(Debug)]
struct Failing(ErrorKind);

impl Resolve for Failing {
    fn resolve<'a>(&'a self, _: &'a str, _: u16) -> Resolving<'a> {
        let error = std::io::Error::new(self.0, "out of order");
        Box::pin(async move { Err(error) })
    }
}

/// Without free descriptors, the error once claimed that the name does not exist.
#[test]
fn failed_lookup_is_not_reported_as_an_unknown_name() {
    run(async {
        let other = "looking up the host `a.example` failed: out of order";
        for (kind, side, expected) in [
            (ErrorKind::NotFound, Side::Upstream, "the host `a.example` does not exist or has no address"),
            (ErrorKind::TimedOut, Side::Upstream, "looking up the host `a.example` took too long"),
            (ErrorKind::Other, Side::Local, other),
            (ErrorKind::ConnectionRefused, Side::Local, other),
        ] {
            let client = Client::new().resolver(Failing(kind));
            let error = client.get("http://a.example/").send().await.unwrap_err();
            assert_eq!((error.side(), error.to_string()), (side, expected.to_owned()));
        }
    });
}

/// A resolver that knows one name. Its first address has no listener, the second one has.
#[derive(Debug)]
struct Fixed(SocketAddr);

impl Resolve for Fixed {
    fn resolve<'a>(&'a self, host: &'a str, _: u16) -> Resolving<'a> {
        assert_eq!(host, "backend.example");
        let addresses = [upstream::unused_address(), self.0].map(UpstreamAddr::from);
        Box::pin(async move { Ok(addresses.into()) })
    }
}

#[test]
fn client_uses_its_custom_resolver() {
    run(async {
        let listening = upstream::responds_ok().listen();
        let client = Client::new().resolver(Fixed(listening.address));
        let response = client.get("http://backend.example/").send().await.unwrap();
        assert_eq!(response.collect(10).await.unwrap(), "ok");
    });
}

#[test]
fn unix_socket_client_ignores_the_host_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    run(async {
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let client = Client::of_unix_socket(&path);
        let request = client.get("http://anything.example/").send();
        let server = async {
            let (accepted, _) = listener.accept().await.unwrap();
            accepted.writable().await.unwrap();
            accepted.try_write(upstream::OK_RESPONSE.as_bytes()).unwrap();
            accepted
        };
        let (response, _accepted) = tokio::join!(request, server);
        assert_eq!(response.unwrap().collect(10).await.unwrap(), "ok");
    });
}

#[test]
fn dropped_request_or_response_closes_its_connection() {
    run(async {
        let silent = upstream::accepts_without_response().listen();
        let client = Client::new();
        let request = client.get(&url(&silent)).send();
        assert!(tokio::time::timeout(Duration::from_millis(20), request).await.is_err());
        let stalling = upstream::stalls_mid_body().listen();
        drop(client.get(&url(&stalling)).send().await.unwrap());
        assert_eq!(client.idle_connections(), 0);
    });
}

#[test]
fn client_reads_server_sent_events() {
    run(async {
        let base = serve(|_| {
            let stream = "retry: 100\n\nid: 1\ndata: a\n\nevent: b\r\ndata: c\r\n\r\ndata: cut off";
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{stream}",
                stream.len()
            )
        });
        let client = Client::new();
        let mut events = client.get(&base).send().await.unwrap().events();
        let first = events.next().await.unwrap().unwrap();
        assert_eq!((first.event.as_str(), first.data.as_str(), first.id.as_str()), ("", "a", "1"));
        let second = events.next().await.unwrap().unwrap();
        assert_eq!((second.event.as_str(), second.data.as_str(), second.id.as_str()), ("b", "c", "1"));
        assert_eq!(events.next().await, None);
        assert_eq!((events.retry(), events.last_event_id()), (Some(Duration::from_millis(100)), "1"));
        assert_eq!(client.idle_connections(), 1);
        let mut events = client.get(&base).send().await.unwrap().events().event_bytes_max(3);
        assert_eq!(events.next().await, Some(Err(ClientError::EventTooLarge)));
    });
}
