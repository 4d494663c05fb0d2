//! Tests of HTTP/1.1 and HTTP/2 on either side.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use h2::ext::Protocol;
use http::HeaderMap;
use thruway_client::http2::Http2Config;
use thruway_gateway::{CheckConfig, CheckKind, UpstreamConfig};
use tokio::task::yield_now;

use super::client::{connect, connect_slow, piece, request, run, whole};
use super::only_http2;
use super::origin::{Origin, PIECE_BYTES};
use crate::gateway::{Gateway, TEST_TIMEOUT, only, until};

/// Starts a gateway that accepts both versions, and an upstream server that accepts one.
fn gateway(has_http2: bool) -> (Gateway, Origin) {
    let origin = Origin::start(has_http2);
    let config = if has_http2 { only_http2(origin.address) } else { only(origin.address) };
    (Gateway::accepting_http2(config), origin)
}

#[test]
fn http2_request_headers_and_body_reach_either_version() {
    for (has_http2, version) in [(true, "HTTP/2.0"), (false, "HTTP/1.1")] {
        let (gateway, _origin) = gateway(has_http2);
        run(async {
            let mut send = connect(gateway.address).await;
            let mut request = request("POST", "/a?b=c");
            request.headers_mut().append("cookie", "a=1".parse().unwrap());
            request.headers_mut().append("cookie", "b=2".parse().unwrap());
            request.headers_mut().append("te", "trailers".parse().unwrap());
            request.headers_mut().append("content-length", "4".parse().unwrap());
            request.headers_mut().append("priority", "u=1, i".parse().unwrap());
            let (response, mut to) = send.send_request(request, false).unwrap();
            to.send_data(Bytes::from_static(b"said"), true).unwrap();
            let (head, text, _) = whole(response).await;
            assert_eq!((head.status().as_u16(), head.headers()["x-field"].as_bytes()), (200, &b"value"[..]));
            assert_eq!(head.headers()["priority"], "u=2");
            let text = text.to_lowercase();
            assert!(text.contains("priority: u=1, i\n"), "{text}");
            assert!(
                text.starts_with(&format!("post /a?b=c {}\nhost: a.example\n", version.to_lowercase())),
                "{text}"
            );
            assert!(text.contains("cookie: a=1; b=2\n") && text.contains("via: 2.0 thruway\n"), "{text}");
            assert!(text.contains("x-forwarded-for: 127.0.0.1\n") && text.ends_with("\nsaid"), "{text}");
            assert_eq!(text.contains("te: trailers\n"), has_http2, "{text}");
        });
    }
}

#[test]
fn bodies_and_trailers_stream_in_both_directions_at_once() {
    for has_http2 in [true, false] {
        let (gateway, _origin) = gateway(has_http2);
        run(async {
            let mut send = connect(gateway.address).await;
            let (response, mut to) = send.send_request(request("POST", "/echo"), false).unwrap();
            to.send_data(Bytes::from_static(b"one"), false).unwrap();
            let mut content = response.await.unwrap().into_body();
            assert_eq!(piece(&mut content).await.unwrap(), "one");
            to.send_data(Bytes::from_static(b"two"), false).unwrap();
            assert_eq!(piece(&mut content).await.unwrap(), "two");
            let mut trailers = HeaderMap::new();
            trailers.append("grpc-status", "0".parse().unwrap());
            to.send_trailers(trailers).unwrap();
            assert_eq!(piece(&mut content).await, None);
            assert_eq!(content.trailers().await.unwrap().unwrap()["grpc-status"], "0", "{has_http2}");
        });
    }
}

#[test]
fn http11_client_reaches_http2_upstream() {
    let (gateway, _origin) = gateway(true);
    let mut stream = TcpStream::connect(gateway.address).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream
        .write_all(b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        .unwrap();
    let mut got = Vec::new();
    let mut bytes = [0; 1024];
    while !got.ends_with(b"3\r\none\r\n") {
        let read = stream.read(&mut bytes).unwrap();
        assert!(read > 0, "{}", got.escape_ascii());
        got.extend_from_slice(&bytes[..read]);
    }
    stream.write_all(b"3\r\ntwo\r\n0\r\nX-Checksum: 42\r\n\r\n").unwrap();
    while !got.ends_with(b"\r\n\r\n") || !got.windows(4).any(|window| window == b"\n0\r\n") {
        let read = stream.read(&mut bytes).unwrap();
        assert!(read > 0, "{}", got.escape_ascii());
        got.extend_from_slice(&bytes[..read]);
    }
    let got = String::from_utf8(got).unwrap().to_lowercase();
    assert!(
        got.starts_with("http/1.1 200 ok\r\n") && got.contains("transfer-encoding: chunked\r\n"),
        "{got}"
    );
    assert!(got.ends_with("3\r\ntwo\r\n0\r\nx-checksum: 42\r\n\r\n"), "{got}");
}

#[test]
fn http2_response_without_body_is_complete() {
    let (gateway, _origin) = gateway(true);
    for (method, path) in [("GET", "/empty"), ("HEAD", "/empty"), ("HEAD", "/")] {
        run(async {
            let mut send = connect(gateway.address).await;
            let (response, _) = send.send_request(request(method, path), true).unwrap();
            let (head, content, _) = whole(response).await;
            assert_eq!((head.status().as_u16(), content.as_str()), (200, ""), "{method} {path}");
            assert!(head.headers().contains_key("content-length"), "{method} {path}: {head:?}");
        });
    }
    assert_eq!(gateway.get().status, 200);
    assert!(gateway.ask("HEAD", "").content.is_empty());
}

#[test]
fn interim_response_reaches_http2_client() {
    for has_http2 in [true, false] {
        let (gateway, _origin) = gateway(has_http2);
        run(async {
            let mut send = connect(gateway.address).await;
            let (mut response, _) = send.send_request(request("GET", "/hints"), true).unwrap();
            let interim = std::future::poll_fn(|cx| response.poll_informational(cx)).await.unwrap().unwrap();
            assert_eq!(
                (interim.status().as_u16(), interim.headers()["link"].as_bytes()),
                (103, &b"</a.css>"[..])
            );
            assert_eq!(whole(response).await.1, "hinted");
        });
    }
}

#[test]
fn concurrent_requests_share_one_http2_connection() {
    let (gateway, origin) = gateway(true);
    run(async {
        let mut send = connect(gateway.address).await;
        let mut started = Vec::new();
        for _ in 0..50 {
            let (response, to) = send.send_request(request("POST", "/echo"), false).unwrap();
            started.push((response, to));
        }
        for (_, to) in &mut started {
            to.send_data(Bytes::from_static(b"said"), false).unwrap();
        }
        let mut contents = Vec::new();
        for (response, to) in started {
            contents.push((response.await.unwrap().into_body(), to));
        }
        assert_eq!(origin.connections(), 1, "all fifty requests are concurrent");
        for (mut content, mut to) in contents {
            to.send_data(Bytes::new(), true).unwrap();
            assert_eq!(piece(&mut content).await.unwrap(), "said");
            assert_eq!(piece(&mut content).await, None);
        }
    });
}

#[test]
fn slow_http2_client_causes_backpressure_on_upstream() {
    for has_http2 in [true, false] {
        let (gateway, origin) = gateway(has_http2);
        run(async {
            let mut send = connect(gateway.address).await;
            let (response, _) = send.send_request(request("GET", "/endless"), true).unwrap();
            // The client fills the stream's window and never extends it.
            let mut content = response.await.unwrap().into_body();
            let mut taken = 0;
            while taken < (64 << 10) - 1 {
                taken += content.data().await.unwrap().unwrap().len();
            }
            for _ in 0..50 {
                let (response, _) = send.send_request(request("GET", "/"), true).unwrap();
                assert_eq!(whole(response).await.0.status().as_u16(), 200, "other requests continue");
            }
        });
        let produced = origin.produced.load(Ordering::Relaxed) * PIECE_BYTES;
        // The sockets alone buffer some megabytes.
        let most = if has_http2 { 1 << 20 } else { 16 << 20 };
        assert!(
            produced < most,
            "the upstream server sent {produced} bytes, but the client takes only 64 KiB"
        );
    }
}

/// Regression test: all clients shared one connection, whatever its window. A hundred clients that did not
/// read blocked the content of all others.
#[test]
fn clients_that_do_not_read_do_not_block_others() {
    let origin = Origin::without_limit();
    let http2 = Http2Config { stream_window_bytes: WINDOW_BYTES, ..Http2Config::default() };
    let gateway = Gateway::accepting_http2(UpstreamConfig { http2: Some(http2), ..only(origin.address) });
    run(async {
        // Each of the two workers has two slow clients and one that reads.
        let mut slow = Vec::new();
        for _ in 0..4 {
            let mut send = connect_slow(gateway.address).await;
            for _ in 0..60 {
                let (response, _) = send.send_request(request("GET", "/endless"), true).unwrap();
                slow.push(response.await.unwrap());
            }
        }
        let windows = 2 * 100 * WINDOW_BYTES as usize / PIECE_BYTES;
        while origin.produced.load(Ordering::Relaxed) < windows {
            yield_now().await;
        }
        for _ in 0..2 {
            let mut send = connect(gateway.address).await;
            for _ in 0..50 {
                let (response, _) = send.send_request(request("GET", "/"), true).unwrap();
                assert!(whole(response).await.1.starts_with("GET /"));
            }
        }
    });
    assert_eq!(origin.connections(), 4, "two connections for each worker");
}

/// Small enough that the sockets can buffer many windows.
const WINDOW_BYTES: u32 = 20_000;

#[test]
fn large_http2_body_arrives_complete() {
    let (gateway, _origin) = gateway(true);
    run(async {
        let mut send = connect(gateway.address).await;
        let (response, mut to) = send.send_request(request("POST", "/echo"), false).unwrap();
        let sending = tokio::spawn(async move {
            let mut left = Bytes::from(vec![b'x'; 3 << 20]);
            while !left.is_empty() {
                to.reserve_capacity(left.len());
                let room = std::future::poll_fn(|cx| to.poll_capacity(cx)).await.unwrap().unwrap();
                to.send_data(left.split_to(room.min(left.len())), false).unwrap();
            }
            to.send_data(Bytes::new(), true).unwrap();
        });
        assert_eq!(whole(response).await.1.len(), 3 << 20);
        sending.await.unwrap();
    });
}

#[test]
fn health_checks_use_http2_for_http2_upstream() {
    let origin = Origin::start(true);
    let check = CheckConfig::new(CheckKind::http("/"));
    let config = UpstreamConfig { check: Some(check), ..only_http2(origin.address) };
    let gateway = Gateway::accepting_http2(config);
    until(|| origin.connections() > 0);
    assert_eq!(gateway.get().status, 200);
}

#[test]
fn http2_websocket_reaches_http11_upstream() {
    let (gateway, _origin) = gateway(false);
    run(async {
        let mut send = connect(gateway.address).await;
        // The server's stream limit is known after its settings have arrived.
        let (response, _) = send.send_request(request("GET", "/"), true).unwrap();
        whole(response).await;
        assert!(send.is_extended_connect_protocol_enabled());
        let mut request = request("CONNECT", "/chat");
        request.extensions_mut().insert(Protocol::from_static("websocket"));
        let (response, mut to) = send.send_request(request, false).unwrap();
        let (head, mut content) = response.await.unwrap().into_parts();
        assert_eq!(head.status.as_u16(), 200);
        assert!(!head.headers.contains_key("upgrade"), "{head:?}");
        to.send_data(Bytes::from_static(b"hello"), false).unwrap();
        assert_eq!(piece(&mut content).await.unwrap(), "hello");
        to.send_data(Bytes::new(), true).unwrap();
        assert_eq!(piece(&mut content).await, None);
    });
}
