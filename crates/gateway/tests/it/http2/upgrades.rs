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
use super::negotiated::Place;
use super::only_http2;
use super::origin::{ACCEPT, BROKEN_OFF, Origin, answer, requests_of, scripted};
use crate::forward::{Client, Script};
use crate::gateway::{Gateway, only, until};

/// Returns a WebSocket handshake as in RFC 6455 §1.2.
fn asked(path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}

/// Opens a tunnel with an HTTP/1.1 upgrade.
fn upgraded(gateway: &Gateway, path: &str) -> Client {
    let mut client = Client::new(gateway.address);
    client.send(asked(path));
    let answer = client.answer(false);
    assert_eq!((answer.status, answer.field("upgrade")), (101, Some("websocket")));
    assert_eq!(answer.field("sec-websocket-accept"), Some(ACCEPT));
    assert_eq!(answer.field("connection").map(str::to_lowercase).as_deref(), Some("upgrade"));
    client
}

/// Returns the response to an HTTP/2 client's WebSocket handshake, with both directions of its stream.
async fn connected(send: &mut SendRequest<Bytes>, path: &str) -> (u16, RecvStream, SendStream<Bytes>) {
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
fn websockets_of_clients_of_http11_are_streams_of_the_upstream() {
    let origin = Origin::start(true);
    let gateway = Gateway::of_both_versions(only_http2(origin.address));
    let mut client = upgraded(&gateway, "/chat");
    client.send("hello");
    assert_eq!(client.take(5), "hello");
    client.send(" and farewell");
    client.finish();
    let mut rest = Vec::new();
    client.read_rest(&mut rest);
    assert_eq!(rest, b" and farewell");
}

#[test]
fn websockets_of_clients_of_http2_are_streams_of_the_upstream() {
    let origin = Origin::start(true);
    let gateway = Gateway::of_both_versions(only_http2(origin.address));
    run(async {
        let mut send = connect(gateway.address).await;
        let (status, mut content, mut to) = connected(&mut send, "/chat").await;
        assert_eq!(status, 200);
        to.send_data(Bytes::from_static(b"hello"), false).unwrap();
        assert_eq!(piece(&mut content).await.unwrap(), "hello");
        to.send_data(Bytes::new(), true).unwrap();
        assert_eq!(piece(&mut content).await, None);
    });
}

#[test]
fn an_upstream_that_ends_first_hears_the_rest() {
    let origin = Origin::start(true);
    let gateway = Gateway::of_both_versions(only_http2(origin.address));
    let mut client = upgraded(&gateway, "/farewell");
    let mut said = Vec::new();
    client.read_rest(&mut said);
    assert_eq!(said, b"farewell");
    client.send("the last");
    client.socket().shutdown(Shutdown::Write).unwrap();
    until(|| origin.made.load(Ordering::Relaxed) == 8);
    run(async {
        let mut send = connect(gateway.address).await;
        let (_, mut content, mut to) = connected(&mut send, "/farewell").await;
        assert_eq!(piece(&mut content).await.unwrap(), "farewell");
        assert_eq!(piece(&mut content).await, None);
        to.send_data(Bytes::from_static(b"the last"), true).unwrap();
        while origin.made.load(Ordering::Relaxed) != 16 {
            yield_now().await;
        }
    });
}

#[test]
fn who_breaks_off_breaks_off_on_the_other_side() {
    let origin = Origin::start(true);
    let gateway = Gateway::of_both_versions(only_http2(origin.address));
    let mut asked = gateway.begin_raw(&asked("/farewell"));
    assert_eq!(asked.first(), "HTTP/1.1 101");
    asked.break_off();
    until(|| origin.made.load(Ordering::Relaxed) == BROKEN_OFF);
    run(async {
        let mut send = connect(gateway.address).await;
        let (_, mut content, mut to) = connected(&mut send, "/farewell").await;
        assert_eq!(piece(&mut content).await.unwrap(), "farewell");
        to.send_reset(Reason::CANCEL);
        while origin.made.load(Ordering::Relaxed) != 2 * BROKEN_OFF {
            yield_now().await;
        }
    });
    let mut client = upgraded(&gateway, "/cut");
    client.send("x");
    let error = client.socket().read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    run(async {
        let mut send = connect(gateway.address).await;
        let (_, mut content, mut to) = connected(&mut send, "/cut").await;
        to.send_data(Bytes::from_static(b"x"), false).unwrap();
        assert!(content.data().await.unwrap().unwrap_err().is_reset());
    });
}

#[test]
fn a_tunnel_carries_more_than_its_windows_hold() {
    const BYTES: usize = 3 << 20;
    let origin = Origin::start(true);
    let gateway = Gateway::of_both_versions(only_http2(origin.address));
    let mut client = upgraded(&gateway, "/chat");
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
fn tunnels_go_on_while_either_side_drains() {
    let origin = Origin::start(true);
    let gateway = Gateway::of_both_versions(only_http2(origin.address));
    let mut client = upgraded(&gateway, "/chat");
    run(async {
        let mut send = connect(gateway.address).await;
        let (_, mut content, mut to) = connected(&mut send, "/chat").await;
        origin.drain();
        gateway.drain();
        for said in ["one", "two"] {
            client.send(said);
            assert_eq!(client.take(3), said);
            to.send_data(Bytes::from_static(said.as_bytes()), false).unwrap();
            assert_eq!(piece(&mut content).await.unwrap(), said);
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
fn an_upgrade_that_is_declined_is_answered_as_such() {
    let origin = Origin::start(true);
    let gateway = Gateway::of_both_versions(only_http2(origin.address));
    let mut client = Client::new(gateway.address);
    client.send(asked("/declined"));
    let declined = client.answer(false);
    assert_eq!((declined.status, &*declined.content), (403, &b"no"[..]));
    // The upstream server answers 200 but does not switch protocols.
    client.send(asked("/empty"));
    assert_eq!(client.answer(false).status, 501);
    assert_eq!(client.ask("GET /empty HTTP/1.1", "").status, 200);
    run(async {
        let mut send = connect(gateway.address).await;
        let (status, mut content, _to) = connected(&mut send, "/declined").await;
        assert_eq!((status, piece(&mut content).await.unwrap().as_str()), (403, "no"));
    });
    assert!(origin.connections() <= 2, "one for each worker");
}

#[test]
fn of_other_methods_and_without_a_key_nothing_is_asked_of_the_upstream() {
    let origin = Origin::start(true);
    let gateway = Gateway::of_both_versions(only_http2(origin.address));
    let mut client = Client::new(gateway.address);
    client.send(asked("/chat").replace("GET", "OPTIONS"));
    assert_eq!(client.answer(false).status, 200);
    for key in ["", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j\r\n", "Sec-WebSocket-Key: ?\r\n"] {
        client.send(asked("/chat").replace("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", key));
        assert_eq!(client.answer(false).status, 400, "{key}");
    }
}

/// Adds a backup server, because an upstream never ejects its last server.
fn ejecting(mut upstream: UpstreamConfig) -> UpstreamConfig {
    let other = ServerConfig::new(UpstreamAddr::from(thruway_testkit::upstream::refuses()));
    upstream.servers.push(ServerConfig { is_backup: true, ..other });
    let ejection = EjectionConfig { failures: 1, percent_max: 100, ..EjectionConfig::default() };
    UpstreamConfig { ejection, retries_max: 0, ..upstream }
}

#[test]
fn an_upstream_that_does_not_say_whether_it_takes_upgrades_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect_timeout = Duration::from_millis(100);
    let config = UpstreamConfig { connect_timeout, ..only_http2(listener.local_addr().unwrap()) };
    let gateway = Gateway::start(config);
    let mut client = Client::new(gateway.address);
    client.send(asked("/chat"));
    let refused = client.answer(false);
    assert_eq!(
        (refused.status, refused.field("proxy-status")),
        (504, Some("thruway; error=connection_timeout"))
    );
}

/// Regression test: such a server was considered unable to upgrade, and no other server was tried.
#[test]
fn another_is_asked_for_an_upgrade_where_one_leaves_before_it_has_said_anything() {
    let leaving = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = leaving.local_addr().unwrap();
    thread::spawn(move || leaving.incoming().for_each(drop));
    let origin = Origin::start(true);
    let mut config = only_http2(address);
    config.servers.push(ServerConfig::new(UpstreamAddr::from(origin.address)));
    let gateway = Gateway::start(config);
    for _ in 0..4 {
        upgraded(&gateway, "/chat");
    }
}

/// Regression test: the upgrade was forwarded as a plain GET.
#[test]
fn an_upstream_that_takes_no_upgrades_is_asked_for_none() {
    let (address, connections) = scripted(b"");
    connections.fetch_add(1, Ordering::SeqCst);
    let gateway = Gateway::of_both_versions(ejecting(only_http2(address)));
    let refused = |client: &mut Client| {
        client.send(asked("/chat"));
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
        assert_eq!(connected(&mut send, "/chat").await.0, 502);
    });
    let status = gateway.upstream.server_statuses().swap_remove(0);
    assert_eq!((status.state, status.failures), (ServerState::Up, vec![("http_upgrade_failed", 3)]));
}

/// Starts a TLS server that chooses among `protocols`. It supports upgrades only in HTTP/1.1, and echoes in
/// the tunnel.
fn old_server(place: &Place, protocols: &[&str]) {
    place.each_connection(protocols, |mut stream, _| {
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
            switch(stream);
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
fn a_server_of_http11_proves_that_it_has_read_the_handshake_of_a_client_of_http2() {
    type Answer = fn(String) -> String;
    let script = Script::start();
    let gateway = Gateway::of_both_versions(only(script.address));
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
    assert_eq!(keys.len(), answers.len(), "each handshake has a key of its own");
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

fn switch(stream: impl Read + Write) {
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
fn where_the_server_chooses_upgrades_go_in_the_version_that_has_them() {
    for protocols in [&["h2", "http/1.1"][..], &["http/1.1"]] {
        let place = Place::new();
        let server = place.serve(protocols);
        let gateway = Gateway::of_both_versions(place.upstream());
        for _ in 0..2 {
            let mut client = upgraded(&gateway, "/chat");
            client.send("hello");
            assert_eq!(client.take(5), "hello");
        }
        assert!(server.connections() <= 2, "{protocols:?}: none was opened in vain");
    }
    let place = Place::new();
    old_server(&place, &["h2", "http/1.1"]);
    let gateway = Gateway::of_both_versions(place.upstream());
    assert_eq!(gateway.get().status, 200, "over HTTP/2");
    for _ in 0..2 {
        let mut client = upgraded(&gateway, "/chat");
        client.send("hello");
        assert_eq!(client.take(5), "hello");
    }
    run(async {
        let mut send = connect(gateway.address).await;
        let (status, mut content, mut to) = connected(&mut send, "/chat").await;
        assert_eq!(status, 200);
        to.send_data(Bytes::from_static(b"hello"), false).unwrap();
        assert_eq!(piece(&mut content).await.unwrap(), "hello");
    });
    assert_eq!(gateway.get().status, 200, "still over HTTP/2");
}

#[test]
fn where_the_server_has_no_version_with_upgrades_they_are_refused() {
    let place = Place::new();
    old_server(&place, &["h2"]);
    let gateway = Gateway::of_both_versions(ejecting(place.upstream()));
    for _ in 0..2 {
        let mut client = Client::new(gateway.address);
        client.send(asked("/chat"));
        let refused = client.answer(false);
        assert_eq!(
            (refused.status, refused.field("proxy-status")),
            (502, Some("thruway; error=http_upgrade_failed"))
        );
        assert_eq!(gateway.get().status, 200);
    }
    assert_eq!(gateway.upstream.server_statuses()[0].state, ServerState::Up);
}
