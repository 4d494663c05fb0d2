//! Tests of `thruway mcp serve` over pipes, sockets, files and HTTP.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::client::{Client, Response};
use crate::process::{Lines, Thruway};

/// The parent process of a server, which is also its client.
struct Parent {
    child: Child,
    input: Option<Box<dyn Write>>,
    output: Lines,
}

fn stdio() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thruway"));
    command.args(["mcp", "serve", "--stdio"]).stderr(Stdio::null());
    command
}

impl Parent {
    fn with_pipes() -> Self {
        Self::with_pipes_of(stdio())
    }

    fn with_pipes_of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = Lines::of(child.stdout.take().unwrap());
        Self { child, input: Some(Box::new(input)), output }
    }

    /// Starts the server with one socket for both directions.
    fn with_socket() -> Self {
        let (near, far) = UnixStream::pair().unwrap();
        let input = OwnedFd::from(far.try_clone().unwrap());
        let child = stdio().stdin(input).stdout(OwnedFd::from(far)).spawn().unwrap();
        let output = Lines::of(near.try_clone().unwrap());
        Self { child, input: Some(Box::new(HalfClosing(near))), output }
    }

    fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    fn send_bytes(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn next(&self) -> Value {
        serde_json::from_str(&self.output.next().expect("the output has ended")).unwrap()
    }

    /// Closes the input and waits until the process has ended. Returns its exit code and its remaining
    /// output.
    fn end(mut self) -> (Option<i32>, String) {
        self.input = None;
        let rest = self.output.rest();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A socket that shuts down its write side when dropped.
struct HalfClosing(UnixStream);

impl Write for HalfClosing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for HalfClosing {
    fn drop(&mut self) {
        let _ = self.0.shutdown(std::net::Shutdown::Write);
    }
}

fn request(id: i64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    params
}

fn initialize(revision: &str) -> Value {
    let params = json!({
        "protocolVersion": revision,
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"},
    });
    request(0, "initialize", &params)
}

fn echo(message: &str) -> Value {
    json!({"name": "echo", "arguments": {"message": message}})
}

fn ask() -> Value {
    json!({"name": "ask", "arguments": {}})
}

/// Exercises the features of both eras. At the end, the client closes the input.
fn converse(mut server: Parent) {
    server.send(&request(1, "server/discover", &modern(json!({}))));
    assert_eq!(server.next()["result"]["resultType"], "complete");
    server.send(&initialize("2025-06-18"));
    assert_eq!(server.next()["result"]["protocolVersion"], "2025-06-18");
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let long = "0123456789".repeat(100_000);
    server.send(&request(2, "tools/call", &echo(&long)));
    assert_eq!(server.next()["result"]["structuredContent"]["length"], 1_000_000);

    server.send(&request(3, "tools/call", &ask()));
    let question = server.next();
    assert_eq!(question["method"], "elicitation/create");
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    server.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
    assert_eq!(server.next()["result"]["content"][0]["text"], "Hello, Ada!");

    let listen = json!({"notifications": {"resourceSubscriptions": ["example://counter"]}});
    server.send(&request(4, "subscriptions/listen", &modern(listen)));
    assert_eq!(server.next()["method"], "notifications/subscriptions/acknowledged");
    server.send(&request(5, "tools/call", &json!({"name": "count"})));
    let mut messages = [server.next(), server.next()];
    messages.sort_by_key(|message| message.get("id").is_none());
    assert_eq!(messages[0]["id"], 5);
    assert_eq!(messages[1]["method"], "notifications/resources/updated");
    server.send_bytes(b"nonsense\n");
    assert_eq!(server.next()["error"]["code"], -32700);
    assert_eq!(server.end(), (Some(0), String::new()));
}

#[test]
fn client_can_connect_over_pipes() {
    converse(Parent::with_pipes());
}

#[test]
fn client_can_connect_over_a_socket_pair() {
    converse(Parent::with_socket());
}

#[test]
fn input_and_output_can_be_files() {
    let directory = tempfile::tempdir().unwrap();
    let (input, output) = (directory.path().join("input"), directory.path().join("output"));
    let requests = [
        request(1, "tools/call", &modern(echo("one"))),
        request(2, "tools/call", &modern(json!({"name": "slow", "arguments": {"steps": 1}}))),
    ];
    std::fs::write(&input, requests.map(|request| request.to_string()).join("\n")).unwrap();
    let mut command = stdio();
    command.stdin(File::open(&input).unwrap()).stdout(File::create(&output).unwrap());
    assert!(command.status().unwrap().success());
    let answers = std::fs::read_to_string(&output).unwrap();
    let ids: Vec<_> = answers
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_i64().unwrap())
        .collect();
    assert_eq!(ids, [1, 2]);
}

#[test]
fn process_exits_at_end_of_input_while_a_handler_waits() {
    // The process once kept running until the handler timed out.
    for mut server in [Parent::with_pipes(), Parent::with_socket()] {
        server.send(&initialize("2025-06-18"));
        server.next();
        server.send(&request(1, "tools/call", &ask()));
        assert_eq!(server.next()["method"], "elicitation/create");
        let (code, rest) = server.end();
        let answer: Value = serde_json::from_str(&rest).unwrap();
        assert_eq!((code, &answer["id"], &answer["error"]["code"]), (Some(0), &json!(1), &json!(-32603)));
    }
}

#[test]
fn process_exits_if_its_output_is_closed() {
    let mut child = stdio().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    input.write_all(format!("{}\n", request(1, "ping", &json!({}))).as_bytes()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

fn post(client: &mut Client, fields: &str, message: &Value) -> Response {
    post_to("localhost", client, fields, message)
}

fn post_to(host: &str, client: &mut Client, fields: &str, message: &Value) -> Response {
    let content = message.to_string();
    client.send(&format!(
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{fields}\r\n{content}",
        content.len(),
    ));
    client.response(false)
}

fn message(response: &Response) -> Value {
    assert_eq!(response.status(), "200", "{}", response.text());
    serde_json::from_slice(&response.content).unwrap()
}

#[test]
fn endpoint_is_served_at_mcp_path() {
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = Thruway::start_in(directory.path(), &["mcp", "serve", "--listen", "127.0.0.1:0"]);
    let address = thruway.address();
    let mut client = Client::connect(&address);
    let mirrored = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n";
    let answered = post(&mut client, mirrored, &request(1, "tools/call", &modern(echo("hi"))));
    assert_eq!(message(&answered)["result"]["structuredContent"], json!({"echo": "hi", "length": 2}));
    let contradicted = post(&mut client, mirrored, &request(1, "tools/call", &modern(ask())));
    assert_eq!(contradicted.status(), "400");

    let initialized = post(&mut client, "", &initialize("2025-06-18"));
    let session = initialized.head.lines().find(|line| line.starts_with("mcp-session-id: ")).unwrap();
    let fields = format!("{session}\r\nMCP-Protocol-Version: 2025-06-18\r\n");
    let pong = post(&mut client, &fields, &request(1, "ping", &json!({})));
    assert_eq!(message(&pong)["result"], json!({}));
    assert_eq!(client.request("GET /", "").status(), "404");
    assert_eq!(thruway.terminate().code, Some(0));
}

#[test]
fn allow_host_option_permits_other_hosts() {
    let directory = tempfile::tempdir().unwrap();
    let listen = ["mcp", "serve", "--listen", "127.0.0.1:0"];
    let hosts = ["--allow-host", "mcp.example", "--allow-host", "[2001:db8::1]"];
    for (named, status) in [(&hosts[..], "200"), (&[], "403")] {
        let mut thruway = Thruway::start_in(directory.path(), &[&listen, named].concat());
        let mut client = Client::connect(&thruway.address());
        for host in ["MCP.example:8080", "[2001:db8::1]"] {
            assert_eq!(post_to(host, &mut client, "", &initialize("2025-06-18")).status(), status);
        }
        assert_eq!(post_to("other.example", &mut client, "", &initialize("2025-06-18")).status(), "403");
        assert_eq!(thruway.terminate().code, Some(0));
    }
}

#[test]
fn clients_of_2024_11_05_use_sse_and_post_endpoints() {
    let directory = tempfile::tempdir().unwrap();
    for command in [&["mcp", "serve", "--listen", "127.0.0.1:0"][..], &["serve", "--listen", "127.0.0.1:0"]] {
        let mut thruway = Thruway::start_in(directory.path(), command);
        let address = thruway.address();
        let (mut stream, mut client) = (Client::connect(&address), Client::connect(&address));
        stream.send("GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(stream.head().contains("content-type: text/event-stream"));
        let event = String::from_utf8(stream.chunk()).unwrap();
        let target = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let content = initialize("2024-11-05").to_string();
        let length = content.len();
        client.send(&format!(
            "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{content}"
        ));
        assert_eq!(client.response(false).status(), "202");
        let answer = String::from_utf8(stream.chunk()).unwrap();
        assert!(answer.contains(r#""protocolVersion":"2024-11-05""#), "{answer}");
        assert_eq!(thruway.terminate().code, Some(0), "the stream ends with the server");
    }
}

/// The limit of 4 MiB once had no option, and its error over stdio had no id.
#[test]
fn message_max_option_limits_message_size() {
    let mut command = stdio();
    command.args(["--message-max", "64KiB"]);
    let mut server = Parent::with_pipes_of(command);
    server.send(&request(7, "tools/call", &modern(echo(&"x".repeat(65 << 10)))));
    let refused = server.next();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(7), &json!(-32600)));
    server.send(&request(8, "tools/call", &modern(echo("hi"))));
    assert_eq!(server.next()["id"], 8);
    assert_eq!(server.end(), (Some(0), String::new()));
    for size in ["0", "1023", "2GiB", "64KB", "-1", "KiB", "99999999999999999999GiB", ""] {
        let output =
            stdio().args([&format!("--message-max={size}")]).stderr(Stdio::piped()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains("between 1KiB and 1GiB"), "{size}: {error}");
    }
}

/// The server once kept the arguments of all calls in progress, without a limit on their size.
#[test]
fn in_flight_max_option_must_be_at_least_1_mib() {
    for size in ["0", "1048575", "1023KiB", "64KB", "-1", "MiB", ""] {
        let output =
            stdio().args([&format!("--in-flight-max={size}")]).stderr(Stdio::piped()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains("at least 1MiB"), "{size}: {error}");
    }
    let mut command = stdio();
    command.args(["--in-flight-max", "1GiB"]);
    let mut server = Parent::with_pipes_of(command);
    server.send(&request(8, "tools/call", &modern(echo("hi"))));
    assert_eq!(server.next()["id"], 8);
    assert_eq!(server.end(), (Some(0), String::new()));
}

/// A single client could once use all sessions of a server.
#[test]
fn sessions_per_address_can_be_limited() {
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = Thruway::start_in(
        directory.path(),
        &["mcp", "serve", "--listen", "127.0.0.1:0", "--sessions-per-address-max", "1", "--message-max=1KiB"],
    );
    let address = thruway.address();
    let mut client = Client::connect(&address);
    let begin = |client: &mut Client| {
        let response = post(client, "", &initialize("2025-06-18"));
        assert_eq!(response.status(), "200");
        response.head.lines().find(|line| line.starts_with("mcp-session-id: ")).unwrap().to_owned()
    };
    let (first, second) = (begin(&mut client), begin(&mut client));
    for (session, status) in [(first, "404"), (second, "200")] {
        let pong = post(&mut client, &format!("{session}\r\n"), &request(1, "ping", &json!({})));
        assert_eq!(pong.status(), status);
    }
    let large = post(&mut client, "", &request(1, "tools/call", &modern(echo(&"x".repeat(2000)))));
    assert_eq!(large.status(), "413");
    assert_eq!(thruway.terminate().code, Some(0));
}
