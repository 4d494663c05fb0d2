//! Tests of publications and notifications to subscribers.

use std::io::{ErrorKind, Read};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use thruway_bench::{
    FailureKind, FanOut, FanOutError, Limit, Load, McpRequests, Revision, RunError, SessionUse,
};
use thruway_mcp_sdk::McpServer;
use thruway_mcp_sdk::schema::{Resource, Tool};
use thruway_server::{Router, Server};

use crate::mcp_scene::{call_of_echo, endpoint, load};

/// Regression test: Ctrl-C took effect only after all clients had subscribed or timed out.
#[test]
fn stop_during_subscribing_ends_the_load() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let revision = Revision::R20260728;
    let fan_out = FanOut {
        url: format!("http://{}/mcp", listener.local_addr().unwrap()),
        headers: Vec::new(),
        revision,
        subscribers: 2,
        uri: "test://n".to_owned(),
        tool: "count".to_owned(),
        arguments: json!({}),
    };
    let requests =
        McpRequests::new(revision, SessionUse::None, &[call_of_echo()], Some(&endpoint())).unwrap();
    let load = load(requests, Vec::new());
    let stop = load.stop.clone();
    // A client subscribes, but the server never answers.
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 64]).unwrap() > 0);
        stop.stop();
        stream
    });
    let outcome = fan_out.run(&load, &mut |_| {});
    assert!(
        matches!(&outcome, Err(FanOutError::Run(RunError::System(error))) if error.kind() == ErrorKind::Interrupted),
        "{outcome:?}"
    );
    drop(server.join().unwrap());
}

/// Regression test: after a failed publication, the load still waited for notifications, up to the timeout of
/// a publication.
#[test]
fn failed_publication_ends_without_waiting_for_notifications() {
    let server = McpServer::new("failing", "1").resource(Resource::new("test://n", "n"), || "n");
    let (own, has_worked) = (server.clone(), AtomicBool::new(false));
    let server = server.tool(Tool::new("count"), move || {
        if has_worked.swap(true, Ordering::Relaxed) {
            return Err("it works once");
        }
        own.resource_updated("test://n");
        Ok("counted")
    });
    let router = Router::new().any("/mcp", server.endpoint());
    let running = Server::new(router).workers(1).listen("127.0.0.1:0").unwrap().start().unwrap();
    let revision = Revision::R20260728;
    let fan_out = FanOut {
        url: format!("http://{}/mcp", running.addresses()[0]),
        headers: Vec::new(),
        revision,
        subscribers: 2,
        uri: "test://n".to_owned(),
        tool: "count".to_owned(),
        arguments: json!({}),
    };
    let requests =
        McpRequests::new(revision, SessionUse::None, &[call_of_echo()], Some(&endpoint())).unwrap();
    let mut load = Load { limit: Limit::Requests(3), ..load(requests, Vec::new()) };
    load.connection_options.timeout = Duration::from_mins(1);
    let outcome = fan_out.run(&load, &mut |_| {}).unwrap();
    assert_eq!(outcome.record.failed_as(FailureKind::ToolError), 3);
    assert!(outcome.elapsed < Duration::from_secs(50), "{:?}", outcome.elapsed);
}
