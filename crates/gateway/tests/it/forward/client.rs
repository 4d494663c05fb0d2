//! A client that sends exactly the given bytes and reads responses one by one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use crate::gateway::TEST_TIMEOUT;

/// A connection to a gateway.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

/// A response with its framing removed.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) lines: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
    /// `true` if the content ended before its framing allows.
    pub(crate) is_cut_off: bool,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Sends bytes. Ignores errors, because the gateway may already have refused the request.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.get_mut().write_all(bytes.as_ref());
    }

    /// Shuts down the sending side.
    pub(crate) fn finish(&self) {
        let _ = self.stream.get_ref().shutdown(Shutdown::Write);
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    /// Sends a request with this request line and these field lines, and returns the response.
    pub(crate) fn ask(&mut self, request_line: &str, lines: &str) -> Answer {
        self.send(format!("{request_line}\r\nHost: a.example\r\n{lines}\r\n"));
        self.answer(request_line.starts_with("HEAD"))
    }

    /// Returns the next final response, skipping interim ones.
    pub(crate) fn answer(&mut self, is_to_head: bool) -> Answer {
        loop {
            let answer = self.next_answer(is_to_head).expect("the connection ended without a response");
            if answer.status >= 200 || answer.status == 101 {
                return answer;
            }
        }
    }

    /// Returns the next response, final or interim; `None` at the end of the connection.
    pub(crate) fn next_answer(&mut self, is_to_head: bool) -> Option<Answer> {
        let status_line = self.line().filter(|line| !line.is_empty())?;
        let status: u16 = status_line.split(' ').nth(1).unwrap().parse().unwrap();
        let lines = self.lines();
        let mut answer =
            Answer { status, lines, content: Vec::new(), trailers: Vec::new(), is_cut_off: false };
        if !is_to_head && status >= 200 && ![204, 304].contains(&status) {
            self.read_content(&mut answer);
        }
        Some(answer)
    }

    fn read_content(&mut self, answer: &mut Answer) {
        if answer.field("transfer-encoding") == Some("chunked") {
            answer.is_cut_off = !self.read_chunks(answer);
        } else if let Some(length) = answer.field("content-length") {
            let length: u64 = length.parse().unwrap();
            answer.is_cut_off = !self.read(length, &mut answer.content);
        } else {
            self.read_rest(&mut answer.content);
        }
    }

    fn read_chunks(&mut self, answer: &mut Answer) -> bool {
        loop {
            let Some(length) = self.line().and_then(|line| u64::from_str_radix(&line, 16).ok()) else {
                return false;
            };
            if length == 0 {
                answer.trailers = self.lines();
                return true;
            }
            if !self.read(length, &mut answer.content) || self.line().as_deref() != Some("") {
                return false;
            }
        }
    }

    fn read(&mut self, length: u64, content: &mut Vec<u8>) -> bool {
        let read = Read::by_ref(&mut self.stream).take(length).read_to_end(content);
        read.is_ok_and(|read| read as u64 == length)
    }

    /// Reads to the end of the connection, also if that is an error.
    pub(crate) fn read_rest(&mut self, content: &mut Vec<u8>) {
        let _ = self.stream.read_to_end(content);
    }

    /// Reads exactly `length` bytes.
    pub(crate) fn take(&mut self, length: usize) -> String {
        String::from_utf8(self.take_bytes(length)).unwrap()
    }

    /// Reads exactly `length` bytes.
    pub(crate) fn take_bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).ok()?;
        let line = line.strip_suffix(b"\r\n")?;
        Some(String::from_utf8_lossy(line).into_owned())
    }

    fn lines(&mut self) -> Vec<(String, String)> {
        std::iter::from_fn(|| self.line().filter(|line| !line.is_empty()))
            .map(|line| {
                line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned())).unwrap()
            })
            .collect()
    }
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.lines.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.content).into_owned()
    }
}
