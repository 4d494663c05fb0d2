//! A reload replaces the whole config or changes nothing.

use std::fs;
use std::net::TcpListener;

use thruway_client::UpstreamAddr;
use thruway_daemon::{Daemon, Route};
use thruway_gateway::UpstreamConfig;

use crate::client::{address_of, answering, end, everything, file_answering, get};

#[test]
fn reload_applies_the_file_and_failed_reload_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.toml");
    fs::write(&path, file_answering("first", "")).unwrap();
    let daemon = Daemon::from_file(&path).unwrap();
    let address = address_of(&daemon);
    let before = daemon.handle().status();

    let in_use = TcpListener::bind("127.0.0.1:0").unwrap();
    let in_use = format!("[[listeners]]\naddress = \"{}\"", in_use.local_addr().unwrap());
    let mistakes = [
        "workers = ".to_owned(),
        file_answering("second", "[timeouts]\nidle = \"soon\""),
        file_answering("second", "[[routes]]\npath = \"/a\"\nupstream = \"absent\""),
        file_answering("second", &in_use),
    ];
    for mistake in mistakes {
        fs::write(&path, &mistake).unwrap();
        assert!(!daemon.reload().unwrap_err().findings().is_empty(), "{mistake}");
        assert_eq!(get(&address, "/").1, "first", "{mistake}");
        assert_eq!(daemon.handle().status()["routes"], before["routes"], "{mistake}");
        assert_eq!(address_of(&daemon), address);
    }
    fs::remove_file(&path).unwrap();
    daemon.reload().unwrap_err();
    assert_eq!(get(&address, "/").1, "first");

    fs::write(&path, file_answering("second", "")).unwrap();
    daemon.reload().unwrap();
    assert_eq!(get(&address, "/").1, "second");
    end(daemon);
}

#[test]
fn reload_with_replaces_config_and_failed_reload_changes_nothing() {
    let daemon = Daemon::from_config(answering("first")).unwrap();
    let address = address_of(&daemon);

    let unknown = answering("second").route(Route::forward(everything(), "absent"));
    assert_eq!(daemon.reload_with(unknown).unwrap_err().findings().len(), 1);
    let in_use = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listener = TcpListener::bind(in_use).unwrap();
    daemon.reload_with(answering("second").listen(&in_use.to_string()).unwrap()).unwrap_err();
    drop(listener);
    assert_eq!(get(&address, "/").1, "first");

    let server: UpstreamAddr = "127.0.0.1:1".parse().unwrap();
    daemon.reload_with(answering("second").upstream(UpstreamConfig::new("backend", [server]))).unwrap();
    assert_eq!(get(&address, "/").1, "second");
    assert_eq!(daemon.handle().status()["upstreams"][0]["name"], "backend");
    end(daemon);
}

#[test]
fn reload_of_a_config_from_code_is_an_error() {
    let daemon = Daemon::from_config(answering("first")).unwrap();
    let failure = daemon.reload().unwrap_err();
    assert!(failure.findings()[0].hints()[0].contains("reload_with"), "{failure}");
    assert_eq!(get(&address_of(&daemon), "/").1, "first");
    end(daemon);
}

#[test]
fn reload_adds_new_listeners() {
    let daemon = Daemon::from_config(answering("first")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", directory.path().join("socket").display());
    daemon.reload_with(answering("second").listen(&socket).unwrap()).unwrap();
    let addresses: Vec<_> = daemon.listeners().iter().map(|listener| listener.address.to_string()).collect();
    assert_eq!(addresses.len(), 2);
    assert_eq!(addresses[1], socket);
    assert_eq!(daemon.listeners()[0].protocol, "http");
    end(daemon);
}
