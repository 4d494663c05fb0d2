//! Runs an example and provides a plain client for it. [`TIMEOUT`] limits every wait.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use thruway_server::{IntoHandler, ListenAddr, Server};

/// An example on a free port. It runs until the process ends.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
}

/// A connection that reads its response in parts.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    received: Vec<u8>,
}

/// A complete response of a connection that has ended.
pub(crate) struct Reply {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
    content: Vec<u8>,
}

impl Site {
    /// Starts the example with two workers, so that state shared by clients is shared by threads.
    pub(crate) fn start<M>(app: impl IntoHandler<M>) -> Self {
        let server = Server::new(app).listen("127.0.0.1:0").unwrap().workers(2).start().unwrap();
        let [ListenAddr::Tcp(address)] = *server.addresses() else {
            panic!("the server should have one TCP address")
        };
        Self { address }
    }

    pub(crate) fn connect(&self) -> Connection {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        Connection { stream, received: Vec::new() }
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.request("GET", path, "", b"")
    }

    pub(crate) fn json(&self, method: &str, path: &str, content: &str) -> Reply {
        self.request(method, path, "Content-Type: application/json\r\n", content.as_bytes())
    }

    /// Sends one request and returns the response. Each line of `fields` ends with CRLF.
    pub(crate) fn request(&self, method: &str, path: &str, fields: &str, content: &[u8]) -> Reply {
        let length = content.len();
        let mut connection = self.connect();
        connection.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nContent-Length: {length}\r\n\
             {fields}\r\n"
        ));
        connection.send(content);
        connection.into_reply()
    }
}

impl Connection {
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Reads until the received text contains `expected`, and returns this text.
    pub(crate) fn read_until(&mut self, expected: &str) -> String {
        let mut buffer = [0; 4096];
        loop {
            let text = String::from_utf8_lossy(&self.received);
            if text.contains(expected) {
                return text.into_owned();
            }
            let length = self.stream.read(&mut buffer).unwrap_or(0);
            assert_ne!(length, 0, "no {expected:?} in {text:?}");
            self.received.extend_from_slice(&buffer[..length]);
        }
    }

    /// Reads the response until the server closes the connection.
    pub(crate) fn into_reply(mut self) -> Reply {
        self.stream.read_to_end(&mut self.received).unwrap();
        let mut lines = [httparse::EMPTY_HEADER; 32];
        let mut head = httparse::Response::new(&mut lines);
        let length = head.parse(&self.received).unwrap().unwrap();
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
        let fields = head.headers.iter().map(|line| (line.name.to_owned(), text(line.value))).collect();
        let mut reply =
            Reply { status: head.code.unwrap(), fields, content: self.received[length..].to_vec() };
        if reply.field("Transfer-Encoding") == Some("chunked") {
            reply.content = without_chunks(&reply.content);
        }
        reply
    }
}

impl Reply {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.content).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.field("Content-Type"), Some("application/json"));
        serde_json::from_slice(&self.content).unwrap()
    }
}

fn without_chunks(mut bytes: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let (begin, length) = httparse::parse_chunk_size(bytes).unwrap().unwrap();
        let end = begin + usize::try_from(length).unwrap();
        content.extend_from_slice(&bytes[begin..end]);
        if length == 0 {
            return content;
        }
        bytes = &bytes[end + 2..];
    }
}

/// Limit for an operation of the server. Only a failed test reaches it.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);
