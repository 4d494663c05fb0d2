//! Tests of requests whose owner does not answer, and of the peer listener.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use thruway_mcp_sdk::ReplicaId;
use thruway_mcp_sdk::backend::Caller;
use thruway_message::{FieldLine, FieldName, FieldSection, FieldValue};
use thruway_server::{Answer, Handler, IntoHandler, ListenAddr, Request, Response, RunningServer, Server};
use thruway_store::SharedKey;

use super::listener;
use super::replica::{Fleet, PeerEndpoint};
use crate::config::ListenerConfig;
use crate::replicas::{ReplicaRecord, ReplicaRegistry};

/// Forwards each request to the replica `owner`.
struct Front {
    fleet: Arc<Fleet>,
    owner: ReplicaId,
}

impl Handler for Front {
    fn handle<'a>(&'a self, request: &mut Request<'a>) -> Answer {
        let (fleet, owner, request) = (self.fleet.clone(), self.owner, request.take_owned());
        Answer::later(async move {
            let here = (|| Response::text("here")).into_handler();
            let answer = match fleet.owner(owner).await {
                Some(owner) => request.forward_to(&owner.handler("dev", Caller::Local, here)),
                None => request.forward_to(&here),
            };
            match answer {
                Answer::Now(response) => response,
                Answer::Later(later) => later.await,
            }
        })
    }
}

/// A server that forwards requests to an owner at `address`.
struct Scene {
    fleet: Arc<Fleet>,
    server: RunningServer,
}

impl Scene {
    fn start(owner_at: Option<SocketAddr>) -> Self {
        let key = SharedKey::random();
        let (replicas, owner) = (ReplicaRegistry::new("own", &key), ReplicaId::random());
        let fleet = Fleet::new(&replicas, &key);
        let record = |address| ReplicaRecord { address: Some(address), ..replicas.own() };
        let records = owner_at.into_iter().map(|address| (owner, record(address))).collect();
        fleet.follow(None);
        replicas.replace(records);
        let front = Front { fleet: fleet.clone(), owner };
        let server = Server::new(front).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
        Self { fleet, server }
    }

    /// Returns the whole response to a request.
    fn response(&self) -> String {
        self.response_to("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    }

    fn response_to(&self, request: &str) -> String {
        response_of(&self.server, request)
    }

    fn assert_answers_here(self) {
        let response = self.response();
        assert!(response.ends_with("\r\n\r\nhere"), "{response}");
        assert_eq!(self.fleet.counts.missing_owners(), 1);
        self.server.drain();
        self.server.join();
    }
}

#[test]
fn request_for_an_unknown_replica_is_answered_here() {
    Scene::start(None).assert_answers_here();
}

#[test]
fn request_for_a_closed_port_is_answered_here() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    Scene::start(Some(address)).assert_answers_here();
}

#[test]
fn request_is_answered_here_if_the_owner_closes_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let scene = Scene::start(Some(listener.local_addr().unwrap()));
    let owner = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
    });
    scene.assert_answers_here();
    owner.join().unwrap();
}

#[test]
fn request_is_answered_here_when_the_silent_owner_leaves_the_list() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let scene = Scene::start(Some(listener.local_addr().unwrap()));
    let fleet = scene.fleet.clone();
    let owner = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 4096];
        let length = stream.read(&mut head).unwrap();
        assert!(head[..length].starts_with(b"GET /mcp HTTP/1.1\r\n"));
        fleet.replicas.replace(Vec::new());
        stream
    });
    scene.assert_answers_here();
    drop(owner.join().unwrap());
}

#[test]
fn response_of_another_service_at_the_address_is_not_used() {
    let other = Server::new((|| "other").into_handler());
    let other = other.workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let ListenAddr::Tcp(address) = other.addresses()[0] else { unreachable!() };
    Scene::start(Some(address)).assert_answers_here();
    other.drain();
    other.join();
}

/// A client could remove the header about the caller, so that the owner refused the request and logged a warning.
#[test]
fn client_cannot_remove_or_replace_the_header_about_the_caller() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let scene = Scene::start(Some(listener.local_addr().unwrap()));
    let owner = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = String::new();
        while !head.contains("\r\n\r\n") {
            let mut part = [0; 4096];
            let length = stream.read(&mut part).unwrap();
            assert!(length > 0, "{head}");
            head.push_str(str::from_utf8(&part[..length]).unwrap());
        }
        head.to_ascii_lowercase()
    });
    scene.response_to(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, Thruway-Caller\r\nThruway-Caller: forged\r\n\r\n",
    );
    let head = owner.join().unwrap();
    assert_eq!(head.matches("thruway-caller: ").count(), 1, "{head}");
    assert!(!head.contains("forged"), "{head}");
    scene.server.drain();
    scene.server.join();
}

/// Sends a request to `server`, and returns the whole response.
fn response_of(server: &RunningServer, request: &str) -> String {
    let ListenAddr::Tcp(address) = server.addresses()[0] else { unreachable!() };
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

/// A replica could use the identity in a captured header for the session of another caller.
#[test]
fn peer_listener_accepts_a_header_about_the_caller_only_with_its_request() {
    let key = SharedKey::random();
    let fleet = Fleet::new(&ReplicaRegistry::new("own", &key), &key);
    let handler = (|request: &Request<'_>| format!("{} bytes", request.content().len())).into_handler();
    fleet.serve([("dev".to_owned(), PeerEndpoint { handler, report: Box::new(|_| {}) })].into());
    let address = ListenAddr::Tcp(([127, 0, 0, 1], 0).into());
    let server = listener::start(&fleet, &ListenerConfig::at(address), Some(1)).unwrap();
    // The large body arrives in several parts.
    for body in ["{}".to_owned(), "x".repeat(1 << 20)] {
        let mut fields = FieldSection::with_capacity(64, 1);
        let (name, value) = (FieldName::new(b"Mcp-Session-Id").unwrap(), FieldValue::new(b"one").unwrap());
        fields.append(FieldLine { name, value });
        let parts = ("POST", fields.lines(), body.as_bytes());
        let header = fleet.callers.seal(fleet.replica(), "dev", &Caller::Local, parts);
        let response = |session: &str, body: &str| {
            let length = body.len();
            let request = format!(
                "POST /mcp HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\
                 Mcp-Session-Id: {session}\r\nThruway-Caller: {header}\r\n\r\n{body}"
            );
            response_of(&server, &request)
        };
        let accepted = response("one", &body);
        assert!(accepted.ends_with(&format!("\r\n\r\n{} bytes", body.len())), "{accepted}");
        let other_body = body.replace(['{', 'x'], "y");
        for (session, body) in [("two", &*body), ("one", &*other_body), ("one", &format!("{body}{body}"))] {
            let refused = response(session, body);
            assert!(refused.starts_with("HTTP/1.1 403 "), "{session}: {refused}");
            assert!(!refused.to_ascii_lowercase().contains("thruway-replica"), "{refused}");
        }
    }
    server.drain();
    server.join();
}

/// A timeout that no test reaches.
const TIMEOUT: Duration = Duration::from_secs(20);
