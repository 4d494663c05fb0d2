//! MCP messages and servers with regular or irregular responses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use thruway_bench::{
    ConnectionOptions, Endpoint, FailureKind, Limit, Load, LoadUrl, McpOperation, McpRequests, Pace, Record,
    Revision, SessionUse, StopFlag,
};
use thruway_client::UpstreamAddr;

pub(crate) fn operation(method: &str, params: Value, weight: u32) -> McpOperation {
    McpOperation { method: method.to_owned(), params, mirrored: Vec::new(), weight }
}

pub(crate) fn call_of_echo() -> McpOperation {
    operation("tools/call", json!({"name": "echo", "arguments": {"message": "message {n}"}}), 1)
}

pub(crate) fn endpoint() -> Endpoint {
    let url = LoadUrl::parse("http://127.0.0.1/mcp").unwrap();
    Endpoint { url, headers: Vec::new(), is_persistent: true }
}

/// A load of 40 requests, two of them concurrent.
pub(crate) fn load(requests: McpRequests, addresses: Vec<UpstreamAddr>) -> Load {
    Load {
        requests: Arc::new(requests),
        addresses,
        tls: None,
        connections: 2,
        workers: 1,
        pace: Pace::Closed,
        limit: Limit::Requests(40),
        warm_up: Duration::ZERO,
        connection_options: ConnectionOptions {
            is_http2: false,
            pipeline: 1,
            is_persistent: true,
            timeout: Duration::from_secs(20),
            drain: Duration::from_secs(1),
        },
        stop: StopFlag::default(),
        server: None,
    }
}

pub(crate) fn http(revision: Revision, sessions: SessionUse, address: SocketAddr) -> Load {
    let requests = McpRequests::new(revision, sessions, &[call_of_echo()], Some(&endpoint())).unwrap();
    load(requests, vec![address.into()])
}

/// Asserts that all requests failed as `kind`.
pub(crate) fn assert_all(record: &Record, kind: FailureKind) {
    let failures: Vec<_> = record.failures().collect();
    assert_eq!((record.answered, record.failed_as(kind)), (0, record.failed()), "{kind:?}: {failures:?}");
    assert!(record.failed() > 0);
}

/// A request that the server has read.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) message: Value,
}

impl Seen {
    pub(crate) fn has_field(&self, line: &str) -> bool {
        self.head.lines().any(|known| known.eq_ignore_ascii_case(line))
    }
}

/// A server that answers with given bytes and records the requests.
pub(crate) struct FakeServer {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl FakeServer {
    /// Starts a server. `react` returns the bytes of a response; if it returns none, the server closes the
    /// connection.
    pub(crate) fn listen(react: impl Fn(&Seen) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::default());
        let (react, kept) = (Arc::new(react), Arc::clone(&seen));
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let (react, kept) = (react.clone(), Arc::clone(&kept));
                thread::spawn(move || serve(&connection, &*react, &kept));
            }
        });
        Self { address, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

/// Returns when the connection ends.
fn serve(connection: &TcpStream, react: &dyn Fn(&Seen) -> Vec<u8>, kept: &Mutex<Vec<Seen>>) -> Option<()> {
    let mut input = BufReader::new(connection);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            (input.read_line(&mut head).ok()? > 0).then_some(())?;
        }
        let mut lengths = head.lines().filter_map(|line| line.strip_prefix("Content-Length: "));
        let length = lengths.next().map_or(0, |length| length.parse().unwrap());
        let mut content = vec![0; length];
        input.read_exact(&mut content).ok()?;
        let seen = Seen { head, message: serde_json::from_slice(&content).unwrap_or_default() };
        kept.lock().unwrap().push(seen.clone());
        let answer = react(&seen);
        (!answer.is_empty()).then_some(())?;
        let mut output = connection;
        output.write_all(&answer).ok()?;
    }
}

pub(crate) fn answer(status: &str, kind: &str, content: &str) -> Vec<u8> {
    let length = content.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{content}").into()
}

pub(crate) fn json_answer(message: &Value) -> Vec<u8> {
    answer("200 OK", "application/json", &message.to_string())
}

pub(crate) fn result(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}
