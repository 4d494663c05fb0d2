//! Tests of the access log. The configs are the examples of the user guide.

use std::fs;

use thruway_daemon::Daemon;

use crate::client::{address_of, end, get};

const GUIDE: &str = include_str!("../../../../docs/guide/operations.md");

#[test]
fn log_contains_only_errors_of_routes_that_are_logged() {
    let mut blocks = GUIDE.split("```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let block = blocks.find(|block| block.contains("access_log = false")).unwrap();
    // A request to the route without a log fails, so only `access_log = false` keeps it out of the log.
    let config = block
        .replace("127.0.0.1:8080", "127.0.0.1:0")
        .replace("{ body = \"ok", "{ status = 503, body = \"ok");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("site.toml");
    fs::write(&path, format!("workers = 1\n{config}\n")).unwrap();
    let daemon = Daemon::from_file(&path).unwrap();
    let address = address_of(&daemon);
    let statuses = ["/healthz", "/site", "/none"].map(|target| get(&address, target).0);
    assert_eq!(statuses, ["503", "200", "404"]);
    end(daemon);
    let log = fs::read_to_string(directory.path().join("access.log")).unwrap();
    let lines: Vec<_> = log.lines().collect();
    assert!(lines.len() == 1 && lines[0].starts_with("404 ") && lines[0].ends_with(" \"/none\""), "{log}");
}
