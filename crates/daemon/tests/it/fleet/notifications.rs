//! Tests of notifications about changes on other replicas.

use serde_json::{Value, json};
use thruway_mcp_sdk::schema::Tool;

use super::processes::Redis;
use super::scene::{EventStream, Fleet, KEY, Message};

/// Waits until all members of each replica are connected. Until then, clients get notifications about their lists.
fn connected() -> Fleet {
    let fleet = Fleet::start();
    wait_for_members(&fleet);
    fleet
}

fn wait_for_members(fleet: &Fleet) {
    for replica in [0, 1, 2] {
        for method in ["tools/list", "resources/list"] {
            let (_, list) = fleet.request(replica, &Message::modern(method, "", &json!({})));
            assert!(list.to_string().contains("note"), "{list}");
        }
    }
}

/// Begins a subscription of a modern client to the list of tools and to the resource `note://1`.
fn listen(fleet: &Fleet, replica: usize) -> EventStream {
    let wanted = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["note://1"]}});
    let mut stream = fleet.stream(replica, &Message::modern("subscriptions/listen", "", &wanted));
    let acknowledged = stream.next();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{acknowledged}");
    stream
}

fn call(fleet: &Fleet, replica: usize, tool: &str) {
    let params = json!({"name": tool, "arguments": {}});
    let (status, answer) = fleet.request(replica, &Message::modern("tools/call", tool, &params));
    assert_eq!(
        (&*status, answer["result"]["content"][0]["text"].as_str()),
        ("200", Some("done")),
        "{answer}"
    );
}

fn method(message: &Value) -> &str {
    message["method"].as_str().unwrap_or_else(|| panic!("{message}"))
}

#[test]
fn change_of_a_child_process_reaches_the_clients_of_each_replica_once() {
    let fleet = connected();
    let mut streams = [0, 1, 2].map(|replica| listen(&fleet, replica));
    let session = fleet.begin_session(2);
    let mut of_session = fleet.stream(1, &Message::empty("GET", &session, ""));
    call(&fleet, 0, "notes__grow");
    for stream in &mut streams {
        assert_eq!(method(&stream.next()), "notifications/tools/list_changed");
    }
    assert_eq!(method(&of_session.next()), "notifications/tools/list_changed");
    // The next notification is about the next change: there was no second one about the list.
    call(&fleet, 0, "notes__touch");
    for stream in &mut streams {
        let updated = stream.next();
        assert_eq!(
            (method(&updated), &updated["params"]["uri"]),
            ("notifications/resources/updated", &json!("note://1"))
        );
    }
    call(&fleet, 1, "notes__grow");
    for stream in &mut streams {
        assert_eq!(method(&stream.next()), "notifications/tools/list_changed");
    }
    drop(streams);
    drop(of_session);
    fleet.end();
}

#[test]
fn change_of_a_server_over_http_reaches_the_clients_of_each_replica_once() {
    let fleet = connected();
    let mut streams = [0, 1, 2].map(|replica| listen(&fleet, replica));
    // A server with both eras would report the change on two connections.
    fleet.old.add_tool(Tool::new("more"), || "more").unwrap();
    for stream in &mut streams {
        assert_eq!(method(&stream.next()), "notifications/tools/list_changed");
    }
    call(&fleet, 1, "notes__touch");
    for stream in &mut streams {
        assert_eq!(method(&stream.next()), "notifications/resources/updated");
    }
    drop(streams);
    fleet.end();
}

#[test]
fn reload_that_changes_an_endpoint_notifies_the_clients_of_other_replicas() {
    let fleet = connected();
    let mut stream = listen(&fleet, 1);
    fleet.write_config("a", KEY, "2m");
    fleet.daemon(0).reload().unwrap();
    assert_eq!(method(&stream.next()), "notifications/tools/list_changed");
    drop(stream);
    fleet.end();
}

/// Waits for a notification about the list of tools. Others may come before.
fn until_list_changed(stream: &mut EventStream) {
    while method(&stream.next()) != "notifications/tools/list_changed" {}
}

#[test]
#[ignore = "needs redis-server"]
fn change_during_a_failure_of_redis_is_announced_after_its_recovery() {
    let mut redis = Redis::start();
    let shared = format!("store = \"redis://{}\"\n", redis.address);
    let fleet = Fleet::start_on(None, &shared, "");
    wait_for_members(&fleet);
    let mut stream = listen(&fleet, 1);
    call(&fleet, 0, "notes__grow");
    until_list_changed(&mut stream);
    redis.process.kill();
    call(&fleet, 0, "notes__grow");
    redis.restart();
    until_list_changed(&mut stream);
    drop(stream);
    fleet.end();
}
