//! Tests of the examples: a gateway from a file, and one from code.

use std::fs;

use thruway_daemon::Daemon;

use crate::client::{address_of, answering, end, file_answering, get, tcp};

#[expect(dead_code, reason = "its `main` is not called here")]
#[path = "../../examples/from_code.rs"]
mod from_code;
#[expect(dead_code, reason = "its `main` is not called here")]
#[path = "../../examples/from_file.rs"]
mod from_file;

#[test]
fn gateway_from_code_balances_requests_across_its_servers() {
    let servers = ["one", "two"].map(|body| Daemon::from_config(answering(body)).unwrap());
    let addresses = servers.each_ref().map(|server| tcp(&address_of(server)));
    let daemon = Daemon::from_config(from_code::gateway("127.0.0.1:0", addresses).unwrap()).unwrap();
    let mut bodies: Vec<_> = (0..4).map(|_| get(&address_of(&daemon), "/").1).collect();
    bodies.sort();
    assert_eq!(bodies, ["one", "one", "two", "two"]);
    assert_eq!(get(&daemon.admin_addresses()[0], "/ready").0, "200");
    end(daemon);
    servers.into_iter().for_each(end);
}

#[test]
fn gateway_from_a_file_serves_its_routes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.toml");
    fs::write(&path, file_answering("from a file", "")).unwrap();
    let daemon = from_file::start(&path).unwrap();
    assert_eq!(get(&address_of(&daemon), "/"), ("200".to_owned(), "from a file".to_owned()));
    end(daemon);
}
