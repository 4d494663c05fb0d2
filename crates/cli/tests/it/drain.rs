//! Tests of shutdown: draining, and the log lines about the workers.

use std::fs;

use crate::client::Client;
use crate::process::{Ended, Signal, Thruway};

/// Starts a server with one worker and a drain time of `drain`. Returns it with its address and a client
/// that waits for a response.
fn busy(directory: &tempfile::TempDir, drain: &str) -> (Thruway, String, Client) {
    let config = format!(
        "workers = 1\ntimeouts.drain = \"{drain}\"\naccess_log = {{ format = \"json\", path = \"access.log\" }}\n\
         listeners = [{{ address = \"127.0.0.1:0\" }}]\n\
         routes = [{{ path = \"/\", demo = true }}]\n"
    );
    let mut thruway = Thruway::serve(directory.path(), &config);
    let address = thruway.address();
    let mut client = Client::connect(&address);
    client.send("GET /headers HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    // The handler asks for the body, so the request counts as accepted.
    assert!(client.head().starts_with("http/1.1 100 "));
    (thruway, address, client)
}

/// Waits until `address` refuses connections.
fn wait_until_refused(address: &str) {
    while Client::try_connect(address).is_ok() {}
}

#[test]
fn drain_completes_accepted_requests_and_exits_with_0() {
    for signal in [Signal::TERM, Signal::INT] {
        let directory = tempfile::tempdir().unwrap();
        let (mut thruway, address, mut client) = busy(&directory, "1h");
        let mut idle = Client::connect(&address);
        assert_eq!(idle.get("/ok").status(), "200");
        thruway.signal(signal);
        thruway.wait_for_log("draining");
        wait_until_refused(&address);
        assert!(idle.is_closed());
        client.send("ab");
        let response = client.response(false);
        assert!(response.status() == "200" && response.has("connection: close"), "{}", response.head);
        assert!(client.is_closed());
        let ended = thruway.end();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stderr.contains("cut_off=0"), "{}", ended.stderr);
    }
}

#[test]
fn drain_timeout_cuts_off_requests_and_exits_with_1() {
    let directory = tempfile::tempdir().unwrap();
    let (thruway, _, mut client) = busy(&directory, "1ms");
    let ended = thruway.terminate();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("cut_off=1"), "{}", ended.stderr);
    assert!(client.is_closed());
    let log = fs::read_to_string(directory.path().join("access.log")).unwrap();
    for part in [
        "\"url.path\":\"/headers\"",
        "\"http.response.status_code\":503",
        "\"complete\":false",
        "\"ended_by\":\"drain\"",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

#[test]
fn second_signal_ends_the_process_immediately() {
    let directory = tempfile::tempdir().unwrap();
    let (mut thruway, _, mut client) = busy(&directory, "1h");
    thruway.signal(Signal::TERM);
    thruway.wait_for_log("draining");
    thruway.signal(Signal::INT);
    assert_eq!(thruway.end().code, Some(143));
    assert!(client.is_closed());
}

#[test]
fn connections_are_spread_evenly_across_workers() {
    for count in [16, 100] {
        let mut thruway = Thruway::demo(&["--workers", "2"]);
        let address = thruway.address();
        let mut clients: Vec<Client> = (0..count).map(|_| Client::connect(&address)).collect();
        for client in &mut clients {
            assert_eq!(client.get("/ok").status(), "200");
        }
        let ended = thruway.terminate();
        assert_eq!(connections_of_workers(&ended), [count / 2, count / 2], "{}", ended.stderr);
    }
}

/// Returns the figures from the end of the log, in lines like `drained worker=0 connections_total=8
/// cut_off=0`.
fn connections_of_workers(ended: &Ended) -> Vec<usize> {
    let lines = ended.stderr.lines().filter(|line| line.contains(" drained worker="));
    let figure = |line: &str| line.split("connections_total=").nth(1)?.split(' ').next()?.parse().ok();
    lines.filter_map(figure).collect()
}
