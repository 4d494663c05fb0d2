//! Tests of copies of requests that are sent to a second upstream.

use std::sync::Arc;

use thruway_gateway::{
    ForwardConfig, Mirror, MirrorConfig, MirrorCounts, PathMatch, PathRewrite, Rewrite, Upstream,
};

use super::{Client, Recorder, Script};
use crate::gateway::{Gateway, only, until};

fn mirror(address: std::net::SocketAddr, config: MirrorConfig) -> Arc<Mirror> {
    Arc::new(Mirror::new(Arc::new(Upstream::new(only(address))), ForwardConfig::default(), config))
}

#[test]
fn mirrored_copy_equals_the_forwarded_request() {
    let (recorder, shadow) = (Recorder::start(), Recorder::start());
    let mirror = mirror(shadow.address, MirrorConfig::default());
    let gateway = Gateway::mirrored(recorder.address, mirror.clone());
    let mut client = Client::new(gateway.address);
    let answer = client.ask("POST /a?b HTTP/1.1", "Content-Length: 3\r\n\r\nabc".trim_end());
    assert_eq!(answer.status, 200);
    let mut copies = Vec::new();
    until(|| {
        copies.extend(shadow.take());
        !copies.is_empty()
    });
    let request = recorder.take_one();
    assert_eq!(copies, [request]);
    assert_eq!(mirror.counts(), MirrorCounts { mirrored: 1, ..MirrorCounts::default() });
}

#[test]
fn mirror_can_have_its_own_rewrite() {
    let (recorder, shadow) = (Recorder::start(), Recorder::start());
    let path = PathRewrite::new("/shadow{path}", &PathMatch::Exact("/".to_owned())).unwrap();
    let rewrite = Rewrite { path: Some(path), ..Rewrite::default() };
    let forward = ForwardConfig { rewrite, ..ForwardConfig::default() };
    let upstream = Arc::new(Upstream::new(only(shadow.address)));
    let mirror = Arc::new(Mirror::new(upstream, forward, MirrorConfig::default()));
    let gateway = Gateway::mirrored(recorder.address, mirror);
    assert_eq!(Client::new(gateway.address).ask("GET /a HTTP/1.1", "").text(), "GET /a ");
    let mut copies = Vec::new();
    until(|| {
        copies.extend(shadow.take());
        !copies.is_empty()
    });
    assert_eq!(copies[0].target, "/shadow/a");
}

/// Requests whose path the mirror could not rewrite were missing without a trace.
#[test]
fn request_that_mirror_cannot_rewrite_is_counted_as_refused() {
    let (recorder, shadow) = (Recorder::start(), Recorder::start());
    let path = PathRewrite::new("/shadow{path}", &PathMatch::Exact("/".to_owned())).unwrap();
    let rewrite = Rewrite { path: Some(path), ..Rewrite::default() };
    let forward = ForwardConfig { rewrite, ..ForwardConfig::default() };
    let upstream = Arc::new(Upstream::new(only(shadow.address)));
    let mirror = Arc::new(Mirror::new(upstream, forward, MirrorConfig::default()));
    let gateway = Gateway::mirrored(recorder.address, mirror.clone());
    assert_eq!(Client::new(gateway.address).ask("GET /a/%2e%2e/b HTTP/1.1", "").status, 200);
    assert_eq!(mirror.counts(), MirrorCounts { refused: 1, ..MirrorCounts::default() });
}

/// The mirror accepts connections but never answers.
#[test]
fn clients_do_not_wait_for_mirror_and_copies_are_limited() {
    let (recorder, shadow) = (Recorder::start(), Script::start());
    let config = MirrorConfig { requests_max: 2, ..MirrorConfig::default() };
    let mirror = mirror(shadow.address, config);
    let gateway = Gateway::mirrored(recorder.address, mirror.clone());
    let mut client = Client::new(gateway.address);
    for _ in 0..5 {
        assert_eq!(client.ask("GET / HTTP/1.1", "").status, 200);
    }
    assert_eq!(mirror.counts(), MirrorCounts { mirrored: 2, busy: 3, ..MirrorCounts::default() });
    // A copy that has been answered frees a slot.
    let mut accepted = shadow.accept();
    accepted.head();
    accepted.send("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 5\r\n\r\nwrong");
    until(|| {
        assert_eq!(client.ask("GET / HTTP/1.1", "").status, 200);
        mirror.counts().mirrored == 3
    });
}

#[test]
fn unreachable_mirror_does_not_affect_clients() {
    let recorder = Recorder::start();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gateway = Gateway::mirrored(recorder.address, mirror(gone, MirrorConfig::default()));
    let mut client = Client::new(gateway.address);
    for _ in 0..3 {
        assert_eq!(client.ask("GET /a HTTP/1.1", "").text(), "GET /a ");
    }
}

#[test]
fn request_with_body_still_arriving_is_not_mirrored() {
    let (recorder, shadow) = (Recorder::start(), Recorder::start());
    let mirror = mirror(shadow.address, MirrorConfig::default());
    let gateway = Gateway::mirrored(recorder.address, mirror.clone());
    let mut client = Client::new(gateway.address);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n");
    until(|| mirror.counts().arriving == 1);
    client.send("abc");
    assert_eq!(client.answer(false).text(), "POST / abc");
    assert_eq!(mirror.counts(), MirrorCounts { arriving: 1, ..MirrorCounts::default() });
    assert!(shadow.take().is_empty());
}

#[test]
fn zero_share_mirrors_no_requests() {
    let (recorder, shadow) = (Recorder::start(), Recorder::start());
    let config = MirrorConfig { share_millionths: 0, ..MirrorConfig::default() };
    let mirror = mirror(shadow.address, config);
    let gateway = Gateway::mirrored(recorder.address, mirror.clone());
    assert_eq!(Client::new(gateway.address).ask("GET / HTTP/1.1", "").status, 200);
    assert_eq!(mirror.counts(), MirrorCounts::default());
}
