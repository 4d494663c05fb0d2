//! Tests of `thruway mcp bridge` in front of the demo, over HTTP and as a child process, between all
//! eras.

use std::process::{Command, Output};

use crate::process::{Signal, Thruway};

const ERAS: [&str; 3] = ["modern", "legacy", "2025-03-26"];

const THRUWAY: &str = env!("CARGO_BIN_EXE_thruway");

fn thruway(args: &[&str]) -> Output {
    Command::new(THRUWAY).arg("mcp").args(args).output().unwrap()
}

fn printed(args: &[&str]) -> String {
    let output = thruway(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Starts the demo over HTTP. Returns it with the URL of its endpoint.
fn demo() -> (Thruway, String) {
    start(&["mcp", "serve", "--listen", "127.0.0.1:0"])
}

fn start(args: &[&str]) -> (Thruway, String) {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Thruway::start_in(directory.path(), args);
    let url = format!("{}/mcp", server.address());
    (server, url)
}

fn run_all_commands(ask: &impl Fn(&[&str]) -> String, eras: &str) {
    assert!(ask(&["discover"]).contains("thruway-demo"), "{eras}");
    assert!(ask(&["tools"]).contains("  Adds two numbers\n"), "{eras}");
    assert!(ask(&["call", "add", "a=1", "b=2.5"]).contains("3.5"), "{eras}");
    assert_eq!(ask(&["read", "example://greeting/Ada"]), "Hello, Ada!\n", "{eras}");
    assert_eq!(ask(&["get", "greeting", "name=Ada"]), "user: Greet Ada warmly.\n", "{eras}");
    assert_eq!(ask(&["complete", "greeting", "name=al"]), "Alan\n", "{eras}");
}

#[test]
fn stdio_bridge_forwards_to_http_server_in_every_era() {
    let (_demo, url) = demo();
    for far in ERAS {
        for near in ERAS {
            let bridge = ["--", THRUWAY, "mcp", "bridge", &url, "--era", far];
            let ask = |words: &[&str]| printed(&[words, &["--era", near], &bridge].concat());
            run_all_commands(&ask, &format!("{near} before {far}"));
        }
    }
}

#[test]
fn http_bridge_forwards_to_child_process_in_every_era() {
    for far in ERAS {
        let command = ["--", THRUWAY, "mcp", "serve", "--stdio"];
        let args = ["mcp", "bridge", "--listen", "127.0.0.1:0", "--era", far];
        let (bridge, url) = start(&[&args[..], &command].concat());
        for near in ERAS {
            let ask =
                |words: &[&str]| printed(&[&words[..1], &[&url], &words[1..], &["--era", near]].concat());
            run_all_commands(&ask, &format!("{near} before {far}"));
        }
        let old = url.replace("/mcp", "/sse");
        assert!(printed(&["tools", &old, "--era", "2024-11-05"]).contains("echo "), "{far}: HTTP with SSE");
        bridge.signal(Signal::TERM);
        assert_eq!(bridge.end().code, Some(0), "{far}");
    }
}

#[test]
fn bridge_forwards_notifications() {
    let (_demo, url) = demo();
    let bridge = ["--", THRUWAY, "mcp", "bridge", &url];
    let mut listening = Command::new(THRUWAY)
        .args(["mcp", "listen", "example://counter", "--count", "1", "--output", "json"])
        .args(bridge)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while listening.try_wait().unwrap().is_none() {
        printed(&["call", &url, "count"]);
    }
    let notification = String::from_utf8(listening.wait_with_output().unwrap().stdout).unwrap();
    assert!(
        notification.contains("notifications/resources/updated")
            && notification.contains("example://counter"),
        "{notification}"
    );
}

#[test]
fn invalid_bridge_arguments_and_servers_are_errors() {
    for (args, expected) in [
        (vec!["bridge"], "required"),
        (vec!["bridge", "http://127.0.0.1:1/mcp"], "error: "),
        (vec!["bridge", "--", "/nowhere/to/be/found"], "cannot be started"),
        (vec!["bridge", "--", "false"], "the connection ended"),
        (vec!["bridge", "--listen", "nowhere", "--", THRUWAY, "mcp", "serve", "--stdio"], "nowhere"),
        (
            vec!["bridge", "http://127.0.0.1:1/", "-H", "Bearer secret"],
            "the value of `-H` number 1 is not a header",
        ),
    ] {
        let output = thruway(&args);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && stderr.contains(expected), "{args:?}: {stderr}");
    }
}
