//! An HTTP client that sends exactly the bytes that a test gives it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use crate::process::TIMEOUT;

/// A connection to the server.
pub(crate) struct Client {
    stream: Box<dyn Stream>,
    unread: Vec<u8>,
}

pub(crate) struct Response {
    /// Status line and header field lines, in lower case.
    pub(crate) head: String,
    pub(crate) content: Vec<u8>,
}

trait Stream: Read + Write {}
impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// Sends a GET request on a new connection and returns the response.
pub(crate) fn get(address: &str, target: &str) -> Response {
    Client::connect(address).get(target)
}

impl Client {
    /// Connects to `http://IP:PORT` or `unix:PATH`, as printed by the server.
    pub(crate) fn connect(address: &str) -> Self {
        Self::try_connect(address).unwrap()
    }

    pub(crate) fn try_connect(address: &str) -> std::io::Result<Self> {
        let stream: Box<dyn Stream> = if let Some(path) = address.strip_prefix("unix:") {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            Box::new(stream)
        } else {
            let stream = TcpStream::connect(address.strip_prefix("http://").unwrap())?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            Box::new(stream)
        };
        Ok(Self { stream, unread: Vec::new() })
    }

    pub(crate) fn send(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).unwrap();
    }

    /// Sends a request without a body. `line` is method and target; `fields` are header lines, each with
    /// CRLF.
    pub(crate) fn request(&mut self, line: &str, fields: &str) -> Response {
        self.send(&format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        self.response(line.starts_with("HEAD "))
    }

    pub(crate) fn get(&mut self, target: &str) -> Response {
        self.request(&format!("GET {target}"), "")
    }

    /// Reads a response. Pass `true` for a response to HEAD, which has no body.
    pub(crate) fn response(&mut self, is_to_head: bool) -> Response {
        let head = self.head();
        let content = if is_to_head { Vec::new() } else { self.content(&head) };
        Response { head, content }
    }

    /// Reads a response head.
    pub(crate) fn head(&mut self) -> String {
        let head = self.until(b"\r\n\r\n");
        String::from_utf8(head).unwrap().to_lowercase()
    }

    /// Reads the next chunk of the body.
    pub(crate) fn chunk(&mut self) -> Vec<u8> {
        let size = self.until(b"\r\n");
        let size = std::str::from_utf8(&size).unwrap().trim_end();
        let mut chunk = self.bytes(usize::from_str_radix(size, 16).unwrap() + 2);
        chunk.truncate(chunk.len() - 2);
        chunk
    }

    /// Waits until the server closes the connection. Returns `false` if the server sends data instead.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.unread.is_empty()
            && match self.stream.read(&mut [0]) {
                Ok(read) => read == 0,
                Err(error) => error.kind() == ErrorKind::ConnectionReset,
            }
    }

    fn content(&mut self, head: &str) -> Vec<u8> {
        if head.contains("transfer-encoding: chunked\r\n") {
            let chunks: Vec<Vec<u8>> =
                std::iter::from_fn(|| Some(self.chunk()).filter(|chunk| !chunk.is_empty())).collect();
            return chunks.concat();
        }
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        self.bytes(length.map_or(0, |length| length.parse().unwrap()))
    }

    fn until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.unread.windows(end.len()).position(|bytes| bytes == end) {
                return self.unread.drain(..at + end.len()).collect();
            }
            self.read_more();
        }
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        while self.unread.len() < length {
            self.read_more();
        }
        self.unread.drain(..length).collect()
    }

    fn read_more(&mut self) {
        let mut bytes = vec![0; 64 << 10];
        let read = self.stream.read(&mut bytes).unwrap();
        assert!(read > 0, "the connection ended after {:?}", String::from_utf8_lossy(&self.unread));
        self.unread.extend_from_slice(&bytes[..read]);
    }
}

impl Response {
    pub(crate) fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.content).unwrap()
    }

    /// Returns `true` if the head has this field line. `field_line` must be in lower case.
    pub(crate) fn has(&self, field_line: &str) -> bool {
        self.head.lines().any(|line| line == field_line)
    }
}
