//! MCP sessions of three gateway processes whose store is stopped.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use super::fleet::{Gateway, KEY};
use super::servers::RedisServer;
use super::{REQUEST_MAX, now, since, until};
use crate::process::{Signal, TIMEOUT, Thruway};

/// Returns a config with the MCP endpoint `/mcp`.
fn config(url: &str, number: usize) -> String {
    format!(
        "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
         [shared]\nstore = \"{url}\"\nkey = \"{KEY}\"\nreplica = \"gateway-{number}\"\n\
         peer_listen = \"127.0.0.1:0\"\n[[routes]]\npath = \"/mcp\"\nmcp = \"tools\"\n\
         [mcp.endpoints.tools]\nservers = [\"demo\"]\n[mcp.servers.demo]\n\
         command = [\"{}\", \"mcp\", \"serve\", \"--stdio\"]\n",
        crate::PROGRAM
    )
}

/// Returns the whole response. Ids of sessions need their exact letters, unlike other headers.
fn post(gateway: &Gateway, session: &str, body: &str) -> String {
    let session = if session.is_empty() {
        String::new()
    } else {
        format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n")
    };
    let mut stream = TcpStream::connect(gateway.address.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{session}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

/// Begins a session of a legacy client. Returns its id.
fn begin_session(gateway: &Gateway) -> String {
    let params =
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}"#;
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#);
    let response = post(gateway, "", &body);
    let lines = response.lines().filter_map(|line| line.split_once(": "));
    let mut ids = lines.filter(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"));
    ids.next().unwrap_or_else(|| panic!("{response}")).1.to_owned()
}

/// Returns the status of a request of a session, and the time until the response.
fn ping(gateway: &Gateway, session: &str) -> (String, Duration) {
    let start = now();
    let response = post(gateway, session, r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    (response.split(' ').nth(1).unwrap().to_owned(), since(start))
}

/// Returns `true` if a gateway has this number of replicas in its list, including itself.
fn knows(gateway: &Gateway, replicas: usize) -> bool {
    gateway.status()["fleet"]["replicas"].as_array().is_some_and(|list| list.len() == replicas)
}

#[test]
#[ignore = "needs redis-server"]
fn sessions_of_known_gateways_work_without_the_store() {
    let server = RedisServer::start(&[]);
    let start = |number| Gateway::start(&config(&server.url(), number));
    let mut gateways: Vec<_> = (1..=3).map(start).collect();
    until(|| gateways.iter().all(|gateway| knows(gateway, 3)));
    let sessions: Vec<_> = gateways.iter().map(begin_session).collect();
    server.signal(Signal::STOP);
    // The records in the store would expire after 6 s.
    let (began, mut longest) = (now(), Duration::ZERO);
    while since(began) < Duration::from_secs(8) {
        for session in &sessions {
            for gateway in &gateways {
                let (status, time) = ping(gateway, session);
                assert_eq!(status, "200");
                longest = longest.max(time);
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    // A session that begins now is known to all gateways too, because its owner is known.
    let session = begin_session(&gateways[0]);
    assert_eq!(ping(&gateways[2], &session).0, "200");
    // A gateway that starts now serves its own sessions. The others do not know it until the store works again.
    let fourth = start(4);
    let unknown = begin_session(&fourth);
    assert_eq!(ping(&fourth, &unknown).0, "200");
    let (status, time) = ping(&gateways[0], &unknown);
    assert_eq!(status, "404");
    longest = longest.max(time);
    // The sessions of a gateway that ends now get a clear answer.
    drop::<Thruway>(gateways.remove(0).thruway);
    for gateway in &gateways {
        let (status, time) = ping(gateway, &sessions[0]);
        assert_eq!(status, "404");
        longest = longest.max(time);
    }
    println!("longest request of a session while the store is stopped: {} ms", longest.as_millis());
    assert!(longest < REQUEST_MAX, "{longest:?}");
    server.signal(Signal::CONT);
    let recovered = until(|| ping(&gateways[0], &unknown).0 == "200");
    assert!(recovered < super::RECOVERY_MAX, "{recovered:?}");
    assert_eq!(ping(&gateways[0], &sessions[2]).0, "200");
}
