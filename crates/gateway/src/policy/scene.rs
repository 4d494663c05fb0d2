//! Test setup: a client, and a policy in front of a handler that returns the values of `X-User`.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use thruway_net::Clock;
use thruway_server::{IntoHandler, Request};
use thruway_testkit::test_server::TestServer;

use super::{Guarded, Policy, PolicyConfig};

/// Returns a test server with one route and one policy. The handler of the test server returns the values
/// of `X-User`.
pub(super) fn scene(config: PolicyConfig) -> TestServer {
    scene_of(Arc::new(Policy::new("office", config)))
}

/// Returns a test server with an existing policy.
pub(super) fn scene_of(policy: Arc<Policy>) -> TestServer {
    let handler = |request: &Request<'_>| {
        let users: Vec<_> = request.field_lines().all("x-user").map(|value| value.as_bytes()).collect();
        [&b"user "[..], &users.join(&b'|')].concat()
    };
    let scene = TestServer::new(Guarded::new(policy, "route", handler.into_handler()));
    // The test server starts at the current date, because the tokens in the tests are valid today.
    let today = Clock::system().time_of_day().duration_since(SystemTime::UNIX_EPOCH);
    scene.jump_time(today.unwrap_or_default());
    scene
}

/// Sends `GET /` with the additional header lines `lines`, and returns the response.
pub(super) fn ask(scene: &TestServer, lines: &str) -> String {
    ask_for(scene, "/", lines)
}

/// Sends a `GET` request for `target` with the additional header lines `lines`, and returns the response.
///
/// # Panics
/// Panics if no response arrives within 20 seconds, which is enough for slow machines.
pub(super) fn ask_for(scene: &TestServer, target: &str, lines: &str) -> String {
    let mut client = scene.connect();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
    let end = Clock::system().now_exact() + Duration::from_secs(20);
    loop {
        let received = client.received();
        if !received.is_empty() {
            return received;
        }
        assert!(Clock::system().now_exact() < end, "no response arrived");
        std::thread::yield_now();
    }
}

/// Returns the status and the body of a response.
pub(super) fn outcome(answer: &str) -> (&str, &str) {
    (&answer[9..12], answer.split_once("\r\n\r\n").map_or("", |(_, content)| content))
}

/// Returns the authentication challenge in a response.
pub(super) fn challenge(answer: &str) -> Option<&str> {
    answer.lines().find_map(|line| line.strip_prefix("WWW-Authenticate: "))
}
