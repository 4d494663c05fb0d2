//! Tests of TCP listeners.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;

use serde_json::Value;

use crate::admin::get_admin;
use crate::client::get;
use crate::process::{RELOADED, TIMEOUT, Thruway};

/// Load balancer for TCP, as shown in its example.
const EXAMPLE: &str = include_str!("../../../daemon/examples/tcp.toml");

fn serve(directory: &Path, config: &str) -> (Thruway, String) {
    let mut thruway = Thruway::serve(directory, config);
    let address = thruway.tcp_address();
    (thruway, address)
}

/// Sends `question`, closes the write side and returns the answer.
fn ask(address: &str, question: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(question.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Starts a server that echoes its input after its name. It runs until the test process ends.
fn echo(name: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut input = String::new();
                // Health checks send nothing and may close before the write.
                let _ = stream.read_to_string(&mut input).and_then(|_| write!(stream, "{name}: {input}"));
            });
        }
    });
    address
}

#[test]
fn tcp_example_forwards_and_logs_streams() {
    let directory = tempfile::tempdir().unwrap();
    let (one, two) = (echo("one"), echo("two"));
    let config = EXAMPLE
        .replace("127.0.0.1:5432", "127.0.0.1:0")
        .replace("127.0.0.1:9001", &one)
        .replace("127.0.0.1:9002", &two);
    let (thruway, address) = serve(directory.path(), &config);
    assert_eq!(ask(&address, "hello"), "one: hello");
    let ended = thruway.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let line: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&line["upstream"], &line["upstream_server"]), (&"database".into(), &one.as_str().into()));
    assert_eq!((&line["received_bytes"], &line["sent_bytes"]), (&5.into(), &10.into()));
    assert_eq!(line["end"], "completed");
}

/// Returns the part of `/status` about TCP streams.
fn streams_status(admin: &str) -> Value {
    let status: Value = serde_json::from_str(get_admin(admin, "/status").text()).unwrap();
    status["streams"].clone()
}

#[test]
fn tcp_streams_are_in_status_and_metrics_and_follow_reloads() {
    let directory = tempfile::tempdir().unwrap();
    let config = |server: &str| {
        format!(
            "workers = 1\nlisteners = [{{ address = \"127.0.0.1:0\", tcp = \"db\" }}]\n\
             admin.address = \"127.0.0.1:0\"\nupstreams.db.servers = [\"{server}\"]\n"
        )
    };
    let (mut thruway, address) = serve(directory.path(), &config(&echo("before")));
    let admin = thruway.admin_address();
    let mut open = TcpStream::connect(&address).unwrap();
    open.write_all(b"a").unwrap();
    assert_eq!(ask(&address, "b"), "before: b");
    // The server may count the end of the other stream a little later.
    let status = (0..10_000).map(|_| streams_status(&admin)).find(|streams| streams[0]["open_streams"] == 1);
    let expected = serde_json::json!([{ "listener": address, "upstream": "db", "open_streams": 1 }]);
    assert_eq!(status, Some(expected));
    let metrics = get_admin(&admin, "/metrics");
    for sample in [
        format!("thruway_tcp_streams{{listener=\"{address}\"}} 1"),
        format!("thruway_tcp_streams_ended_total{{listener=\"{address}\",reason=\"completed\"}} 1"),
        format!("thruway_tcp_bytes_total{{listener=\"{address}\",direction=\"sent\"}} 9"),
    ] {
        assert!(metrics.text().contains(&sample), "{sample} is missing in {}", metrics.text());
    }
    thruway.reload(directory.path(), &config(&echo("after")), RELOADED);
    assert_eq!(ask(&address, "c"), "after: c");
    open.shutdown(Shutdown::Write).unwrap();
    let mut received = String::new();
    open.read_to_string(&mut received).unwrap();
    assert_eq!(received, "before: a");
}

#[test]
fn reload_switches_listener_between_tcp_and_http() {
    let directory = tempfile::tempdir().unwrap();
    let streams = format!(
        "workers = 2\nlisteners = [{{ address = \"127.0.0.1:0\", tcp = \"db\" }}]\nupstreams.db.servers = [\"{}\"]\n",
        echo("db")
    );
    let http = "workers = 2\nlisteners = [{ address = \"127.0.0.1:0\" }]\n\
                routes = [{ path = \"/\", respond.body = \"here\" }]\n";
    let (mut thruway, address) = serve(directory.path(), &streams);
    assert_eq!(ask(&address, "a"), "db: a");
    thruway.reload(directory.path(), http, RELOADED);
    assert_eq!(get(&format!("http://{address}"), "/").text(), "here");
    thruway.reload(directory.path(), &streams, RELOADED);
    assert_eq!(ask(&address, "d"), "db: d");
}
