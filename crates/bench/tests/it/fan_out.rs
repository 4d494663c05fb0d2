//! Publications, and those who are told of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use thruway_bench::{FailureKind, FanOut, Limit, Load, McpRequests, Revision, SessionUse};
use thruway_mcp_sdk::McpServer;
use thruway_mcp_sdk::schema::{Resource, Tool};
use thruway_server::{Router, Server};

use crate::mcp_scene::{call_of_echo, endpoint, load};

/// It was waited for those who were not told of it, for as long as a publication may take.
#[test]
fn a_publication_that_fails_is_over_when_it_has_failed() {
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
    load.manner.timeout = Duration::from_secs(20);
    let outcome = fan_out.run(&load, &mut |_| {}).unwrap();
    assert_eq!(outcome.record.failed_as(FailureKind::ToolError), 3);
    assert!(outcome.elapsed < Duration::from_secs(10), "{:?}", outcome.elapsed);
}
