//! Tests of upgrades between clients and upstream servers of both versions.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};
use thruway_client::{UpstreamAddr, websocket_accept};
use thruway_gateway::{EjectionConfig, ServerConfig, ServerState, UpstreamConfig};
use thruway_message::{FieldLineSpan, FieldLines};
use tokio::task::yield_now;

use super::client::{connect, piece, request, run, whole};
use super::negotiated::TlsFixture;
use super::only_http2;
use super::origin::{ACCEPT, BROKEN_OFF, Origin, answer, requests_of, scripted};
use crate::forward::{Client, Script};
use crate::gateway::{Gateway, only, until};

/// Returns a WebSocket handshake as in RFC 6455 §1.2.
fn handshake(path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}

/// Opens a tunnel with an HTTP/1.1 upgrade.
fn open_websocket(gateway: &Gateway, path: &str) -> Client {
    let mut client = Client::new(gateway.address);
    client.send(handshake(path));
    let answer = client.answer(false);
    assert_eq!((answer.status, answer.field("upgrade")), (101, Some("websocket")));
    assert_eq!(answer.field("sec-websocket-accept"), Some(ACCEPT));
    assert_eq!(answer.field("connection").map(str::to_lowercase).as_deref(), Some("upgrade"));
    client
}

/// Returns the response to an HTTP/2 client's WebSocket handshake, with both directions of its stream.
async fn open_http2_websocket(
    send: &mut SendRequest<Bytes>,
    path: &str,
) -> (u16, RecvStream, SendStream<Bytes>) {
    // The gateway's settings are known after they have arrived.
    let (response, _) = send.send_request(request("GET", "/empty"), true).unwrap();
    whole(response).await;
    let mut request = request("CONNECT", path);
    request.extensions_mut().insert(Protocol::from_static("websocket"));
    let (response, to) = send.send_request(request, false).unwrap();
    let (head, content) = response.await.unwrap().into_parts();
    assert!(!head.headers.contains_key("upgrade") && !head.headers.contains_key("sec-websocket-accept"));
    (head.status.as_u16(), content, to)
}

#[test]
fn http11_websocket_reaches_http2_upstream() {
    let origin = Origin::start(true);
    let gateway = Gateway::accepting_http2(only_http2(origin.address));
    let mut client = open_websocket(&gateway, "/chat");
    client.send("hello");
    assert_eq!(client.take(5), "hello");
    client.send(" and farewell");
    client.finish();
    let mut rest = Vec::new();
    client.read_rest(&mut rest);
    assert_eq!(rest, b" and farewell");
}

#[test]
fn http2_websocket_reaches_http2_upstream() {
    let origin = Origin::start(true);
    let gateway = Gateway::accepting_http2(only_http2(origin.address));
    run(async {
        let mut send = connect(gateway.address).await;
        let (status, mut content, mut to) = open_http2_websocket(&mut send, "/chat").await;
        assert_eq!(status, 200);
        to.send_data(Bytes::from_static(b"hello"), false).unwrap();
        assert_eq!(piece(&mut content).await.unwrap(), "hello");
        to.send_data(Bytes::new(), true).unwrap();
        assert_eq!(piece(&mut content).await, None);
    });
}

#[test]
fn upstream_that_finishes_first_still_gets_client_bytes() {
    let origin = Origin::start(true);
    let gateway = Gateway::accepting_http2(only_http2(origin.address));
    let mut client = open_websocket(&gateway, "/farewell");
    let mut received = Vec::new();
    client.read_rest(&mut received);
    assert_eq!(received, b"farewell");
    client.send("the last");
    client.socket().shutdown(Shutdown::Write).unwrap();
    until(|| origin.produced.load(Ordering::Relaxed) == 8);
    run(async {
        let mut send = connect(gateway.address).await;
        let (_, mut content, mut to) = open_http2_websocket(&mut send, "/farewell").await;
        assert_eq!(piece(&mut content).await.unwrap(), "farewell");
        assert_eq!(piece(&mut content).await, None);
        to.send_data(Bytes::from_static(b"the last"), true).unwrap();
        while origin.produced.load(Ordering::Relaxed) != 16 {
            yield_now().await;
        }
    });
}

#[test]
fn reset_on_one_side_resets_the_other_side() {
    let origin = Origin::start(true);
    let gateway = Gateway::accepting_http2(only_http2(origin.address));
    let mut pending = gateway.begin_raw(&handshake("/farewell"));
    assert_eq!(pending.first(), "HTTP/1.1 101");
    pending.reset();
    until(|| origin.produced.load(Ordering::Relaxed) == BROKEN_OFF);
    run(async {
        let mut send = connect(gateway.address).await;
        let (_, mut content, mut to) = open_http2_websocket(&mut send, "/farewell").await;
        assert_eq!(piece(&mut content).await.unwrap(), "farewell");
        to.send_reset(Reason::CANCEL);
        while origin.produced.load(Ordering::Relaxed) != 2 * BROKEN_OFF {
            yield_now().await;
        }
    });
    let mut client = open_websocket(&gateway, "/cut");
    client.send("x");
    let error = client.socket().read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    run(async {
        let mut send = connect(gateway.address).await;
        let (_, mut content, mut to) = open_http2_websocket(&mut send, "/cut").await;
        to.send_data(Bytes::from_static(b"x"), false).unwrap();
        assert!(content.data().await.unwrap().unwrap_err().is_reset());
    });
}

#[test]
fn tunnel_forwards_more_bytes_than_its_windows_hold() {
    const BYTES: usize = 3 << 20;
    let origin = Origin::start(true);
    let gateway = Gateway::accepting_http2(only_http2(origin.address));
    let mut client = open_websocket(&gateway, "/chat");
    let mut writer = client.socket().try_clone().unwrap();
    let writing = thread::spawn(move || {
        writer.write_all(&vec![b'c'; BYTES]).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut rest = Vec::new();
    client.read_rest(&mut rest);
    writing.join().unwrap();
    assert_eq!((rest.len(), origin.connections()), (BYTES, 1));
}

#[test]
fn tunnels_stay_open_during_a_drain() {
    let origin = Origin::start(true);
    let gateway = Gateway::accepting_http2(only_http2(origin.address));
    let mut client = open_websocket(&gateway, "/chat");
    run(async {
        let mut send = connect(gateway.address).await;
        let (_, mut content, mut to) = open_http2_websocket(&mut send, "/chat").await;
        origin.drain();
        gateway.drain();
        for text in ["one", "two"] {
            client.send(text);
            assert_eq!(client.take(3), text);
            to.send_data(Bytes::from_static(text.as_bytes()), false).unwrap();
            assert_eq!(piece(&mut content).await.unwrap(), text);
        }
        to.send_data(Bytes::new(), true).unwrap();
        assert_eq!(piece(&mut content).await, None);
    });
    client.finish();
    let mut rest = Vec::new();
    client.read_rest(&mut rest);
    assert_eq!(rest, b"");
}

#[test]
fn declined_upgrade_reaches_the_client() {
    let origin = Origin::start(true);
    let gateway = Gateway::accepting_http2(only_http2(origin.address));
    let mut client = Client::new(gateway.address);
    client.send(handshake("/declined"));
    let declined = client.answer(false);
    assert_eq!((declined.status, &*declined.content), (403, &b"no"[..]));
    // The upstream server answers 200 but does not switch protocols.
    client.send(handshake("/empty"));
    assert_eq!(client.answer(false).status, 501);
    assert_eq!(client.ask("GET /empty HTTP/1.1", "").status, 200);
    run(async {
        let mut send = connect(gateway.address).await;
        let (status, mut content, _to) = open_http2_websocket(&mut send, "/declined").await;
        assert_eq!((status, piece(&mut content).await.unwrap().as_str()), (403, "no"));
    });
    assert!(origin.connections() <= 2, "one connection for each worker");
}

#[test]
fn websocket_handshake_needs_get_and_a_valid_key() {
    let origin = Origin::start(true);
    let gateway = Gateway::accepting_http2(only_http2(origin.address));
    let mut client = Client::new(gateway.address);
    client.send(handshake("/chat").replace("GET", "OPTIONS"));
    assert_eq!(client.answer(false).status, 200);
    for key in ["", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j\r\n", "Sec-WebSocket-Key: ?\r\n"] {
        client.send(handshake("/chat").replace("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", key));
        assert_eq!(client.answer(false).status, 400, "{key}");
    }
}

/// Adds a backup server, because an upstream never ejects its last server.
fn with_ejection(mut upstream: UpstreamConfig) -> UpstreamConfig {
    let other = ServerConfig::new(UpstreamAddr::from(thruway_testkit::upstream::unused_address()));
    upstream.servers.push(ServerConfig { is_backup: true, ..other });
    let ejection = EjectionConfig { failures: 1, percent_max: 100, ..EjectionConfig::default() };
    UpstreamConfig { ejection, retries_max: 0, ..upstream }
}

#[test]
fn upgrade_times_out_if_http2_server_sends_no_settings() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect_timeout = Duration::from_millis(100);
    let config = UpstreamConfig { connect_timeout, ..only_http2(listener.local_addr().unwrap()) };
    let gateway = Gateway::start(config);
    let mut client = Client::new(gateway.address);
    client.send(handshake("/chat"));
    let refused = client.answer(false);
    assert_eq!(
        (refused.status, refused.field("proxy-status")),
        (504, Some("thruway; error=connection_timeout"))
    );
}

/// Regression test: such a server was considered unable to upgrade, and no other server was tried.
#[test]
fn upgrade_is_retried_if_server_closes_before_its_settings() {
    let leaving = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = leaving.local_addr().unwrap();
    thread::spawn(move || leaving.incoming().for_each(drop));
    let origin = Origin::start(true);
    let mut config = only_http2(address);
    config.servers.push(ServerConfig::new(UpstreamAddr::from(origin.address)));
    let gateway = Gateway::start(config);
    for _ in 0..4 {
        open_websocket(&gateway, "/chat");
    }
}

/// Regression test: the upgrade was forwarded as a plain GET.
#[test]
fn upgrade_gets_502_if_http2_server_does_not_support_it() {
    let (address, connections) = scripted(b"");
    connections.fetch_add(1, Ordering::SeqCst);
    let gateway = Gateway::accepting_http2(with_ejection(only_http2(address)));
    let refused = |client: &mut Client| {
        client.send(handshake("/chat"));
        let refused = client.answer(false);
        assert_eq!(
            (refused.status, refused.field("proxy-status")),
            (502, Some("thruway; error=http_upgrade_failed"))
        );
    };
    let mut client = Client::new(gateway.address);
    refused(&mut client);
    assert_eq!(client.ask("GET / HTTP/1.1", "").status, 200);
    refused(&mut client);
    run(async {
        let mut send = connect(gateway.address).await;
        assert_eq!(open_http2_websocket(&mut send, "/chat").await.0, 502);
    });
    let status = gateway.upstream.server_statuses().swap_remove(0);
    assert_eq!((status.state, status.failures), (ServerState::Up, vec![("http_upgrade_failed", 3)]));
}

/// Starts a TLS server that chooses among `protocols`. It supports upgrades only in HTTP/1.1, and echoes in
/// the tunnel.
fn old_server(fixture: &TlsFixture, protocols: &[&str]) {
    fixture.each_connection(protocols, |mut stream, _| {
        if stream.conn.complete_io(&mut stream.sock).is_err() {
            return;
        }
        if stream.conn.alpn_protocol() == Some(b"h2") {
            // The connection may end in any way.
            drop(requests_of(stream, |stream, id| {
                answer(stream, id)?;
                stream.flush()
            }));
        } else {
            switch_protocols(stream);
        }
    });
}

/// Returns the `Sec-WebSocket-Key` of a head.
fn key_of(head: &str) -> String {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let mut keys = lines.filter(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"));
    keys.next().unwrap().1.to_owned()
}

/// Returns the `Sec-WebSocket-Accept` for `key`.
fn accept_of(key: &str) -> String {
    let bytes = format!("sec-websocket-key: {key}\r\n");
    let (name_end, value_start) = (17, 19);
    let value_end = value_start + u32::try_from(key.len()).unwrap();
    let spans = [FieldLineSpan { name_start: 0, name_end, value_start, value_end }];
    let accept = websocket_accept(FieldLines::from_parsed(bytes.as_bytes(), &spans)).unwrap();
    String::from_utf8(accept.to_vec()).unwrap()
}

/// Regression test: the key was the same for every request, and the response's `Sec-WebSocket-Accept` was not
/// checked. A server without WebSocket support, or a cached response, opened a tunnel (RFC 6455 §4.1, §10.3).
#[test]
fn http11_server_must_send_correct_sec_websocket_accept() {
    type Answer = fn(String) -> String;
    let script = Script::start();
    let gateway = Gateway::accepting_http2(only(script.address));
    let mut keys = Vec::new();
    let answers: [(Answer, u16); 7] = [
        (|accept| format!("Upgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n"), 200),
        (|accept| format!("upgrade: WebSocket\r\nsec-websocket-accept:  {accept} \r\n"), 200),
        (|_| "Upgrade: websocket\r\n".to_owned(), 502),
        (|_| format!("Upgrade: websocket\r\nSec-WebSocket-Accept: {ACCEPT}\r\n"), 502),
        (|accept| format!("Upgrade: websocket\r\nSec-WebSocket-Accept: {}\r\n", accept.to_lowercase()), 502),
        (
            |accept| {
                let line = format!("Sec-WebSocket-Accept: {accept}\r\n");
                format!("Upgrade: websocket\r\n{line}{line}")
            },
            502,
        ),
        (|accept| format!("Upgrade: other\r\nSec-WebSocket-Accept: {accept}\r\n"), 502),
    ];
    for (answer, status) in answers {
        thread::scope(|scope| {
            let client = scope.spawn(|| run(websocket_status(gateway.address)));
            let mut accepted = script.accept();
            let key = key_of(&accepted.head());
            let lines = answer(accept_of(&key));
            accepted.send(format!("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n{lines}\r\n"));
            let (got, proxy_status) = client.join().unwrap();
            let error = (status == 502).then(|| "thruway; error=http_upgrade_failed".to_owned());
            assert_eq!((got, proxy_status), (status, error), "{lines}");
            keys.push(key);
        });
    }
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), answers.len(), "each handshake has its own key");
}

/// Returns the status of the response to an HTTP/2 client's WebSocket handshake, and the reason of a failure.
async fn websocket_status(address: SocketAddr) -> (u16, Option<String>) {
    let mut send = connect(address).await;
    // The gateway's settings allow an extended CONNECT after they have arrived.
    while !send.is_extended_connect_protocol_enabled() {
        yield_now().await;
    }
    let mut request = request("CONNECT", "/chat");
    request.extensions_mut().insert(Protocol::from_static("websocket"));
    let (response, _to) = send.send_request(request, false).unwrap();
    let head = response.await.unwrap();
    let reason = head.headers().get("proxy-status").map(|reason| reason.to_str().unwrap().to_owned());
    (head.status().as_u16(), reason)
}

fn switch_protocols(stream: impl Read + Write) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).unwrap() > 0, "{head}");
    }
    assert!(head.to_lowercase().contains("\r\nupgrade: websocket\r\n"), "{head}");
    let accept = accept_of(&key_of(&head));
    let switched = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream.get_mut().write_all(switched.as_bytes()).unwrap();
    let mut bytes = [0; 100];
    while let Ok(read @ 1..) = stream.read(&mut bytes) {
        stream.get_mut().write_all(&bytes[..read]).unwrap();
    }
}

#[test]
fn upgrade_uses_the_http_version_that_supports_it() {
    for protocols in [&["h2", "http/1.1"][..], &["http/1.1"]] {
        let fixture = TlsFixture::new();
        let server = fixture.serve(protocols);
        let gateway = Gateway::accepting_http2(fixture.upstream());
        for _ in 0..2 {
            let mut client = open_websocket(&gateway, "/chat");
            client.send("hello");
            assert_eq!(client.take(5), "hello");
        }
        assert!(server.connections() <= 2, "{protocols:?}: no unused connection was opened");
    }
    let fixture = TlsFixture::new();
    old_server(&fixture, &["h2", "http/1.1"]);
    let gateway = Gateway::accepting_http2(fixture.upstream());
    assert_eq!(gateway.get().status, 200, "over HTTP/2");
    for _ in 0..2 {
        let mut client = open_websocket(&gateway, "/chat");
        client.send("hello");
        assert_eq!(client.take(5), "hello");
    }
    run(async {
        let mut send = connect(gateway.address).await;
        let (status, mut content, mut to) = open_http2_websocket(&mut send, "/chat").await;
        assert_eq!(status, 200);
        to.send_data(Bytes::from_static(b"hello"), false).unwrap();
        assert_eq!(piece(&mut content).await.unwrap(), "hello");
    });
    assert_eq!(gateway.get().status, 200, "still over HTTP/2");
}

#[test]
fn upgrade_gets_502_if_no_offered_version_supports_it() {
    let fixture = TlsFixture::new();
    old_server(&fixture, &["h2"]);
    let gateway = Gateway::accepting_http2(with_ejection(fixture.upstream()));
    for _ in 0..2 {
        let mut client = Client::new(gateway.address);
        client.send(handshake("/chat"));
        let refused = client.answer(false);
        assert_eq!(
            (refused.status, refused.field("proxy-status")),
            (502, Some("thruway; error=http_upgrade_failed"))
        );
        assert_eq!(gateway.get().status, 200);
    }
    assert_eq!(gateway.upstream.server_statuses()[0].state, ServerState::Up);
}
