//! Tunnels over HTTP/1.1: upgrades and CONNECT.

use std::future::{pending, poll_fn};

use thruway_net::Transport;
use thruway_server::{Request, Response, Router};
use thruway_testkit::test_server::TestServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn shout() -> Response {
    Response::upgrade("shout", |mut tunnel| async move {
        let mut buffer = [0; 64];
        while let Ok(length @ 1..) = tunnel.read(&mut buffer).await {
            let loud = buffer[..length].to_ascii_uppercase();
            if tunnel.write_all(&loud).await.is_err() {
                return;
            }
        }
    })
}

const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n";

#[test]
fn upgrade_passes_early_data_to_tunnel() {
    let scene = TestServer::new(shout);
    let mut client = scene.connect();
    client.send(UPGRADE.to_owned() + "early ");
    let answer = client.received();
    assert!(answer.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{answer}");
    assert!(answer.contains("\r\nUpgrade: shout\r\n") && answer.contains("\r\nConnection: upgrade\r\n"));
    assert!(!answer.contains("Content-Length") && answer.ends_with("\r\n\r\nEARLY "));
    client.send("late");
    assert_eq!(client.received(), "LATE");
    client.finish();
    assert!(client.is_closed());
}

#[test]
fn request_without_upgrade_gets_426() {
    let scene = TestServer::new(shout);
    for request in [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: shout\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\r\n",
    ] {
        let mut client = scene.connect();
        client.send(request);
        let answer = client.received();
        assert!(answer.starts_with("HTTP/1.1 426 ") && answer.contains("Upgrade: shout"), "{answer}");
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(client.received().starts_with("HTTP/1.1 426 "));
    }
}

#[test]
fn handler_sees_offered_upgrade_protocols() {
    let scene = TestServer::new(|request: &Request| request.wants_upgrade_to("websocket").to_string());
    for (fields, expected) in [
        ("Connection: upgrade\r\nUpgrade: websocket\r\n", "true"),
        ("Connection: upgrade\r\nUpgrade: h2c\r\nUpgrade: x/1, WebSocket\r\n", "true"),
        ("Connection: upgrade\r\nUpgrade: h2c\r\n", "false"),
        ("Upgrade: websocket\r\n", "false"),
    ] {
        let mut client = scene.connect();
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        let answer = client.received();
        assert!(answer.ends_with(&format!("\r\n\r\n{expected}")), "{fields:?}: {answer}");
    }
}

#[test]
fn handler_can_respond_upgrade_required() {
    let scene = TestServer::new(|| Response::upgrade_required("shout/2"));
    let mut client = scene.connect();
    client.send(UPGRADE);
    let answer = client.received();
    assert!(answer.starts_with("HTTP/1.1 426 Upgrade Required\r\n"), "{answer}");
    assert!(answer.contains("\r\nUpgrade: shout/2\r\nConnection: upgrade\r\n"), "{answer}");
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.received().starts_with("HTTP/1.1 426 "));
}

#[test]
fn request_after_declined_upgrade_is_answered() {
    let scene = TestServer::new(|| "no");
    let mut client = scene.connect();
    client.send(UPGRADE.repeat(2));
    assert_eq!(client.received().matches("HTTP/1.1 200 OK").count(), 2);
}

#[test]
fn data_after_upgrade_request_is_not_parsed_before_handler_decides() {
    let gates = crate::gate::Gates::default();
    let handler = gates.clone();
    let scene = TestServer::new(move |request: thruway_server::OwnedRequest| {
        let gates = handler.clone();
        async move {
            if request.wants_tunnel() {
                gates.pass("upgrade").await;
                return shout();
            }
            Response::text("a request")
        }
    });
    let mut client = scene.connect();
    client.send(UPGRADE.to_owned() + "GET /not-a-request HTTP/1.1\r\n\r\n");
    gates.open("upgrade");
    assert!(client.received().ends_with("\r\n\r\nGET /NOT-A-REQUEST HTTP/1.1\r\n\r\n"));
}

#[test]
fn connect_opens_tunnel_only_if_handler_returns_one() {
    let connect = "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n";
    let scene = TestServer::new(|| {
        Response::tunnel(|mut tunnel| async move {
            let _ = tunnel.write_all(b"through").await;
        })
    });
    let mut client = scene.connect();
    client.send(connect);
    let answer = client.received();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nthrough"), "{answer}");
    assert!(!answer.contains("Content-Length") && client.is_closed());

    let scene = TestServer::new(|| "not a tunnel");
    let mut client = scene.connect();
    client.send(connect);
    assert!(client.received().starts_with("HTTP/1.1 501 "));

    let scene = TestServer::new(Router::new().get("/", || "ok"));
    let mut client = scene.connect();
    client.send(connect);
    let answer = client.received();
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

/// If the handler simply ended its tunnel, the server once closed without the TLS end notice. A client that
/// reads to the end takes this for an error.
#[test]
fn dropped_tunnel_closes_cleanly_unless_aborted() {
    for (is_broken_off, is_end_visible) in [(false, true), (true, false)] {
        let scene = TestServer::new(move || {
            Response::tunnel(async move |mut tunnel| {
                tunnel.write_all(b"all").await.unwrap();
                if is_broken_off {
                    tunnel.discard_unsent();
                }
            })
        });
        let mut client = scene.connect();
        client.send("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n");
        assert!(client.received().ends_with("\r\n\r\nall") && client.is_closed());
        assert_eq!((client.has_clean_end(), client.is_unsent_discarded()), (is_end_visible, is_broken_off));
    }
}

#[test]
fn handler_can_close_its_tunnel() {
    let scene = TestServer::new(|| {
        Response::tunnel(async move |mut tunnel| {
            poll_fn(|cx| tunnel.poll_close(cx)).await.unwrap();
            // Keeps the tunnel open.
            pending::<()>().await;
            drop(tunnel);
        })
    });
    let mut client = scene.connect();
    client.send("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n");
    assert!(client.has_clean_end() && !client.is_closed());
}
